package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestUpgradeByAnyMethod: docker and kubectl upgrade by POST, with a body or without one. What the
// client sends after it goes to the tunnel.
func TestUpgradeByAnyMethod(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body) // the length is compared below
			if q.Header.Get("Upgrade") == "" {
				w.WriteHeader(400)
				return
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			fmt.Fprintf(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Body: %s %d\r\n\r\n", q.Header.Get("Upgrade"), q.Method, len(body))
			rw.Flush()
			_, _ = io.Copy(conn, rw) // until the client ends
		})
		r := run(t, engine, to("http://"+o.addr))
		big := strings.Repeat("b", 300_000)
		for _, c := range []struct {
			head, body, early, want string
		}{
			{"POST /exec HTTP/1.1\r\nUpgrade: tcp\r\nContent-Length: 13\r\n", `{"Tty":false}`, "", "POST 13"},
			{"POST /exec HTTP/1.1\r\nUpgrade: SPDY/3.1\r\n", "", "", "POST 0"},
			{"POST /exec HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n", "", "early", "POST 0"},
			{"POST /exec HTTP/1.1\r\nUpgrade: tcp\r\nContent-Length: 13\r\n", `{"Tty":false}`, "early", "POST 13"},
			{"POST /exec HTTP/1.1\r\nUpgrade: tcp\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", "early", "POST 5"},
			{"PUT /big HTTP/1.1\r\nUpgrade: tcp\r\nContent-Length: 300000\r\n", big, "early", "PUT 300000"},
			{"GET / HTTP/1.1\r\nUpgrade: websocket\r\n", "", "", "GET 0"},
			{"OPTIONS / HTTP/1.1\r\nUpgrade: x\r\n", "", "", "OPTIONS 0"},
		} {
			for _, apart := range []bool{false, true} {
				l := dial(t, r.addr)
				head := c.head + "Host: a\r\nConnection: Upgrade\r\n\r\n"
				if apart {
					l.say(head)
					l.say(c.body)
					l.say(c.early)
				} else {
					l.say(head + c.body + c.early)
				}
				res, err := http.ReadResponse(l.r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != 101 || res.Header.Get("X-Body") != c.want {
					t.Errorf("%s: %s %v", c.head, res.Status, res.Header)
					continue
				}
				l.say("ping")
				got := make([]byte, len(c.early+"ping"))
				if _, err := io.ReadFull(l.r, got); err != nil || string(got) != c.early+"ping" {
					t.Errorf("%s: %q %v", c.head, got, err)
				}
				l.Close()
			}
		}
	})
}

// TestUpgradeWithinBody: a destination that switches before it has the request's body is not
// believed.
func TestUpgradeWithinBody(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		rw.Flush()
		_, _ = io.Copy(io.Discard, rw)
	})
	r := run(t, "", to("http://"+o.addr))
	l := dial(t, r.addr)
	l.say("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 10\r\n\r\nhello")
	if res, _ := l.answer("POST"); res.StatusCode != 502 {
		t.Error(res.Status)
	}
}
