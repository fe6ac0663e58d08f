package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
)

func faultyServer(t *testing.T, script func(int) faultserver.Script) *faultserver.Server {
	t.Helper()
	keepsNothing(t)
	s, err := faultserver.Listen("tcp4", "127.0.0.1:0", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestConnectionsAreReused: a destination sees as many connections as there were
// requests at the same time.
func TestConnectionsAreReused(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("hi"))))
		r := run(t, engine, to("http://"+s.Address()))
		for range 5 {
			l := dial(t, r.addr)
			for range 100 {
				if body := l.status("/", 200); body != "hi" {
					t.Fatal(body)
				}
			}
			l.Close()
		}
		if s.Requests() != 500 || s.Accepted() != 1 {
			t.Errorf("%d requests on %d connections", s.Requests(), s.Accepted())
		}
	})
}

// TestBodies sends bodies of all sizes both ways, in all framings, in pieces that
// meet anywhere, and compares every byte.
func TestBodies(t *testing.T) {
	needs.Time(t)
	needs.Unraced(t)
	engines(t, func(t *testing.T, engine string) {
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				w.WriteHeader(400)
				return
			}
			if q.URL.Path == "/sized" {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			}
			for len(body) > 0 {
				n := min(len(body), 70000)
				_, _ = w.Write(body[:n])
				if q.URL.Path == "/flushed" {
					w.(http.Flusher).Flush()
				}
				body = body[n:]
			}
		})
		r := run(t, engine, to("http://"+o.addr))
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		for _, size := range []int{0, 1, 1000, 16383, 16384, 16385, 65536, 100_000, 3_000_000, 20_000_000} {
			want := pattern(size)
			for _, path := range []string{"/sized", "/flushed"} {
				for _, sized := range []bool{true, false} {
					body := io.Reader(bytes.NewReader(want))
					if !sized {
						body = struct{ io.Reader }{body}
					}
					q, err := http.NewRequest("POST", "http://"+r.addr+path, body)
					if err != nil {
						t.Fatal(err)
					}
					res, err := tr.RoundTrip(q)
					if err != nil {
						t.Fatalf("%d %s: %v", size, path, err)
					}
					got, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || res.StatusCode != 200 {
						t.Fatalf("%d %s: %d, %v", size, path, res.StatusCode, err)
					}
					same(t, fmt.Sprint(size, path, sized), got, want)
				}
			}
		}
	})
}

// TestSlowReader: a client that does not read costs little memory, whatever the
// size of its response, and gets every byte in the end.
func TestSlowReader(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		const size = 64 << 20
		want := pattern(1 << 20)
		o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			for range size / len(want) {
				if _, err := w.Write(want); err != nil {
					return
				}
			}
		})
		r := run(t, engine, to("http://"+o.addr))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		var read []byte
		held := func() int {
			most := 0
			err := ask(r.Proxy, func(lp *loop) int {
				n := 0
				for c := range lp.clients {
					n += lp.ring.Unsent(c.conn.tag())
					for _, p := range c.conn.pending {
						n += cap(p.b)
					}
				}
				return n
			}, func(n int) { most = max(most, n) })
			if err != nil {
				t.Fatal(err)
			}
			return most
		}
		until(t, "the client's buffer is full", func() bool { return held() > 0 })
		buf := make([]byte, 1<<20)
		for range 8 { // it fills again and again, as the client reads a little
			if _, err := io.ReadFull(l.Conn, buf); err != nil {
				t.Fatal(err)
			}
			read = append(read, buf...)
			until(t, "it is full again", func() bool { return held() > 0 })
		}
		if n := held(); n > 512<<10 {
			t.Errorf("%d bytes are held for a client that does not read", n)
		}
		l.r = bufio.NewReader(io.MultiReader(bytes.NewReader(read), l.Conn))
		res, err := http.ReadResponse(l.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum, total := sha256.New(), sha256.New()
		for range size / len(want) {
			total.Write(want)
		}
		n, err := io.Copy(sum, res.Body)
		if err != nil || n != size || hex.EncodeToString(sum.Sum(nil)) != hex.EncodeToString(total.Sum(nil)) {
			t.Errorf("%d of %d bytes, %v, or wrong ones", n, size, err)
		}
	})
}

