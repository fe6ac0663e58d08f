package proxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestLoopDetected: a destination that is the proxy itself is found out by the first
// request, over one location or two; a way through the proxy that ends is left alone,
// and others see no mark.
func TestLoopDetected(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprint(w, len(q.Header["Cdn-Loop"]))
		})
		r := run(t, engine, to("http://"+s.addr))
		dial(t, r.addr).status("/", 200)
		location := func(id, path, uri, more string) string {
			return fmt.Sprintf("[[locations]]\nid = %q\npaths = [%q]\nretry = { attempts = 0 }\n[[locations.destinations]]\nuri = %q\n%s", id, path,
				uri, more)
		}
		edit := func(from, to string) string {
			return fmt.Sprintf("[[locations.destinations.transformers]]\ntype = \"replacePath\"\noptions = { pattern = %q, value = %q }\n", from, to)
		}
		self := "http://" + r.addr
		text := to("http://" + s.addr)
		text = text[:strings.Index(text, "[[locations]]")]
		text += location("round", "/round", self, "id = \"me\"\n") + location("there", "/there", self, edit("/there", "/back")) +
			location("back", "/back", self, edit("/back", "/there")) + location("twice", "/twice", self, edit("/twice", "/plain")) +
			location("plain", "/plain", "http://"+s.addr, "")
		if err := r.Reload(parse(t, text)); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct{ path, location, destination string }{{"/round", "round", `"me"`}, {"/there", "there", "1"},
			{"/back", "back", "1"}, {"/round", "round", `"me"`}} {
			before := r.count("requests_total")
			body := dial(t, r.addr).status(c.path, 508)
			if !strings.Contains(body, fmt.Sprintf("location &quot;%s&quot;, destination %s", c.location,
				strings.ReplaceAll(c.destination, `"`, "&quot;"))) {
				t.Error(body)
			}
			if n := r.count("requests_total") - before; n > 3 {
				t.Errorf("%d requests became of one", n)
			}
			if n := r.count("loops_detected_total"); n != uint64(i+1) {
				t.Errorf("%d loops of %d counted", n, i+1)
			}
		}
		l := dial(t, r.addr)
		l.say("POST /round HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		if res, _ := l.answer("POST"); res.StatusCode != 508 {
			t.Error(res.Status)
		}
		if got := dial(t, r.addr).status("/twice", 200); got != "1" {
			t.Errorf("%s marks on a way that ends", got)
		}
		if got := dial(t, r.addr).status("/plain", 200); got != "0" {
			t.Errorf("%s marks on a way that cannot go round", got)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		said := 0
		for _, line := range r.lines {
			if strings.Contains(line, `location "round", destination "me": `+self+" leads back") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("said %d times: %q", said, r.lines)
		}
	})
}

// TestSilentBridgeEnds: a destination with TLS that keeps its connection open without a
// word does not outlast the drain.
func TestSilentBridgeEnds(t *testing.T) {
	keepsNothing(t)
	asked, free := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		asked <- struct{}{}
		<-free // without an answer, or a look at what comes
		c.Close()
	}))
	s.StartTLS()
	defer s.Close()
	defer close(free)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := parse(t, to(s.URL))
	c.Timeouts.Drain = 1
	p, err := New(c, Options{Engine: "epoll", Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil) }()
	l := dial(t, p.Addresses()[0].String())
	l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the proxy does not end")
	}
	if _, err := io.ReadAll(l.r); err != nil {
		t.Error(err)
	}
}
