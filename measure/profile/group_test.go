package profile

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/profiles"
	"ceiling/record"
)

// groupOf finds the endpoints of servers in this process.
func groupOf(t *testing.T, handlers ...http.Handler) *Group {
	t.Helper()
	var urls []string
	for _, h := range handlers {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL+"/debug/pprof/")
	}
	g, err := FindAll(t.Context(), urls, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// timedWaits has goroutines take a lock that is held for a while, and measures by
// its own clock how long they waited.
func timedWaits(goroutines, rounds int) time.Duration {
	var mu, sum sync.Mutex
	var waited time.Duration
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range rounds {
				from := time.Now()
				mu.Lock()
				took := time.Since(from)
				time.Sleep(2 * time.Millisecond)
				mu.Unlock()
				sum.Lock()
				waited += took
				sum.Unlock()
			}
		})
	}
	all.Wait()
	return waited
}

//go:noinline
func plantedAllocation(n int) (kept [][]byte) {
	for range n {
		kept = append(kept, make([]byte, 1<<20))
	}
	return kept
}

// What grew between two moments is what was planted, by clocks and counts of the
// test's own.
func TestMoments(t *testing.T) {
	needs.Time(t)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	g := groupOf(t, http.DefaultServeMux)
	before, err := g.Moment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gcBefore, err := g.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	collections := stats.NumGC

	waited := timedWaits(4, 20)
	const megabytes = 40
	runtime.KeepAlive(plantedAllocation(megabytes))
	for range 3 {
		runtime.GC()
	}

	runtime.ReadMemStats(&stats)
	after, err := g.Moment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gcAfter, err := g.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, value, function string
		want, within          float64
	}{
		{record.ProfileBlock, "delay", "profile.timedWaits.func1", float64(waited), .25},
		{record.ProfileMutex, "delay", "profile.timedWaits.func1", float64(waited), .35},
		{"heap", "alloc_space", "profile.plantedAllocation", megabytes << 20, .25},
	} {
		parts, err := after.Since(before, c.kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := profiles.Merge(parts)
		if err != nil || p == nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		i, err := profiles.ValueNamed(p, c.value)
		if err != nil {
			t.Fatal(err)
		}
		s := profiles.Summarize(p, i, 1, profiles.Waiting)
		f := s.Functions[0]
		if !strings.HasSuffix(f.Name, c.function) || math.Abs(float64(f.Self)/c.want-1) > c.within || f.Blocks[0] != f.Self {
			t.Errorf("%s: %s has %d; planted were %.0f in %s", c.kind, f.Name, f.Self, c.want, c.function)
		}
	}
	gc := gcAfter.Since(gcBefore)
	if gc == nil || gc.Collections < int64(stats.NumGC-collections) || gc.Collections < 3 || gc.Pauses != gc.Collections ||
		gc.MaxNs < gc.P50Ns || gc.PauseNs < gc.MaxNs || gc.P50Ns <= 0 {
		t.Errorf("%+v; the runtime counted %d collections", gc, stats.NumGC-collections)
	}
}

// Goroutines that fight for one thread wait for it as long as the runtime's own
// histogram says.
func TestSchedulerLatency(t *testing.T) {
	needs.Time(t)
	g := groupOf(t, http.DefaultServeMux)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for at := time.Now(); time.Since(at) < 500*time.Microsecond; {
					}
					runtime.Gosched()
				}
			}
		})
	}
	before := latencies()
	s, err := g.Latency(t.Context(), 300*time.Millisecond)
	after := latencies()
	close(stop)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i := range after.Counts {
		after.Counts[i] -= before.Counts[i]
	}
	want := middleOf(after)
	if s.Waits < 100 || float64(s.P50Ns) < want/3 || float64(s.P50Ns) > want*3 || s.P99Ns < s.P50Ns || s.MaxNs < s.P99Ns {
		t.Errorf("%+v; the runtime's histogram has a median of %.0f ns", s, want)
	}
}

// latencies is the runtime's own histogram, which tells the same from within.
func latencies() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: h.Buckets}
}

