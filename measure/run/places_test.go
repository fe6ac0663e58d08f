//go:build linux

package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/measure/observe/events"
	"ceiling/record"
	"ceiling/verdict"
)

// residence is a server that keeps every batch of requests for a known time in
// two places, and stamps when: unread in its socket first, from the kernel's own
// time of arrival (a busy machine wakes the server late), then in its own hands.
// It runs in a process of its own, and tells on /truth what came of it.
type residence struct {
	unread, inside time.Duration // what is planted
	stamps         stamps
}

// stamps are sums over requests.
type stamps struct{ Requests, UnreadNs, InsideNs atomic.Int64 }

const residenceAnswer = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"

// serve serves until the process ends.
func (s *residence) serve() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("residence serves on %s\n", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go s.keep(c.(*net.TCPConn))
	}
}

func (s *residence) keep(c *net.TCPConn) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	if err := raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // without it, no request has a time
	}); err != nil {
		return
	}
	in, out, control := make([]byte, 8<<10), make([]byte, 0, 1<<10), make([]byte, 64)
	answer := fmt.Sprintf(residenceAnswer, 2, "ok")
	for {
		// Readable, and nothing read: MSG_PEEK sees the end of file too.
		there, times := 0, 0
		if err := raw.Read(func(fd uintptr) bool {
			var err error
			there, times, _, _, err = unix.Recvmsg(int(fd), in, control, unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return err != unix.EAGAIN
		}); err != nil || there <= 0 {
			return
		}
		if bytes.HasPrefix(in[:there], []byte("GET /truth ")) {
			text := fmt.Sprintf("%d %d %d", s.stamps.Requests.Load(), s.stamps.UnreadNs.Load(), s.stamps.InsideNs.Load())
			fmt.Fprintf(c, residenceAnswer, len(text), text)
			return
		}
		arrived, err := arrival(control[:times])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return // which fails the run
		}
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
			out = append(out, answer...)
		}
		s.stamps.Requests.Add(k)
		s.stamps.UnreadNs.Add(k * int64(read.Sub(arrived)))
		s.stamps.InsideNs.Add(k * int64(time.Since(read)))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// arrival is when the kernel received what a message brought, by its SO_TIMESTAMPNS.
func arrival(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), nil
		}
	}
	return time.Time{}, fmt.Errorf("%d control messages, and none has the time of arrival", len(messages))
}

// startResidence starts it as a process.
func startResidence(t *testing.T, unread, inside time.Duration) *Child {
	t.Helper()
	t.Setenv("RUN_TEST_RESIDENCE", fmt.Sprintf("%d %d", unread, inside))
	c, err := StartChild(t.Context(), os.Args[0])
	os.Unsetenv("RUN_TEST_RESIDENCE")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// truth are the shares of the mean time of a request that the server's own clock
// gives its places.
func truth(t *testing.T, addr string, meanNs float64) map[string]float64 {
	t.Helper()
	answer, err := http.Get("http://" + addr + "/truth")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var requests, unreadNs, insideNs float64
	if _, err := fmt.Fscan(answer.Body, &requests, &unreadNs, &insideNs); err != nil || requests == 0 {
		t.Fatalf("%v requests: %v", requests, err)
	}
	return map[string]float64{"server receive queue": unreadNs / requests / meanNs, "server": insideNs / requests / meanNs}
}

// The shares of time hold against a server that knows how long each request was
// where: the measurement that every verdict stands on.
func TestPlacesHoldAgainstTheServersOwnClock(t *testing.T) {
	needs.Quiet(t)
	off := deviations{}
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
		{10_000, 1, "", 600 * time.Millisecond, 400 * time.Millisecond},
		{10_000, 1, "5000", 400 * time.Millisecond, 600 * time.Millisecond},
	} {
		name := fmt.Sprintf("%d connections, %d in flight each, rate %q", c.connections, c.pipelining, c.rate)
		t.Run(name, func(t *testing.T) {
			server := startResidence(t, c.unread, c.inside)
			asked := specOf(server.Addr, "/")
			asked.Connections, asked.Pipelining = c.connections, c.pipelining
			// A closed loop begins with all connections at once, and their requests stay
			// side by side: whole turns of them leave no part of one over.
			turn := c.unread + c.inside
			asked.Warmup, asked.Duration = 100*time.Millisecond+max(400*time.Millisecond, turn), (2500*time.Millisecond+turn-1)/turn*turn
			if c.rate != "" {
				asked.Arrivals = spec.Poisson
				var err error
				if asked.Rate, err = unit.ParseRate(c.rate); err != nil {
					t.Fatal(err)
				}
			}
			d := do(t, asked)
			r := &d.Run
			if r.Requests.Failed > 0 {
				t.Fatalf("%+v", r.Requests)
			}
			_, rows, err := record.Open(d.File)
			if err != nil {
				t.Fatal(err)
			}
			truth := truth(t, server.Addr, r.Latency.Service.MeanNs)
			off.of(t, truth, r.Verdict)
			if r.Verdict.StationsBy == record.ByKernelEvents { // else the samples were judged already
				rows.Observed.Times = nil
				off.of(t, truth, verdict.Judge(r, &rows))
			}
		})
	}
	for by, all := range off {
		mean, square := 0.0, 0.0
		for _, d := range all {
			mean += d / float64(len(all))
			square += d * d / float64(len(all))
		}
		chance := math.Sqrt(max(square-mean*mean, 0) / float64(len(all)))
		t.Logf("%s: %+.1f ± %.1f points on average of %d", by, mean*100, chance*100, len(all))
		if math.Abs(mean) > 0.04+2*chance {
			t.Errorf("%s: the server's queue is off by %+.1f ± %.1f points on average", by, mean*100, chance*100)
		}
	}
}

