package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

func okServer(t *testing.T) *faultserver.Server {
	return faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("ok"))))
}

// TestTimeouts: a client that does not finish its head, or is idle, is not waited
// for.
func TestTimeouts(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		text := strings.Replace(to("http://"+s.Address()), "[timeouts]", "[timeouts]\nheader = \"200ms\"\nkeep_alive = \"200ms\"", 1)
		r := run(t, engine, text)
		slow := dial(t, r.addr)
		slow.say("GET / HTTP/1.1\r\nHo")
		if res, _ := slow.answer("GET"); res.StatusCode != 408 || !res.Close {
			t.Error(res.Status)
		}
		slow.over()
		idle := dial(t, r.addr)
		idle.status("/", 200)
		idle.over()
		silent := dial(t, r.addr)
		silent.over()
		drip := dial(t, r.addr) // each byte comes in time, the head does not
		for i := 0; ; i++ {
			if _, err := drip.Write([]byte("GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20))[i : i+1]); err != nil ||
				r.count("header_timeouts_total") >= 2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestRate(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address(), `rate = { requests = 1, per = "1h", burst = 2, key = "header:X-Key" }`))
	l := dial(t, r.addr)
	ask := func(key string) *http.Response {
		l.say("GET / HTTP/1.1\r\nHost: a\r\nX-Key: " + key + "\r\n\r\n")
		res, _ := l.answer("GET")
		return res
	}
	for i := range 3 {
		if res := ask("a"); res.StatusCode != 200 {
			t.Errorf("%d: %s", i, res.Status)
		}
	}
	if res := ask("a"); res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	if res := ask("b"); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// TestLimiter: over any time, no more than the burst and what the time allows.
func TestLimiter(t *testing.T) {
	m := newLimiter(10, time.Second, 5)
	passed := 0
	for now := int64(0); now < 10e9; now += 1e6 {
		if m.take(7, now) == 0 {
			passed++
		}
	}
	if passed != 105 {
		t.Errorf("%d passed in 10 s, want 6 at once and then 10 a second", passed)
	}
	if wait := m.take(7, 10e9-1e6); wait <= 0 || wait > 1e8 {
		t.Errorf("wait %d", wait)
	}
}

func TestConnectionsPerClient(t *testing.T) {
	needs.Time(t)
	together(t)
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address())+"[limits]\nconnections_per_client = 2\n")
	a, b := dial(t, r.addr), dial(t, r.addr)
	a.status("/", 200)
	b.status("/", 200)
	c := dial(t, r.addr)
	if res, _ := c.answer("GET"); res.StatusCode != 429 {
		t.Error(res.Status)
	}
	c.over()
	a.Close()
	until(t, "there is room again", func() bool {
		d, err := net.Dial("tcp", r.addr)
		if err != nil {
			return false
		}
		defer d.Close()
		fmt.Fprint(d, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(d), nil)
		return err == nil && res.StatusCode == 200
	})
}

func TestBodyLimit(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		r := run(t, engine, to("http://"+s.Address(), "body_bytes = 10"))
		for request, want := range map[string]int{
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789":                                      200,
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n0123456789a":                                     413,
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n": 413,
		} {
			l := dial(t, r.addr)
			l.say(request)
			if res, _ := l.answer("POST"); res.StatusCode != want {
				t.Errorf("%q: %s", request, res.Status)
			}
		}
	})
}

// TestTrust: behind a trusted proxy the client is whom that proxy names, and its
// X-Forwarded-* are kept; what came before is the client's own word.
func TestTrust(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s|%s", q.Header.Get("X-Forwarded-For"), q.Header.Get("X-Forwarded-Proto"), q.Header.Get("X-Forwarded-Host"),
			q.Header.Get("X-Real-IP"))
	})
	for _, k := range []struct{ trust, want string }{
		{"127.0.0.0/8", "6.6.6.6, 10.0.0.1, 127.0.0.1|https|b|6.6.6.6"},
		{"10.0.0.0/8", "127.0.0.1|http|a|"},
	} {
		r := run(t, "auto", fmt.Sprintf("trust = [%q]\n", k.trust)+to("http://"+o.addr))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, 10.0.0.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nx-real-ip: 6.6.6.6\r\n\r\n")
		if _, body := l.answer("GET"); body != k.want {
			t.Errorf("%s: %s", k.trust, body)
		}
	}
}

