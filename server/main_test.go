//go:build linux

package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"ceiling/server/prefork"
	"ceiling/server/quorum"
	"ceiling/server/store"
)

// parentEnv makes the test binary a prefork server of the kind it names, which prints its address and serves until it
// is killed.
const parentEnv = "CEILING_TEST_PREFORK_PARENT"

func TestMain(m *testing.M) {
	if replica := os.Getenv(quorum.ReplicaEnv); replica != "" { // of a bucket that a test serves
		if err := quorum.Serve(context.Background(), replica, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	if fiber.IsChild() {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Serve(ctx, "fiber-prefork", Config{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	kind := prefork.Kind()
	cfg := Config{Prefork: true, Workers: 2}
	if os.Getenv(preforkDatabaseEnv) != "" { // its parent, a test, has prepared it
		cfg.Database = &store.Backend{Source: "inherited", Options: store.Options{Pool: 2}}
	}
	if kind == "" {
		kind = os.Getenv(parentEnv)
		cfg.Prefork = kind != "fiber-prefork" // which forks by itself
		cfg.Ready = func(addr string) { os.Stdout.WriteString(addr + "\n") }
	}
	if kind == "" {
		os.Exit(m.Run())
	}
	if err := Serve(context.Background(), kind, cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A running server is one that a test has started. It stops when the test ends, or by stop.
type running struct {
	addr string // as Ready got it
	end  context.CancelFunc
	done chan error
}

// start starts a server and waits until it is ready.
func start(t *testing.T, kind string, cfg Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{end: cancel, done: make(chan error, 1)}
	ready := make(chan string, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	go func() {
		r.done <- Serve(ctx, kind, cfg)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	select {
	case r.addr = <-ready:
	case err := <-r.done:
		t.Fatalf("%s did not start: %v", kind, err)
	}
	return r
}

// stop ends the server, which must say nil within its second. The limit here has room for a machine that is busy.
func (r *running) stop(t *testing.T) {
	t.Helper()
	begin := time.Now()
	r.end()
	if err := <-r.done; err != nil {
		t.Errorf("stopped with %v", err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v to stop", took)
	}
}

// dial opens a connection to a server's address.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A client is one keep-alive connection.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func newClient(t *testing.T, addr string) *client {
	conn := dial(t, addr)
	return &client{conn: conn, r: bufio.NewReader(conn)}
}

// send writes a request for each path, without waiting for answers.
func (c *client) send(t *testing.T, method string, paths ...string) {
	t.Helper()
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: test\r\n", method, p)
		if method == http.MethodPost {
			b.WriteString("Content-Length: 0\r\n")
		}
		b.WriteString("\r\n")
	}
	if _, err := c.conn.Write([]byte(b.String())); err != nil {
		t.Fatal(err)
	}
}