// TestPush: what a destination sends in a tunnel reaches a client that says
// nothing; both directions end by themselves; nothing is left.
func TestPush(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("Upgrade") != "websocket" || q.Header.Get("Connection") != "upgrade" {
				w.WriteHeader(400)
				return
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\npushed")
			_ = rw.Flush()
			all, _ := io.ReadAll(rw) // until the client's direction ends
			_, _ = conn.Write(append([]byte("you said "), all...))
		})
		r := run(t, engine, to("http://"+o.addr))
		l := dial(t, r.addr)
		l.say("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
		res, err := http.ReadResponse(l.r, nil)
		if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Sec-Websocket-Accept") != "x" {
			t.Fatalf("%v %v", res, err)
		}
		pushed := make([]byte, 6)
		if _, err := io.ReadFull(l.r, pushed); err != nil || string(pushed) != "pushed" {
			t.Fatalf("%q %v", pushed, err)
		}
		said := pattern(2_000_000)
		l.say(string(said))
		if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(l.r)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "echo", got, append([]byte("you said "), said...))
		until(t, "the tunnel is gone", func() bool { s, err := r.Snapshot(); return err == nil && s.Clients == 0 && s.Upstreams[0].Open == 0 })
	})
}

// TestEvents: server-sent events arrive one by one, each before the next is made.
func TestEvents(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		next := make(chan struct{})
		o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 5 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		})
		r := run(t, engine, to("http://"+o.addr))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(l.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			want := fmt.Sprintf("data: %d\n\n", i)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Fatalf("%q %v", got, err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Fatalf("%q %v", rest, err)
		}
	})
}

// TestContinue: 100-continue is the destination's to say, and only then the body
// is sent.
func TestContinue(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/no" {
				w.WriteHeader(413)
				return
			}
			body, _ := io.ReadAll(q.Body)
			fmt.Fprintf(w, "%d", len(body))
		})
		r := run(t, engine, to("http://"+o.addr))
		head := " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
		l := dial(t, r.addr)
		l.say("POST /yes" + head)
		if res, _ := l.answer("POST"); res.StatusCode != 100 {
			t.Fatal(res.Status)
		}
		l.say("hello")
		if _, body := l.answer("POST"); body != "5" {
			t.Fatal(body)
		}
		l.say("POST /no" + head)
		if res, _ := l.answer("POST"); res.StatusCode != 413 || !res.Close {
			t.Fatal(res.Status, res.Close)
		}
		l.over()
	})
}

// TestStaleConnection: a destination that closed a connection just when it was
// used again costs the client nothing, where a second attempt is safe.
func TestStaleConnection(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		answer := faultserver.Script{faultserver.Request(1), faultserver.Write(faultserver.OK("hi")), faultserver.Request(1), faultserver.Close()}
		s := faultyServer(t, faultserver.InTurn(answer, answer, faultserver.Script{faultserver.Answer(faultserver.OK("hi"))}))
		r := run(t, engine, to("http://"+s.Address()))
		l := dial(t, r.addr)
		l.status("/", 200)
		l.status("/", 200) // is closed within, and tried again on a second connection
		if n := r.count("upstream_stale_total"); n != 1 {
			t.Errorf("%d stale", n)
		}
		l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n") // not safe
		if res, _ := l.answer("POST"); res.StatusCode != 502 {
			t.Error(res.Status)
		}
		l.status("/", 200)
	})
}

