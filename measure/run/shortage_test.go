//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/measure/load"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestExamine: what an error of this host's is short of, and which errors are not of this host.
func TestExamine(t *testing.T) {
	tcp := target{addr: netip.MustParseAddrPort("127.0.0.1:1")}
	for _, c := range []struct {
		to    target
		cause string
		want  string // "": not of this host
	}{
		{tcp, "EADDRNOTAVAIL", record.ShortPorts},
		{tcp, "EADDRINUSE", record.ShortPorts},
		{tcp, "EAGAIN", record.ShortPorts},
		{tcp, "EMFILE", record.ShortFiles},
		{tcp, "ENFILE", record.ShortHostFiles},
		{tcp, "ENOMEM", record.ShortMemory},
		{tcp, "ENOBUFS", record.ShortBuffers},
		{tcp, "EPERM", record.ShortPermission},
		{tcp, "EACCES", record.ShortPermission},
		{tcp, "ENETDOWN", record.ShortInterface},
		{tcp, "EAFNOSUPPORT", record.ShortFamily},
		{tcp, "EIO", record.ShortOther},
		{target{unix: "/x"}, "EACCES", record.ShortSocketFile},
		// A link-local address without its interface: this host's routing refuses it.
		{target{addr: netip.MustParseAddrPort("[fe80::1]:1")}, "EINVAL", record.ShortRoute},
		{tcp, "EHOSTUNREACH", ""}, // it has a route: a router said so
		{tcp, "ENETUNREACH", ""},
		{tcp, "ECONNREFUSED", ""},
		{tcp, "ETIMEDOUT", ""},
		{target{unix: "/x"}, "EAGAIN", ""},
		{target{unix: "/x"}, "ENOENT", ""},
	} {
		h := shortages{to: c.to}
		got := ""
		if s := h.examine(load.PhaseConnect, c.cause); s != nil {
			if got = s.Of; prose.Text(s.Says()) == "" || prose.Text(s.Next()) == "" {
				t.Errorf("%s: no words", c.cause)
			}
		}
		if got != c.want {
			t.Errorf("%s %s: short of %q, want %q", c.to, c.cause, got, c.want)
		}
	}
	h := shortages{to: tcp, sources: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("203.0.113.9")}}
	if s := h.examine(load.PhaseConnect, "EADDRNOTAVAIL"); s.Of != record.ShortSource || s.To != "203.0.113.9" {
		t.Errorf("a source address that is not the host's: %+v", s)
	}
	h.look(map[load.Fault]uint64{{Phase: "connect", Cause: "EMFILE"}: 3, {Phase: "connect", Cause: "ECONNRESET"}: 1})
	h.look(map[load.Fault]uint64{{Phase: "connect", Cause: "EMFILE"}: 3})
	if len(h.list) != 1 || h.list[0].Limit <= 0 {
		t.Errorf("%+v", h.list)
	}
}

// TestLocalErrors: an error of a probe says what this host is short of; others stay as they are.
func TestLocalErrors(t *testing.T) {
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:1"))
	dial := func(errno syscall.Errno) error {
		return fmt.Errorf("get: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.NewSyscallError("connect", errno)})
	}
	for _, c := range []struct {
		err  error
		want string // "": as it is
	}{
		{dial(syscall.EADDRNOTAVAIL), "this host ran out of local ports: "},
		{dial(syscall.EPERM), "this host forbids the generator to connect (EPERM)"},
		{dial(syscall.EMFILE), "the generator has all the files open that it may"},
		{os.NewSyscallError("io_uring_setup", syscall.EMFILE), "the generator has all the files open that it may"},
		{os.NewSyscallError("io_uring_setup", syscall.EPERM), ""},
		{dial(syscall.ECONNREFUSED), ""},
		{errors.New("other"), ""},
	} {
		got := local(c.err)
		if c.want == "" && got != c.err || !strings.HasPrefix(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("%v: %v, want %q", c.err, got, c.want)
		}
	}
}

// TestUnresolved: why a name has no address, by the resolver's error; none is a bad argument.
func TestUnresolved(t *testing.T) {
	a := spec.Address{Network: spec.TCP, Host: "shop.test", Port: 8080}
	const without = "--resolve shop.test:8080:ADDRESS"
	for _, c := range []struct {
		err  net.DNSError
		want string
	}{
		{net.DNSError{Err: "no such host", Server: "9.9.9.9:53", IsNotFound: true}, "the DNS server 9.9.9.9:53 knows no address of that name; check the name"},
		{net.DNSError{Err: "i/o timeout", Server: "9.9.9.9:53", IsTimeout: true}, "the DNS server 9.9.9.9:53 did not answer within 5s"},
		{net.DNSError{Err: "server misbehaving", Server: "9.9.9.9:53", IsTemporary: true}, "could not answer (SERVFAIL or REFUSED)"},
		{net.DNSError{Err: "dial udp: connection refused"}, "the DNS server: dial udp: connection refused; check /etc/resolv.conf"},
	} {
		err := Unresolved(a, &c.err)
		if errors.Is(err, exit.ErrRefused) || !strings.HasPrefix(err.Error(), "shop.test does not resolve: ") ||
			!strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), without) {
			t.Errorf("%v: %v, want %q", c.err.Err, err, c.want)
		}
	}
}

