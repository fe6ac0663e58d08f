//go:build linux

package load

import (
	"bytes"
	"crypto/tls"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
)

// TestResumedHandshakes: those that go on from a session are counted apart, as the
// server counts them; the first ones and all without --tls-resume are full.
func TestResumedHandshakes(t *testing.T) {
	needs.Engine(t)
	const n = 60
	for name, k := range map[string]struct {
		most   uint16
		resume bool
	}{"1.3": {0, true}, "1.2": {tls.VersionTLS12, true}, "not asked": {0, false}} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				var full, resumed atomic.Uint64
				_, c := secureConfig(t, engine, n, func(s *tls.Config) {
					s.MaxVersion = k.most
					s.VerifyConnection = func(state tls.ConnectionState) error {
						if state.DidResume {
							resumed.Add(1)
						} else {
							full.Add(1)
						}
						return nil
					}
				}, faultserver.Answer(faultserver.OK("x")))
				c.NewConnections, c.Connections, c.TLS.Resume = 1, 4, k.resume
				r := runs(t, c)
				clean(t, r, n)
				h := r.Handshakes
				ownFull, ownResumed := h.Setup.Count()+h.Window.Count(), h.Resumed.Setup.Count()+h.Resumed.Window.Count()
				if ownFull != full.Load() || ownResumed != resumed.Load() {
					t.Errorf("%d full and %d resumed, the server has %d and %d", ownFull, ownResumed, full.Load(), resumed.Load())
				}
				if k.resume != (ownResumed > n/2) || h.Setup.Count() == 0 || (k.resume && engine != ring.Portable) != (h.ResumedCPUNs > 0) ||
					h.ResumedCPUNs > h.CPUNs {
					t.Errorf("%d full, %d resumed, %d of %d ns CPU", ownFull, ownResumed, h.ResumedCPUNs, h.CPUNs)
				}
				if got := r.Total.Shakes.Count; got != h.Window.Count()+h.Resumed.Window.Count() || r.Total.Shakes.CPUNs > h.CPUNs || got == 0 {
					t.Errorf("the rows have %d handshakes and %d ns, the account %d and %d", got, r.Total.Shakes.CPUNs,
						h.Window.Count()+h.Resumed.Window.Count(), h.CPUNs)
				}
			})
		})
	}
}

// TestResumptionOfNginx: OpenSSL's tickets, by nginx's own count of requests over
// sessions that it has reused.
func TestResumptionOfNginx(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{"1.3": "ssl_protocols TLSv1.3;", "1.2": "ssl_protocols TLSv1.2;"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, engine string) {
				const n = 300
				address, log := nginx(t, lines)
				c := Config{
					To: addressOf(t, address), Mix: get(), Connections: 8, Threads: 2, Pipelining: 1, Requests: n, NewConnections: 1,
					Timeout: 10 * time.Second, Engine: engine, Seed: 1,
					Sockets: Sockets{TLS: &tlsconn.Config{ServerName: "server.test", Insecure: true, Resume: true}},
				}
				r := runs(t, c)
				clean(t, r, n)
				h := r.Handshakes
				full, resumed := h.Setup.Count()+h.Window.Count(), h.Resumed.Setup.Count()+h.Resumed.Window.Count()
				var text []byte
				for deadline := time.Now().Add(5 * time.Second); bytes.Count(text, []byte("\n")) != n && time.Now().Before(deadline); {
					time.Sleep(5 * time.Millisecond)
					var err error
					if text, err = os.ReadFile(log); err != nil {
						t.Fatal(err)
					}
				}
				theirs := bytes.Count(text, []byte(" reused=r\n"))
				if uint64(theirs) != resumed || uint64(bytes.Count(text, []byte(" reused=.\n"))) != full || resumed < n/2 {
					t.Errorf("%d full, %d resumed; nginx has resumed %d of %d", full, resumed, theirs, n)
				}
			})
		})
	}
}
