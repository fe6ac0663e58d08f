package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/stat"
	"ceiling/internal/sys"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// A comparison of the same load with the observers and without them: one run on the floor server,
// in which they pause and go on.

const (
	// stretch is how long the observers run or pause at a time, in intervals, and settling how
	// many of these do not count: the observers start, and an interval is told about when it is
	// over. Bursts of kernel events and of context switches come every 0.2 and 0.4 s.
	stretch, settling = 4, 1
	// turns is the number of stretches of a block: two observed, two not, in the order ABBA or
	// BAAB by lot.
	turns = 4
	// observingConfidence is that of each interval.
	observingConfidence = 0.95
)

// ObservingTakes is how long so many blocks take.
func ObservingTakes(blocks int) time.Duration {
	return time.Duration(blocks*turns*stretch) * load.DefaultInterval
}

// observing measures what observing costs a server.
func observing(ctx context.Context, c *Config, addr string, pid int, p division) (*record.Observing, error) {
	s := spec.Spec{
		Targets:   []spec.Target{{Method: "GET", URL: "http://" + addr + "/simple", Weight: 1}},
		Condition: spec.Condition{Connections: connections, Threads: 1, Pipelining: 1}, Seed: 1,
		Duration: ObservingTakes(c.Observing) + load.DefaultInterval,
		Warmup:   250 * time.Millisecond, Timeout: 10 * time.Second,
		Settings: spec.Settings{NoLone: true, Engine: c.Engine, PinGenerator: cpuList([]int{p.generator})}, Common: spec.Common{Pprof: "off"},
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	m := &meter{
		clock:  func() (int64, error) { return sys.ProcessClockNs(pid) },
		time:   time.Now,
		random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)),
	}
	done, err := run.DoShare(ctx, &s, run.ShareOptions{Load: true, Observe: true, Version: c.Version, Observing: m.interval}, m)
	if err == nil {
		_, err = sampleOf(done.Result)
	}
	if err == nil {
		err = m.err
	}
	if err != nil {
		return nil, fmt.Errorf("measure what observing costs: %w", err)
	}
	return m.result()
}

// meter compares the stretches.
type meter struct {
	nopListener
	clock  func() (cpuNs int64, err error) // of the server
	time   func() time.Time
	random *rand.Rand
	err    error

	at    int  // intervals so far
	first bool // the first stretch of the block is observed
	began reading
	now   sums
	logs  [3]float64   // of the block: observed minus not
	list  [3][]float64 // of all blocks
}

// reading is the server's CPU time at some moment.
type reading struct {
	cpuNs int64
	at    time.Time
}

// sums are those of one stretch.
type sums struct {
	completed, ns float64
	response      hist.Hist
}

// interval takes one interval, and says whether the next is observed.
func (m *meter) interval(t *load.Tally) bool {
	turn, in := m.at/stretch%turns, m.at%stretch
	if m.at == 0 {
		m.draw()
	}
	m.at++
	switch {
	case in == settling-1:
		m.began, m.now = m.read(), sums{}
	case in >= settling:
		m.now.completed += float64(t.Completed)
		m.now.ns += float64(t.EndNs - t.StartNs)
		m.now.response.Merge(&t.Response)
	}
	if in < stretch-1 {
		return m.observed(turn)
	}
	m.end(m.observed(turn))
	if turn == turns-1 {
		for i := range m.logs {
			m.list[i] = append(m.list[i], m.logs[i])
		}
		m.logs = [3]float64{}
		m.draw()
	}
	return m.observed((turn + 1) % turns)
}

// draw decides the order of a block.
func (m *meter) draw() { m.first = m.random.IntN(2) == 0 }

func (m *meter) observed(turn int) bool { return m.first == (turn == 0 || turn == turns-1) }

// end counts a stretch.
func (m *meter) end(observed bool) {
	r := m.read()
	cores := float64(r.cpuNs-m.began.cpuNs) / float64(r.at.Sub(m.began.at))
	rate := m.now.completed / m.now.ns
	for i, v := range [...]float64{rate, cores / rate, float64(m.now.response.Quantile(0.99))} {
		sign := 2. / turns
		if !observed {
			sign = -sign
		}
		m.logs[i] += sign * math.Log(v)
	}
}

// read reads the server's CPU time.
func (m *meter) read() reading {
	ns, err := m.clock()
	if err != nil && m.err == nil {
		m.err = err
	}
	return reading{ns, m.time()}
}

func (m *meter) result() (*record.Observing, error) {
	o := &record.Observing{Blocks: len(m.list[0]), DurationS: (stretch * load.DefaultInterval).Seconds()}
	for i, to := range []*record.Growth{&o.Throughput, &o.ServerCPU, &o.P99} {
		d, err := stat.Paired(m.list[i], observingConfidence, 1)
		if err != nil {
			return nil, fmt.Errorf("measure what observing costs: %w", err)
		}
		*to = record.Growth{By: stat.Relative(d.Value), Low: stat.Relative(d.Low), High: stat.Relative(d.High), Confidence: d.Confidence}
	}
	return o, nil
}

// Observed implements run.Sink.
func (*meter) Observed(record.ObservedRow) {}

// AgentInterval implements run.Sink.
func (*meter) AgentInterval(string, *load.Tally, bool) {}

// NotMeasured implements run.Sink.
func (*meter) NotMeasured(record.NotMeasured) {}
