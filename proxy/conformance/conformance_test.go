package conformance

import (
	"context"
	"fmt"
	"testing"

	"ceiling/internal/needs"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

func start(t *testing.T, engine string) (address string, b *Backend) {
	t.Helper()
	b, err := NewBackend()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	c, err := config.Parse("test", fmt.Appendf(nil, `
listen = ["127.0.0.1:0"]
workers = 1
[timeouts]
drain = "-1s"
[[locations]]
[[locations.destinations]]
uri = "http://%s"
[locations.destinations.eject]
failures = -1
`, b.Address()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(c, proxy.Options{Engine: engine, Report: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p.Addresses()[0].String(), b
}

// TestOurs holds the proxy to every case.
func TestOurs(t *testing.T) {
	needs.Time(t)
	cases := Cases()
	if len(cases) < 150 {
		t.Fatalf("%d cases; 150 were promised", len(cases))
	}
	if n := len(basics()); n != 33 {
		t.Fatalf("%d basic cases; h1spec has 33", n)
	}
	for _, engine := range []string{"uring", "epoll"} {
		t.Run(engine, func(t *testing.T) {
			address, b := start(t, engine)
			for i := range cases {
				c := &cases[i]
				t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
					if seen, err := Run(c, address, b); err != nil {
						t.Errorf("%v\nclient got %.300q", err, seen.Client)
					}
				})
			}
		})
	}
}

// TestUnambiguous: the checker that judges the others is judged here.
func TestUnambiguous(t *testing.T) {
	for raw, good := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                                true,
		"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n":                                          false,
		"GET / HTTP/1.2\r\nHost: a\r\n\r\n":                                                false,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n":                                     false,
		"GET / HTTP/1.1\r\nX : b\r\n\r\n":                                                  false,
		"GET / HTTP/1.1\r\nX: b\x00\r\n\r\n":                                               false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx":                  false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nContent_Length: 1\r\n\r\nx":                  false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": false,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n":            true,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nx\r\n0\r\n\r\n":          false,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n":              false,
		"P / HTTP/1.1\r\nTE: trailers\r\n\r\n":                                             false,
	} {
		if err := Unambiguous([]byte(raw)); (err == nil) != good {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