// TestPhases: whatever a destination does wrong, and whenever, the client gets a
// whole answer or a connection that ends; never a wrong byte, never nothing.
func TestPhases(t *testing.T) {
	needs.Time(t)
	together(t)
	half := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
	for name, script := range map[string]faultserver.Script{
		"closes at once":         {faultserver.Close()},
		"resets at once":         {faultserver.Reset()},
		"closes in the request":  {faultserver.Head(), faultserver.Close()},
		"resets after request":   {faultserver.Request(1), faultserver.Reset()},
		"closes in the head":     {faultserver.Request(1), faultserver.Write(half[:20]), faultserver.Close()},
		"resets in the head":     {faultserver.Request(1), faultserver.Write(half[:20]), faultserver.Reset()},
		"closes in the body":     {faultserver.Request(1), faultserver.Write(half), faultserver.Close()},
		"resets in the body":     {faultserver.Request(1), faultserver.Write(half), faultserver.Reset()},
		"stalls before the head": {faultserver.Request(1), faultserver.Stall()},
		"stalls in the head":     {faultserver.Request(1), faultserver.Write(half[:20]), faultserver.Stall()},
		"stalls in the body":     {faultserver.Request(1), faultserver.Write(half), faultserver.Stall()},
		"does not read":          {faultserver.SmallBuffers(), faultserver.Deaf()},
		"closes in a chunk": {faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello"),
			faultserver.Close()},
		"drips": {faultserver.Request(1), faultserver.Drip(faultserver.OK("hello"), 1)},
		"never ends": {faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
			faultserver.Endless("x")},
		"never ends its head": {faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nX: "), faultserver.Endless("xxxxxxxxxxxxxxxx")},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, engine string) {
				s := faultyServer(t, faultserver.Every(script...))
				r := run(t, engine, to("http://"+s.Address(),
					`timeouts = { response = "300ms", idle = "300ms", connect = "5s" }`)+"eject = { failures = -1 }\n")
				for range 3 {
					l := dial(t, r.addr)
					l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
					res, err := http.ReadResponse(l.r, nil)
					if err != nil {
						continue // it ended
					}
					body, err := io.ReadAll(res.Body)
					switch {
					case err != nil:
						if len(body) > 0 && !strings.HasPrefix("hello", string(body)) {
							t.Errorf("cut, but not what was sent: %q", body)
						}
					case res.StatusCode == 200 && string(body) != "hello":
						t.Errorf("%q", body)
					case res.StatusCode != 200 && res.StatusCode != 502 && res.StatusCode != 504:
						t.Errorf("%d", res.StatusCode)
					}
					l.Close()
				}
				until(t, "nothing is left", func() bool { n, err := r.Snapshot(); return err == nil && n.Clients == 0 && n.Upstreams[0].Busy == 0 })
			})
		})
	}
}

