// Package calibrate measures the capacity of this machine's load generator: one thread on one CPU
// against the cheapest server we can build, on the other CPUs. Later runs derive their headroom
// from it.
package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// Config configures a calibration. Program and Duration are required.
type Config struct {
	// Program is the path of the binary that runs `serve floor`.
	Program string
	// Duration is that of each measurement, and Repeats the number per point; 0 is repeats.
	Duration time.Duration
	Repeats  int
	// Observing is the number of blocks of 1.6 s that measure what observing costs a server, or 0.
	Observing int
	// Engine to calibrate: "auto", "uring" or "epoll".
	Engine string
	// Version of this program, for the record.
	Version string
	// Progress is called before each measurement; it may be nil.
	Progress func(done, of int, what string)
}

const (
	// connections of every point: enough to keep one thread busy, and the default of runs.
	connections = 64
	// repeats of every point, in rounds, so that passing disturbances affect all points alike.
	repeats = 3
	// generatorFull is the running share of a thread that is itself the bottleneck; the rest is
	// interrupts and wake-ups.
	generatorFull = 0.9
)

// condition is one point to measure.
type condition struct {
	route      string
	pipelining int
}

// conditions are the points: responses of about 120 bytes, 4.5 KB and 110 KB.
func conditions() []condition {
	var list []condition
	for _, pipelining := range []int{1, 16, 100} {
		for _, route := range []string{"/simple", "/read", "/list"} {
			list = append(list, condition{route, pipelining})
		}
	}
	return list
}

// sample is one measurement of a condition.
type sample struct {
	rate, busy, runDelay, cpuNs, bytes float64
	engine                             string
}

// Measure calibrates. It takes 9 × Repeats × 1¼ × Duration, and 1.6 s for each block of Observing;
// the floor server is a separate process that has exited when Measure returns.
func Measure(ctx context.Context, c Config) (*record.Calibration, error) {
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		return nil, err
	}
	env := record.ReadEnvironment(c.Version)
	p := divide(allowed, env.Siblings)
	child, err := run.StartChild(ctx, c.Program, "serve", "floor", "--addr", "127.0.0.1:0", "--workers", strconv.Itoa(len(p.floor)))
	if err != nil {
		return nil, err
	}
	defer child.Stop()
	if err := pinAll(child.PID, p.floor); err != nil {
		return nil, err
	}
	list := conditions()
	samples := make([][]sample, len(list))
	rounds := cmp.Or(c.Repeats, repeats)
	all := rounds * len(list)
	if c.Observing > 0 {
		all++
	}
	for round := range rounds {
		for i, k := range list {
			if c.Progress != nil {
				c.Progress(round*len(list)+i, all, fmt.Sprintf("%s, %d in flight on each connection", k.route, k.pipelining))
			}
			s, err := k.measure(ctx, &c, child.Addr, p.generator)
			for longer := c; errors.Is(err, errNothing) && longer.Duration < 16*c.Duration; {
				longer.Duration *= 2
				s, err = k.measure(ctx, &longer, child.Addr, p.generator)
			}
			if err != nil {
				return nil, fmt.Errorf("calibrate %s with a pipelining of %d: %w", k.route, k.pipelining, err)
			}
			samples[i] = append(samples[i], s)
		}
	}
	done := &record.Calibration{
		Schema: record.CalibrationSchema, When: time.Now(), Version: c.Version,
		Host: env.Host, Kernel: env.Kernel, CPUModel: env.CPUModel, CPUs: env.CPUsAllowed, Engine: samples[0][0].engine,
		GeneratorCPUs: cpuList([]int{p.generator}), FloorCPUs: cpuList(p.floor),
		DurationS: c.Duration.Seconds(), Repeats: rounds, Caveats: []string{},
	}
	for i, k := range list {
		done.Points = append(done.Points, k.point(samples[i]))
	}
	if c.Observing > 0 {
		if c.Progress != nil {
			c.Progress(all-1, all, "what observing costs a server")
		}
		if done.Observing, err = observing(ctx, &c, child.Addr, child.PID, p); err != nil {
			return nil, err
		}
	}
	done.Caveats = append(done.Caveats, caveats(done, p)...)
	return done, nil
}

