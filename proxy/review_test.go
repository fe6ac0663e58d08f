package proxy

import (
	"fmt"
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
