//go:build linux

package run

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ceiling/internal/exit"
	"ceiling/internal/needs"
)

// ownNetwork runs one test of this binary as root of a network namespace of its
// own, where its loopback is up.
func ownNetwork(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv("RUN_TEST_NETWORK") != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("ip link: %v: %s", err, out)
		}
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "RUN_TEST_NETWORK=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in a network namespace: %v\n%s", err, out)
	}
	return false
}

// peers serves HTTP at the address and counts its connections by where they come
// from.
func peers(t *testing.T, address string) (addr string, count func() map[netip.Addr]int) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	from := map[netip.Addr]int{}
	s := &http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				mu.Lock()
				defer mu.Unlock()
				from[netip.MustParseAddrPort(c.RemoteAddr().String()).Addr()]++
			}
		},
	}
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Close(); served.Wait() })
	return l.Addr().String(), func() map[netip.Addr]int {
		mu.Lock()
		defer mu.Unlock()
		now := from
		from = map[netip.Addr]int{}
		return now
	}
}

// TestMoreConnectionsThanPorts: with 50 ports, 80 connections are refused from
// one address, with the way out, and stand from two, over either protocol.
func TestMoreConnectionsThanPorts(t *testing.T) {
	needs.Root(t)
	if !ownNetwork(t) {
		return
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("20000 20049"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{"fd00::2/128", "fd00::3/128"} {
		if out, err := exec.Command("ip", "addr", "add", ip, "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("ip addr: %v: %s", err, out)
		}
	}
	for _, c := range []struct {
		listen  string
		sources []string
	}{
		{"127.0.0.1:8080", []string{"127.0.0.2", "127.0.0.3"}},
		{"127.0.0.1:8081", []string{"127.0.0.4/30"}}, // .5 and .6
		{"[::1]:8082", []string{"fd00::2", "fd00::3"}},
	} {
		addr, count := peers(t, c.listen)
		s := specOf(addr, "/")
		s.Connections, s.Pprof = 80, "off"
		s.Duration, s.Warmup, s.Requests = 0, 0, 400 // a busy machine may answer none within a time
		once := func() (*Result, error) {
			return Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run")})
		}
		s.SourceIPs = c.sources[:1]
		if !strings.Contains(c.sources[0], "/") {
			if _, err := once(); !errors.Is(err, exit.ErrRefused) ||
				!strings.Contains(err.Error(), "80 connections to one address need as many local ports; from one address of this host there are 50") ||
				!strings.Contains(err.Error(), "over 2 local addresses: --source-ips") {
				t.Errorf("%s from one address: %v", addr, err)
			}
		}
		s.SourceIPs = c.sources
		d, err := once()
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		from := count()
		if d.Run.Load.Established != 80 || len(from) != 2 || d.Run.Requests.Completed == 0 {
			t.Errorf("%s: %d stand, from %v; %v", addr, d.Run.Load.Established, from, d.Run.Errors)
		}
		for ip, n := range from {
			if n != 40 {
				t.Errorf("%s: %d connections from %s", addr, n, ip)
			}
		}
	}
}

// TestSourcesAreThisHosts: what is named has to be here, of a range what is; an
// agent of several takes its own.
func TestSourcesAreThisHosts(t *testing.T) {
	s := specOf("127.0.0.1:1", "/")
	try := func(agent bool, list ...string) (int, error) {
		s.SourceIPs = list
		o := ShareOptions{Load: true}
		if agent {
			o.Share.Count, o.Share.Of = 1, 2
		}
		c, _, err := configure(t.Context(), &s, &o)
		if err != nil {
			return 0, err
		}
		return len(c.SourceIPs), nil
	}
	for _, c := range []struct {
		agent bool
		list  string
		want  int
		says  string
	}{
		{false, "127.0.0.2", 1, ""},
		{false, "127.0.0.2 127.0.0.2 127.0.0.3", 2, ""},
		{false, "127.0.0.8/29", 6, ""},
		{false, "127.0.0.8/31", 2, ""},
		{false, "203.0.113.1", 0, "not an address of this host; add it: ip addr add 203.0.113.1/32"},
		{false, "127.0.0.2 203.0.113.1", 0, "203.0.113.1 is not an address of this host"},
		{false, "203.0.113.0/28", 0, "no address of 203.0.113.0/28 is this host's"},
		{false, "::1", 0, "not both IPv4 or both IPv6"},
		{true, "127.0.0.2 203.0.113.1", 1, ""},
		{true, "203.0.113.1", 0, "no address of 203.0.113.1 is this host's"},
	} {
		n, err := try(c.agent, strings.Fields(c.list)...)
		if n != c.want || (err == nil) != (c.says == "") || err != nil &&
			(!strings.Contains(err.Error(), c.says) || !errors.Is(err, exit.ErrRefused)) {
			t.Errorf("%s: %d addresses, %v", c.list, n, err)
		}
	}
	s.SourceIPs = []string{"127.0.0.0/8"}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Error(err)
	}
	s.SourceIPs, s.Targets[0].URL = []string{"127.0.0.2"}, "unix:/run/x.sock:/"
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "unix socket") {
		t.Error(err)
	}
}
