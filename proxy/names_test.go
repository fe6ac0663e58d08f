package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"ceiling/internal/needs"
	"ceiling/proxy/config"
)

// resolver answers with one address, or none.
type resolver struct{ address atomic.Pointer[string] }

func (r *resolver) set(address string) { r.address.Store(&address) }

func (r *resolver) lookUp(host string) ([]string, error) {
	if a := r.address.Load(); a != nil {
		return []string{*a}, nil
	}
	return nil, errors.New("lookup " + host + ": no such host")
}

// TestNameUnresolved: a destination whose name does not resolve is 502, the others are
// served, and it is reported and shown; it is used once the name resolves.
func TestNameUnresolved(t *testing.T) {
	needs.Time(t)
	together(t)
	o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "found") })
	_, port, err := net.SplitHostPort(o.addr)
	must(t, err)
	for _, version := range []string{"", "http = \"2\"\n", "health = { interval = \"10ms\", timeout = \"10s\" }\n"} {
		var names resolver
		text := to("http://name.test:"+port, `hosts = ["a"]`) + version +
			"[[locations]]\nhosts = [\"b\"]\n[[locations.destinations]]\nuri = \"files://" + siteDir(t) + "\"\n" +
			"[[locations]]\nhosts = [\"c\"]\n[[locations.destinations]]\nuri = \"http://name.test:" + port + "\"\n" +
			"[[locations.destinations]]\nuri = \"http://" + o.addr + "\"\n"
		r := runWith(t, text, Options{LookUp: names.lookUp})
		l := dial(t, r.addr)
		status := func(host string) int {
			l.say("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			res, _ := l.answer("GET")
			return res.StatusCode
		}
		must(t, r.Reload(parse(t, text)))
		if strings.Contains(version, "health") {
			until(t, "the checks fail", func() bool {
				s, err := r.Snapshot()
				return err == nil && s.Upstreams[len(s.Upstreams)-1].FailedChecks > 2
			})
		}
		for range 12 { // ejected or not
			if a, b, c := status("a"), status("b"), status("c"); a != 502 || b != 200 || c != 200 {
				t.Fatal(a, b, c)
			}
		}
		s := r.snapshot()
		if u := s.Upstreams[len(s.Upstreams)-1]; u.State != "unresolved" || !strings.Contains(u.Problem, "no such host") {
			t.Errorf("%+v", s.Upstreams)
		}
		said := strings.Join(r.said(), "\n")
		if !strings.Contains(said, "name.test: no such host; its requests get 502 until the name resolves") {
			t.Error(said)
		}
		if version != "" {
			continue // the origin speaks only HTTP/1.1, and a check asks the system
		}
		names.set("127.0.0.1")
		until(t, "it is used", func() bool { return status("a") == 200 })
		until(t, "it is shown", func() bool {
			s, err := r.Snapshot()
			return err == nil && s.Upstreams[len(s.Upstreams)-1].State == "ok" && s.Upstreams[len(s.Upstreams)-1].Problem == ""
		})
	}
}

// listenOn serves a text at an address of the loopback and a port, 0 for any.
func listenOn(t *testing.T, address, port, text string) (at *http.Server, chosen string) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		t.Skip("another program has the port: ", err)
	}
	at = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })}
	go func() { _ = at.Serve(ln) }() // until Close
	t.Cleanup(func() { at.Close() })
	_, chosen, _ = net.SplitHostPort(ln.Addr().String())
	return at, chosen
}

// TestNameMoves: a name's new address is used soon after a connect to the old one has failed,
// and its idle connections are left if the old one still answers.
func TestNameMoves(t *testing.T) {
	needs.Time(t)
	together(t)
	for _, gone := range []bool{true, false} {
		var names resolver
		a, port := listenOn(t, "127.0.0.2", "0", "a")
		listenOn(t, "127.0.0.3", port, "b")
		names.set("127.0.0.2")
		r := runWith(t, to("http://name.test:"+port), Options{LookUp: names.lookUp})
		l := dial(t, r.addr)
		if body := l.status("/", 200); body != "a" {
			t.Fatal(body)
		}
		names.set("127.0.0.3")
		if gone {
			a.Close()
		} else {
			for _, u := range r.site.upstreams {
				u.resolveSoon() // instead of waiting for resolveEvery
			}
		}
		since := time.Now()
		until(t, "the new address", func() bool { _, body := l.get("/"); return body == "b" })
		t.Logf("gone %v: after %v", gone, time.Since(since))
	}
}