// TestPreface: both versions of the PROXY protocol, and a client that is not
// allowed to speak it.
func TestPreface(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.Header.Get("X-Forwarded-For")) })
	v2 := append([]byte{}, signature2...)
	v2 = append(v2, 0x21, 0x11)
	v2 = binary.BigEndian.AppendUint16(v2, 12+3)
	v2 = append(v2, 9, 8, 7, 6, 127, 0, 0, 1, 1, 2, 3, 4, 0xee, 0, 0)
	for preface, want := range map[string]string{
		"PROXY TCP4 1.2.3.4 127.0.0.1 1000 80\r\n": "1.2.3.4",
		"PROXY TCP6 2001:db8::1 ::1 1000 80\r\n":   "2001:db8::1",
		"PROXY UNKNOWN\r\n":                        "127.0.0.1",
		string(v2):                                 "9.8.7.6",
	} {
		r := run(t, "auto", "proxy_protocol = true\ntrust = [\"127.0.0.1\"]\n"+to("http://"+o.addr))
		l := dial(t, r.addr)
		for i := range preface { // in the smallest pieces
			l.say(preface[i : i+1])
		}
		if _, body := l.get("/"); body != want {
			t.Errorf("%q: %q", preface, body)
		}
		plain := dial(t, r.addr)
		plain.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		plain.over()
	}
	r := run(t, "auto", "proxy_protocol = true\n"+to("http://"+o.addr))
	l := dial(t, r.addr)
	l.say("PROXY TCP4 1.2.3.4 127.0.0.1 1000 80\r\n")
	l.over()
}

// TestPipelineOfLargeAnswers: a client that asks much and reads nothing is not
// answered for nothing.
func TestPipelineOfLargeAnswers(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		dir := siteDir(t)
		if err := os.WriteFile(filepath.Join(dir, "page"), pattern(16000), 0o644); err != nil {
			t.Fatal(err)
		}
		r := run(t, engine, to("files://"+dir))
		l := dial(t, r.addr)
		const n = 3000
		go func() { _, _ = l.Write([]byte(strings.Repeat("GET /page HTTP/1.1\r\nHost: a\r\n\r\n", n))) }()
		held := 0
		until(t, "the client's buffer is full", func() bool {
			err := ask(r.Proxy, func(lp *loop) int {
				for c := range lp.clients {
					return lp.ring.Unsent(c.conn.tag())
				}
				return 0
			}, func(n int) { held = max(held, n) })
			return err != nil || held > 0
		})
		if held > 4*maxAnswered {
			t.Errorf("%d bytes are held", held)
		}
		want := pattern(16000)
		for range n {
			if _, body := l.answer("GET"); body != string(want) {
				t.Fatal("wrong bytes")
			}
		}
	})
}

// TestMonkey: pieces of right and wrong messages from both sides, cut anywhere, and
// connections that end anywhere. The proxy goes on, and nothing is left.
func TestMonkey(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		random := rand.New(rand.NewPCG(1, 2))
		var requests, answers []string
		for _, c := range Cases(t) {
			if len(c.Request) < 5000 {
				requests = append(requests, c.Request)
			}
			if c.Response != "" && len(c.Response) < 5000 {
				answers = append(answers, c.Response)
			}
		}
		var mu sync.Mutex
		s := faultyServer(t, func(int) faultserver.Script {
			mu.Lock()
			defer mu.Unlock()
			script := faultserver.Script{}
			for range 1 + random.IntN(3) {
				a := answers[random.IntN(len(answers))]
				if random.IntN(2) == 0 {
					a = faultserver.OK("hello")
				}
				script = append(script, faultserver.Request(1), faultserver.Drip(a[:1+random.IntN(len(a))], 1+random.IntN(50)))
				if random.IntN(2) == 0 {
					script = append(script, faultserver.Write(a))
				}
			}
			if random.IntN(3) == 0 {
				script = append(script, faultserver.Reset())
			}
			return script
		})
		r := run(t, engine, to("http://"+s.Address(),
			`timeouts = { response = "200ms", idle = "200ms" }`)+"max_connections = 4\nqueue = 4\neject = { failures = -1 }\n")
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(3, uint64(worker)))
				for range 60 {
					c, err := net.Dial("tcp", r.addr)
					if err != nil {
						t.Error(err)
						return
					}
					text := ""
					for range 1 + random.IntN(3) {
						text += requests[random.IntN(len(requests))]
					}
					text = text[:1+random.IntN(len(text))]
					for len(text) > 0 {
						n := min(len(text), 1+random.IntN(200))
						if _, err := c.Write([]byte(text[:n])); err != nil {
							break
						}
						text = text[n:]
					}
					if random.IntN(2) == 0 {
						_ = c.(*net.TCPConn).CloseWrite()
						_ = c.SetReadDeadline(time.Now().Add(patience))
						_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
					}
					c.Close()
				}
			})
		}
		wg.Wait()
		until(t, "nothing is left", func() bool {
			n, err := r.Snapshot()
			return err == nil && n.Clients == 0 && n.Upstreams[0].Busy == 0 && n.Upstreams[0].Queued == 0
		})
	})
}

