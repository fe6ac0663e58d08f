package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// large is enough to be spliced for the most part, whatever came with the head.
const large = 12 << 20

// TestSplicedBodies: both ways, whole and right, and the connections go on.
func TestSplicedBodies(t *testing.T) {
	needs.Time(t)
	engines(t, func(t *testing.T, engine string) {
		want := pattern(large)
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body)
			switch {
			case q.Method == "POST" && (err != nil || !bytes.Equal(body, want)):
				w.WriteHeader(400)
			case q.URL.Path == "/large":
				w.Header().Set("Content-Length", fmt.Sprint(len(want)))
				_, _ = w.Write(want)
			default:
				fmt.Fprint(w, "small")
			}
		})
		r := run(t, engine, to("http://"+o.addr))
		l := dial(t, r.addr)
		for i := range 3 {
			_, body := l.get("/large")
			same(t, fmt.Sprintf("download %d", i), []byte(body), want)
			if body := l.status("/", 200); body != "small" {
				t.Error(body)
			}
		}
		l.say("GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n") // the second waits in us
		if _, body := l.answer("GET"); body != string(want) {
			t.Error("wrong bytes in front of a pipelined request")
		}
		if _, body := l.answer("GET"); body != "small" {
			t.Error(body)
		}
		down := r.count("spliced_bytes_total")
		if down < 2*large {
			t.Errorf("%d bytes spliced of 4 x %d", down, large)
		}
		for range 2 {
			l.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(want)))
			l.say(string(want))
			if res, body := l.answer("POST"); res.StatusCode != 200 || body != "small" {
				t.Errorf("%s %q", res.Status, body)
			}
		}
		if up := r.count("spliced_bytes_total") - down; up < large {
			t.Errorf("%d bytes spliced of 2 x %d", up, large)
		}
		if n := r.count("upstream_connects_total"); n != 1 {
			t.Errorf("%d connections", n)
		}
		if n := r.count("sent_body_bytes_total"); n != 4*large+6*5 {
			t.Errorf("%d bytes counted", n)
		}
		if n := r.count("received_body_bytes_total"); n != 2*large {
			t.Errorf("%d bytes counted", n)
		}
	})
}

// TestSplicedTunnel: a tunnel that is busy is spliced, in either direction, and
// what is said slowly again arrives at once.
func TestSplicedTunnel(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
		})
		r := run(t, engine, to("http://"+o.addr))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if res, err := http.ReadResponse(l.r, nil); err != nil || res.StatusCode != 101 {
			t.Fatalf("%v %v", res, err)
		}
		want := pattern(large)
		for round := range 2 {
			go func() { _, _ = l.Write(want) }()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(l.r, got); err != nil {
				t.Fatal(err)
			}
			same(t, "echo", got, want)
			for i := range 3 * busyPieces { // back to copying, and on
				word := fmt.Sprintf("round %d, word %d\n", round, i)
				l.say(word)
				if line, err := l.r.ReadString('\n'); err != nil || line != word {
					t.Fatalf("%q %v", line, err)
				}
			}
		}
		// Of 4 x large: a tunnel that runs dry for a moment, as on a busy machine, is copied until it is busy again.
		if n := r.count("spliced_bytes_total"); n < large/2 {
			t.Errorf("%d bytes spliced", n)
		}
		held := 0
		if err := ask(r.Proxy, func(lp *loop) int { return lp.pipes.open - len(lp.pipes.spare) }, func(n int) { held += n }); err != nil ||
			held != 0 {
			t.Errorf("an idle tunnel holds %d pipes, %v", held, err)
		}
		if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		l.over()
		until(t, "the tunnel is gone", func() bool { s, err := r.Snapshot(); return err == nil && s.Clients == 0 && s.Upstreams[0].Open == 0 })
	})
}

