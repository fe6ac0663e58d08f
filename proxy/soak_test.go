package proxy

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/measure/load"
)

var soakFor = flag.Duration("soak", 6*time.Second, "how long TestSoak runs; make soak: 30m")

// soak is the generator, the proxy and its backends in one process, so that what
// any of them keeps shows.
type soak struct {
	t       *testing.T
	proxy   *running
	text    string
	a, b    *faultserver.Server // behind the proxy
	direct  *faultserver.Server // in front of the generator alone
	samples []usage
	sums    map[string]uint64 // what was counted, over all rounds
}

// usage is what the process holds while nothing is under way.
type usage struct{ heap, rss, descriptors, goroutines float64 }

// unobserved is an Observer that needs nothing.
type unobserved struct{}

func (unobserved) Connected(int, int, time.Time) {}
func (unobserved) Window(bool, time.Time)        {}
func (unobserved) Interval(*load.Tally, bool)    {}

// load sends n requests, or for a time if n is 0, while disturb runs every few
// milliseconds.
func (s *soak) load(address string, n uint64, engine string, disturb func(k int)) *load.Result {
	s.t.Helper()
	c := load.Config{
		To:          load.To(ring.TCPAddr(netip.MustParseAddrPort(address))),
		Mix:         []load.Request{{Bytes: []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Weight: 1}},
		Connections: 16, Threads: 1, Pipelining: 1, Requests: n, Timeout: patience, Engine: engine, Seed: 1,
	}
	if n == 0 {
		c.Duration = 300 * time.Millisecond
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := 0; ; k++ {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				disturb(k)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	r, err := load.Run(ctx, c, unobserved{})
	close(done)
	<-ended
	if err != nil || r.Interrupted {
		s.t.Fatalf("%v, %+v", err, r)
	}
	return r
}

// dies has a server reset its connections and refuse, and come back.
func dies(s *faultserver.Server) func(int) {
	return func(k int) {
		switch k % 4 {
		case 0:
			s.Kill()
		case 1:
			_ = s.Accept() // the port is kept for it
		case 2:
			thaw := s.Freeze()
			time.Sleep(5 * time.Millisecond)
			thaw()
		}
	}
}

func (s *soak) counters() map[string]uint64 {
	s.t.Helper()
	shot, err := s.proxy.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	for name, n := range shot.Statuses {
		shot.Counters[name] = n
	}
	shot.Counters["backends"] = s.a.Requests() + s.b.Requests()
	return shot.Counters
}

// round sends n requests through the proxy, and compares the books of all.
func (s *soak) round(n uint64, engine string, deaths bool, disturb func(int)) {
	s.t.Helper()
	before := s.counters()
	r := s.load(s.proxy.addr, n, engine, disturb)
	until(s.t, "the proxy is idle", func() bool {
		shot, err := s.proxy.Snapshot()
		return err == nil && shot.Clients == 0
	})
	_, _ = s.a.Accept(), s.b.Accept() // their ports are kept for them
	after := s.counters()
	delta := func(name string) uint64 { return after[name] - before[name] }
	ok, errors := r.Total.Statuses[200], r.Total.Statuses[502]+r.Total.Statuses[503]+r.Total.Statuses[504]
	s.sums["requests"] += n
	s.sums["5xx"] += errors
	s.sums["retries"] += delta("retries_total")
	switch {
	case r.Total.Completed+r.Total.Failed != n, ok+errors != r.Total.Completed:
		s.t.Fatalf("asked %d, completed %d, failed %d, 200 %d, 5xx %d", n, r.Total.Completed, r.Total.Failed, ok, errors)
	case delta("requests_total") != n, delta("2xx") != ok, delta("5xx") != errors:
		s.t.Fatalf("the client has %d and %d errors, the proxy %d requests, %d and %d errors", ok, errors, delta("requests_total"), delta("2xx"),
			delta("5xx"))
	case delta("backends") < ok, !deaths && (delta("backends") != n || errors > 0):
		s.t.Fatalf("the client has %d of %d, the backends %d", ok, n, delta("backends"))
	case r.Total.Failed > 0:
		s.t.Fatalf("%d failed: %v", r.Total.Failed, r.Total.Faults)
	}
}

// generator has it meet a server that dies.
func (s *soak) generator(engine string) {
	s.t.Helper()
	before := s.direct.Requests()
	r := s.load(s.direct.Address(), 0, engine, dies(s.direct))
	_ = s.direct.Accept()
	t := &r.Total
	until(s.t, "the server is idle", func() bool { return s.direct.Live() == 0 })
	got := s.direct.Requests() - before
	s.sums["direct"] += t.Completed
	s.sums["failed"] += t.Failed
	if t.Sent != t.Completed+t.Failed+t.InFlight || t.Completed > got || got > t.Sent+t.Resent {
		s.t.Fatalf("sent %d, again %d, completed %d, failed %d, in flight %d; the server had %d", t.Sent, t.Resent, t.Completed, t.Failed,
			t.InFlight, got)
	}
}

// measure takes a sample.
func (s *soak) measure() {
	s.t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		s.t.Fatal(err)
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		s.t.Fatal(err)
	}
	s.samples = append(s.samples, usage{float64(m.HeapAlloc), resident * float64(os.Getpagesize()), float64(descriptors()),
		float64(runtime.NumGoroutine())})
}

// grown compares the median of the last third with that of the first, and says what
// has become more than noise explains: a tenth, and a little that does not matter.
func grown(samples []usage) (list []string) {
	third := len(samples) / 3
	for _, q := range []struct {
		name  string
		of    func(usage) float64
		slack float64
	}{
		{"heap", func(u usage) float64 { return u.heap }, 1 << 20},
		{"RSS", func(u usage) float64 { return u.rss }, 8 << 20},
		{"descriptors", func(u usage) float64 { return u.descriptors }, 16}, // idle connections to backends
		{"goroutines", func(u usage) float64 { return u.goroutines }, 16},   // one for each of their other ends
	} {
		median := func(part []usage) float64 {
			var values []float64
			for _, u := range part {
				values = append(values, q.of(u))
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		first, last := median(samples[:third]), median(samples[len(samples)-third:])
		if last > first*1.1+q.slack {
			list = append(list, fmt.Sprintf("%s: from %.0f to %.0f", q.name, first, last))
		}
	}
	return list
}

func TestGrown(t *testing.T) {
	flat, leaks := make([]usage, 30), make([]usage, 30)
	for i := range flat {
		noise := float64(i * 7 % 5)
		flat[i] = usage{4e6 + noise*1e5, 40e6 + noise*1e6, 30 + noise, 20 + noise}
		leaks[i] = usage{4e6 + float64(i)*1e5, 40e6 + float64(i)*1e6, 30 + float64(i)*2, 20 + float64(i)*2}
	}
	if list := grown(flat); list != nil {
		t.Error(list)
	}
	if list := grown(leaks); len(list) != 4 {
		t.Errorf("of four leaks: %q", list)
	}
}

// TestSoak: under load for long, with backends that die, stall and come back and a
// configuration that changes, nothing is lost and nothing grows. The first tenth
// of the time fills pools and caches, and is not compared.
func TestSoak(t *testing.T) {
	needs.Time(t)
	ok := faultserver.Every(faultserver.Answer(faultserver.OK(strings.Repeat("x", 500))))
	s := &soak{t: t, a: faultyServer(t, ok), b: faultyServer(t, ok), direct: faultyServer(t, ok), sums: map[string]uint64{}}
	// A small pool is full at once: one of 64 fills as the load happens to need it,
	// which in a few seconds looks like a leak.
	const pool = "idle_connections = 4\n"
	one := to("http://"+s.a.Address()) + pool
	s.text = one + "[[locations.destinations]]\nuri = \"http://" + s.b.Address() + "\"\n" + pool
	s.proxy = run(t, "", s.text)
	texts := []string{s.text, s.text + "weight = 3\n", one}
	reload := func(k int) {
		if err := s.proxy.Reload(parse(t, texts[k%len(texts)])); err != nil {
			t.Error(err)
		}
	}
	stalls := func(k int) {
		thaw := s.a.Freeze()
		time.Sleep(5 * time.Millisecond)
		thaw()
		reload(k)
	}
	began := time.Now()
	const fewest = 3
	for k := 0; (time.Since(began) < *soakFor || len(s.samples) < fewest) && !t.Failed(); k++ {
		engine := []string{ring.Uring, ring.Epoll}[k%2]
		s.round(3000, engine, false, stalls)
		s.round(3000, engine, true, dies(s.b))
		reload(0)
		s.generator(engine)
		if time.Since(began) > *soakFor/10 {
			s.measure()
		}
	}
	n := len(s.samples)
	if n < fewest {
		t.Fatalf("%d samples", n)
	}
	for _, i := range []int{0, n / 4, n / 2, 3 * n / 4, n - 1} {
		u := s.samples[i]
		t.Logf("sample %d of %d: heap %.2f MB, RSS %.1f MB, %.0f descriptors, %.0f goroutines", i+1, n, u.heap/1e6, u.rss/1e6, u.descriptors,
			u.goroutines)
	}
	t.Logf("%v: %v", time.Since(began).Round(time.Second), s.sums)
	if list := grown(s.samples); len(list) > 0 {
		t.Errorf("grown: %s", strings.Join(list, "; "))
	}
}