// TestStranger: a server of TLS that only closes plain connections is told by a handshake.
func TestStranger(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shop(t, on)
	s := specOf(on.Addr().String(), "/")
	p := part{spec: &s, target: tcpTarget(netip.MustParseAddr("127.0.0.1"), uint16(on.Addr().(*net.TCPAddr).Port))}
	r := &load.Result{Established: 1}
	p.strange(t.Context(), r)
	if len(r.Errors) != 1 || r.Errors[0] != (load.ErrorResponse{Line: load.SaysTLS}) {
		t.Errorf("%+v", r.Errors)
	}
	for name, r := range map[string]*load.Result{"answered": {Established: 1, Total: load.Tally{Completed: 1}}, "not connected": {}} {
		if p.strange(t.Context(), r); len(r.Errors) > 0 {
			t.Errorf("%s: %+v", name, r.Errors)
		}
	}
}

// runShort does a run in this process, short of something, and prints its verdict.
func runShort(of string) {
	say := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		say(err)
	}
	go waitForClose(l)
	s := specOf(l.Addr().String(), "/")
	switch of {
	case "ports":
		for name, value := range map[string]string{"ip_local_port_range": "40000 40099", "tcp_tw_reuse": "0"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
				say(err)
			}
		}
		s.NewConnections = 1
	case "route":
		s.Targets[0].URL = "http://10.1.2.3/"
	case "files":
		limit := syscall.Rlimit{Cur: 300, Max: 300}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			say(err)
		}
		go exhaust()
		s.NewConnections, s.Duration = 1, time.Second
	}
	done, err := Do(context.Background(), s, Options{Out: filepath.Join(os.Getenv("RUN_TEST_DIR"), "run"), Version: "test"})
	if err != nil {
		say(err)
	}
	v := &done.Run.Verdict
	fmt.Printf("%s, %s: %s; next: %s\n", v.Outcome, v.Bottleneck, prose.Sentence(v.Because), prose.Sentence(v.Next))
	if of == "ports" {
		servers := servers{list: []spec.Server{{URL: s.Targets[0].URL}}, dial: &spec.Dial{}}
		fmt.Println("probe:", servers.refuses(0, s.Targets[0].URL))
	}
	os.Exit(0)
}

// waitForClose answers requests and leaves closing to the client, whose ports then stay in TIME_WAIT.
func waitForClose(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			continue // no file is left for it
		}
		go func() {
			defer c.Close()
			for b := make([]byte, 4096); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
				if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")); err != nil {
					return
				}
			}
		}()
	}
}

// exhaust takes every file that this process may open, again and again, until it ends.
func exhaust() {
	time.Sleep(300 * time.Millisecond) // the window is open by then, or soon
	for {
		_, err := os.Open("/dev/null")
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestShortOf: runs in a network namespace with 100 local ports, without a route, and with no file
// left to open are invalid by the generator's host.
func TestShortOf(t *testing.T) {
	needs.Root(t)
	for of, want := range map[string][]string{
		"ports": {"invalid, generator: this host ran out of local ports: 100 local ports to one address " +
			"(net.ipv4.ip_local_port_range = 40000 40099), all in TIME_WAIT; ", "EADDRNOTAVAIL", "--source-ips", "probe: no connection to http://127.0.0.1:",
			"this host ran out of local ports"},
		"route": {"invalid, generator: this host has no route to 10.1.2.3:80 (ENETUNREACH); no connection was established"},
		"files": {"invalid, generator: the generator has all the files open that it may: 300 (RLIMIT_NOFILE)"},
	} {
		t.Run(of, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "sh", "-c", `ip link set lo up && exec "$0"`, os.Args[0])
			c.Env = append(os.Environ(), "RUN_TEST_SHORTAGE="+of, "RUN_TEST_DIR="+t.TempDir())
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			out, err := c.CombinedOutput()
			for _, text := range want {
				if !strings.Contains(string(out), text) {
					t.Errorf("%v\n%s\nlacks %q", err, out, text)
				}
			}
		})
	}
}
