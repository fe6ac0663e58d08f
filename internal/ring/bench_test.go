//go:build linux

package ring

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPingPong plays over 64 loopback connections, a ring on either side
// and in a thread of its own. An iteration is one round trip. It reports the
// CPU of each side's thread, which is what the ring is judged by; the time of an
// iteration depends on who else uses the machine.
func BenchmarkPingPong(b *testing.B) {
	for _, engine := range []string{Uring, Epoll} {
		for _, c := range []struct {
			name string
			size int
		}{{"100B", 100}, {"4500B", 4500}} {
			b.Run(engine+"/"+c.name, func(b *testing.B) { benchmarkPingPong(b, Config{Engine: engine}, c.size) })
		}
	}
}

// cpu is what a thread has used, in nanoseconds.
type cpu struct{ user, system int64 }

func threadCPU(b *testing.B) cpu {
	const rusageThread = 1 // include/uapi/linux/resource.h
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		b.Error(err)
	}
	return cpu{u.Utime.Nano(), u.Stime.Nano()}
}

func (c cpu) since(b *testing.B) cpu {
	now := threadCPU(b)
	return cpu{now.user - c.user, now.system - c.system}
}

func benchmarkPingPong(b *testing.B, c Config, size int) {
	const connections = 64
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // two threads wait without telling the runtime
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ours, theirs [connections]int
	for i := range connections {
		ours[i], theirs[i] = tcpPair(b)
	}
	answered := make(chan cpu, 1)
	go func() { answered <- answer(b, c, theirs[:], size) }()
	r, err := Open(c)
	if err != nil {
		b.Fatal(err)
	}
	ball := make([]byte, size)
	got := [connections]int{}
	for i, fd := range ours {
		r.Receive(fd, MakeTag(uint32(i), 1))
		r.Send(fd, ball, MakeTag(uint32(i), 1))
	}
	b.ResetTimer()
	before := threadCPU(b)
	for done := 0; done < b.N; {
		events, err := r.Wait(Patience{Timeout: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		for i := range events {
			ev := &events[i]
			at := ev.Tag.Index()
			if got[at] += len(ev.Data); got[at] >= size {
				got[at] -= size
				done++
				r.Send(ours[at], ball, ev.Tag)
			}
		}
	}
	client := before.since(b)
	b.StopTimer()
	for i, fd := range ours {
		r.Close(fd, MakeTag(uint32(i), 1))
	}
	if err := r.Shut(); err != nil {
		b.Fatal(err)
	}
	server := <-answered
	report := func(name string, ns int64) { b.ReportMetric(float64(ns)/float64(b.N), name) }
	report("client-user-ns/op", client.user)
	report("client-sys-ns/op", client.system)
	report("server-user-ns/op", server.user)
	report("server-sys-ns/op", server.system)
	report("cpu-ns/op", client.user+client.system+server.user+server.system)
}

// answer returns a ball for each that comes whole, until all connections end.
func answer(b *testing.B, c Config, fds []int, size int) cpu {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := Open(c)
	if err != nil {
		b.Error(err)
		return cpu{}
	}
	ball := make([]byte, size)
	got := make([]int, len(fds))
	for i, fd := range fds {
		r.Receive(fd, MakeTag(uint32(i), 1))
	}
	before := threadCPU(b)
	for open := len(fds); open > 0; {
		events, err := r.Wait(Patience{Timeout: time.Second})
		if err != nil {
			b.Error(err)
			return cpu{}
		}
		for i := range events {
			ev := &events[i]
			at := ev.Tag.Index()
			switch {
			case ev.Kind != Received:
			case len(ev.Data) == 0:
				r.Close(fds[at], ev.Tag)
				open--
			default:
				for got[at] += len(ev.Data); got[at] >= size; got[at] -= size {
					r.Send(fds[at], ball, ev.Tag)
				}
			}
		}
	}
	used := before.since(b)
	if err := r.Shut(); err != nil {
		b.Error(err)
	}
	return used
}

func tcpPair(b *testing.B) (ours, theirs int) {
	ln, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer syscall.Close(ln)
	if err := syscall.Listen(ln, 1); err != nil {
		b.Fatal(err)
	}
	to, err := syscall.Getsockname(ln)
	if err != nil {
		b.Fatal(err)
	}
	ours, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	to.(*syscall.SockaddrInet4).Addr = [4]byte{127, 0, 0, 1}
	if err := syscall.Connect(ours, to); err != nil {
		b.Fatal(err)
	}
	theirs, _, err = syscall.Accept4(ln, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	for _, fd := range []int{ours, theirs} {
		if err := syscall.SetNonblock(fd, true); err != nil {
			b.Fatal(err)
		}
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			b.Fatal(err)
		}
	}
	return ours, theirs
}