// measure takes one measurement.
func (k condition) measure(ctx context.Context, c *Config, addr string, cpu int) (sample, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return sample{}, fmt.Errorf("address of the floor server: %w", err)
	}
	request, err := http1.AppendRequest(nil, "GET", k.route, addr, nil, nil)
	if err != nil {
		return sample{}, err
	}
	result, err := load.Run(ctx, load.Config{
		To: load.To(ring.TCPAddr(to)), Mix: []load.Request{{Bytes: request, Weight: 1}},
		Connections: connections, Threads: 1, Pipelining: k.pipelining, Seed: 1,
		// The warm-up is for TCP's windows, and the engine's batching trial.
		Warmup: max(c.Duration/4, 20*time.Millisecond), Duration: c.Duration,
		Timeout: 10 * time.Second, Engine: c.Engine, CPUs: []int{cpu},
	}, nopListener{})
	if err != nil {
		return sample{}, err
	}
	return sampleOf(result)
}

// errNothing means that the thread got no CPU during the whole measurement. It is repeated with
// more time, up to 16 times as much.
var errNothing = errors.New("nothing was completed in the time given; give a longer one with -d")

// sampleOf rejects a measurement that does not meet its specification.
func sampleOf(r *load.Result) (sample, error) {
	t := &r.Total
	switch {
	case r.Interrupted:
		return sample{}, context.Canceled
	case r.Established != connections:
		return sample{}, fmt.Errorf("%d of %d connections were established", r.Established, connections)
	case t.Failed > 0 || t.Completed != t.Statuses[200]:
		return sample{}, fmt.Errorf("%d requests failed and %d of %d answers were a 200", t.Failed, t.Statuses[200], t.Completed)
	case t.Completed == 0 || r.WindowNs <= 0:
		return sample{}, errNothing
	case len(r.Workers) != 1 || !(r.Workers[0].Busy > 0):
		return sample{}, errors.New("the CPU time of the generator's thread was not measured")
	}
	completed, ns, w := float64(t.Completed), float64(r.WindowNs), &r.Workers[0]
	// The last batch may end after the window with its CPU time counted, which in a window of 50
	// ms added up to more than 100%. So may a wait for the CPU.
	busy := min(w.Busy, 1)
	return sample{
		rate: completed / ns * 1e9, busy: busy, runDelay: min(w.RunDelay, 1), cpuNs: busy * ns / completed,
		bytes: float64(t.Read) / completed, engine: r.Engine,
	}, nil
}

// capacity is that of one core in this measurement, requests per second.
func (s *sample) capacity() float64 {
	if s.busy >= generatorFull {
		return s.rate
	}
	return s.rate / s.busy
}

// point summarises the repeats.
func (k condition) point(samples []sample) record.CalibrationPoint {
	of := func(f func(*sample) float64) record.Repeated {
		values := make([]float64, len(samples))
		for i := range samples {
			values[i] = f(&samples[i])
		}
		return record.RepeatedOf(values)
	}
	p := record.CalibrationPoint{
		Route: k.route, Connections: connections, Pipelining: k.pipelining,
		ResponseBytes:   of(func(s *sample) float64 { return s.bytes }).Median,
		RatePerS:        of(func(s *sample) float64 { return s.rate }),
		Busy:            of(func(s *sample) float64 { return s.busy }),
		RunDelay:        of(func(s *sample) float64 { return s.runDelay }),
		CPUNsPerRequest: of(func(s *sample) float64 { return s.cpuNs }),
		CapacityPerS:    of((*sample).capacity),
	}
	p.Derived = p.Busy.Median < generatorFull
	return p
}

const (
	// spreadMost is the spread between the repeats of a point that becomes a caveat: two
	// undisturbed measurements of a second on one machine differ by 2 to 5 %.
	spreadMost = 0.15
	// delayMost is the share of the time that a thread may wait for its CPU: a clock tick's
	// housekeeping takes less.
	delayMost = 0.05
	// Reliable is the least duration of a reliable measurement: the rate over a tenth of a second
	// depends on where a few timer ticks fall.
	Reliable = 500 * time.Millisecond
)

// caveats lists what makes the figures less certain than they look.
func caveats(c *record.Calibration, p division) []string {
	list := slices.Clone(p.caveats)
	derived, unsteady, waited := 0, 0, 0.0
	for i := range c.Points {
		at := &c.Points[i]
		if at.Derived {
			derived++
		}
		if at.CapacityPerS.Spread() > spreadMost {
			unsteady++
		}
		waited = max(waited, at.RunDelay.Median)
	}
	if derived > 0 {
		list = append(list, fmt.Sprintf("at %d of %d points the generator was not the limit: its capacity there is derived from its CPU time, and at least that", derived, len(c.Points)))
	}
	if unsteady > 0 {
		list = append(list, fmt.Sprintf("at %d of %d points the repeats differ by more than %.0f%%: calibrate again when the machine is quiet",
			unsteady, len(c.Points), 100*spreadMost))
	}
	if waited > delayMost {
		list = append(list, fmt.Sprintf("the generator waited for its CPU up to %.0f%% of the time: others run there", 100*waited))
	}
	if c.DurationS < Reliable.Seconds() {
		list = append(list, fmt.Sprintf("%gs a measurement is a rough estimate; for one to rely on: ceiling doctor --calibrate", c.DurationS))
	}
	return list
}

