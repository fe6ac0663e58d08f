//go:build linux

package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/internal/sys"
	"ceiling/server/prefork"
)

// preforkKinds are the kinds that have prefork.
func preforkKinds() []string {
	var names []string
	for _, k := range Catalogue() {
		if k.Prefork {
			names = append(names, k.Name)
		}
	}
	return names
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	all, err := sys.Processes()
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for child, p := range all {
		if p.Parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// listeners returns how many sockets listen on the port of addr, by /proc/net/tcp (proc_net(5); state 0A listens).
func listeners(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if strings.HasSuffix(f[1], fmt.Sprintf(":%04X", a.Port)) && f[3] == "0A" {
			n++
		}
	}
	return n
}

// A prefork server is ready when its children are, each with a listener; they serve; and they end with it.
func TestPrefork(t *testing.T) {
	needs.Processes(t)
	for _, kind := range preforkKinds() {
		t.Run(kind, func(t *testing.T) {
			noLeaks(t)
			open := descriptors(t)
			const workers = 3
			r := start(t, kind, Config{Prefork: true, Workers: workers})
			children := childrenOf(t, os.Getpid())
			if len(children) != workers {
				t.Fatalf("%d children, want %d", len(children), workers)
			}
			if n := listeners(t, r.addr); n != workers {
				t.Errorf("%d listeners, want %d", n, workers)
			}
			if _, port, _ := net.SplitHostPort(r.addr); port == "0" || port == "" {
				t.Errorf("ready at %s", r.addr)
			}
			// With 40 connections over 3 listeners the chance that one gets none is 3·(2/3)^40, below one in a million.
			clients := make([]*client, 40)
			for i := range clients {
				clients[i] = newClient(t, r.addr)
				clients[i].send(t, http.MethodGet, "/simple", "/list", "/compute", "/read-gz")
				for range 4 {
					if a := clients[i].read(t, http.MethodGet); a.status != 200 || a.length != int64(len(a.body)) {
						t.Fatalf("connection %d: %+v", i, a)
					}
				}
			}
			for _, pid := range children {
				if n := acceptedBy(t, pid); n == 0 {
					t.Errorf("child %d has no connection", pid)
				}
			}
			r.stop(t)
			if left := childrenOf(t, os.Getpid()); len(left) > 0 {
				t.Errorf("children %v are left", left)
			}
			for _, c := range clients {
				c.conn.Close()
			}
			if n := listeners(t, r.addr); n != 0 {
				t.Errorf("%d listeners are left", n)
			}
			if now := descriptors(t); now > open {
				t.Errorf("%d descriptors open, %d before", now, open)
			}
		})
	}
}

// acceptedBy returns how many sockets beside its listener a child has open.
func acceptedBy(t *testing.T, pid int) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, e := range entries {
		if target, err := os.Readlink(dir + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			sockets++
		}
	}
	return sockets - 1
}

// The port that was asked for is the one that is served, and a second server is kept off it.
func TestPreforkOnAGivenPort(t *testing.T) {
	addr := porttest.Free(t, "127.0.0.1")
	r := start(t, "fasthttp", Config{Prefork: true, Workers: 1, Addr: addr})
	if r.addr != addr {
		t.Errorf("ready at %s, want %s", r.addr, addr)
	}
	err := Serve(t.Context(), "fasthttp", Config{Prefork: true, Workers: 1, Addr: addr})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server beside the first: %v", err)
	}
	r.stop(t)
}

// A child that ends takes the server with it, and the error tells which one and how.
func TestPreforkChildCrash(t *testing.T) {
	needs.Processes(t)
	for _, kind := range preforkKinds() {
		for sig, how := range map[syscall.Signal]string{syscall.SIGKILL: "signal: killed", syscall.SIGTERM: "signal: terminated"} {
			t.Run(kind+" "+how, func(t *testing.T) {
				r := start(t, kind, Config{Prefork: true, Workers: 2})
				children := childrenOf(t, os.Getpid())
				if len(children) != 2 {
					t.Fatalf("children %v", children)
				}
				if err := syscall.Kill(children[1], sig); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("child %d ended: %s", children[1], how)
				if err := <-r.done; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("ended with %v, want %q in it", err, want)
				}
				if left := childrenOf(t, os.Getpid()); len(left) > 0 {
					t.Errorf("children %v are left", left)
				}
			})
		}
	}
}

