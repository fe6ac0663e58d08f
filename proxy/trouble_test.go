package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// TestTroubleIsReportedOnce: an authentication service that is down is reported when that is met first
// and when it is over.
func TestTroubleIsReportedOnce(t *testing.T) {
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	service.Listener.Close()
	service.Listener = on
	closing := make(chan struct{})
	go func() { // accepts and hangs up: to be there is not to answer
		defer close(closing)
		for range 5 {
			c, err := on.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	r := run(t, "auto", to("http://"+backend.addr, `access = { forward_auth = { uri = "http://`+on.Addr().String()+`/" } }`))
	for range 5 {
		dial(t, r.addr).status("/", 502)
	}
	<-closing
	service.Start()
	t.Cleanup(service.Close)
	for range 2 {
		dial(t, r.addr).status("/", 200)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) != 2 || !strings.Contains(r.lines[0], "forward_auth") || r.lines[1] != "the authentication service answers again" {
		t.Errorf("%q", r.lines)
	}
}

// TestRootCause: how the end of a connection is noticed is chance, and no other trouble.
func TestRootCause(t *testing.T) {
	first := rootCause(&net.OpError{Op: "write", Err: syscall.EPIPE})
	for _, err := range []error{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, io.EOF, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)} {
		if got := rootCause(err); got != first {
			t.Errorf("%v: %q, not %q", err, got, first)
		}
	}
	if got := rootCause(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}); got == first {
		t.Errorf("nobody listens: %q", got)
	}
}