func middleOf(h *metrics.Float64Histogram) float64 {
	var all, sum uint64
	for _, n := range h.Counts {
		all += n
	}
	for i, n := range h.Counts {
		if sum += n; 2*sum >= all {
			return h.Buckets[i+1] * 1e9
		}
	}
	return 0
}

// several answers as a prefork server's front does.
func several(pids ...int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/pprof/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "goroutine profile")
	})
	mux.HandleFunc("/debug/pprof/process/{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, pid := range pids {
			fmt.Fprintln(w, pid)
		}
	})
	for _, pid := range pids {
		root := fmt.Sprintf("/debug/pprof/process/%d/", pid)
		mux.Handle(root, http.StripPrefix(root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if pid == 3 {
				http.Error(w, "the process has ended", http.StatusBadGateway)
				return
			}
			r.URL.Path = "/debug/pprof/" + r.URL.Path
			http.DefaultServeMux.ServeHTTP(w, r)
		})))
	}
	return mux
}

// The processes behind one address are asked at once; one that has ended is said.
func TestProcessesBehindOneAddress(t *testing.T) {
	g := groupOf(t, several(1, 2))
	if g.Processes() != 2 {
		t.Fatalf("%d processes", g.Processes())
	}
	from := time.Now()
	parts, err := g.Goroutines(t.Context())
	if err != nil || len(parts) != 2 || time.Since(from) > answerTimeout {
		t.Fatalf("%v, %v", parts, err)
	}
	p, err := profiles.Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	if s := profiles.Summarize(p, 0, 0, profiles.Waiting); s.Processes["1"] < 2 || s.Processes["2"] < 2 {
		t.Errorf("%+v", s.Processes)
	}
	parts, err = groupOf(t, several(1, 3)).Goroutines(t.Context())
	if len(parts) != 1 || err == nil || !strings.Contains(err.Error(), "process 3: ") || !strings.Contains(err.Error(), "has ended") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	if one := groupOf(t, http.DefaultServeMux); one.Processes() != 1 || !strings.HasPrefix(one.processes[0].name, "127.0.0.1:") {
		t.Errorf("%+v", one.processes)
	}
}

// What is no profile is one clear line.
func TestWhatIsNoProfile(t *testing.T) {
	big := bytes.Repeat([]byte{0}, 1<<20)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"a page":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\n<body>") }, "not a profile in pprof's format"},
		"nothing":  {func(http.ResponseWriter, *http.Request) {}, "empty"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "cpu profiling already in use", 500) }, "already in use"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.Write([]byte("x"))
		}, "unexpected EOF"},
		"a huge one": {func(w http.ResponseWriter, _ *http.Request) {
			for range bodyMax>>20 + 1 {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		}, "more than 64 MB"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "profile goroutine") })
		mux.HandleFunc("/debug/pprof/profile", c.answer)
		_, err := groupOf(t, mux).CPU(t.Context(), 1, 0)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for _, text := range []string{"", "# NumGC = 3\n", "# PauseNs = [1 2]\n# NumGC = 3\n# GCCPUFraction = 0.1\n", "# NumGC = x\n"} {
		if m, err := parseMemory([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, m)
		}
	}
	pauses := make([]string, pausesOf)
	for i := range pauses {
		pauses[i] = fmt.Sprint(i)
	}
	text := "heap profile: 0: 0\n# NumGC = %d\n# GCCPUFraction = 0.25\n# PauseNs = [" + strings.Join(pauses, " ") + "]\n"
	a, err := parseMemory(fmt.Appendf(nil, text, 254))
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseMemory(fmt.Appendf(nil, text, 258))
	if err != nil {
		t.Fatal(err)
	}
	// Collections 255, 256, 257 and 258 are at 254, 255, 0 and 1.
	gc := Memory{"x": b}.Since(Memory{"x": a})
	if gc.Collections != 4 || gc.PauseNs != 254+255+0+1 || gc.MaxNs != 255 || gc.P50Ns != 1 || gc.CPUShare != .25 {
		t.Errorf("%+v", gc)
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = schedulerWaits(bytes.NewReader(b)) })
}