// TestHealthHost: a check sends the Host that the destination's requests carry.
func TestHealthHost(t *testing.T) {
	together(t)
	for _, k := range []struct{ line, want string }{
		{`host = "name.example"`, "name.example"}, {`host = "upstream"`, "ADDRESS"}, {"", "ADDRESS"},
	} {
		var asked atomic.Pointer[string]
		o := serveHTTP(t, func(_ http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/health" {
				asked.Store(&q.Host)
			}
		})
		health := "health = { path = \"/health\", interval = \"10ms\", timeout = \"10s\" }\n"
		text := to("http://127.0.0.1:1") + "[locations.fallback]\nuri = \"http://" + o.addr + "\"\n" + k.line + "\n" + health // a fallback is checked too
		for _, text := range []string{text, to("http://"+o.addr) + k.line + "\n" + health} {
			asked.Store(nil)
			r := run(t, "auto", text)
			until(t, "a check", func() bool { return asked.Load() != nil })
			if got, want := *asked.Load(), strings.ReplaceAll(k.want, "ADDRESS", o.addr); got != want {
				t.Errorf("%s: %s, want %s", k.line, got, want)
			}
			r.stop()
		}
	}
	one, other := atomic.Int32{}, atomic.Int32{} // two hosts at one address are checked each
	o := serveHTTP(t, func(_ http.ResponseWriter, q *http.Request) {
		switch q.Host {
		case "one":
			one.Add(1)
		case "other":
			other.Add(1)
		}
	})
	health := "\"\nhealth = { interval = \"10ms\", timeout = \"10s\" }\n"
	run(t, "auto", to("http://"+o.addr)+"host = \"one"+health+"[[locations.destinations]]\nuri = \"http://"+o.addr+"\"\nhost = \"other"+health)
	until(t, "checks of both", func() bool { return one.Load() > 0 && other.Load() > 0 })
}

// TestServiceRecords: the ports are the records', also for health checks, and change with them.
func TestServiceRecords(t *testing.T) {
	needs.Time(t)
	together(t)
	var at [2]string
	for i := range at {
		at[i] = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) }).addr
	}
	var names resolver
	names.set(at[0])
	r := runWith(t, to("http://_web._tcp.name.test", "")+"health = { interval = \"10ms\" }\n", Options{LookUp: names.lookUp})
	l := dial(t, r.addr)
	if body := l.status("/", 200); body != "0" {
		t.Errorf("%s", body)
	}
	until(t, "it is checked", func() bool {
		s, err := r.Snapshot()
		return err == nil && s.Upstreams[0].Checks > 2
	})
	if s, err := r.Snapshot(); err != nil || s.Upstreams[0].FailedChecks > 0 {
		t.Errorf("%v %+v", err, s.Upstreams)
	}
	names.set(at[1])
	until(t, "it moves", func() bool { return l.status("/", 200) == "1" })
	if _, err := config.Parse("x.toml", []byte("[[locations]]\ndestinations = [{ uri = \"https://_web._tcp.name.test/\" }]\n")); err == nil ||
		!strings.Contains(err.Error(), "server_name") {
		t.Errorf("%v", err)
	}
}

// TestLookUpService asks a name server of ours: of the records, those of the lowest priority count.
func TestLookUpService(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer pc.Close()
	go func() {
		for b := make([]byte, 1500); ; {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			answer := func(body dnsmessage.ResourceBody) {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: body})
			}
			m.Response, m.Additionals = true, nil
			switch q.Type {
			case dnsmessage.TypeSRV:
				for i, host := range []string{"b.test.", "a.test.", "later.test."} {
					answer(&dnsmessage.SRVResource{Priority: uint16(10 + i/2), Port: uint16(8000 + i), Target: dnsmessage.MustNewName(host)})
				}
			case dnsmessage.TypeA:
				answer(&dnsmessage.AResource{A: [4]byte{127, 0, 0, q.Name.Data[0]}})
			}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	ours := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	list, err := lookUpService(t.Context(), ours, "_web._tcp.name.test")
	slices.Sort(list)
	if want := []string{"127.0.0.97:8001", "127.0.0.98:8000"}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%v %v, want %v", list, err, want)
	}
}