// cpuList formats CPUs as "1" or "0,2,3".
func cpuList(cpus []int) string {
	var parts []string
	for _, cpu := range cpus {
		parts = append(parts, strconv.Itoa(cpu))
	}
	return strings.Join(parts, ",")
}

// nopListener is a listener that ignores the load.
type nopListener struct{}

func (nopListener) Connected(int, int, time.Time)  {}
func (nopListener) Window(bool, time.Time)         {}
func (nopListener) Interval(_ *load.Tally, _ bool) {}

// Text writes a calibration as a table, with its caveats.
func Text(out io.Writer, c *record.Calibration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "what one core of the generator can do: %s on CPU %s, against serve floor on CPU %s, %d connections\n",
		c.Engine, c.GeneratorCPUs, c.FloorCPUs, connections)
	fmt.Fprintf(&b, "%s · Linux %s · %s · median of %d × %gs, with the range\n\n", c.CPUModel, c.Kernel, c.Host, c.Repeats, c.DurationS)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "route\tbytes\tin flight\trequests/s a core\trange\tCPU/request\tbusy\tlimit\t")
	for i := range c.Points {
		p := &c.Points[i]
		rate, limit := unit.FormatCount(int64(p.CapacityPerS.Median)), "generator"
		if p.Derived {
			rate, limit = "≥ "+rate, "server"
			if p.Busy.Median+p.RunDelay.Median >= generatorFull {
				limit = "others on its CPU"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d × %d\t%s\t%s–%s\t%s\t%.0f%%\t%s\t\n",
			p.Route, unit.FormatCount(int64(p.ResponseBytes+0.5)), p.Connections, p.Pipelining, rate,
			unit.FormatCount(int64(p.CapacityPerS.Low)), unit.FormatCount(int64(p.CapacityPerS.High)),
			unit.FormatNs(int64(p.CPUNsPerRequest.Median+0.5)), 100*p.Busy.Median, limit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if c.Observing != nil {
		fmt.Fprintf(&b, "\nobserving %s\n", c.Observing)
	}
	for i, d := range c.Caveats {
		fmt.Fprintf(&b, "%s%-7s %s\n", []string{"\n", ""}[min(i, 1)], []string{"caveats", ""}[min(i, 1)], d)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

const (
	// firstDuration is that of each of the nine measurements of a first calibration, which takes
	// 1.7 s including warm-ups. docs/calibration.md compares it with the long form.
	firstDuration = 150 * time.Millisecond
	// firstObserving is the fewest blocks with an interval at observingConfidence; they take 9.6 s.
	firstObserving = 6
	// worth is the measured time from which a run can afford a first calibration: about as long, once.
	// Shorter runs are quick checks.
	worth = 10 * time.Second
)

// FirstTakes is the approximate duration of First.
const FirstTakes = 12 * time.Second

// Wanted returns why this host's generator needs calibration before a run of this length with
// this engine; "" if a calibration fits, or the run is too short to justify one. all are the
// saved calibrations.
func Wanted(all []record.Calibration, version, engine string, measures time.Duration) (why string) {
	if measures < worth {
		return ""
	}
	if engine == "" || engine == spec.EngineAuto {
		engine = chosen()
	}
	if engine == "" || ring.IsPortable(engine) {
		return "" // the run itself reports why there is none
	}
	env := record.ReadEnvironment(version)
	_, why = record.FitCalibration(all, &env, engine)
	return why
}

// chosen is the engine that a run with automatic choice uses here.
func chosen() string {
	release := sys.HoldThread()
	defer release()
	r, err := ring.Open(ring.Config{})
	if err != nil {
		return ""
	}
	name := r.Engine()
	if r.Shut() != nil {
		return ""
	}
	return name
}

// First runs a short calibration before the first run on a host.
func First(ctx context.Context, c Config) (*record.Calibration, error) {
	c.Duration, c.Repeats, c.Observing = firstDuration, 1, firstObserving
	return Measure(ctx, c)
}
