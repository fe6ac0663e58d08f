package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/proxy"
)

// TestIdleClientsMakeRoom: with idle clients at the limit a new one is answered at
// once, by either version of HTTP. The longest idle go, and who has a request stays.
func TestIdleClientsMakeRoom(t *testing.T) {
	const most = 8
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %v", h2), func(t *testing.T) {
			release := make(chan struct{})
			var inSlow atomic.Bool
			to := serve(t, func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/slow" {
					inSlow.Store(true)
					<-release
				}
			})
			files := certify(t, t.TempDir(), "a.example")
			r := run(t, begin("", files)+fmt.Sprintf("[limits]\nconnections = %d\n", most)+location(to, ""))
			var all []func(path string) (status int, err error)
			open := func() {
				if !h2 {
					conn := r.handshake(t, "a.example", "http/1.1")
					in := bufio.NewReader(conn)
					all = append(all, func(path string) (int, error) {
						fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n", path)
						res, err := http.ReadResponse(in, nil)
						if err != nil {
							return 0, err
						}
						_, err = io.Copy(io.Discard, res.Body)
						return res.StatusCode, err
					})
					return
				}
				conn, err := r.client(true).Transport.(*http.Transport).NewClientConn(t.Context(), "https", "a.example:443")
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, func(path string) (int, error) {
					q, err := http.NewRequest("GET", "https://a.example"+path, nil)
					if err != nil {
						return 0, err
					}
					res, err := conn.RoundTrip(q)
					if err != nil {
						return 0, err
					}
					return res.StatusCode, res.Body.Close()
				})
			}
			slow := make(chan error, 1)
			for i := range most {
				open()
				if status, err := all[i]("/"); status != 200 {
					t.Fatal(i, status, err)
				}
				if i == 0 { // it has a request from now on
					go func() {
						status, err := all[0]("/slow")
						if status != 200 {
							err = fmt.Errorf("status %d, %w", status, err)
						}
						slow <- err
					}()
					until(t, "the slow request is in", func() bool { return inSlow.Load() })
				}
			}
			time.Sleep(2 * proxy.LeastIdle)
			if status, err := all[1]("/"); status != 200 { // it is not the longest idle now
				t.Fatal(status, err)
			}
			for range 2 {
				began := time.Now()
				open()
				if status, err := all[len(all)-1]("/"); status != 200 {
					t.Fatal(status, err)
				}
				if took := time.Since(began); took > 20*time.Second { // an idle client may stay for 75 s
					t.Errorf("a new client was answered after %s", took)
				}
			}
			close(release)
			if err := <-slow; err != nil {
				t.Errorf("a request under way: %v", err)
			}
			evicted := 0
			for i, get := range all {
				if status, _ := get("/"); status != 200 {
					if evicted++; i == 0 || i == 1 || i >= most {
						t.Errorf("client %d is gone", i)
					}
				}
			}
			if n := r.counted(t).Evicted; evicted != 2 || n != 2 {
				t.Errorf("%d clients are gone, %d were counted: not 2", evicted, n)
			}
		})
	}
}
