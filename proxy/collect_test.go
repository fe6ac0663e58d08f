package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestBufferRequests: a destination gets the length of a body that came in chunks.
func TestBufferRequests(t *testing.T) {
	needs.Time(t)
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %d %v %s", r.ContentLength, r.TransferEncoding, len(body), err, r.Header.Get("Expect"))
	})
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, to("http://"+o.addr, `body_bytes = 200000`)+"buffer_requests = true\n")
		c := dial(t, r.addr)
		head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
		// In one piece, with the next request behind it.
		c.say(head + "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: x\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		for _, want := range []string{"5 [] 5 <nil> ", "0 [] 0 <nil> "} {
			if _, body := c.answer("POST"); body != want {
				t.Errorf("%q, want %q", body, want)
			}
		}
		// In many pieces, larger than what may wait.
		c.say(head + "\r\n")
		for range 150 {
			c.say("3e8\r\n" + strings.Repeat("x", 1000) + "\r\n")
		}
		c.say("0\r\n\r\n")
		if _, body := c.answer("POST"); body != "150000 [] 150000 <nil> " {
			t.Errorf("%q", body)
		}
		// An empty one, and one that is waited for.
		c.say(head + "Expect: 100-continue\r\n\r\n")
		if res, err := http.ReadResponse(c.r, nil); err != nil || res.StatusCode != 100 {
			t.Fatalf("%v %v", res, err)
		}
		c.say("0\r\n\r\n")
		if _, body := c.answer("POST"); body != "0 [] 0 <nil> " {
			t.Errorf("%q", body)
		}
		// A body with its length is not held back.
		c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
		if _, body := c.answer("POST"); body != "2 [] 2 <nil> " {
			t.Errorf("%q", body)
		}
		for text, want := range map[string]int{"3\r\nabcd\r\n": 400, strings.Repeat("3e8\r\n"+strings.Repeat("x", 1000)+"\r\n", 201): 413} {
			c := dial(t, r.addr)
			c.say(head + "\r\n" + text)
			if res, _ := c.answer("POST"); res.StatusCode != want {
				t.Errorf("%.10q: %s, want %d", text, res.Status, want)
			}
		}
		// Whoever leaves in between leaves nothing behind.
		gone := dial(t, r.addr)
		gone.say(head + "\r\n3\r\nab")
		gone.Close()
		c.status("/", 200)
	})
	// The idle time is between two pieces, not of all of them.
	patient := run(t, "epoll", strings.Replace(to("http://"+o.addr), "drain = \"20s\"", "drain = \"20s\"\nidle = \"1s\"", 1)+"buffer_requests = true\n")
	slow := dial(t, patient.addr)
	slow.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range 12 {
		time.Sleep(100 * time.Millisecond)
		slow.say("1\r\nx\r\n")
	}
	slow.say("0\r\n\r\n")
	if _, body := slow.answer("POST"); body != "12 [] 12 <nil> " {
		t.Errorf("slowly: %q", body)
	}
	r := run(t, "epoll", strings.Replace(to("http://"+o.addr), "drain = \"20s\"", "drain = \"20s\"\nidle = \"50ms\"", 1)+"buffer_requests = true\n")
	c := dial(t, r.addr)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n")
	if res, _ := c.answer("POST"); res.StatusCode != 408 {
		t.Errorf("slow: %s", res.Status)
	}
}
