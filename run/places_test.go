package run

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/observe"
	"ceiling/record"
	"ceiling/spec"
)

// residence is a server that keeps every batch of requests for a known time in
// two places, and stamps when: unread in its socket first, then in its own hands.
type residence struct {
	unread, inside time.Duration // what is planted
	// What came of it, summed over requests.
	requests, unreadNs, insideNs atomic.Int64
	served                       sync.WaitGroup
}

func (s *residence) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); s.served.Wait() })
	s.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.served.Go(func() { s.serve(c.(*net.TCPConn)) })
		}
	})
	return l.Addr().String()
}

const residenceAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func (s *residence) serve(c *net.TCPConn) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	in, out := make([]byte, 64<<10), make([]byte, 0, 4<<10)
	for {
		// Readable, and nothing read: MSG_PEEK sees the end of file too.
		there := 0
		if err := raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), in, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			there = n
			return err != syscall.EAGAIN
		}); err != nil || there <= 0 {
			return
		}
		arrived := time.Now()
		time.Sleep(s.unread)
		n, err := c.Read(in)
		if err != nil {
			return
		}
		read := time.Now()
		time.Sleep(s.inside)
		out = out[:0]
		k := int64(bytes.Count(in[:n], []byte("\r\n\r\n")))
		for range k {
			out = append(out, residenceAnswer...)
		}
		s.requests.Add(k)
		s.unreadNs.Add(k * int64(read.Sub(arrived)))
		s.insideNs.Add(k * int64(time.Since(read)))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// The shares of time hold against a server that knows how long each request was
// where: the measurement that every verdict stands on.
func TestPlacesHoldAgainstTheServersOwnClock(t *testing.T) {
	for _, c := range []struct {
		connections, pipelining int
		rate                    string // "": closed loop
		unread, inside          time.Duration
	}{
		{1, 1, "", 10 * time.Millisecond, 5 * time.Millisecond},
		{16, 1, "", 5 * time.Millisecond, 15 * time.Millisecond},
		{64, 1, "", 30 * time.Millisecond, 10 * time.Millisecond},
		{64, 16, "", 15 * time.Millisecond, 25 * time.Millisecond},
		{64, 1, "800", 15 * time.Millisecond, 25 * time.Millisecond},
		{1000, 1, "", 200 * time.Millisecond, 100 * time.Millisecond},
	} {
		name := fmt.Sprintf("%d connections, %d in flight each, rate %q", c.connections, c.pipelining, c.rate)
		t.Run(name, func(t *testing.T) {
			s := &residence{unread: c.unread, inside: c.inside}
			asked := specOf(s.listen(t), "/")
			asked.Connections, asked.Pipelining = c.connections, c.pipelining
			asked.Warmup, asked.Duration = 500*time.Millisecond, 2500*time.Millisecond
			if c.rate != "" {
				asked.Arrivals = spec.Poisson
				var err error
				if asked.Rate, err = unit.ParseRate(c.rate); err != nil {
					t.Fatal(err)
				}
			}
			r := &do(t, asked).Run
			if r.Requests.Failed > 0 || s.requests.Load() == 0 {
				t.Fatalf("%+v", r.Requests)
			}
			mean := r.Latency.Service.MeanNs * float64(s.requests.Load())
			truth := map[string]float64{
				"server queue": float64(s.unreadNs.Load()) / mean,
				"server":       float64(s.insideNs.Load()) / mean,
			}
			said := map[string]record.Station{}
			for _, p := range r.Verdict.Stations {
				said[p.Name] = p
			}
			for name, share := range truth {
				if got := said[name].Share; math.Abs(got-share) > 0.05 {
					t.Errorf("%s: %.1f %% by the server's own clock, the verdict says %.1f %% (%.1f to %.1f)", name, share*100, got*100, said[name].Low*100, said[name].High*100)
				}
			}
		})
	}
}

// Where the thread runs that looks at the sockets must not show in what it
// sees: two more observers watch the same run, one on the generator's CPU, one
// on the server's.
func TestPlacesDoNotDependOnTheObserversCPU(t *testing.T) {
	cpus, err := sys.AllowedCPUs(0)
	if err != nil || len(cpus) < 2 {
		t.Fatalf("this test needs two CPUs, has %v: %v", cpus, err)
	}
	generator, server := cpus[0], cpus[1]
	c := startServer(t, "fasthttp")
	asked := specOf(c.Addr, "/simple")
	asked.Connections, asked.Warmup, asked.Duration = 64, 500*time.Millisecond, 4*time.Second
	asked.PinGenerator, asked.PinServer = fmt.Sprint(generator), fmt.Sprint(server)

	seen := make([]record.SocketsRow, 2) // sums over rows
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for i, cpu := range []int{generator, server} {
		o, err := observe.New(observe.Config{TargetAddr: netip.MustParseAddrPort(c.Addr), CPUs: []int{cpu}})
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			defer o.Close()
			time.Sleep(time.Second) // the load has begun, and the server is on its CPU
			began := time.Now()
			o.Run(ctx, func() int64 { return int64(time.Since(began)) }, func(row record.ObservedRow) {
				if r, ok := row.(*record.SocketsRow); ok && r.Looks > 0 {
					seen[i].Moments++
					seen[i].Server.Unread += r.Server.Unread / float64(r.Server.Sockets)
					seen[i].Client.Unread += r.Client.Unread / float64(r.Client.Sockets)
					seen[i].ToServer.Connections += r.ToServer.Connections / float64(r.Client.Sockets)
					seen[i].ToClient.Connections += r.ToClient.Connections / float64(r.Client.Sockets)
				}
			})
		})
		t.Cleanup(func() { cancel(); watching.Wait() })
	}
	stop := time.AfterFunc(3*time.Second, cancel)
	defer stop.Stop()
	do(t, asked)
	cancel()
	watching.Wait()
	share := func(i int, unread float64) float64 { return 100 * unread / float64(seen[i].Moments) }
	for i := range seen {
		if seen[i].Moments < 5 {
			t.Fatalf("observer %d has %d rows", i, seen[i].Moments)
		}
	}
	for _, p := range []struct {
		name string
		a, b float64
	}{
		{"server queue", share(0, seen[0].Server.Unread), share(1, seen[1].Server.Unread)},
		{"generator queue", share(0, seen[0].Client.Unread), share(1, seen[1].Client.Unread)},
		{"way in", share(0, seen[0].ToServer.Connections), share(1, seen[1].ToServer.Connections)},
		{"way back", share(0, seen[0].ToClient.Connections), share(1, seen[1].ToClient.Connections)},
	} {
		t.Logf("%s: %.1f %% from the generator's CPU, %.1f %% from the server's", p.name, p.a, p.b)
		// A kernel without preemption (PREEMPT_NONE) lets a real-time thread in at the
		// end of a system call only, which is 2 to 6 points; a list that held up its
		// CPU for milliseconds made it 80.
		if math.Abs(p.a-p.b) > 12 {
			t.Errorf("%s: %.1f %% seen from the generator's CPU, %.1f %% from the server's", p.name, p.a, p.b)
		}
	}
}