// TestLoadOnFaults: many clients at once while destinations fail in every way.
// Every answer of 200 has the right bytes, and everybody is answered.
func TestLoadOnFaults(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		body := string(pattern(30_000))
		ok := faultserver.OK(body)
		scripts := []faultserver.Script{
			{faultserver.Answer(ok)},
			{faultserver.AnswerTimes(3, ok), faultserver.Request(1), faultserver.Reset()},
			{faultserver.AnswerTimes(2, ok), faultserver.Request(1), faultserver.Write(ok[:20000]), faultserver.Close()},
			{faultserver.Request(1), faultserver.Drip(ok, 997), faultserver.Close()},
			{faultserver.Reset()},
			{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body), faultserver.Close()},
		}
		s := faultyServer(t, func(k int) faultserver.Script { return scripts[k%len(scripts)] })
		r := run(t, engine, strings.Replace(to("http://"+s.Address(), `retry = { attempts = 1 }`), "workers = 1", "workers = 2",
			1)+"eject = { failures = -1 }\n")
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for range 16 {
			wg.Go(func() {
				tr := &http.Transport{}
				defer tr.CloseIdleConnections()
				client := &http.Client{Transport: tr, Timeout: patience}
				for range 40 {
					outcome := ""
					res, err := client.Get("http://" + r.addr + "/")
					if err != nil {
						outcome = "ended"
						if ne, ok := err.(net.Error); ok && ne.Timeout() {
							outcome = "stuck"
						}
					} else {
						got, err := io.ReadAll(res.Body)
						res.Body.Close()
						switch {
						case err == nil && res.StatusCode == 200 && string(got) != body && string(got) != body[:4]:
							outcome = "wrong"
						case err != nil && !strings.HasPrefix(body, string(got)):
							outcome = "wrong"
						case err != nil:
							outcome = "cut"
						default:
							outcome = fmt.Sprint(res.StatusCode)
						}
					}
					mu.Lock()
					seen[outcome]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if seen["wrong"] > 0 || seen["stuck"] > 0 || seen["200"] == 0 {
			t.Errorf("%v", seen)
		}
		t.Log(seen)
	})
}

// TestEjection: a destination that refuses is left out after a few failures, the
// other takes all, and it comes back when it works.
func TestEjection(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		bad := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("bad"))))
		good := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("good"))))
		bad.Refuse()
		text := to("http://"+bad.Address()) + "eject = { failures = 3, for = \"100ms\", most = \"100ms\" }\n[[locations.destinations]]\nuri = \"http://" + good.Address() + "\"\n"
		r := run(t, engine, text)
		l := dial(t, r.addr)
		for range 50 {
			if body := l.status("/", 200); body != "good" {
				t.Fatal(body)
			}
		}
		if n := r.count("upstream_connect_errors_total"); n < 3 {
			t.Errorf("%d connects failed", n)
		}
		if err := bad.Accept(); err != nil {
			t.Fatal(err)
		}
		until(t, "it comes back", func() bool { return l.status("/", 200) == "bad" })
	})
}

// TestLastDestinationIsAsked: a destination without an alternative is never refused because it was
// ejected: it is asked each time, and answers with the first request after its return. A fallback
// is an alternative.
func TestLastDestinationIsAsked(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("back"))))
		s.Refuse()
		const hour = "eject = { failures = 2, for = \"1h\", most = \"1h\" }\n"
		r := run(t, engine, to("http://"+s.Address(), "retry = { attempts = 0 }")+hour)
		for range 5 {
			dial(t, r.addr).status("/", 502)
		}
		if n := r.count("no_destination_total"); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
		if err := s.Accept(); err != nil {
			t.Fatal(err)
		}
		if body := dial(t, r.addr).status("/", 200); body != "back" {
			t.Error(body)
		}
	})
	bad := faultyServer(t, faultserver.Every())
	bad.Refuse()
	good := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("instead"))))
	r := run(t, "auto", to("http://"+bad.Address(), "fallback = { uri = \"http://"+good.Address()+"\" }"))
	l := dial(t, r.addr)
	for range 10 {
		if body := l.status("/", 200); body != "instead" {
			t.Fatal(body)
		}
	}
}

// TestOnePageDoesNotEject: a page that kills its connections, however often it is requested, is one
// failure; pages that all do are the destination's fault.
func TestOnePageDoesNotEject(t *testing.T) {
	o := serveHTTP(t, func(_ http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/bad") {
			panic(http.ErrAbortHandler)
		}
	})
	other := okServer(t)
	r := run(t, "auto", to("http://"+o.addr, "retry = { attempts = 0 }")+
		"eject = { failures = 5, for = \"1h\", most = \"1h\" }\n[[locations.destinations]]\nuri = \"http://"+other.Address()+"\"\n")
	ejections := func() (n uint64) {
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range s.Upstreams {
			n += u.Ejections
		}
		return n
	}
	for i := range 40 {
		dial(t, r.addr).get(fmt.Sprint("/bad?", i))
	}
	if n := ejections(); n != 0 {
		t.Errorf("%d ejections for one page", n)
	}
	for i := range 40 {
		dial(t, r.addr).get(fmt.Sprint("/bad/", i))
	}
	if n := ejections(); n != 1 {
		t.Errorf("%d ejections for a destination that answers nothing", n)
	}
}

