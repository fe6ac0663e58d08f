//go:build linux

package load

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
)

// TestCutIsNoLimit: a server that ends connections over requests it has read,
// each time after another number of responses, fails those requests; that some
// end so is not to be mistaken for a keep-alive limit.
func TestCutIsNoLimit(t *testing.T) {
	needs.Engine(t)
	ok := faultserver.OK("x")
	for name, end := range map[string]faultserver.Step{"reset": faultserver.Reset(), "close": faultserver.Close()} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, func(number int) faultserver.Script {
					return faultserver.Script{faultserver.AnswerTimes(1+number*7%13, ok), faultserver.Request(1), end}
				})
				c := config(t, s, engine, 2000)
				r := runs(t, c)
				n := &r.Total
				// Some 250 connections are cut. A count can match the one before
				// by chance, most of all as two workers compare their own.
				cut := uint64(s.Accepted()) - 4
				if n.Failed < cut*3/4 || n.Failed+n.Reconnects < cut {
					t.Errorf("%d failed and %d reconnects of %d connections that were cut", n.Failed, n.Reconnects, cut)
				}
			})
		})
	}
}

// TestSlowAcceptDoesNotHoldTheLoad: where a full accept queue drops the connects, the load starts after one
// timeout with the connections that there are, and the others are still tried.
func TestSlowAcceptDoesNotHoldTheLoad(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		if err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 1)); err != nil {
			t.Fatal(err)
		}
		at, err := syscall.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{
			To: To(ring.TCPAddr(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(at.(*syscall.SockaddrInet4).Port)))), Mix: get(),
			Connections: 4 * maxPending, Threads: 1, Pipelining: 1, Duration: 200 * time.Millisecond,
			Timeout: 1500 * time.Millisecond, Engine: engine,
		}
		r := runs(t, c)
		if tried := r.Setup[Fault{PhaseConnect, CauseTimeout}]; r.Established == 0 || r.Established > 4 || tried > maxPending {
			t.Errorf("%d established; %d of %d connects timed out before the load", r.Established, tried, c.Connections)
		}
	})
}

// TestToleratedFaults: responses that common clients read are completed, and what is wrong with them is counted.
func TestToleratedFaults(t *testing.T) {
	needs.Engine(t)
	for response, want := range map[string]string{
		"Content-Length: 1, 1\r\n\r\nx":                          "a list of equal values in Content-Length",
		"Transfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n": "a blank behind a chunk size",
	} {
		t.Run(want, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				c := config(t, serve(t, faultserver.Every(faultserver.AnswerTimes(1000, "HTTP/1.1 200 OK\r\n"+response))), engine, 200)
				r := runs(t, c)
				if n := &r.Total; n.Completed != 200 || n.Failed != 0 || n.Faults[Fault{PhaseFault, want}] != 200 {
					t.Errorf("%d completed, %d failed, %v", n.Completed, n.Failed, n.Faults)
				}
			})
		})
	}
}

// TestCloses: what ends connections is counted so that a limit, a server that drops
// one request in a hundred with its connection, and a timeout can be told apart.
func TestCloses(t *testing.T) {
	needs.Engine(t)
	ok := faultserver.OK("x")
	// The number of responses before a drop with p = 1%, other for each connection.
	drop := func(number int) int {
		r := rand.New(rand.NewPCG(uint64(number), 1))
		for k := 1; ; k++ {
			if r.IntN(100) == 0 {
				return k
			}
		}
	}
	for name, script := range map[string]func(int) faultserver.Script{
		"limit": faultserver.Every(faultserver.AnswerTimes(100, ok)),
		"announced limit": faultserver.Every(faultserver.AnswerTimes(99, ok),
			faultserver.AnswerTimes(1, faultserver.Response("200 OK", "Connection: close\r\n", "x"))),
		"drops": func(number int) faultserver.Script {
			return faultserver.Script{faultserver.AnswerTimes(drop(number), ok), faultserver.Request(1), faultserver.Close()}
		},
		"timeout": func(number int) faultserver.Script { // it ends connections that have nothing to do
			return faultserver.Script{faultserver.AnswerTimes(3+number%5, ok)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				c := config(t, serve(t, script), engine, 5000)
				if name == "timeout" {
					c.Requests, c.Rate = 200, perS(100) // a connection has 40 ms to be closed before its next request
				}
				n := &runs(t, c).Total.Closes
				all := n.Announced + n.Idle + n.InFlight
				switch {
				case all < 20:
					t.Errorf("%+v", n)
				case strings.HasSuffix(name, "limit") && (n.Most != 100 || n.AtMost != all),
					name == "announced limit" && n.Announced != all,
					name == "drops" && (n.AtMost*20 > all*19 || n.InFlight*10 < all*9),
					name == "timeout" && (n.AtMost*20 > all*19 || n.Idle*10 < all*8):
					t.Errorf("%+v of %d", n, all)
				}
			})
		})
	}
}
