//go:build linux

package ring

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// patience of the tests: far more than anything takes, so that a failure is a
// failure and not a slow machine.
const patience = 20 * time.Second

// each runs body under both engines, on a locked thread, and checks that body
// and Shut leave no descriptor behind. body closes what it opened.
func each(t *testing.T, c Config, body func(t *testing.T, r *Ring)) {
	t.Helper()
	for _, engine := range []string{Uring, Epoll} {
		t.Run(engine, func(t *testing.T) {
			if engine == Uring {
				needs.LockedMemory(t)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			wakeNet(t)
			before := descriptors(t)
			c.Engine = engine
			r, err := Open(c)
			if err != nil && engine == Uring {
				t.Skipf("this kernel refuses io_uring, so it is NOT tested: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() {
					if err := r.Shut(); err != nil {
						t.Errorf("Shut: %v", err)
					}
				}()
				body(t, r)
			}()
			settled(t, before)
		})
	}
}

// wakeNet has the runtime open what it polls with, which it keeps: the first test
// would be blamed for it.
func wakeNet(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// settled waits for the descriptors to be as many as before: package net ends
// its own in goroutines.
func settled(t *testing.T, before int) {
	t.Helper()
	var now int
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if now = descriptors(t); now <= before {
			return
		}
	}
	t.Errorf("%d descriptors before, %d after", before, now)
}

// drive waits and hands over events until done says so.
func drive(t *testing.T, r *Ring, on func(Event), done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		events, err := r.Wait(Patience{Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatalf("Wait: %v", err)
		}
		for _, ev := range events {
			on(ev)
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing more came")
		}
	}
}

// quiet lets the ring do what is queued and drops the events.
func quiet(t *testing.T, r *Ring) {
	t.Helper()
	for range 3 {
		if _, err := r.Wait(Patience{}); err != nil {
			t.Fatalf("Wait: %v", err)
		}
	}
}

// pair is a connected TCP pair: the ring's end, raw, and the peer's.
func pair(t *testing.T) (fd int, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: ln.Addr().(*net.TCPAddr).Port}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return fd, conn.(*net.TCPConn)
}

// sockets is a connected pair of raw unix sockets, which cost little.
func sockets(t *testing.T) (ours, theirs int) {
	t.Helper()
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

func write(t *testing.T, fd int, b []byte) {
	t.Helper()
	if n, err := syscall.Write(fd, b); err != nil || n != len(b) {
		t.Fatalf("write: %d of %d bytes, %v", n, len(b), err)
	}
}

// pattern is n bytes of which every eight tell their place.
func pattern(n int, salt uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		v := (uint32(i>>3) + salt) * 2654435761
		b[i] = byte(v >> (uint(i) & 3 * 8))
	}
	return b
}

// echo answers everything that comes in on the ring with the same bytes, and
// accepts with fresh tags.
type echo struct {
	t    *testing.T
	r    *Ring
	next uint32
	fds  map[Tag]int
	eofs int
}

func (e *echo) on(ev Event) {
	switch ev.Kind {
	case Accepted:
		if ev.Err != 0 {
			e.t.Errorf("accept: %v", ev.Err)
			return
		}
		e.next++
		tag := MakeTag(e.next, 1)
		e.fds[tag] = ev.FD
		e.r.Receive(ev.FD, tag)
	case Received:
		fd, ok := e.fds[ev.Tag]
		switch {
		case !ok:
		case ev.Err != 0 || len(ev.Data) == 0:
			e.eofs++
			delete(e.fds, ev.Tag)
			e.r.Close(fd, ev.Tag)
		default:
			e.r.Send(fd, bytes.Clone(ev.Data), ev.Tag)
		}
	case SendFailed:
		if _, ok := e.fds[ev.Tag]; ok {
			e.t.Errorf("send: %v", ev.Err)
		}
	}
}

func listenUnix(t *testing.T, path string) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 128); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestEcho: the ring serves; package net asks and checks.
func TestEcho(t *testing.T) {
	serve := func(t *testing.T, r *Ring, listener int, network, address string) {
		e := &echo{t: t, r: r, fds: map[Tag]int{}}
		r.Accept(listener, MakeTag(0, 1))
		const clients = 8
		done := make(chan error, clients)
		for c := range clients {
			go func() { done <- askEcho(network, address, uint32(c)) }()
		}
		finished := 0
		drive(t, r, e.on, func() bool {
			for {
				select {
				case err := <-done:
					finished++
					if err != nil {
						t.Error(err)
					}
					continue
				default:
				}
				return finished == clients && e.eofs == clients
			}
		})
		r.Close(listener, MakeTag(0, 1))
		quiet(t, r)
	}
	for network, ip := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				fd, bound, err := ListenTCP(netip.MustParseAddrPort(ip), 128, true)
				if err != nil {
					t.Fatal(err)
				}
				serve(t, r, fd, network, bound.String())
			})
		})
	}
	t.Run("unix", func(t *testing.T) {
		each(t, Config{}, func(t *testing.T, r *Ring) {
			path := t.TempDir() + "/s"
			serve(t, r, listenUnix(t, path), "unix", path)
		})
	})
}

