package proxy

import (
	"net/http"
	"testing"

	"ceiling/internal/needs"
	"ceiling/proxy/config"
)

// TestStarting: requests to an application that is starting wait for it, whatever their
// method, and for no longer than the queue's time.
func TestStarting(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		a, port := listenOn(t, "127.0.0.4", "0", "ready")
		address := "127.0.0.4:" + port
		r := run(t, engine, to("http://"+address, "[locations.timeouts]\nqueue = \"60s\"\n[locations.retry]\nattempts = 200\nbudget = 1e-9"))
		is := func(starting bool) { r.SetApplications(Applications{config.SameHost(address): starting}) }
		state := func() UpstreamStatus {
			s := r.snapshot()
			return s.Upstreams[0]
		}
		ask := func() (waiting []*link) {
			for _, text := range []string{
				"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
				"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			} {
				l := dial(t, r.addr)
				l.say(text)
				waiting = append(waiting, l)
			}
			return waiting
		}
		answered := func(links []*link) {
			t.Helper()
			for _, l := range links {
				if res, body := l.answer("GET"); res.StatusCode != 200 || body != "ready" {
					t.Error(res.Status, body)
				}
				if res, _ := l.get("/"); res.StatusCode != 200 {
					t.Error(res.Status)
				}
			}
		}
		is(false)
		answered(ask())
		must(t, a.Close())
		links := ask() // the supervisor has not noticed yet
		is(true)
		links = append(links, ask()...)
		until(t, "all wait", func() bool { return state().Queued == 6 })
		if s := state(); s.State != "starting" || s.Open != 0 {
			t.Errorf("%+v", s)
		}
		must(t, r.Reload(parse(t, to("files://"+t.TempDir())))) // they still wait for it
		must(t, r.Reload(parse(t, to("http://"+address))))
		listenOn(t, "127.0.0.4", port, "ready")
		is(false)
		answered(links)
		if s := state(); s.State != "ok" || s.Ejections != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestStartingTooLong: a start is waited for as long as the queue allows, and a destination
// that is ready is asked instead.
func TestStartingTooLong(t *testing.T) {
	together(t)
	o := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	text := to("http://127.0.0.1:1", "hosts = [\"a\"]\n[locations.timeouts]\nqueue = \"50ms\"") +
		"[[locations]]\nhosts = [\"b\"]\n[[locations.destinations]]\nuri = \"http://localhost:1\"\n" +
		"[[locations.destinations]]\nuri = \"http://" + o.addr + "\"\n"
	r := run(t, "auto", text)
	r.SetApplications(Applications{"localhost:1": true})
	must(t, r.Reload(parse(t, text+"[[locations]]\nhosts = [\"c\"]\n[locations.timeouts]\nqueue = \"50ms\"\n[[locations.destinations]]\n"+
		"uri = \"http://127.0.0.1:1/new\"\nqueue = 7\n"))) // a new upstream waits too
	l := dial(t, r.addr)
	for _, host := range []string{"a", "c"} {
		l.say("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if res, _ := l.answer("GET"); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
			t.Error(host, res.Status, res.Header)
		}
	}
	for range 4 {
		l.say("GET / HTTP/1.1\r\nHost: b\r\n\r\n")
		if res, _ := l.answer("GET"); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
	r.SetApplications(nil) // stopped by an operator
	l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := l.answer("GET"); res.StatusCode != 502 {
		t.Error(res.Status)
	}
}