// TestHalfIsEjected: with three of four destinations ejected, all are asked again: one could not
// carry the load of four.
func TestHalfIsEjected(t *testing.T) {
	text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\nretry = { attempts = 0 }\n"
	good := okServer(t)
	var bad []*faultserver.Server
	for range 3 {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("hi"))))
		s.Refuse()
		bad = append(bad, s)
		text += "[[locations.destinations]]\nuri = \"http://" + s.Address() + "\"\neject = { failures = 1, for = \"1h\", most = \"1h\" }\n"
	}
	r := run(t, "auto", text+"[[locations.destinations]]\nuri = \"http://"+good.Address()+"\"\n")
	statuses := map[int]int{}
	for range 40 {
		res, _ := dial(t, r.addr).get("/")
		statuses[res.StatusCode]++
	}
	if statuses[502] < 3 || statuses[200] < 10 || statuses[502]+statuses[200] != 40 {
		t.Errorf("statuses %v", statuses)
	}
	for _, s := range bad {
		if err := s.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	before := bad[0].Requests() + bad[1].Requests() + bad[2].Requests()
	for range 40 {
		dial(t, r.addr).status("/", 200)
	}
	if n := bad[0].Requests() + bad[1].Requests() + bad[2].Requests() - before; n < 20 {
		t.Errorf("%d of 40 requests reached the three that are back", n)
	}
}

// TestQueue: requests beyond the limit of connections wait their turn, and those
// beyond the queue are told to come later.
func TestQueue(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("hi"))))
		thaw := s.Freeze()
		r := run(t, engine, to("http://"+s.Address())+"max_connections = 1\nqueue = 2\n")
		var links []*link
		for range 4 {
			l := dial(t, r.addr)
			l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			links = append(links, l)
			n := uint64(len(links))
			until(t, "it is there", func() bool { return r.count("requests_total") == n })
		}
		if res, _ := links[3].answer("GET"); res.StatusCode != 503 {
			t.Errorf("the fourth: %s", res.Status)
		}
		thaw()
		for i, l := range links[:3] {
			if res, body := l.answer("GET"); res.StatusCode != 200 || body != "hi" {
				t.Errorf("%d: %s", i, res.Status)
			}
		}
		if s.Accepted() != 1 {
			t.Errorf("%d connections", s.Accepted())
		}
	})
}

// TestUnixAndNames: a destination may be a socket, or a name.
func TestUnixAndNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := faultserver.Listen("unix", path, faultserver.Every(faultserver.Answer(faultserver.OK("unix"))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r := run(t, "auto", to("unix:"+path))
	if body := dial(t, r.addr).status("/", 200); body != "unix" {
		t.Error(body)
	}
	n := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("named"))))
	_, port, _ := net.SplitHostPort(n.Address())
	r2 := run(t, "auto", to("http://localhost:"+port, "retry = { attempts = 0 }")+"idle_connections = 1\n")
	for range 8 { // with a connection each; the name may have an address where nobody listens
		l := dial(t, r2.addr)
		l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		if res, body := l.answer("POST"); body != "named" {
			t.Error(res.Status, body)
		}
	}
}

// TestAddresses: an address of a name where nobody listens costs no request, and is
// left out for a while.
func TestAddresses(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		good := faultyServer(t, faultserver.Every(faultserver.Request(1), faultserver.Write(faultserver.OK("good")), faultserver.Close()))
		bad := faultyServer(t, faultserver.Every())
		bad.Refuse()
		r := run(t, engine, to("http://"+good.Address(), "retry = { attempts = 0 }"))
		list := []ring.Sockaddr{ring.TCPAddr(netip.MustParseAddrPort(bad.Address())), ring.TCPAddr(netip.MustParseAddrPort(good.Address()))}
		for _, u := range r.site.upstreams {
			u.naming.addresses.Store(&list)
		}
		l := dial(t, r.addr)
		for range 20 {
			until(t, "the connection before is gone", func() bool {
				s, err := r.Snapshot()
				return err == nil && (len(s.Upstreams) == 0 || s.Upstreams[0].Open == 0)
			})
			l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
			if res, body := l.answer("POST"); body != "good" {
				t.Fatal(res.Status)
			}
		}
		if n := r.count("upstream_connect_errors_total"); n < 1 || n > 3 {
			t.Errorf("%d connects failed", n)
		}
	})
}

