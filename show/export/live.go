package export

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"sync"

	"ceiling/record"
)

// Identity identifies the run of a Live.
type Identity struct {
	Run     string // its ID; "" if not known yet
	Target  string // URL
	Mode    string // "closed" or "open"
	Counts  string // "requests", "messages" or "events"; "" is requests
	Version string // of this program
	Host    string
}

// Live holds the metrics of a run in progress. One goroutine feeds it ten times a second; any
// number read a copy. Feeding holds the lock for about 20 additions, never during a socket write.
type Live struct {
	mu sync.Mutex
	s  liveState
}

// liveState is the sum of the rows.
type liveState struct {
	who        Identity
	rows       uint64 // intervals of the window
	late       uint64 // of these, wider than 1.5 times the planned width
	sent       uint64
	completed  uint64
	failed     uint64
	bad        uint64
	read       uint64
	written    uint64
	shaken     record.LoadRow // of these, the handshakes only
	responseNs float64        // sums over completed and failed requests
	serviceNs  float64
	maxNs      int64
	last       record.LoadRow
	any        bool
	finished   bool
}

// NewLive returns a Live for a run about to start.
func NewLive(who Identity) *Live { return &Live{s: liveState{who: who}} }

// Begin resets the counters for the next run of a plan.
func (l *Live) Begin(who Identity) {
	l.mu.Lock()
	l.s = liveState{who: who}
	l.mu.Unlock()
}

// Feed adds one interval. It ignores a row that is not later than the last one, and a row without
// a width. It never waits for a reader.
func (l *Live) Feed(row record.LoadRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.s
	if row.WidthNs <= 0 || s.any && row.TNs <= s.last.TNs {
		return
	}
	s.last, s.any = row, true
	if row.Warmup {
		return
	}
	s.rows++
	if row.Late {
		s.late++
	}
	s.sent += row.Sent
	s.completed += row.Completed
	s.failed += row.Failed
	s.bad += row.Bad
	s.read += row.Read
	s.written += row.Written
	s.shaken.Handshakes += row.Handshakes
	s.shaken.HandshakeCPUNs += row.HandshakeCPUNs
	n := float64(row.Completed + row.Failed)
	s.responseNs += row.MeanNs * n
	s.serviceNs += row.ServiceMeanNs * n
	s.maxNs = max(s.maxNs, row.MaxNs)
}

// Finish marks the end of the rows.
func (l *Live) Finish() {
	l.mu.Lock()
	l.s.finished = true
	l.mu.Unlock()
}

// snapshot returns a copy of the state.
func (l *Live) snapshot() liveState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}

// figures returns the metrics so far. Counters start at 0 when the window opens; quantiles are
// those of the last interval, because quantiles of intervals cannot be merged.
func (l *Live) figures() figures {
	s := l.snapshot()
	var f figures
	f.add(info, "run", "", "The run and its target.", 1,
		label{"run", s.who.Run}, label{"target", shown(s.who.Target)}, label{"mode", s.who.Mode}, label{"unit", cmp.Or(s.who.Counts, "requests")},
		label{"host", s.who.Host}, label{"version", s.who.Version})
	f.add(gauge, "warmup", "", "1 during the warm-up, which is in no counter.", oneIf(s.last.Warmup || !s.any))
	f.add(gauge, "finished", "", "1 when no further interval comes.", oneIf(s.finished))
	f.add(counter, "intervals", "", "Intervals of the window that are in the counters.", float64(s.rows))
	f.add(counter, "intervals_late", "", "Intervals wider than 1.5 times what was planned.", float64(s.late))
	f.add(counter, "requests_sent", "", inUnit("Requests sent in the window.", s.who.Counts), float64(s.sent))
	f.add(counter, "requests_completed", "", inUnit("Requests answered to the last byte, whatever the status.", s.who.Counts), float64(s.completed))
	f.add(counter, "requests_failed", "", inUnit("Requests without a complete answer.", s.who.Counts), float64(s.failed))
	f.add(counter, "responses_bad", "", "Responses with an unexpected status (400 or more where no other was asked); contained in those completed.", float64(s.bad))
	f.add(counter, "read", "bytes", "Bytes read: heads, framing and bodies.", float64(s.read))
	f.add(counter, "written", "bytes", "Bytes written: heads, framing and bodies.", float64(s.written))
	f.handshakes(s.shaken.Handshakes, s.shaken.HandshakeCPUNs)
	n := s.completed + s.failed
	f.addPoint(histogram, "response", "seconds", "Response time: done less due. Count and sum only during the run.",
		point{spread: &spread{counts: []uint64{n}, count: n, sum: s.responseNs / 1e9}})
	f.addPoint(histogram, "service", "seconds", "Service time: done less sent. Count and sum only during the run.",
		point{spread: &spread{counts: []uint64{n}, count: n, sum: s.serviceNs / 1e9}})
	f.add(gauge, "response_max", "seconds", "Longest response time since the window opened.", float64(s.maxNs)/1e9)
	if s.any {
		f.interval(&s.last)
	}
	return f
}

// handshakes adds TLS handshakes, if there were any.
func (f *figures) handshakes(n uint64, cpuNs int64) {
	if n == 0 {
		return
	}
	f.add(counter, "tls_handshakes", "", "TLS handshakes in the window, full and resumed.", float64(n))
	f.add(counter, "tls_handshake_cpu", "seconds", "CPU time of the generator for them, without its system calls.", float64(cpuNs)/1e9)
}

// interval adds the metrics of the last interval.
func (f *figures) interval(row *record.LoadRow) {
	f.add(gauge, "requests_in_flight", "", "Requests without an answer.", float64(row.InFlight))
	f.add(gauge, "requests_behind", "", "Requests that were due and not sent.", float64(row.Backlog))
	f.add(gauge, "connections", "", "Established connections.", float64(row.Connected), label{"state", "established"})
	f.add(gauge, "interval", "seconds", "True width of the last interval.", float64(row.WidthNs)/1e9)
	f.add(gauge, "interval_completed_per_second", "", "Requests completed in the last interval over its true width.",
		float64(row.Completed)/float64(row.WidthNs)*1e9)
	busy := row.Busy
	if busy < 0 {
		busy = math.NaN() // not measured: no metric
	}
	f.add(gauge, "interval_busiest_worker", "ratio", "Share of the last interval that the busiest worker ran on a CPU.", busy)
	if row.Completed+row.Failed == 0 {
		return
	}
	for _, p := range []struct {
		name string
		ns   int64
	}{{"0", row.MinNs}, {"0.5", row.P50Ns}, {"0.9", row.P90Ns}, {"0.99", row.P99Ns}, {"1", row.MaxNs}} {
		f.add(gauge, "interval_response_quantile", "seconds", "Response time: quantiles of the last interval only.", float64(p.ns)/1e9,
			label{"quantile", p.name})
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// ServeHTTP answers a scrape of /metrics.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/metrics":
		http.Error(w, "only /metrics is served here", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	var body bytes.Buffer
	if err := writeOpenMetrics(&body, l.figures()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Write(body.Bytes()) // a scraper that disconnects needs no error
}
