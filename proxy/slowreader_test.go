package proxy

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	"ceiling/internal/needs"
)

// TestSlowReadersHoldLittle: what is kept for clients that do not read, of bodies that
// are copied, is bounded; those that read again get all of it.
func TestSlowReadersHoldLittle(t *testing.T) {
	needs.Time(t)
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