// TestDrain: at the end what was begun is answered, idle connections are closed,
// and new ones refused.
func TestDrain(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("late"))))
		r := run(t, engine, to("http://"+s.Address()))
		idle := dial(t, r.addr)
		idle.status("/", 200)
		thaw := s.Freeze()
		busy := dial(t, r.addr)
		busy.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		until(t, "the request is under way", func() bool { return s.Requests() == 2 })
		r.cancel()
		idle.over()
		if c, err := net.DialTimeout("tcp", r.addr, time.Second); err == nil {
			c.Close()
			t.Error("still accepts")
		}
		thaw()
		if res, body := busy.answer("GET"); body != "late" || !res.Close {
			t.Errorf("%q, close %v", body, res.Close)
		}
		busy.over()
		r.stop()
	})
}

// TestReload: requests under way, tunnels and connections outlive it; the new
// routes hold for the next request; a bad file changes nothing.
func TestReload(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		a := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("a"))))
		b := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("b"))))
		r := run(t, engine, to("http://"+a.Address()))
		l, waiting := dial(t, r.addr), dial(t, r.addr)
		l.status("/", 200)
		thaw := a.Freeze()
		waiting.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		until(t, "the request is under way", func() bool { return a.Requests() == 2 })
		text := to("http://"+b.Address()) + "[[locations]]\npaths = [\"/a\"]\n[[locations.destinations]]\nuri = \"http://" + a.Address() + "\"\n"
		if err := r.Reload(parse(t, text)); err != nil {
			t.Fatal(err)
		}
		if body := l.status("/", 200); body != "b" {
			t.Error(body)
		}
		thaw()
		if _, body := waiting.answer("GET"); body != "a" {
			t.Error(body)
		}
		before := a.Accepted()
		if body := l.status("/a", 200); body != "a" {
			t.Error(body)
		}
		if a.Accepted() != before {
			t.Error("the connection to a destination that stayed was not kept")
		}
		if err := r.Reload(parse(t, strings.Replace(text, "127.0.0.1:0", "127.0.0.1:1", 1))); err == nil ||
			!strings.Contains(err.Error(), "listen") {
			t.Errorf("%v", err)
		}
		if body := l.status("/", 200); body != "b" {
			t.Error(body)
		}
		if err := r.Reload(parse(t, to("http://"+b.Address()))); err != nil {
			t.Fatal(err)
		}
		until(t, "connections to what is gone are closed", func() bool { return a.Live() == 0 })
	})
}

// TestHeadsDoNotMix: a request that waited goes out as it came, whatever heads,
// whole ones or parts, were read meanwhile.
func TestHeadsDoNotMix(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		gate := make(chan struct{})
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			<-gate
			fmt.Fprintf(w, "%s %s %s %d", q.URL.Path, q.Header.Get("X-A"), q.Header.Get("X-B"), len(q.Header))
		})
		r := run(t, engine, to("http://"+o.addr)+"max_connections = 1\n")
		links := make([]*link, 3)
		for i := range links {
			links[i] = dial(t, r.addr)
			links[i].say(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\nX-A: %s\r\nX-B: b%d\r\n\r\n", i, strings.Repeat("a", 1+i), i))
			until(t, "it is there", func() bool { return r.count("requests_total") == uint64(i+1) })
		}
		for _, part := range []string{"GET / HTTP/1.1\r\nX-Other: y\r\nX-B: wrong\r\nX-C", "PO", "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n"} {
			l := dial(t, r.addr)
			l.say(part)
			until(t, "it was read", func() bool {
				n := 0
				err := ask(r.Proxy, func(lp *loop) int {
					for c := range lp.clients {
						if c.state == atHead && c.in != nil || c.state >= atEnd {
							return 1
						}
					}
					return int(lp.counts.badRequests)
				}, func(k int) { n += k })
				return err == nil && n > 0
			})
		}
		close(gate)
		for i, l := range links {
			want := fmt.Sprintf("/%d %s b%d 5", i, strings.Repeat("a", 1+i), i)
			if _, body := l.answer("GET"); body != want {
				t.Errorf("%q, want %q", body, want)
			}
		}
	})
}

