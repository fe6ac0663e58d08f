//go:build linux

package run

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// Causes that leave a server with CPU to spare, planted in servers of this binary
// (RUN_TEST_CAUSE): what the verdict says is held against what was planted.

// serveCause makes this process a server of one of them, until it is ended:
// "accepts N" holds N connections and accepts no more, "files N" may open N files.
func serveCause(cause string) {
	var kind string
	var n int
	work := make(chan chan struct{})
	_, err := fmt.Sscan(cause, &kind, &n)
	var l net.Listener
	if err == nil {
		if path := os.Getenv("RUN_TEST_SOCKET"); path != "" {
			l, err = net.Listen("unix", path)
		} else {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
	}
	if err == nil {
		fmt.Printf("%s serves on %s\n", kind, l.Addr())
		switch kind {
		case "hog":
			err = hog()
		case "threads":
			for i := range n {
				onThread(fmt.Sprintf("exec-%d", i), func() { ask(work) })
			}
			for i := range 4 * n {
				onThread(fmt.Sprintf("idle-%d", i), func() { select {} })
			}
		case "accepts":
			l = &stingy{l, make(chan struct{}, n)}
		case "files":
			err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(n), Max: uint64(n)})
		}
	}
	if err == nil {
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch kind {
			case "works":
				burn(50 * time.Microsecond)
			case "threads":
				turn := make(chan struct{})
				work <- turn
				<-turn
			default:
				time.Sleep(5 * time.Millisecond)
			}
			fmt.Fprint(w, "ok")
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// burn uses CPU for a time of a clock that does not stop while others have the CPU.
func burn(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// hog burns for good, with ten times the weight of ordinary processes.
func hog() error {
	if err := os.WriteFile("/proc/self/comm", []byte(hogName), 0); err != nil {
		return err
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, -10); err != nil {
		return err
	}
	for {
		burn(time.Second)
	}
}

const hogName = "planted-hog"

// ask does work by asking over a socket and blocking its thread until the answer
// is there, 20 ms later.
func ask(work chan chan struct{}) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		panic(err)
	}
	for turn := range work {
		time.AfterFunc(20*time.Millisecond, func() { _, _ = syscall.Write(pair[1], []byte("x")) })
		if _, err := syscall.Read(pair[0], make([]byte, 1)); err != nil {
			panic(err)
		}
		close(turn)
	}
}

// onThread does something for good on a thread of that name, which is not the
// first one, whose name is the process's.
func onThread(name string, do func()) {
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			onThread(name, do)
			select {}
		}
		if err := os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", syscall.Gettid()), []byte(name), 0); err != nil {
			panic(err)
		}
		do()
	}()
}

// stingy is a listener that accepts while fewer of its connections are open than
// it has places.
type stingy struct {
	net.Listener
	places chan struct{}
}

// stingyConn gives its place back; net/http closes a connection once.
type stingyConn struct {
	net.Conn
	places chan struct{}
}

func (l *stingy) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	return &stingyConn{c, l.places}, err
}

func (c *stingyConn) Close() error {
	err := c.Conn.Close()
	<-c.places
	return err
}

// checkCause holds a verdict against what was planted.
func checkCause(t *testing.T, v *record.Verdict, ceiling record.Bottleneck, because, next string) {
	t.Helper()
	if v.Bottleneck == ceiling && strings.Contains(prose.Sentence(v.Because), because) && strings.Contains(prose.Sentence(v.Next), next) {
		return
	}
	t.Errorf("%s, %s: %s\nnext: %s\nwant %s: %q, next %q", v.Outcome, v.Bottleneck, v.Because, v.Next, ceiling, because, next)
	for _, e := range v.Evidence {
		t.Log(e.Says)
	}
}

// TestConnectionsNeverAccepted: of 64 connections a server holds 40, and the rest
// wait, with requests that time out in the window and without.
func TestConnectionsNeverAccepted(t *testing.T) {
	needs.Quiet(t)
	for _, timeout := range []time.Duration{10 * time.Second, 400 * time.Millisecond} {
		c := startAs(t, "RUN_TEST_CAUSE", "accepts 40")
		s := specOf(c.Addr, "/")
		s.Connections, s.Duration, s.Timeout = 64, time.Second, timeout
		checkCause(t, &do(t, s).Run.Verdict, record.AcceptQueue,
			"the server never accepted 24 of 64 connections: it has 40 open and accepts no more", "(-c 40)")
	}
}