// A child that does not listen to its parent is killed, and the parent is still on time.
func TestPreforkChildThatHangs(t *testing.T) {
	needs.Processes(t)
	for kind, cfg := range map[string]Config{"fasthttp": {Prefork: true, Workers: 2}, "fiber-prefork": {Workers: 1}} {
		r := start(t, kind, cfg)
		children := childrenOf(t, os.Getpid())
		if err := syscall.Kill(children[0], syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(children[0], &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("%s: the child has not been stopped: %v, %v", kind, status, err)
		}
		begin := time.Now()
		r.stop(t)
		if took := time.Since(begin); took < killAfter {
			t.Errorf("%s: took %v: the child did not hang", kind, took)
		}
		if left := childrenOf(t, os.Getpid()); len(left) > 0 {
			t.Errorf("%s: children %v are left", kind, left)
		}
	}
}

// Children that cannot start are an error, not a server that is never ready. These look for a kind there is not, and
// say so.
func TestPreforkChildCannotStart(t *testing.T) {
	listeners, _, err := prefork.Share(t.Context(), "127.0.0.1:0", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer prefork.Close(listeners)
	p := prefork.New("apache", 2)
	defer p.Stop(killAfter)
	for _, ln := range listeners {
		if _, err := p.Start(ln, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = p.Supervise(t.Context(), func() { t.Error("ready") })
	if err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("ended with %v", err)
	}
}

// The children end also when their parent has no time to tell them. All of them hold the parent's standard output, so
// it ends when the last one has.
func TestPreforkParentKilled(t *testing.T) {
	needs.Processes(t)
	for _, kind := range append(preforkKinds(), "fiber-prefork") {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), parentEnv+"="+kind)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(out)
			addr, readErr := r.ReadString('\n')
			children := childrenOf(t, cmd.Process.Pid)
			var c *client
			if readErr == nil {
				c = newClient(t, strings.TrimSpace(addr))
				c.send(t, http.MethodGet, "/simple")
				c.read(t, http.MethodGet)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if readErr != nil || len(children) != 2 {
				t.Fatalf("address %q, %v, children %v", addr, readErr, children)
			}
			begin := time.Now()
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("after the kill: %q, %v", rest, err)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("the children ended after %v", took)
			}
			if _, err := io.Copy(io.Discard, c.r); err != nil {
				t.Errorf("connection: %v", err)
			}
			_ = cmd.Wait() // says that it was killed
			if n := listeners(t, strings.TrimSpace(addr)); n != 0 {
				t.Errorf("%d listeners are left", n)
			}
		})
	}
}

// TestPreforkTLS: all processes have the parent's certificate, and resume each other's
// sessions.
func TestPreforkTLS(t *testing.T) {
	needs.Processes(t)
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	own := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	r := start(t, "fasthttp", Config{Prefork: true, Workers: 2, TLS: own})
	client := &tls.Config{ServerName: "a.test", RootCAs: x509.NewCertPool(), NextProtos: []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	client.RootCAs.AppendCertsFromPEM(ca.PEM())
	for n := range 20 { // one process has all of them once in half a million times
		c, err := tls.Dial("tcp", r.addr, client)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /simple HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		s := c.ConnectionState()
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200") || s.DidResume != (n > 0) || s.NegotiatedProtocol != "http/1.1" {
			t.Errorf("connection %d: resumed %v, %q, %.20q, %v", n, s.DidResume, s.NegotiatedProtocol, b, err)
		}
		c.Close()
	}
	r.stop(t)
}

// fiber's own prefork starts as many children as GOMAXPROCS: a container that sets it to 1 has one worker.
func TestForkedByTheFramework(t *testing.T) {
	needs.Processes(t)
	for _, workers := range []int{1, 3} {
		open := descriptors(t)
		r := start(t, "fiber-prefork", Config{Workers: workers})
		if children := childrenOf(t, os.Getpid()); len(children) != workers {
			t.Errorf("GOMAXPROCS %d: %d children", workers, len(children))
		}
		if n := listeners(t, r.addr); n != workers { // one that only holds the port would refuse connections
			t.Errorf("GOMAXPROCS %d: %d listeners", workers, n)
		}
		r.stop(t)
		if left := childrenOf(t, os.Getpid()); len(left) > 0 {
			t.Errorf("children %v are left", left)
		}
		if now := descriptors(t); now > open {
			t.Errorf("%d descriptors open, %d before", now, open)
		}
	}
}

// A child that is killed ends the server, and its end is told.
func TestForkedChildKilled(t *testing.T) {
	r := start(t, "fiber-prefork", Config{Workers: 2})
	if err := syscall.Kill(childrenOf(t, os.Getpid())[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "child") {
		t.Errorf("%v", err)
	}
	if left := childrenOf(t, os.Getpid()); len(left) > 0 {
		t.Errorf("children %v are left", left)
	}
}

func TestForksRefuses(t *testing.T) {
	for want, cfg := range map[string]Config{
		"only ports": {Addr: "unix:" + t.TempDir() + "/s"}, "profiles": {Pprof: "127.0.0.1:0"}, "no prefork": {Prefork: true},
		"TLS": {TLS: &tls.Config{}},
	} {
		if err := Serve(t.Context(), "fiber-prefork", cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