// TestHalfCloseWithBody: a client that ends its direction behind a body is answered
// even while nobody has taken the body, and one that ends it within a body gets the
// answers to what it asked before, and then the end at once.
func TestHalfCloseWithBody(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		// It answers a whole body alone: an answer to half of one may come before the end does.
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "ok")
		}))
		t.Cleanup(s.Close)
		r := run(t, engine, to(s.URL))
		for text, answers := range map[string]int{
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello":                                                        1,
			strings.Repeat("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 3):                                     3,
			"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel":           1,
			strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 2) + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel": 2,
		} {
			l := dial(t, r.addr)
			l.say(text)
			if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for range answers {
				if res, body := l.answer("GET"); res.StatusCode != 200 || body != "ok" {
					t.Errorf("%.100q: %d %q", text, res.StatusCode, body)
				}
			}
			l.over()
		}
	})
}

// TestHalfClose: a client that has said all it wants, and ended its direction, gets
// its answers.
func TestHalfClose(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK(string(pattern(50_000))))))
		r := run(t, engine, to("http://"+s.Address()))
		for _, n := range []int{1, 3} {
			l := dial(t, r.addr)
			l.say(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", n))
			if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for range n {
				if _, body := l.answer("GET"); body != string(pattern(50_000)) {
					t.Error("wrong bytes")
				}
			}
			l.over()
		}
		half := dial(t, r.addr)
		half.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel")
		if err := half.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(half.r); err != nil && !strings.Contains(err.Error(), "reset") || strings.Contains(string(b), "200 OK") {
			t.Errorf("%q %v", b, err)
		}
	})
}

// TestEarlyResponse: a destination that answers before it has the whole request is
// heard, and neither connection is used again: nobody knows where the next request
// would begin.
func TestEarlyResponse(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		rest := pattern(10_000_000)
		for name, script := range map[string]faultserver.Script{
			"and reads on": {faultserver.Head(), faultserver.Write(faultserver.Response("413 Too Large", "", "no")), faultserver.Body(),
				faultserver.Answer(faultserver.OK("reused"))},
			"and is silent": {faultserver.SmallBuffers(), faultserver.Head(), faultserver.Write(faultserver.Response("413 Too Large", "", "no")),
				faultserver.Deaf()},
			"and closes": {faultserver.Head(), faultserver.Write(faultserver.Response("413 Too Large", "", "no")), faultserver.Close()},
		} {
			s := faultyServer(t, faultserver.InTurn(script, faultserver.Script{faultserver.Answer(faultserver.OK("fresh"))}))
			r := run(t, engine, to("http://"+s.Address()))
			l := dial(t, r.addr)
			l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
			res, err := http.ReadResponse(l.r, nil)
			if err != nil || res.StatusCode != 413 || !res.Close {
				t.Fatalf("%s: %v %v", name, res, err)
			}
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = l.Write(rest) // it may be cut off
			}()
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != "no" {
				t.Errorf("%s: %q %v", name, body, err)
			}
			if body := dial(t, r.addr).status("/", 200); body != "fresh" {
				t.Errorf("%s: %s", name, body)
			}
			l.Close()
			<-sent
		}
	})
}

// TestSlowBody: a request whose body stands still is ended by the time for it.
func TestSlowBody(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		r := run(t, engine, to("http://"+s.Address(), `timeouts = { idle = "200ms" }`))
		l := dial(t, r.addr)
		l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		if res, _ := l.answer("POST"); res.StatusCode != 408 || !res.Close {
			t.Error(res.Status)
		}
		l.over()
	})
}