// deviations are how far the verdict's shares of the server's queue were from
// the truth, by source: a bias is the same everywhere, chance is not.
type deviations map[string][]float64

// of takes in a verdict. A share may be off by 5 points, or by what a run as
// short as this one leaves open. The interval that the verdict gives is four
// standard errors wide, which chance reaches in a run with 25 samples; one and a
// half of it are six.
func (d deviations) of(t *testing.T, truth map[string]float64, v record.Verdict) {
	t.Helper()
	if len(v.Stations) == 0 {
		t.Fatalf("no shares: %v", v.Caveats)
	}
	for _, p := range v.Stations {
		share, planted := truth[p.Name]
		if !planted {
			continue
		}
		if math.Abs(p.Share-share) > max(0.05, 1.5*(p.High-p.Low)) {
			t.Errorf("%s: %.1f%% by the server's own clock, %.1f%% by %s (%.1f to %.1f)", p.Name, share*100, p.Share*100, v.StationsBy, p.Low*100,
				p.High*100)
		}
		if p.Name == "server receive queue" {
			d[v.StationsBy] = append(d[v.StationsBy], p.Share-share)
		}
	}
}

// watched are shares of time by place, one a burst of kernel events.
type watched map[string][]float64

// watch follows the connections to an address from one CPU until ctx ends.
// Bursts come as often as they can, whatever that costs.
func (w watched) watch(ctx context.Context, addr netip.AddrPort, cpu int) error {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, pinned as it is
	if err := sys.Pin(0, []int{cpu}); err != nil {
		return err
	}
	events, err := events.Open(addr, false, 1, rand.New(rand.NewPCG(1, uint64(cpu))))
	if err != nil {
		return err
	}
	defer events.Close()
	for ctx.Err() == nil {
		burst, next, err := events.Step()
		if err != nil {
			return err
		}
		if burst == nil {
			time.Sleep(next)
			continue
		}
		time.Sleep(min(next, 100*time.Millisecond))
		if burst.Share == 1 || burst.KnownNs == 0 {
			continue // the first ones follow all connections, which shows; in another nothing may have moved
		}
		for place, name := range []string{record.PlaceToServer, record.PlaceAtServer, record.PlaceInServer, record.PlaceToClient,
			record.PlaceAtClient, record.PlaceGenerator} {
			w[name] = append(w[name], float64(burst.Ns[place])/float64(burst.KnownNs))
		}
	}
	return nil
}

// middle is the median in percent, since of a few bursts one may be another
// program's, and about its standard error.
func middle(shares []float64) (median, deviation float64) {
	if len(shares) < 5 {
		return math.NaN(), 0
	}
	slices.Sort(shares)
	n := float64(len(shares))
	median = 100 * (shares[(len(shares)-1)/2] + shares[len(shares)/2]) / 2
	for _, s := range shares {
		deviation += (100*s - median) * (100*s - median) / n
	}
	return median, 1.25 * math.Sqrt(deviation/n)
}

// From which CPU kernel events are watched must not show in what they say: one
// that had to run when others do not would see what piles up meanwhile.
func TestPlacesDoNotDependOnTheObserversCPU(t *testing.T) {
	needs.Quiet(t)
	cpus, err := sys.AllowedCPUs(0)
	if err != nil || len(cpus) < 2 {
		t.Fatalf("this test needs two CPUs, has %v: %v", cpus, err)
	}
	cpus = cpus[:2]
	c := startServer(t, "fasthttp")
	asked := specOf(c.Addr, "/simple")
	asked.Connections, asked.Warmup, asked.Duration = 64, 500*time.Millisecond, 4*time.Second
	asked.PinGenerator, asked.PinServer = fmt.Sprint(cpus[0]), fmt.Sprint(cpus[1])

	seen := []watched{{}, {}}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for i, cpu := range cpus {
		watching.Go(func() {
			time.Sleep(time.Second) // the load has begun, and the server is on its CPU
			if err := seen[i].watch(ctx, netip.MustParseAddrPort(c.Addr), cpu); err != nil {
				t.Error(err)
			}
		})
	}
	stop := time.AfterFunc(4*time.Second, cancel)
	t.Cleanup(func() { stop.Stop(); cancel(); watching.Wait() })
	do(t, asked)
	cancel()
	watching.Wait()
	for place, of := range seen[0] {
		a, deviationA := middle(of)
		b, deviationB := middle(seen[1][place])
		t.Logf("%s: %.1f%% ± %.1f and %.1f%% ± %.1f", place, a, deviationA, b, deviationB)
		if !(math.Abs(a-b) <= max(5, 4*math.Hypot(deviationA, deviationB))) {
			t.Errorf("%s: %.1f%% ± %.1f seen from the generator's CPU, %.1f%% ± %.1f from the server's", place, a, deviationA, b, deviationB)
		}
	}
	if len(seen[0]) == 0 {
		t.Error("no bursts")
	}
}