// TestOpenFilesFull: a server that has all files open that it may is named by its
// limit. The truth is the server's directory of open files, which the test reads.
func TestOpenFilesFull(t *testing.T) {
	needs.Quiet(t)
	c := startAs(t, "RUN_TEST_CAUSE", "files 50")
	most := make(chan int)
	done := make(chan struct{})
	go func() {
		n := 0
		for {
			files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.PID))
			if err == nil {
				n = max(n, len(files))
			}
			select {
			case <-done:
				most <- n
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	s := specOf(c.Addr, "/")
	s.Connections, s.Duration = 64, time.Second
	v := &do(t, s).Run.Verdict
	close(done)
	// Descriptors inherited from whoever started the test may be above the limit.
	if n := <-most; n < 50 {
		t.Fatalf("the server had %d files open at most: it is not at its limit of 50", n)
	}
	comm := filepath.Base(os.Args[0])
	checkCause(t, v, record.AcceptQueue, fmt.Sprintf("process %d (%s) has 50 of 50 files open (RLIMIT_NOFILE)", c.PID,
		comm[:min(len(comm), 15)]), "open-file limit above 50")
}

// TestNeighbourTakesTheCPU: another process has ten times the server's weight on
// the server's only CPU, and is named with its pid.
func TestNeighbourTakesTheCPU(t *testing.T) {
	needs.Quiet(t)
	cpus := twoCPUs(t)
	needs.Root(t)
	at := cpus[len(cpus)-1:]
	server, other := startAsOn(t, at, "works 0"), startAsOn(t, at, "hog 0")
	notStarved(t)
	s := specOf(server.Addr, "/")
	s.Connections, s.Duration, s.PinGenerator = 16, 1500*time.Millisecond, list(cpus[:1])
	v := &do(t, s).Run.Verdict
	who := fmt.Sprintf("%s (process %d)", hogName, other.PID)
	checkCause(t, v, record.SharedCPU, who, "keep it off the server's CPUs")
}

// notStarved gives this process's threads, and those they start, more weight than
// what else runs on the machine: not the generator shall be starved.
func notStarved(t *testing.T) {
	t.Helper()
	weigh := func(nice int) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err == nil {
				err = syscall.Setpriority(syscall.PRIO_PROCESS, tid, nice)
			}
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
		}
	}
	weigh(-15)
	t.Cleanup(func() { weigh(0) })
}

// startAsOn starts this binary as a server with a cause, on some CPUs.
func startAsOn(t *testing.T, cpus []int, cause string) *Child {
	t.Helper()
	t.Setenv("RUN_TEST_CAUSE", cause)
	c, err := StartChildOn(t.Context(), cpus, os.Args[0])
	os.Unsetenv("RUN_TEST_CAUSE")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// TestThreadsAreToldByName: four threads of a pool wait for answers over a socket,
// among sixteen that have nothing to do, and are what is told first.
func TestThreadsAreToldByName(t *testing.T) {
	needs.Quiet(t)
	c := startAs(t, "RUN_TEST_CAUSE", "threads 4")
	s := specOf(c.Addr, "/")
	s.Connections, s.Duration = 16, 1500*time.Millisecond
	v := &do(t, s).Run.Verdict
	told := regexp.MustCompile(`^where its threads sleep, of [0-9.]+: ([0-9.]+) exec-# in \w+ \(for data from a socket\), ([0-9.]+) idle-# in futex\w+ `)
	for _, e := range v.Evidence {
		m := told.FindStringSubmatch(prose.Text(e.Says))
		if m == nil {
			continue
		}
		asking, err1 := strconv.ParseFloat(m[1], 64)
		idle, err2 := strconv.ParseFloat(m[2], 64)
		if err1 != nil || err2 != nil || asking < 1 || asking > 4 || idle != 16 {
			t.Errorf("planted 4 and 16: %s", e.Says)
		}
		return
	}
	t.Errorf("%s: %s\nnext: %s", v.Bottleneck, v.Because, v.Next)
	for _, e := range v.Evidence {
		t.Log(e.Says)
	}
}

// TestConnectionsNeverAcceptedOnAUnixSocket: the kernel lists no socket of the
// server for those that wait, but the listener names their clients.
func TestConnectionsNeverAcceptedOnAUnixSocket(t *testing.T) {
	needs.Quiet(t)
	path := filepath.Join(t.TempDir(), "s")
	t.Setenv("RUN_TEST_SOCKET", path)
	startAs(t, "RUN_TEST_CAUSE", "accepts 40")
	s := specOf("", "")
	s.Targets[0].URL = "unix:" + path + ":/"
	s.Connections, s.Duration, s.Timeout = 64, time.Second, 10*time.Second
	checkCause(t, &do(t, s).Run.Verdict, record.AcceptQueue, "the server never accepted 24 of 64 connections: it has 40 open and accepts no more",
		"(-c 40)")
}