// TestClientLeaves: a request is cancelled at its destination once its client has closed the
// connection, unless the client had said that it ends with the response, or the response begins soon.
func TestClientLeaves(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		for name, protocol := range map[string]string{"1.1": "", "2": "http = \"2\"\n"} {
			cancelled, goOn := make(chan string, 9), make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				if q.URL.Path == "/begun" {
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-q.Context().Done():
					cancelled <- q.URL.Path
				case <-goOn:
					_, _ = io.WriteString(w, "done")
				}
			}))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			t.Cleanup(s.Close)
			r := run(t, engine, to(s.URL)+protocol)
			gone := dial(t, r.addr)
			gone.say("POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
			gone.Close()
			stays := map[string]*link{}
			for path, field := range map[string]string{"/close": "Connection: close\r\n", "/begun": ""} {
				l := dial(t, r.addr)
				l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + field + "\r\n")
				if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				stays[path] = l
			}
			if path := <-cancelled; path != "/gone" {
				t.Errorf("%s: %s was cancelled first", name, path)
			}
			time.Sleep(2 * leftNs)
			close(goOn)
			for path, l := range stays {
				if res, body := l.answer("GET"); res.StatusCode != 200 || body != "done" {
					t.Errorf("%s: %s: %s %q", name, path, res.Status, body)
				}
			}
			if len(cancelled) > 0 {
				t.Errorf("%s: %s was cancelled too", name, <-cancelled)
			}
		}
	})
}

// TestEndAnswersWhatCame: whatever came before the end is answered: on idle and new connections, in the
// listener's queue, in a pipeline, and behind a response whose head had not said that it is the last.
func TestEndAnswersWhatCame(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		release := make(chan struct{})
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			switch q.URL.Path {
			case "/soon":
				return
			case "/begun":
				w.Header().Set("Content-Length", "2")
				_, _ = io.WriteString(w, "a")
				_ = http.NewResponseController(w).Flush()
			}
			<-release
			_, _ = io.WriteString(w, "b")
		})
		r := run(t, engine, to("http://"+o.addr))
		const one = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		idle, pipelined, begun, fresh := dial(t, r.addr), dial(t, r.addr), dial(t, r.addr), dial(t, r.addr)
		idle.status("/soon", 200)
		pipelined.status("/soon", 200)
		begun.say("GET /begun HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(begun.r, nil)
		if err != nil || res.Close {
			t.Fatalf("%v %v", res, err)
		}
		begun.say(one)
		until(t, "all are accepted", func() bool {
			s, err := r.Snapshot()
			return err == nil && s.Clients == 4
		})
		queued := make(chan net.Conn, 1)
		r.tell(func(l *loop) { // nothing is accepted or received until it returns
			for c, text := range map[*link]string{idle: one, fresh: one, pipelined: one + one} {
				_, _ = io.WriteString(c, text)
			}
			c, err := net.Dial("tcp", r.addr)
			if err == nil {
				_, err = io.WriteString(c, one)
			}
			if err != nil {
				t.Error(err)
			}
			queued <- c
			l.stop(patience)
		})
		waits := <-queued
		defer waits.Close()
		r.cancel()
		until(t, "it ends", r.Proxy.ended.Load)
		close(release)
		if body, err := io.ReadAll(res.Body); string(body) != "ab" || err != nil {
			t.Errorf("begun: %q %v", body, err)
		}
		for name, c := range map[string]*link{"idle": idle, "fresh": fresh, "queued": {waits, bufio.NewReader(waits), t}, "begun": begun} {
			if res, body := c.answer("GET"); body != "b" || !res.Close {
				t.Errorf("%s: %q, close %v", name, body, res.Close)
			}
			c.over()
		}
		for i := range 2 {
			if res, body := pipelined.answer("GET"); body != "b" || res.Close != (i == 1) {
				t.Errorf("response %d of the pipeline: %q, close %v", i, body, res.Close)
			}
		}
		pipelined.over()
		r.stop()
	})
}
