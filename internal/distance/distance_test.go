package distance

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestListen: what is asked and answered over a distance comes whole, and not before a round trip is over.
func TestListen(t *testing.T) {
	const delay = 10 * time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	far := Listen(ln, delay)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(far) }()
	body := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	transport := &http.Transport{}
	for range 3 {
		begun := time.Now()
		q, err := http.NewRequestWithContext(ctx, "POST", "http://"+far.Addr().String(), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := transport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes of %d: %v", len(got), len(body), err)
		}
		if took < 2*delay {
			t.Errorf("answered in %v, and the way alone takes %v", took, 2*delay)
		}
	}
	transport.CloseIdleConnections()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("still listens")
	}
}
