//go:build linux

package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// serveEnv makes the test's binary a controller on that directory, to be
// killed.
const serveEnv = "CEILING_TEST_SERVE"

// listenEnv is its address.
const listenEnv = "CEILING_TEST_LISTEN"

func serveFrom(dir string) int {
	s, err := controller.Serve(controller.Options{State: dir, Listen: os.Getenv(listenEnv), Log: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.URL(), s.Token())
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// start runs a controller as a process of its own and waits until it serves.
func start(t testing.TB, dir, listen string) (*exec.Cmd, string, string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), serveEnv+"="+dir, listenEnv+"="+listen)
	c.Stderr = os.Stderr
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	url, token, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok || !strings.HasPrefix(url, "nats://") {
		t.Fatalf("the controller says %q, %v", line, err)
	}
	return c, url, token
}

// exactly takes a run's reports and checks that each agent's arrive in order, what comes twice right
// behind itself. The channel is closed when all of agents have sent n.
func exactly(t *testing.T, driver *bus.Conn, run string, agents, n int) <-chan struct{} {
	t.Helper()
	next, ended, done := map[string]uint64{}, 0, make(chan struct{})
	stop, err := driver.Reports(run, func(r bus.Report) bool {
		again := r.Number+1 == next[r.Agent]
		if r.Number != next[r.Agent] && !again || string(r.Body) != fmt.Sprint(r.Number) {
			t.Errorf("of %s came %d, not %d: %q", r.Agent, r.Number, next[r.Agent], r.Body)
		}
		if next[r.Agent] = r.Number + 1; r.Number+1 == uint64(n) && !again {
			if ended++; ended == agents {
				close(done)
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop() })
	return done
}

// publish sends n reports, a millisecond or so apart.
func publish(ctx context.Context, t *testing.T, c *bus.Conn, run string, n int) {
	for i := range n {
		if err := c.Report(ctx, run, uint64(i), fmt.Append(nil, i)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestAControllerIsKilled kills it twice while three agents publish and a
// driver takes: nothing is lost, and the agents say so.
func TestAControllerIsKilled(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	const agents, samples = 3, 400
	dir := filepath.Join(t.TempDir(), "state")
	process, url, token := start(t, dir, porttest.Free(t, "127.0.0.1"))
	ctx := within(t)
	parsed, err := bus.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := bus.Drive(ctx, bus.Access{State: dir}, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	all := exactly(t, driver, "r1", agents, samples)
	var gone, back sync.WaitGroup
	gone.Add(agents)
	back.Add(agents)
	var group sync.WaitGroup
	for i := range agents {
		var once, twice sync.Once
		c, err := bus.Join(ctx, access(url, parsed), fmt.Sprint("web", i), bus.Watch{
			Say: func(line string) {
				switch {
				case strings.HasPrefix(line, "no connection to the controller ("):
					once.Do(gone.Done)
				case line == "controller is back":
					twice.Do(back.Done)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		group.Go(func() { publish(ctx, t, c, "r1", samples) })
	}
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		process.Process.Kill()
		process.Wait()
		var again, same string
		process, again, same = start(t, dir, "127.0.0.1") // it remembers its port
		if again != url || same != token {
			t.Errorf("restarted as %s %s, was %s %s", again, same, url, token)
		}
	}
	group.Wait()
	gone.Wait()
	back.Wait()
	select {
	case <-all:
	case <-ctx.Done():
		t.Error("not all reports arrived")
	}
}

// small mounts a file system of so many bytes.
func small(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Fatalf("mount a tmpfs: %v (the tests run as root)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir
}

func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<16)
	for len(chunk) > 0 {
		if _, err := f.Write(chunk); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			chunk = chunk[:len(chunk)/2]
		}
	}
}

func TestWhatAControllerCannotStartOn(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	b := serve(t, controller.Options{Bed: "lab"})
	port := b.URL()[strings.LastIndexByte(b.URL(), ':')+1:]
	write := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "controller.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(o controller.Options, want string) {
		t.Helper()
		s, err := controller.Serve(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	check(controller.Options{}, "no such file or directory")
	check(controller.Options{State: b.dir}, fmt.Sprintf("in use by another controller (process %d)", os.Getpid()))
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:" + port}, "port "+port+" is taken")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:x"}, "want host:port")
	check(controller.Options{State: t.TempDir(), Listen: "192.0.2.1:0"}, "cannot assign requested address")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1", Advertise: "0.0.0.0"}, "cannot advertise")
	check(controller.Options{State: t.TempDir(), Bed: "a.b"}, "test bed \"a.b\"")
	check(controller.Options{State: filepath.Join(file, "x")}, "not a directory")
	check(controller.Options{State: "/proc/1/state"}, "/proc/1/state")
	check(controller.Options{State: write("not JSON")}, "is not a controller's state")
	check(controller.Options{State: write(`{"version":1}`)}, "is of version 1, this ceiling knows 2")
	check(controller.Options{State: write(`{"version":2}`)}, "lacks a key")
	full := small(t, 1<<20)
	fill(t, filepath.Join(full, "filler"))
	check(controller.Options{State: filepath.Join(full, "state")}, "no space left on device")

	if _, err := bus.Drive(within(t), bus.Access{State: t.TempDir()}, bus.Watch{}); err == nil || !strings.Contains(err.Error(), "ceiling fleet controller") {
		t.Errorf("drive without a controller: %v", err)
	}
	b.Close()
	check(controller.Options{State: b.dir, Bed: "field"}, "belongs to test bed lab, not field")
	info, err := os.Stat(filepath.Join(b.dir, "controller.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the keys are %v, %v", info.Mode(), err)
	}
}

func TestLease(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	const ttl = 2 * time.Second
	b := serve(t, controller.Options{LeaseTTL: ttl})
	ctx := within(t)
	one, two := b.drive(t), b.drive(t)
	lease, err := one.Acquire(ctx, "ann on lab1")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // for longer than it lives without being renewed
		if _, err := two.Acquire(ctx, "bob"); !errors.Is(err, bus.ErrHeld) || !strings.Contains(err.Error(), "in use by ann on lab1 since 2") {
			t.Fatalf("the second: %v", err)
		}
		time.Sleep(ttl / 2)
	}
	select {
	case <-lease.Lost():
		t.Fatalf("lost: %v", lease.Why())
	default:
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if lease, err = two.Acquire(ctx, "bob"); err != nil {
		t.Fatalf("released, but %v", err)
	}
	two.Close() // as if it crashed
	for {
		next, err := one.Acquire(ctx, "ann")
		if err == nil {
			defer next.Release(ctx)
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	select {
	case <-lease.Lost():
	case <-ctx.Done():
		t.Fatal("the one that crashed believes that it holds it")
	}
	if lease.Why() == nil {
		t.Error("lost for no reason")
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
}

// TestAnAgentThatDied drops out of the list without a farewell.
func TestAnAgentThatDied(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	driver, web := b.drive(t), b.join(t, "web1")
	agent(t, web)
	if found, err := driver.Agents(within(t)); err != nil || len(found) != 1 {
		t.Fatalf("found %s, %v", found, err)
	}
	web.Close()
	for range 20 { // it is started again, and its last connection has gone without a farewell
		b.join(t, "web1").Close()
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		found, err := driver.Agents(within(t))
		if err == nil && len(found) == 0 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("found %s, %v", found, err)
		}
	}
	if _, err := driver.Ask(within(t), b.id("web1"), nil); !errors.Is(err, bus.ErrGone) {
		t.Errorf("it still answers: %v", err)
	}
}

// TestNothingIsLeftOpen is not parallel: it counts this process's descriptors.
func TestNothingIsLeftOpen(t *testing.T) {
	needs.Processes(t)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	dir := filepath.Join(t.TempDir(), "state")
	var first int
	for i := range 3 {
		b := serve(t, controller.Options{State: dir})
		driver, c := b.drive(t), b.join(t, "web1")
		all := exactly(t, driver, "r1", 1, 3)
		publish(within(t), t, c, "r1", 3)
		<-all
		c.Close()
		driver.Close()
		b.Close()
		if i == 0 {
			first = count()
		}
	}
	for end := time.Now().Add(patience); count() > first; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors after one controller, %d after three", first, count())
		}
	}
}
