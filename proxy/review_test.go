package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/proxy/listen"
)

// TestPassing: what has no body, part of one, or comes in steps, one behind the other
// in one write, over one connection on each side.
func TestPassing(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		answers := []string{
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", // to HEAD: no body, and nothing to be spliced
			"HTTP/1.1 204 No Content\r\n\r\n",
			"HTTP/1.1 304 Not Modified\r\nContent-Length: 100000000\r\nETag: \"x\"\r\n\r\n",
			"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-3/9\r\nContent-Length: 3\r\n\r\n123",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nend\r\n0\r\nX: y\r\n\r\n",
		}
		var script faultserver.Script
		for _, a := range answers {
			script = append(script, faultserver.Request(1), faultserver.Write(a))
		}
		s := faultyServer(t, faultserver.Every(append(script, faultserver.Stall())...))
		r := run(t, engine, to("http://"+s.Address()))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\nDELETE / HTTP/1.1\r\nHost: a\r\n\r\n" +
			"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, _ := l.answer("GET"); res.StatusCode != 103 || res.Header.Get("Link") != "</a>" {
			t.Errorf("%s %v", res.Status, res.Header)
		}
		for i, want := range []string{"200 2 ok", "200 100000000 ", "204 0 ", "304 0 ", "206 3 123", "200 -1 end"} {
			method := []string{"GET", "HEAD", "DELETE", "GET", "GET", "GET"}[i]
			res, body := l.answer(method)
			if got := fmt.Sprint(res.StatusCode, " ", res.ContentLength, " ", body); got != want || res.Close || len(res.Trailer) > 0 &&
				res.Trailer.Get("X") != "" {
				t.Errorf("%d: %q, want %q; %v", i, got, want, res.Header)
			}
			if i == 4 && res.Header.Get("Content-Range") != "bytes 1-3/9" {
				t.Error(res.Header)
			}
		}
		if n := s.Accepted(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestExpectationRefused: a destination that does not want the body says so, and the
// client, who has sent none, is told; nothing is taken for the next request.
func TestExpectationRefused(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := faultyServer(t, faultserver.InTurn(faultserver.Script{faultserver.Head(),
			faultserver.Write(faultserver.Response("417 Expectation Failed", "", "no"))},
			faultserver.Script{faultserver.Answer(faultserver.OK("fresh"))}))
		r := run(t, engine, to("http://"+s.Address()))
		l := dial(t, r.addr)
		l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
		if res, body := l.answer("POST"); res.StatusCode != 417 || body != "no" || !res.Close {
			t.Errorf("%s %q", res.Status, body)
		}
		l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n") // of the body, as far as anybody can tell
		l.over()
		if body := dial(t, r.addr).status("/", 200); body != "fresh" {
			t.Error(body)
		}
	})
}

// TestLongHeads: heads at the limit pass, longer ones do not, in one piece or in many,
// of a client as of a destination.
func TestLongHeads(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		const limit = 16 << 10
		line := func(n int) string { return "X-Long: " + strings.Repeat("x", n) + "\r\n" }
		size := len(line(0))
		s := faultyServer(t, faultserver.Every(faultserver.Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+line(60<<10)+"\r\n")))
		huge := faultyServer(t, faultserver.Every(faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\n"+line(70<<10)+"\r\n")))
		r := run(t, engine, to("http://"+s.Address())+"[[locations]]\npaths = [\"/huge\"]\nretry = { attempts = 0 }\n[[locations.destinations]]\nuri = \"http://"+huge.Address()+"\"\n")
		begin := "GET / HTTP/1.1\r\nHost: a\r\n"
		fits := limit - len(begin) - size - 2
		for _, k := range []struct{ n, piece, want int }{{fits, 1 << 20, 200}, {fits, 1000, 200}, {fits + 1, 1 << 20, 431}, {fits + 1, 1000, 431},
			{1 << 20, 1 << 20, 431}} {
			l := dial(t, r.addr)
			go func() {
				for text := begin + line(k.n) + "\r\n"; text != ""; text = text[min(k.piece, len(text)):] {
					if _, err := l.Write([]byte(text[:min(k.piece, len(text))])); err != nil {
						return // it was refused before the end
					}
					if k.piece < 1<<20 {
						time.Sleep(time.Millisecond)
					}
				}
			}()
			if res, _ := l.answer("GET"); res.StatusCode != k.want || k.want == 200 && len(res.Header.Get("X-Long")) != 60<<10 {
				t.Errorf("%+v: %s", k, res.Status)
			}
		}
		dial(t, r.addr).status("/huge", 502)
	})
}

