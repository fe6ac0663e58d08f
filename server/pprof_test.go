//go:build linux

package server

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/internal/profiles"
)

// profiled starts a server with profiles and answers where they are.
func profiled(t *testing.T, kind string, cfg Config) (*running, string) {
	t.Helper()
	at := make(chan string, 1)
	cfg.Pprof, cfg.PprofReady = "127.0.0.1:0", func(addr string) { at <- addr }
	r := start(t, kind, cfg)
	return r, "http://" + <-at + pprofRoot
}

func fetch(t *testing.T, url string, want int) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %s %v %q", url, resp.Status, err, b)
	}
	return b
}

// Every kind answers its profiles apart from its routes, and ends with them.
func TestPprofOfEveryKind(t *testing.T) {
	for _, k := range Catalogue() {
		if k.Forks {
			continue // refused: TestForksRefuses
		}
		t.Run(k.Name, func(t *testing.T) {
			noLeaks(t)
			open := descriptors(t)
			r, url := profiled(t, k.Name, Config{Workers: 1})
			if b := fetch(t, url, 200); !strings.Contains(string(b), "goroutine") || !strings.Contains(string(b), "profile") {
				t.Errorf("the index is %q", b)
			}
			p, err := profiles.Parse(fetch(t, url+"allocs", 200))
			if err != nil || len(p.Sample) == 0 {
				t.Errorf("allocs: %v, %v", p, err)
			}
			http.DefaultClient.CloseIdleConnections()
			c := newClient(t, r.addr)
			c.send(t, http.MethodGet, pprofRoot)
			if a := c.read(t, http.MethodGet); a.status != 404 {
				t.Errorf("%s on the server's own address: %d", pprofRoot, a.status)
			}
			c.conn.Close()
			r.stop(t)
			if now := descriptors(t); now > open {
				t.Errorf("%d descriptors open, %d before", now, open)
			}
		})
	}
}

// A prefork server answers the profiles of all children at one address, merged, and those of each.
func TestPprofOfPrefork(t *testing.T) {
	needs.Processes(t)
	for _, kind := range preforkKinds() {
		t.Run(kind, func(t *testing.T) {
			noLeaks(t)
			open := descriptors(t)
			r, url := profiled(t, kind, Config{Prefork: true, Workers: 3})
			children := childrenOf(t, os.Getpid())
			listed := strings.Fields(string(fetch(t, url+"process/", 200)))
			if len(listed) != 3 || len(children) != 3 {
				t.Fatalf("%v are listed, %v run", listed, children)
			}
			p, err := profiles.Parse(fetch(t, url+"goroutine", 200))
			if err != nil {
				t.Fatal(err)
			}
			sum := profiles.Summarize(p, 0, 0, profiles.Waiting)
			for _, pid := range children {
				if sum.Processes[fmt.Sprint(pid)] < 2 {
					t.Errorf("%d has no goroutines in %v", pid, sum.Processes)
				}
				one, err := profiles.Parse(fetch(t, fmt.Sprintf("%sprocess/%d/goroutine", url, pid), 200))
				if err != nil {
					t.Fatal(err)
				}
				if n := profiles.Summarize(one, 0, 0, profiles.Waiting).Total; n < 2 || n >= sum.Total {
					t.Errorf("%d alone has %d goroutines, all together %d", pid, n, sum.Total)
				}
			}
			fetch(t, url+"trace", 400)
			fetch(t, url+"process/1/heap", 404)
			fetch(t, url+"nonsense", 502)
			http.DefaultClient.CloseIdleConnections()
			r.stop(t)
			if now := descriptors(t); now > open {
				t.Errorf("%d descriptors open, %d before", now, open)
			}
		})
	}
}

func TestPprofAddressInUse(t *testing.T) {
	r := start(t, "nethttp", Config{})
	for _, prefork := range []bool{false, true} {
		err := Serve(t.Context(), "fiber", Config{Prefork: prefork, Pprof: r.addr})
		if err == nil || !strings.Contains(err.Error(), "listen for profiles") {
			t.Errorf("prefork %v: %v", prefork, err)
		}
	}
}
