//go:build linux

package load

import (
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestDrain: a closed loop sees its last requests answered: the server finishes as many as were
// sent, of which the last are counted as in flight, and none of its clients goes away.
func TestDrain(t *testing.T) {
	needs.Engine(t)
	const slots = 8
	for name, protocol := range map[string]Protocol{"1.1": HTTP1, "2": HTTP2} {
		for _, depth := range []int{1, 4} {
			t.Run(name, func(t *testing.T) {
				eachAtOnce(t, func(t *testing.T, engine string) {
					var finished, left atomic.Uint64
					address := serveSlowly(t, &finished, &left)
					c := Config{To: addressOf(t, address), Mix: get(), Connections: slots / depth, Threads: 2, Pipelining: depth,
						Duration: 500 * time.Millisecond, Timeout: 10 * time.Second, Engine: engine, Seed: 1, Sockets: Sockets{Protocol: protocol}}
					n := &runs(t, c).Total
					if n.InFlight == 0 || n.InFlight > slots || n.Failed > 0 || n.Completed == 0 {
						t.Errorf("completed %d, failed %d, in flight %d", n.Completed, n.Failed, n.InFlight)
					}
					if got := finished.Load(); got != n.Sent || left.Load() > 0 {
						t.Errorf("the server finished %d of %d requests sent; %d clients went away", got, n.Sent, left.Load())
					}
				})
			})
		}
	}
}

// serveSlowly serves HTTP/1.1 and HTTP/2 without TLS. It answers after 200 ms, and counts what it
// finished and whose client had left.
func serveSlowly(t *testing.T, finished, left *atomic.Uint64) string {
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(_ http.ResponseWriter, in *http.Request) {
		select {
		case <-time.After(200 * time.Millisecond):
			finished.Add(1)
		case <-in.Context().Done():
			left.Add(1)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(on) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return on.Addr().String()
}

// TestDrainEnds: a server that never answers holds a run no longer than Config.Drain.
func TestDrainEnds(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		hung := make(chan struct{})
		on, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(hung)
			for {
				c, err := on.Accept()
				if err != nil {
					return
				}
				defer c.Close()
			}
		}()
		defer func() { on.Close(); <-hung }()
		c := Config{To: addressOf(t, on.Addr().String()), Mix: get(), Connections: 4, Threads: 1, Pipelining: 1,
			Duration: 100 * time.Millisecond, Drain: 200 * time.Millisecond, Timeout: time.Hour, Engine: engine, Seed: 1}
		if r := runs(t, c); r.Total.InFlight != 4 || r.WindowNs > int64(150*time.Millisecond) {
			t.Errorf("in flight %d, after %d ns", r.Total.InFlight, r.WindowNs)
		}
	})
}