// TestIPv6: on both sides, and what is said of the client; a host without IPv6 has
// the addresses of IPv4 alone.
func TestIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		fds, a, err := listen.Listen(":0", 1)
		if err != nil || !a.Addr().Is4() {
			t.Fatalf("%v %v", a, err)
		}
		closeNow(fds[0])
		return
	}
	keepsNothing(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, q.Host, " ", q.Header.Get("X-Forwarded-For"))
	}))
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, strings.Replace(to(s.URL, `hosts = ["[::1]"]`), "127.0.0.1:0", "[::1]:0", 1))
		l := dial(t, r.addr)
		l.say("GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n")
		if _, body := l.answer("GET"); body != "[::1] ::1" {
			t.Error(body)
		}
	})
}

// TestLeniency: the forms of a valid request that few clients send.
func TestLeniency(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(w, q.Body) })
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, to("http://"+o.addr))
		for target, hosts := range map[string][]string{
			"http://a.example:80/":  {"a.example", "a.example:80", "A.example:"},
			"http://a.example/":     {"a.example:80", "a.example"},
			"HTTPS://a.example/":    {"a.example:443"},
			"http://[::1]:80/":      {"[::1]"},
			"http://a.example:081/": {"a.example:081"},
		} {
			for _, host := range hosts {
				l := dial(t, r.addr)
				l.say("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
				if res, body := l.answer("GET"); res.StatusCode != 200 {
					t.Errorf("%s and %s: %d %s", target, host, res.StatusCode, body)
				}
			}
		}
		for target, host := range map[string]string{
			"http://a.example:443/": "a.example", "https://a.example:80/": "a.example", "http://a.example:80/": "b.example",
			"http://a.example:8080/": "a.example", "http://[::80]/": "[:",
		} {
			l := dial(t, r.addr)
			l.say("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if res, _ := l.answer("GET"); res.StatusCode != 400 {
				t.Errorf("%s and %s: %d", target, host, res.StatusCode)
			}
		}
		// RFC 9112, section 2.2: empty lines before a request are ignored.
		l := dial(t, r.addr)
		const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
		for _, text := range []string{"\r\n" + post, post + "\r\n", post + "\r\n\r\n", "\r\n\r\n" + post + "\r"} {
			l.say(text)
			if res, body := l.answer("POST"); res.StatusCode != 200 || body != "body" {
				t.Errorf("%q: %d %s", text, res.StatusCode, body)
			}
		}
		l.say("\n" + post)
		if res, body := l.answer("POST"); res.StatusCode != 200 || body != "body" {
			t.Errorf("a line end in two parts: %d %s", res.StatusCode, body)
		}
		for _, text := range []string{"\n" + post, "\r\r\n" + post, " \r\n" + post} {
			l := dial(t, r.addr)
			l.say(text)
			if res, _ := l.answer("POST"); res.StatusCode != 400 {
				t.Errorf("%q: %d", text, res.StatusCode)
			}
		}
	})
}

// TestFieldsForOneHop: what concerns the connection to a proxy, or tells a proxy what to do, ends here.
func TestFieldsForOneHop(t *testing.T) {
	came := make(chan http.Header, 1)
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		came <- q.Header
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("Proxy-Authentication-Info", "x")
		w.Header().Set("X-Accel-Redirect", "/x")
	})
	r := run(t, "auto", to("http://"+o.addr))
	fields := []string{"Proxy-Authorization", "Proxy_Authorization", "Proxy-Authenticate", "X-Accel-Redirect", "X-Accel-Mapping", "X_Accel_Redirect",
		"X-Sendfile-Type", "X-Sendfile"}
	res, _ := dial(t, r.addr).ask("GET", "/", strings.Join(fields, ": x\r\n")+": x\r\nConnection: Proxy-Authorization\r\nX-Kept: x\r\n")
	got := <-came
	for _, f := range fields {
		if got.Get(f) != "" {
			t.Errorf("%s reaches the destination", f)
		}
	}
	if got.Get("X-Kept") == "" || res.Header.Get("X-Accel-Redirect") == "" || res.Header.Get("Proxy-Authenticate")+res.Header.Get("Proxy-Authentication-Info") != "" {
		t.Errorf("%v, %v", got, res.Header)
	}
}
