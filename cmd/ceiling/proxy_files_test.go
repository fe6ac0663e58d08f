//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestProxyOutOfDescriptors: a process that may open 100 files meets 300 clients that
// stay, idle. New ones are answered long before the idle ones' time of 75 s is over, many
// at a time too, each of which needs a connection to the destination.
func TestProxyOutOfDescriptors(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Millisecond)
		fmt.Fprint(w, "ok")
	}))
	defer backend.Close()
	for _, mode := range []string{"--engine=uring --workers=1", "--engine=epoll --workers=1", "--workers=2"} {
		t.Run(mode, func(t *testing.T) {
			p := startProxyWith(t, "ulimit -n 100", append(strings.Fields(mode), "--listen", "127.0.0.1:0", backend.URL)...)
			ask := func(fields string) (net.Conn, error) {
				c, err := net.Dial("tcp", p.addr)
				if err != nil {
					return nil, err
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields)
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
				}
				if err == nil && res.StatusCode != 200 {
					err = fmt.Errorf("%s", res.Status)
				}
				return c, err
			}
			var slowest time.Duration
			for i := range 300 {
				began := time.Now()
				c, err := ask("")
				if err != nil {
					t.Fatalf("client %d, after %s: %v", i, time.Since(began), err)
				}
				defer c.Close()
				slowest = max(slowest, time.Since(began))
			}
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					c, err := ask("Connection: close\r\n")
					if err != nil {
						t.Error(err)
						return
					}
					c.Close()
				})
			}
			all.Wait()
			if slowest > 5*time.Second {
				t.Errorf("one client waited %s", slowest)
			}
			t.Logf("the slowest of 300 clients waited %s", slowest)
			p.said(t, "idle clients are closed")
		})
	}
}
