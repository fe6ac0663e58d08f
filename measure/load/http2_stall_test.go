//go:build linux

package load

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"ceiling/internal/distance"
	"ceiling/internal/needs"
)

// TestStallPings: where a window is used up, a PING tells a server that is far away from one
// that does not read.
func TestStallPings(t *testing.T) {
	needs.Time(t)
	const window, delay, pause = 64 << 10, 10 * time.Millisecond, 20 * time.Millisecond
	slowly := func(out http.ResponseWriter, in *http.Request) {
		piece := make([]byte, window/4)
		for {
			time.Sleep(pause)
			if _, err := io.ReadFull(in.Body, piece); err != nil {
				return
			}
		}
	}
	atOnce := func(out http.ResponseWriter, in *http.Request) { _, _ = io.Copy(io.Discard, in.Body) }
	each(t, func(t *testing.T, engine string) {
		run := func(ln net.Listener, handler http.HandlerFunc) *H2Report {
			s := &http.Server{
				Handler: handler, Protocols: new(http.Protocols),
				HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: window, MaxReceiveBufferPerStream: window},
			}
			s.Protocols.SetUnencryptedHTTP2(true)
			ended := make(chan struct{})
			go func() { defer close(ended); _ = s.Serve(ln) }()
			defer func() { s.Close(); <-ended }()
			const n = 12
			c := Config{
				To: addressOf(t, ln.Addr().String()), Mix: get(), Connections: 2, Threads: 1, Pipelining: 1,
				Requests: n, Timeout: 20 * time.Second, Engine: engine, Seed: 1,
			}
			c.Protocol = HTTP2
			c.Mix[0].Bytes = put(4 * window)
			r := runs(t, c)
			clean(t, r, n)
			if h := r.H2; h.Pings == 0 || h.Pings > n || h.Allowed != window {
				t.Fatalf("%d PINGs for %d requests and %d stalls, a window of %d", h.Pings, n, h.Stalls, h.Allowed)
			}
			return r.H2
		}
		listen := func() net.Listener {
			ln, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return ln
		}
		far := run(distance.Listen(listen(), delay), atOnce)
		if far.PingNs < int64(far.Pings)*2*int64(delay) || far.PingedNs > 2*far.PingNs {
			t.Errorf("far away: %d PINGs took %v, the stalls with them %v", far.Pings, time.Duration(far.PingNs), time.Duration(far.PingedNs))
		}
		slow := run(listen(), slowly)
		if slow.PingedNs < 2*slow.PingNs {
			t.Errorf("read slowly: %d PINGs took %v, the stalls with them %v", slow.Pings, time.Duration(slow.PingNs), time.Duration(slow.PingedNs))
		}
		t.Logf("far away %v and %v, read slowly %v and %v", time.Duration(far.PingNs), time.Duration(far.PingedNs), time.Duration(slow.PingNs),
			time.Duration(slow.PingedNs))
	})
}
