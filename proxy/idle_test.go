package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// limited is a configuration with a limit of connections, and the default time of 75 s
// for idle clients.
func limited(uri string, connections int) string {
	return to(uri) + fmt.Sprintf("[limits]\nconnections = %d\n", connections)
}

// newcomer is how long a new client waits for its answer.
func newcomer(t *testing.T, r *running) time.Duration {
	t.Helper()
	began := time.Now()
	l := dial(t, r.addr)
	l.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if res, _ := l.answer("GET"); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	took := time.Since(began)
	l.over()
	return took
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// TestIdleClientsMakeRoom: with 600 idle clients at a limit of 500 everybody is
// answered at once, and those that go are the longest idle.
func TestIdleClientsMakeRoom(t *testing.T) {
	needs.Time(t)
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		r := run(t, engine, limited("http://"+s.Address(), 500))
		var alone, crowded []time.Duration
		for range 21 {
			alone = append(alone, newcomer(t, r))
		}
		var links []*link
		open := func(n int) {
			for range n {
				l := dial(t, r.addr)
				l.status("/", 200)
				links = append(links, l)
			}
		}
		open(500)
		for _, l := range links[:3] { // the three that came first are not the longest idle now
			l.status("/", 200)
		}
		time.Sleep(2 * LeastIdle)
		open(100)
		for range 21 {
			crowded = append(crowded, newcomer(t, r))
		}
		// Nobody waited for the 75 s of idle clients to be over.
		if most := slices.Max(crowded); most > 5*time.Second {
			t.Errorf("a new client was answered after %s", most)
		}
		t.Logf("a new client's answer took %s (median), with idle clients at the limit %s", median(alone), median(crowded))
		gone := int(r.count("idle_clients_evicted_total"))
		if gone < 100 || gone > 125 {
			t.Errorf("%d idle clients were closed for 121 others", gone)
		}
		for i, l := range links {
			if i >= 3 && i < 3+gone {
				l.over()
			} else {
				l.status("/", 200)
			}
		}
		if s, err := r.Snapshot(); err != nil || s.Clients > 500 {
			t.Errorf("%d clients at a limit of 500, %v", s.Clients, err)
		}
	})
}

// TestBusyClientsStay: a request under way is never dropped for a new client, nor the
// beginning of one; new clients wait in the kernel until there is room.
func TestBusyClientsStay(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		release := make(chan struct{})
		o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/slow" {
				<-release
			}
		})
		r := run(t, engine, limited("http://"+o.addr, 8))
		var busy, waiting []*link
		for range 6 {
			l := dial(t, r.addr)
			l.status("/", 200) // it was idle once
			l.say("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
			busy = append(busy, l)
		}
		half := dial(t, r.addr)
		half.say("GET /slow HTTP/1.1\r\n")
		body := dial(t, r.addr)
		body.say("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
		until(t, "all are in", func() bool { return r.count("requests_total") == 6+6+1 })
		for range 20 {
			l := dial(t, r.addr)
			l.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			waiting = append(waiting, l)
		}
		time.Sleep(5 * LeastIdle)
		if n := r.count("idle_clients_evicted_total"); n != 0 {
			t.Errorf("%d clients were closed", n)
		}
		close(release)
		half.say("Host: a\r\n\r\n")
		body.say("b")
		for _, l := range slices.Concat(busy, []*link{half, body}, waiting) {
			if res, _ := l.answer("GET"); res.StatusCode != 200 {
				t.Error(res.Status)
			}
		}
	})
}

// TestRequestOnItsWay: an idle client whose next request has arrived, and is not read
// yet, is not closed.
func TestRequestOnItsWay(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		r := run(t, engine, limited("http://"+s.Address(), 8))
		l := dial(t, r.addr)
		l.status("/", 200)
		evicted := func(before func()) (closed bool) {
			err := ask(r.Proxy, func(lp *loop) bool {
				time.Sleep(LeastIdle)
				lp.tell(time.Now())
				before()
				return lp.evict()
			}, func(yes bool) { closed = yes })
			if err != nil {
				t.Fatal(err)
			}
			return closed
		}
		if evicted(func() { l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }) {
			t.Error("it was closed")
		}
		if res, _ := l.answer("GET"); res.StatusCode != 200 {
			t.Error(res.Status)
		}
		if !evicted(func() {}) {
			t.Error("idle, it was not closed: the test shows nothing")
		}
		l.over()
	})
}

// TestSilentClientsMakeRoom: clients that never send a request go as well.
func TestSilentClientsMakeRoom(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		s := okServer(t)
		r := run(t, engine, limited("http://"+s.Address(), 50))
		for range 100 {
			dial(t, r.addr)
		}
		if took := newcomer(t, r); took > 2*time.Second { // a head may take 10 s
			t.Errorf("answered after %s", took)
		}
	})
}
