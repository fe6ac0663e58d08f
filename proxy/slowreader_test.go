package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"ceiling/internal/needs"
)

// TestSlowReadersHoldLittle: what is kept for clients that do not read, of bodies that
// are copied, is bounded; those that read again get all of it.
func TestSlowReadersHoldLittle(t *testing.T) {
	needs.Time(t)
	needs.Unraced(t)
	const clients = 40
	want := pattern(8 << 20) // beyond what the kernel's buffers take
	handler := func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/small" {
			return
		}
		if q.URL.Path == "/known" {
			w.Header().Set("Content-Length", strconv.Itoa(len(want)))
		}
		_, _ = w.Write(want) // it fails when the client goes
	}
	slowly := func(t *testing.T, engine, destination string, most int) {
		r := run(t, engine, destination)
		dial(t, r.addr).status("/small", 200)
		var slow []*link
		for i := range clients {
			l := dial(t, r.addr)
			l.say("GET " + []string{"/known", "/chunks"}[i%2] + " HTTP/1.1\r\nHost: a\r\n\r\n")
			slow = append(slow, l)
		}
		holding := 0
		until(t, "all are blocked", func() bool {
			blocked, largest := heldForClients(t, r)
			holding = max(holding, largest)
			return blocked == clients
		})
		if holding == 0 || holding > most {
			t.Errorf("%d bytes are held for a client, want 1 to %d", holding, most)
		}
		for _, l := range slow[:2] {
			if _, body := l.answer("GET"); len(body) != len(want) || body != string(want) {
				t.Errorf("%d bytes came, want %d, in their order", len(body), len(want))
			}
		}
		for _, l := range slow[2:] {
			if err := l.Close(); err != nil && err != io.EOF {
				t.Error(err)
			}
		}
	}
	// A window that waits for the client and as much in the kernel's hands, in parcels that the
	// destination's frames fill by half or more: how many depends on when the frames arrive.
	const overHTTP2 = 2 * callWindow / (parcelBytes / 2) * parcelBytes
	engines(t, func(t *testing.T, engine string) {
		t.Run("of HTTP/1.1", func(t *testing.T) { slowly(t, engine, to("http://"+serveHTTP(t, handler).addr), 128<<10) })
		t.Run("of HTTP/2", func(t *testing.T) { slowly(t, engine, toHTTP2("http://"+serveHTTP2(t, handler)), overHTTP2) })
	})
}

// heldForClients tells how many clients have no room, and the memory that is kept for
// the one that has most.
func heldForClients(t *testing.T, r *running) (blocked, largest int) {
	t.Helper()
	err := ask(r.Proxy, func(l *loop) [2]int {
		var n [2]int
		for c := range l.clients {
			held := 0
			for _, p := range append(c.conn.pending[:len(c.conn.pending):len(c.conn.pending)], c.conn.out, c.in) {
				if p != nil {
					held += cap(p.b)
				}
			}
			if c.conn.blocked {
				n[0]++
			}
			n[1] = max(n[1], held)
		}
		return n
	}, func(n [2]int) { blocked, largest = blocked+n[0], max(largest, n[1]) })
	if err != nil {
		t.Fatal(err)
	}
	return blocked, largest
}

// TestSlowUploadsHoldLittle: what is kept of a body whose destination does not read is bounded, and the
// client is not read.
func TestSlowUploadsHoldLittle(t *testing.T) {
	needs.Time(t)
	needs.Unraced(t)
	const clients, most = 20, 256 << 10
	body := pattern(8 << 20)
	handler := func(release chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			if q.Method == "GET" {
				return
			}
			<-release
			got, err := io.ReadAll(q.Body)
			if err != nil || !bytes.Equal(got, body) { // of a client that has left, or wrong
				w.WriteHeader(500)
			}
		}
	}
	slowly := func(t *testing.T, engine string, serve func(http.HandlerFunc) string, used bool) {
		release := make(chan struct{})
		r := run(t, engine, serve(handler(release)))
		dial(t, r.addr).status("/", 200)
		var all sync.WaitGroup
		for i := range clients {
			l := dial(t, r.addr)
			if used {
				l.status("/", 200)
			}
			all.Go(func() {
				if i%2 == 0 {
					_, _ = fmt.Fprintf(l, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					return
				}
				_, _ = io.WriteString(l, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
				_, _ = fmt.Fprintf(l, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			})
			if i < 2 {
				defer func() {
					if res, _ := l.answer("POST"); res.StatusCode != 200 {
						t.Errorf("%d", res.StatusCode)
					}
				}()
			} else {
				defer l.Close()
			}
		}
		largest := 0
		until(t, "all are paused", func() bool { // a burst that comes before is gone then
			paused := 0
			largest = 0
			err := ask(r.Proxy, func(l *loop) (n [2]int) {
				for c := range l.clients {
					held := 0
					list := append([]*buffer{c.in, c.conn.out}, c.conn.pending...)
					if c.x != nil && c.x.peer != nil {
						list = append(append(list, c.x.peer.conn.out), c.x.peer.conn.pending...)
					}
					for _, p := range list {
						if p != nil {
							held += cap(p.b)
						}
					}
					if c.conn.intake == intakePaused {
						n[0]++
					}
					n[1] = max(n[1], held)
				}
				return n
			}, func(n [2]int) { paused, largest = paused+n[0], max(largest, n[1]) })
			return err != nil || paused == clients
		})
		if largest > most {
			t.Errorf("%d bytes are held for a client, want %d at most", largest, most)
		}
		close(release)
	}
	engines(t, func(t *testing.T, engine string) {
		for name, used := range map[string]bool{"first request": false, "second request": true} {
			t.Run("of HTTP/1.1, "+name, func(t *testing.T) {
				slowly(t, engine, func(h http.HandlerFunc) string { return to("http://" + serveHTTP(t, h).addr) }, used)
			})
			t.Run("of HTTP/2, "+name, func(t *testing.T) {
				slowly(t, engine, func(h http.HandlerFunc) string { return toHTTP2("http://" + serveHTTP2(t, h)) }, used)
			})
		}
	})
}