// TestPipesAreBounded: clients that do not read hold pipes; those beyond are served
// by copying, all get their bytes, and no more memory is held than before.
func TestPipesAreBounded(t *testing.T) {
	needs.Time(t)
	engines(t, func(t *testing.T, engine string) {
		body := string(pattern(large))
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK(body))))
		r := run(t, engine, to("http://"+s.Address()))
		var links []*link
		for range pipesMost + 4 {
			l := dial(t, r.addr)
			if err := l.Conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
				t.Fatal(err)
			}
			l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			links = append(links, l)
		}
		until(t, "the pipes are in use", func() bool { return r.count("pipes_missed_total") > 0 })
		open := 0
		if err := ask(r.Proxy, func(lp *loop) int { return lp.pipes.open }, func(n int) { open += n }); err != nil || open != pipesMost {
			t.Errorf("%d pipes, %v", open, err)
		}
		for _, l := range links[:pipesMost/2] { // gone in the middle: their pipes are full of what nobody wants
			l.Close()
		}
		var wg sync.WaitGroup
		for _, l := range links[pipesMost/2:] {
			wg.Go(func() {
				res, err := http.ReadResponse(l.r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

// TestSplicesEnd: whatever ends in the middle, the other side is told, in time, and
// nothing is left.
func TestSplicesEnd(t *testing.T) {
	needs.Time(t)
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 2*large)
	part := string(pattern(large))
	post := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 2*large)
	for _, k := range []struct {
		name    string
		script  faultserver.Script
		request string
		counter string
	}{
		{"the destination closes", faultserver.Script{faultserver.Request(1), faultserver.Write(head + part), faultserver.Close()}, "GET",
			"upstream_cut_responses_total"},
		{"the destination resets", faultserver.Script{faultserver.Request(1), faultserver.Write(head + part), faultserver.Reset()}, "GET",
			"upstream_cut_responses_total"},
		{"the destination stands still", faultserver.Script{faultserver.Request(1), faultserver.Write(head + part), faultserver.Stall()}, "GET",
			"upstream_response_timeouts_total"},
		{"the client stands still", faultserver.Script{faultserver.Request(1), faultserver.Write(head + part + part), faultserver.Close()},
			"deaf", "client_timeouts_total"},
		{"the client stops sending", faultserver.Script{faultserver.Request(1)}, "half", "body_timeouts_total"},
		{"the client resets", faultserver.Script{faultserver.Request(1)}, "reset", "client_resets_total"},
		{"the destination takes nothing", faultserver.Script{faultserver.SmallBuffers(), faultserver.Head(), faultserver.Deaf()}, "POST",
			"upstream_response_timeouts_total"},
		{"the destination resets in the request", faultserver.Script{faultserver.Head(), faultserver.Reset()}, "POST", ""},
		{"the destination answers early", faultserver.Script{faultserver.SmallBuffers(), faultserver.Head(),
			faultserver.Write(faultserver.Response("413 Too Large", "", "no")), faultserver.Deaf()}, "POST", ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			engines(t, func(t *testing.T, engine string) {
				s := faultyServer(t, faultserver.InTurn(k.script, faultserver.Script{faultserver.Answer(faultserver.OK("fresh"))}))
				times := `timeouts = { idle = "20s", response = "20s" }`
				if strings.HasSuffix(k.counter, "timeouts_total") { // one short time: of two, a busy machine chooses
					times = `timeouts = { idle = "200ms", response = "20s" }`
				}
				r := run(t, engine, to("http://"+s.Address(), times))
				l := dial(t, r.addr)
				switch k.request {
				case "GET":
					l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					if n, err := io.Copy(io.Discard, l.r); err == nil && n > large+1000 {
						t.Errorf("%d bytes, %v", n, err)
					}
				case "deaf":
					l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				case "half", "reset":
					l.say(post + part)
					if k.request == "reset" {
						if err := l.Conn.(*net.TCPConn).SetLinger(0); err != nil {
							t.Fatal(err)
						}
						l.Close()
						break
					}
					if res, _ := l.answer("POST"); res.StatusCode != 408 {
						t.Error(res.Status)
					}
				case "POST":
					sent := make(chan struct{})
					go func() { defer close(sent); _, _ = l.Write([]byte(post + part + part)) }()
					res, err := http.ReadResponse(l.r, nil)
					if err != nil {
						if !strings.Contains(err.Error(), "reset") {
							t.Error(err)
						}
					} else if res.StatusCode < 400 || !res.Close {
						t.Error(res.Status)
					}
					l.SetDeadline(time.Now())
					<-sent
				}
				if k.counter != "" {
					until(t, k.counter, func() bool { return r.count(k.counter) == 1 })
				}
				if body := dial(t, r.addr).status("/", 200); body != "fresh" {
					t.Error(body)
				}
				l.Close()
				until(t, "they are gone", func() bool {
					n := 0
					err := ask(r.Proxy, func(lp *loop) int { return lp.pipes.open - len(lp.pipes.spare) + len(lp.beginning) }, func(k int) { n += k })
					return err == nil && n == 0
				})
			})
		})
	}
}
