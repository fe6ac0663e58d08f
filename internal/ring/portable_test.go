//go:build linux

package ring

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
)

// dialled makes a portable ring with one connection, and the peer's end of it.
func dialled(t *testing.T) (r *Ring, fd int, tag Tag, peer *net.TCPConn) {
	t.Helper()
	r, err := Open(Config{Engine: Portable, BufferBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shut(); err != nil {
			t.Errorf("Shut: %v", err)
		}
	})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	to, from := TCPAddr(ln.Addr().(*net.TCPAddr).AddrPort()), TCPAddr(netip.MustParseAddrPort("127.0.0.2:0"))
	tag = MakeTag(3, 5)
	if fd, err = r.Dial(&to, &from, tag); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if ip := conn.RemoteAddr().(*net.TCPAddr).IP.String(); ip != "127.0.0.2" {
		t.Errorf("connected from %s", ip)
	}
	if e := next(t, r); e.Kind != Connected || e.Err != 0 || e.Tag != tag {
		t.Fatalf("%+v", e)
	}
	return r, fd, tag, conn.(*net.TCPConn)
}

// next waits for one event.
func next(t *testing.T, r *Ring) (e Event) {
	t.Helper()
	drive(t, r, func(got Event) { e = got }, func() bool { return e.Kind != 0 })
	e.Data = bytes.Clone(e.Data)
	return e
}

// TestPortableLastWrite: what is queued when a connection is closed reaches a peer that reads it a
// moment later, as one on a busy machine does.
func TestPortableLastWrite(t *testing.T) {
	needs.Time(t)
	r, fd, tag, peer := dialled(t)
	whole := pattern(16<<20, 1) // more than the kernel's buffers
	r.Send(fd, whole, tag)
	wait(t, r, Patience{Timeout: time.Millisecond})
	r.Close(fd, tag)
	time.Sleep(100 * time.Millisecond)
	if got, err := io.ReadAll(peer); !bytes.Equal(got, whole) || err != nil {
		t.Errorf("%d of %d bytes: %v", len(got), len(whole), err)
	}
}

// TestPortableReads: once, on and on, discarding, and not at all.
func TestPortableReads(t *testing.T) {
	r, fd, tag, peer := dialled(t)
	say := func(text string) {
		t.Helper()
		if _, err := peer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(kind Kind, data string, n int) {
		t.Helper()
		if e := next(t, r); e.Kind != kind || string(e.Data) != data || e.N != n || e.Err != 0 {
			t.Fatalf("kind %d, %q, %d, %v; want %d, %q, %d", e.Kind, e.Data, e.N, e.Err, kind, data, n)
		}
	}
	silent := func() {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Millisecond); time.Now().Before(deadline); {
			if list, err := r.Wait(Patience{Timeout: time.Millisecond}); len(list) > 0 || err != nil {
				t.Fatalf("%+v, %v", list, err)
			}
		}
	}
	r.Receive(fd, tag)
	say("one")
	hear(Received, "one", 0)
	say("two")
	hear(Received, "two", 0)
	quiet(t, r) // the next read is under way
	r.Pause(tag)
	say("three")
	silent()
	r.ReceiveOnce(fd, tag)
	hear(Received, "three", 0)
	say("four")
	silent()
	r.Discard(fd, 3, tag)
	hear(Discarded, "", 3)
	r.Receive(fd, tag)
	hear(Received, "r", 0)
	quiet(t, r)
	r.Pause(tag)
	say("five")
	silent()
	r.Discard(fd, 1, tag) // of what has been read already
	hear(Discarded, "", 1)
	r.ReceiveOnce(fd, tag)
	hear(Received, "ive", 0)
	long := strings.Repeat("x", 9000) // more than a buffer
	say(long)
	r.Receive(fd, tag)
	got := 0
	drive(t, r, func(e Event) { got += len(e.Data) }, func() bool { return got == len(long) })
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hear(Received, "", 0)
	r.Close(fd, tag)
	quiet(t, r)
	if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
}

// TestPortableSends: in order, whole, reported, held up by a peer that does not read, and failed.
func TestPortableSends(t *testing.T) {
	r, fd, tag, peer := dialled(t)
	r.Receive(fd, tag)
	r.Send(fd, []byte("a"), tag)
	r.Send(fd, []byte("b"), tag)
	r.SendNotify(fd, []byte("c"), tag)
	if e := next(t, r); e.Kind != Sent {
		t.Fatalf("%+v", e)
	}
	if n := r.Unsent(tag); n != 0 {
		t.Errorf("%d unsent", n)
	}
	long := pattern(32<<20, 7)
	r.SendNotify(fd, long, tag)
	quiet(t, r)
	if r.Unsent(tag) == 0 {
		t.Error("a peer that does not read has taken 32 MB")
	}
	got := make([]byte, 3+len(long))
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(peer, got)
		read <- err
	}()
	if e := next(t, r); e.Kind != Sent {
		t.Fatalf("%+v", e)
	}
	if err := <-read; err != nil || !bytes.Equal(got, append([]byte("abc"), long...)) {
		t.Errorf("%v, or the bytes differ", err)
	}
	// Close gives what is queued one attempt.
	r.Send(fd, []byte("last"), tag)
	r.Close(fd, tag)
	rest, err := io.ReadAll(peer)
	if string(rest) != "last" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	r.Close(fd, tag)
	if _, err := r.Wait(Patience{}); err == nil {
		t.Error("a second Close was no error")
	}
	r.engine.(*portable).broken = nil
}

// TestPortableErrors: by the names of the other engines.
func TestPortableErrors(t *testing.T) {
	r, fd, tag, peer := dialled(t)
	r.Receive(fd, tag)
	quiet(t, r)
	if err := peer.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	peer.Close()
	if e := next(t, r); e.Kind != Received || e.Err != syscall.ECONNRESET {
		t.Errorf("%+v", e)
	}
	r.Send(fd, []byte("x"), tag)
	if e := next(t, r); e.Kind != SendFailed || e.Err != syscall.EPIPE {
		t.Errorf("%+v", e)
	}
	r.Close(fd, tag)
	to := TCPAddr(netip.MustParseAddrPort(porttest.Refused(t)))
	tag = MakeTag(3, 6)
	fd, err := r.Dial(&to, nil, tag)
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, r); e.Kind != Connected || e.Err != syscall.ECONNREFUSED {
		t.Errorf("%+v", e)
	}
	r.Close(fd, tag)
}

// TestPortableEnds: neither a peer that does not read nor one that does not accept keeps Shut.
func TestPortableEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	ln, bound, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ln)
	to := TCPAddr(bound)
	r, err := Open(Config{Engine: Portable})
	if err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 32<<20)
	for i := range uint32(8) { // of which most stay in the accept queue, or before it
		fd, err := r.Dial(&to, nil, MakeTag(i, 1))
		if err != nil {
			t.Fatal(err)
		}
		r.Receive(fd, MakeTag(i, 1))
	}
	e := next(t, r)
	r.Send(int(e.Tag.Index()), long, e.Tag)
	quiet(t, r)
	bell, err := r.Bell(MakeTag(99, 1))
	if err != nil {
		t.Fatal(err)
	}
	bell.Ring()
	if e := next(t, r); e.Tag != MakeTag(99, 1) {
		t.Errorf("%+v", e)
	}
	if err := r.Shut(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