// TestTLSOnThePlainPort: it is answered at once, with a line's end among its bytes or
// without, one byte or all of them; after a request too.
func TestTLSOnThePlainPort(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		text := strings.Replace(to("http://"+s.Address()), "[timeouts]", "[timeouts]\nheader = \"1h\"", 1)
		r := run(t, engine, text)
		hello := "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x80", 0x9a)
		for i, bytes := range []string{hello[:1], hello, hello + "\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + hello} {
			l := dial(t, r.addr)
			l.say(bytes)
			if i == 3 {
				if res, _ := l.answer("GET"); res.StatusCode != 200 {
					t.Error(res.Status)
				}
			}
			if res, _ := l.answer("GET"); res.StatusCode != 400 || !res.Close {
				t.Errorf("%d: %s, close %v", i, res.Status, res.Close)
			}
			l.over()
		}
		if n := r.count("header_timeouts_total"); n != 0 {
			t.Errorf("%d waited for the time", n)
		}
	})
}

// TestRecovery: after all destinations were down there is no 503 once one answers a
// health check, long before it counts as well.
func TestRecovery(t *testing.T) {
	a, b := okServer(t), okServer(t)
	const health = "health = { path = \"/\", interval = \"20ms\", rise = 1000000, fall = 1 }\n"
	r := run(t, "auto", to("http://"+a.Address())+health+"[[locations.destinations]]\nuri = \"http://"+b.Address()+"\"\n"+health)
	state := func(of string) (s UpstreamStatus) {
		sn := r.snapshot()
		for _, u := range sn.Upstreams {
			if u.Address == "http://"+of {
				s = u
			}
		}
		return s
	}
	for _, s := range []*faultserver.Server{a, b} {
		s.Refuse()
		s.Kill()
	}
	until(t, "both are ill", func() bool { return state(a.Address()).State == "ill" && state(b.Address()).State == "ill" })
	dial(t, r.addr).status("/", 503)
	good := func() uint64 { s := state(b.Address()); return s.Checks - s.FailedChecks }
	before := good()
	if err := b.Accept(); err != nil {
		t.Fatal(err)
	}
	until(t, "a good check", func() bool { return good() > before })
	for range 20 {
		dial(t, r.addr).status("/", 200)
	}
	if s := state(b.Address()); s.State != "ill" {
		t.Errorf("it is %s: the test shows nothing", s.State)
	}
}

// TestEjectionEndsWithACheck: an ejection of an hour ends with the next good check.
func TestEjectionEndsWithACheck(t *testing.T) {
	var broken atomic.Bool
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	broken.Store(true)
	r := run(t, "auto", to("http://"+o.addr)+"eject = { failures = 1, for = \"1h\", most = \"1h\" }\nhealth = { path = \"/health\", interval = \"20ms\", fall = 1000000 }\n")
	dial(t, r.addr).status("/", 502)
	state := func() string {
		s := r.snapshot()
		return s.Upstreams[0].State
	}
	if s := state(); s != "ejected" {
		t.Errorf("it is %s", s)
	}
	broken.Store(false)
	until(t, "it is no longer ejected", func() bool { return state() == "ok" })
}

// TestTraceMethod: a request that would show its own fields is not passed on.
func TestTraceMethod(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address()))
	l := dial(t, r.addr)
	l.say("TRACE / HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n")
	if res, body := l.answer("TRACE"); res.StatusCode != 405 || strings.Contains(body, "secret") || s.Requests() != 0 {
		t.Errorf("%s %q, %d requests at the destination", res.Status, body, s.Requests())
	}
	l.status("/", 200)
}
