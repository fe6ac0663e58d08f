//go:build linux

package ring

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestCloseIsSeen: Close ends the multishot receive, which holds the socket
// open in the kernel, and the peer sees the end at once.
func TestCloseIsSeen(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		before := descriptors(t)
		for i := range uint32(50) {
			fd, peer := pair(t)
			tag := MakeTag(i%7, i)
			r.Receive(fd, tag)
			if i%2 == 0 {
				quiet(t, r) // armed in the kernel; otherwise still in the queue
			}
			r.Close(fd, tag)
			if _, err := r.Wait(Patience{}); err != nil {
				t.Fatal(err)
			}
			wantEOF(t, peer)
			peer.Close()
		}
		settled(t, before)
	})
}

func wantEOF(t *testing.T, peer *net.TCPConn) {
	t.Helper()
	if err := peer.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("the peer reads %d bytes and %v, want EOF", n, err)
	}
}

// TestCloseConnecting: a connection attempt that hangs can be given up.
func TestCloseConnecting(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		// A full accept queue leaves SYNs unanswered.
		ln, bound, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		to := TCPAddr(bound)
		const n = 8
		var fds [n]int
		connected := map[Tag]bool{}
		for i := range fds {
			if fds[i], err = to.Socket(); err != nil {
				t.Fatal(err)
			}
			r.Connect(fds[i], &to, MakeTag(uint32(i), 1))
		}
		// The queue of a listener with backlog 0 takes one or two.
		drive(t, r, func(ev Event) { connected[ev.Tag] = true }, func() bool { return len(connected) > 0 })
		if connecting(t, bound.Port()) == 0 {
			t.Fatal("every connection was taken: the test tests nothing")
		}
		for i, fd := range fds {
			r.Close(fd, MakeTag(uint32(i), 1))
		}
		quiet(t, r)
		if left := connecting(t, bound.Port()); left != 0 {
			t.Errorf("%d sockets still ask for a connection", left)
		}
		if err := syscall.Close(ln); err != nil {
			t.Fatal(err)
		}
	})
}

// connecting counts the sockets in SYN_SENT towards port (proc(5), net/tcp: the
// remote address is the third field, the state the fourth, in hexadecimal).
func connecting(t *testing.T, port uint16) int {
	t.Helper()
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", port)) && f[3] == "02" {
			n++
		}
	}
	return n
}

// TestShut: the ring lets go of the sockets it served, does what was queued,
// and gives back the thread's place among the registered rings, of which the
// kernel has 16 (IO_RINGFD_REG_MAX).
func TestShut(t *testing.T) {
	for _, engine := range []string{Uring, Epoll} {
		t.Run(engine, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := descriptors(t)
			for range 40 {
				shutOnce(t, engine)
			}
			settled(t, before)
		})
	}
}

func shutOnce(t *testing.T, engine string) {
	if engine == Uring {
		needs.LockedMemory(t)
	}
	r, err := Open(Config{Engine: engine})
	if err != nil && engine == Uring {
		t.Skipf("this kernel refuses io_uring, so it is NOT tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if u, is := r.engine.(*uring); is && u.enter&enterRegisteredRing == 0 {
		t.Error("the ring is not registered")
	}
	armed, armedPeer := pair(t)
	defer armedPeer.Close()
	queued, queuedPeer := pair(t)
	defer queuedPeer.Close()
	r.Receive(armed, MakeTag(0, 1))
	quiet(t, r)
	r.Receive(queued, MakeTag(1, 1))
	r.Send(queued, []byte("last"), MakeTag(1, 1))
	r.Close(queued, MakeTag(1, 1))
	if err := r.Shut(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Close(armed); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, armedPeer)
	if b, err := io.ReadAll(queuedPeer); string(b) != "last" || err != nil {
		t.Fatalf("the peer reads %q and %v", b, err)
	}
}

// TestShutClosesAccepted: connections that were accepted but never reported
// are nobody's but the ring's.
func TestShutClosesAccepted(t *testing.T) {
	var peers []net.Conn
	defer func() {
		for _, p := range peers {
			p.Close()
		}
	}()
	each(t, Config{}, func(t *testing.T, r *Ring) {
		ln, bound, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), 16, false)
		if err != nil {
			t.Fatal(err)
		}
		r.Accept(ln, MakeTag(0, 1))
		quiet(t, r)
		peer, err := net.Dial("tcp4", bound.String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		if err := r.Shut(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Close(ln); err != nil {
			t.Fatal(err)
		}
		if err := peer.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the peer's read ends with %v, want EOF or a reset", err)
		}
	})
}

// TestSettle: cancelled one by one, all receives have ended before Shut has the kernel look for what is
// left, which takes the square of their number.
func TestSettle(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		u, is := r.engine.(*uring)
		if !is {
			return
		}
		const many = 300
		polls := func() int {
			info, err := os.ReadFile(fmt.Sprint("/proc/self/fdinfo/", u.realFD))
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(info), "task_works=")
		}
		var fds []int
		for i := range many {
			fd, peer := pair(t)
			defer peer.Close()
			r.Receive(fd, MakeTag(uint32(i), 1))
			fds = append(fds, fd)
		}
		quiet(t, r)
		if n := polls(); n != many {
			t.Errorf("%d polls are armed for %d receives", n, many)
		}
		for i, fd := range fds {
			r.Close(fd, MakeTag(uint32(i), 1))
		}
		if err := u.settle(); err != nil {
			t.Fatal(err)
		}
		if n := polls(); n != 0 {
			t.Errorf("%d of %d receives have not ended", n, many)
		}
	})
}

// TestSelfConnected: a socket that met itself is told from one that met a server.
func TestSelfConnected(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		name, err := syscall.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		if r.SelfConnected(fd) {
			t.Error("a socket without a peer")
		}
		if err := syscall.Connect(fd, name); err != nil {
			t.Fatal(err)
		}
		if !r.SelfConnected(fd) {
			t.Error("not seen")
		}
		ours, theirs := sockets(t)
		other, peer := pair(t)
		defer peer.Close()
		for _, fd := range []int{ours, theirs, other} {
			if r.SelfConnected(fd) {
				t.Error("taken for itself")
			}
			syscall.Close(fd)
		}
	})
}
