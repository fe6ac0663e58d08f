//go:build linux

package load

import (
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestTunnelHead: a proxy's response to a CONNECT may come byte by byte, and what follows it in one piece
// is the server's.
func TestTunnelHead(t *testing.T) {
	needs.Engine(t)
	const connect, opened = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n", "HTTP/1.1 200 Connection established\r\nVia: 1.1 p\r\n\r\n"
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, func(int) faultserver.Script {
			return faultserver.Script{faultserver.Request(1), faultserver.Drip(opened, 1),
				faultserver.Loop(faultserver.Request(1), faultserver.Write(faultserver.OK("x")))}
		})
		c := config(t, s, engine, 100)
		c.To.Tunnel = []byte(connect)
		clean(t, runs(t, c), 100)

		s = serve(t, func(int) faultserver.Script {
			return faultserver.Script{faultserver.Request(1), faultserver.Write(opened + "HTTP/1.1 400 Bad Request\r\n\r\n"), faultserver.Request(1)}
		})
		c = config(t, s, engine, 4)
		c.To.Tunnel, c.Timeout = []byte(connect), 500_000_000
		if r := start(t.Context(), t, c, &watcher{}); r.Setup[Fault{PhaseIdle, causeExtra}] == 0 {
			t.Errorf("what the server said first was lost: %v, then %v", r.Setup, r.Total.Faults)
		}
	})
}
