//go:build linux

package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestSourceAddresses: connections are spread evenly over the addresses that they
// were given, a reopened one keeps its own, and a share has its own turn.
func TestSourceAddresses(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		from := map[string]int{}
		server := &http.Server{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			ConnState: func(c net.Conn, state http.ConnState) {
				if state == http.StateNew {
					mu.Lock()
					defer mu.Unlock()
					from[netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().String()]++
				}
			},
		}
		var served sync.WaitGroup
		served.Go(func() { _ = server.Serve(listener) })
		defer served.Wait()
		defer server.Close()
		c := Config{
			To: addressOf(t, listener.Addr().String()), Mix: get(), Connections: 16, Threads: 3, Pipelining: 1,
			Requests: 400, Timeout: 10e9, Engine: engine,
		}
		for last := 2; last <= 9; last++ {
			c.SourceIPs = append(c.SourceIPs, netip.MustParseAddr(fmt.Sprintf("127.0.0.%d", last)))
		}
		r := runs(t, c)
		clean(t, r, 400)
		even := func(n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			for last := 2; last <= 9; last++ {
				if got := from[fmt.Sprintf("127.0.0.%d", last)]; got != n {
					t.Errorf("127.0.0.%d has %d connections, want %d", last, got, n)
				}
			}
			clear(from)
		}
		even(2)
		c.Share = Share{First: 1, Count: 1, Of: 2}
		runs(t, c)
		even(1)
	})
}

// TestSourceAddressThatIsNotHere: the kernel's own word for it is the cause, and
// addresses of the other family are refused before.
func TestSourceAddressThatIsNotHere(t *testing.T) {
	needs.Engine(t)
	s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
	c := config(t, s, "", 10)
	c.SourceIPs = []netip.Addr{netip.MustParseAddr("203.0.113.1")} // of documentation, RFC 5737
	r := runs(t, c)
	if r.Established != 0 || r.Setup[Fault{PhaseConnect, "EADDRNOTAVAIL"}] == 0 {
		t.Errorf("%d stand; %v", r.Established, r.Setup)
	}
	c.SourceIPs = []netip.Addr{netip.MustParseAddr("::1")}
	if _, err := Run(context.Background(), c, &watcher{t: t}); err == nil || !strings.Contains(err.Error(), "not of the server's family") {
		t.Error(err)
	}
}
