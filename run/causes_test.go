package run

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/record"
	"ceiling/verdict"
)

// Causes that leave a server with CPU to spare, planted in servers of this binary
// (RUN_TEST_CAUSE): what the verdict says is held against what was planted.

// serveCause makes this process a server of one of them, until it is ended:
// "accepts N" holds N connections and accepts no more, "files N" may open N files.
func serveCause(cause string) {
	var kind string
	var n int
	_, err := fmt.Sscan(cause, &kind, &n)
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err == nil {
		fmt.Printf("%s serves on %s\n", kind, l.Addr())
		switch kind {
		case "accepts":
			l = &stingy{l, make(chan struct{}, n)}
		case "files":
			err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(n), Max: uint64(n)})
		}
	}
	if err == nil {
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(w, "ok")
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
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
func checkCause(t *testing.T, v *record.Verdict, because, next string) {
	t.Helper()
	if v.Ceiling == verdict.AcceptQueue && strings.Contains(v.Because, because) && strings.Contains(v.Next, next) {
		return
	}
	t.Errorf("%s, %s: %s\nnext: %s\nwant %q, next %q", v.Outcome, v.Ceiling, v.Because, v.Next, because, next)
	for _, e := range v.Evidence {
		t.Log(e.Says)
	}
}

// TestConnectionsNeverAccepted: of 64 connections a server holds 40, and the rest
// wait, with requests that time out in the window and without.
func TestConnectionsNeverAccepted(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Second, 400 * time.Millisecond} {
		c := startAs(t, "RUN_TEST_CAUSE", "accepts 40")
		s := specOf(c.Addr, "/")
		s.Connections, s.Duration, s.Timeout = 64, time.Second, timeout
		checkCause(t, &do(t, s).Run.Verdict, "the server never accepted 24 of 64 connections: it holds 40 and accepts no more", "(-c 40)")
	}
}

// TestOpenFilesFull: a server that has all files open that it may is named by its
// limit. The truth is the server's directory of open files, which the test reads.
func TestOpenFilesFull(t *testing.T) {
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
	checkCause(t, v, fmt.Sprintf("process %d (%s) has 50 of 50 files open (RLIMIT_NOFILE)", c.PID, comm[:min(len(comm), 15)]), "open files above 50")
}
