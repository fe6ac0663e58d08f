//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestNobodyWaitsForTheDrain: while what was begun is answered, new clients are refused,
// rather than left to wait for somebody who will never accept them.
func TestNobodyWaitsForTheDrain(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			asked, answer := make(chan struct{}), make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked <- struct{}{}
				<-answer
				fmt.Fprint(w, "late")
			}))
			defer s.Close()
			file := filepath.Join(t.TempDir(), "site.toml")
			text := fmt.Sprintf("workers = 2\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\ndrain = \"10m\"\n[[locations]]\n[[locations.destinations]]\nuri = %q\n", s.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startProxy(t, mode, file)
			got := make(chan string, 1)
			go func() { got <- getText(t, "http://"+p.addr) }()
			<-asked
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			refused := false
			for end := time.Now().Add(10 * time.Second); !refused && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				c, err := net.Dial("tcp", p.addr)
				if refused = err != nil; !refused {
					c.Close()
				}
			}
			if !refused {
				t.Error("new clients are left to wait")
			}
			close(answer)
			if body := <-got; body != "200 late" {
				t.Error(body)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