// askEcho sends pieces of several sizes and compares what comes back.
func askEcho(network, address string, salt uint32) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for _, size := range []int{1, 100, 16 << 10, 16<<10 + 1, 200_000} {
		b := pattern(size, salt)
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(b)
			sent <- err
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if err := <-sent; err != nil {
			return err
		}
		if !bytes.Equal(got, b) {
			return io.ErrShortBuffer
		}
	}
	return nil
}

// TestConnect: the ring asks; package net serves.
func TestConnect(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6", "unix", "abstract"} {
		t.Run(network, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				to, ln := echoListener(t, network)
				defer ln.Close()
				fd, err := to.Socket()
				if err != nil {
					t.Fatal(err)
				}
				tag := MakeTag(3, 7)
				want := pattern(50_000, 1)
				var got []byte
				r.Connect(fd, &to, tag)
				drive(t, r, func(ev Event) {
					switch {
					case ev.Tag != tag || ev.Err != 0:
						t.Fatalf("event %+v", ev)
					case ev.Kind == Connected:
						r.Receive(fd, tag)
						r.Send(fd, want, tag)
					case ev.Kind == Received:
						got = append(got, ev.Data...)
					}
				}, func() bool { return len(got) >= len(want) })
				if !bytes.Equal(got, want) {
					t.Error("the echo differs from what was sent")
				}
				r.Close(fd, tag)
				quiet(t, r)
			})
		})
	}
}

// echoListener serves one connection with its own bytes.
func echoListener(t *testing.T, network string) (Sockaddr, net.Listener) {
	t.Helper()
	address := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": t.TempDir() + "/s",
		"abstract": "@ceiling-ring-test-" + time.Now().String()}[network]
	kind := network
	if network == "abstract" {
		kind = "unix"
	}
	ln, err := net.Listen(kind, address)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// Without the wrapping Copy splices through a pipe that it keeps. It ends
		// when the ring closes; the test judges the bytes.
		_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
	}()
	if kind == "unix" {
		to, err := UnixAddr(ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return to, ln
	}
	return TCPAddr(ln.Addr().(*net.TCPAddr).AddrPort()), ln
}

func TestConnectRefused(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, bound, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Close(fd); err != nil { // a port that was free a moment ago
			t.Fatal(err)
		}
		to := TCPAddr(bound)
		s, err := to.Socket()
		if err != nil {
			t.Fatal(err)
		}
		var got []Event
		r.Connect(s, &to, MakeTag(0, 1))
		drive(t, r, func(ev Event) { got = append(got, ev) }, func() bool { return len(got) > 0 })
		if len(got) != 1 || got[0].Kind != Connected || got[0].Err != syscall.ECONNREFUSED {
			t.Errorf("events %+v, want one Connected with ECONNREFUSED", got)
		}
		r.Close(s, MakeTag(0, 1))
		quiet(t, r)
	})
}

// TestEnds: what a peer can do to a connection.
func TestEnds(t *testing.T) {
	check := func(name string, act func(t *testing.T, peer *net.TCPConn), wantData string, wantErr syscall.Errno) {
		t.Run(name, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				fd, peer := pair(t)
				defer peer.Close()
				tag := MakeTag(1, 1)
				r.Receive(fd, tag)
				quiet(t, r)
				act(t, peer)
				var data []byte
				var end *Event
				drive(t, r, func(ev Event) {
					if end != nil {
						t.Errorf("after the end: %+v", ev)
					}
					data = append(data, ev.Data...)
					if len(ev.Data) == 0 {
						end = &ev
					}
				}, func() bool { return end != nil })
				if string(data) != wantData || end.Kind != Received || end.Err != wantErr || end.Tag != tag {
					t.Errorf("data %q, end %+v; want %q and %v", data, *end, wantData, wantErr)
				}
				r.Close(fd, tag)
				quiet(t, r)
			})
		})
	}
	check("eof", func(t *testing.T, p *net.TCPConn) { p.Close() }, "", 0)
	check("last words", func(t *testing.T, p *net.TCPConn) {
		if _, err := p.Write([]byte("bye")); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}, "bye", 0)
	check("reset", func(t *testing.T, p *net.TCPConn) {
		if err := p.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}, "", syscall.ECONNRESET)
}

// TestHalfClose: a peer that has shut its writing side still gets an answer.
func TestHalfClose(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(0, 1)
		r.Receive(fd, tag)
		if _, err := peer.Write([]byte("ask")); err != nil {
			t.Fatal(err)
		}
		if err := peer.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var asked []byte
		ended := false
		drive(t, r, func(ev Event) {
			if ev.Err != 0 || ev.Kind != Received {
				t.Errorf("event %+v", ev)
			}
			asked = append(asked, ev.Data...)
			ended = ended || len(ev.Data) == 0
		}, func() bool { return ended })
		r.Send(fd, []byte("answer"), tag)
		quiet(t, r)
		r.Close(fd, tag)
		quiet(t, r)
		answer, err := io.ReadAll(peer)
		if string(asked) != "ask" || string(answer) != "answer" || err != nil {
			t.Errorf("asked %q, answered %q, %v", asked, answer, err)
		}
	})
}
