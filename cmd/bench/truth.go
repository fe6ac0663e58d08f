package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"ceiling/internal/pause"
)

// truthConnections is few enough for hey's per-connection rates to be integers. The truth part
// measures what is known beforehand.
const truthConnections = 50

// The server freezes for frozenFor of frozenRun, from frozenAfter the tool's start. At a rate of
// frozenPerS, requests due during the freeze wait for its end: a share of (frozenFor - x) /
// frozenRun waits longer than x, so the 99th percentile is frozenFor - frozenRun/100.
const (
	frozenRun   = 10 * time.Second
	frozenAfter = 4 * time.Second
	frozenFor   = time.Second
	frozenPerS  = 1000
	frozenError = 0.05 // target
)

// frozen runs all tools with a rate limit concurrently, each with its own server: at 1,000/s all
// of them together leave the machine idle, and only milliseconds matter.
func (b *bench) frozen(ctx context.Context, e *Entry) {
	b.progress("a server frozen for %s of %s", frozenFor, frozenRun)
	j := job{Connections: truthConnections, Pipelining: 1, Duration: frozenRun, PerS: frozenPerS}
	tools := b.able(j)
	rows, errs := make([]Frozen, len(tools)), make([]error, len(tools))
	var wait sync.WaitGroup
	for i, t := range tools {
		wait.Go(func() { rows[i], errs[i] = b.freeze(ctx, t, j) })
	}
	wait.Wait()
	for i, t := range tools {
		if errs[i] != nil {
			b.failed(ctx, "frozen server", errs[i])
			continue
		}
		e.Frozen = append(e.Frozen, rows[i])
		if t.Name == ours {
			e.Targets = append(e.Targets, target("server frozen 1 s in 10 s: error of p99", math.Abs(rows[i].Error), frozenError, "share"))
		}
	}
}

// freeze runs one tool against a server that freezes.
func (b *bench) freeze(ctx context.Context, t *tool, j job) (row Frozen, err error) {
	s, err := serve(ctx, b.binary, serverKind)
	if err != nil {
		return row, err
	}
	defer func() {
		if stopErr := s.stop(); err == nil {
			err = stopErr
		}
	}()
	j.URL = s.url("/simple")
	var froze time.Duration
	var signalErr error
	o, err := t.run(ctx, j, func(int) { froze, signalErr = s.standStill(ctx) })
	if err == nil {
		err = signalErr
	}
	if err != nil {
		return row, err
	}
	if o.Bad > 0 || o.P99 == 0 {
		return row, fmt.Errorf("%s: %d requests failed, p99 %s", t.Name, o.Bad, o.P99)
	}
	truth := froze - time.Duration(o.ElapsedS*1e9)/100
	return Frozen{
		Tool: t.Name, P99Ms: o.P99.Seconds() * 1e3, TruthMs: truth.Seconds() * 1e3, FrozeMs: froze.Seconds() * 1e3,
		Error: (o.P99 - truth).Seconds() / truth.Seconds(),
	}, nil
}

// standStill freezes the server for a while and returns the actual duration.
func (s *served) standStill(ctx context.Context) (time.Duration, error) {
	if !pause.For(ctx, frozenAfter) {
		return 0, ctx.Err()
	}
	begin := time.Now()
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	pause.For(ctx, frozenFor)
	err := s.Signal(syscall.SIGCONT)
	return time.Since(begin), err
}

// able lists the tools that can do the job.
func (b *bench) able(j job) []*tool {
	var list []*tool
	for i := range b.tools {
		if _, ok := b.tools[i].arguments(j, ""); ok {
			list = append(list, &b.tools[i])
		}
	}
	return list
}

// pacingTrim is cut from both ends of the arrivals: connecting, and a tool's end.
const (
	pacingTrim      = 500 * time.Millisecond
	dispersionLimit = 0.5
)

// pacing measures how evenly requests arrive at a rate. Ours runs three times and the median
// counts, since a target depends on it.
func (b *bench) pacing(ctx context.Context, e *Entry) {
	for _, perS := range []int{1000, 10000} {
		b.progress("pacing at %d/s", perS)
		j := job{Connections: truthConnections, Pipelining: 1, Duration: 2 * time.Second, PerS: perS}
		for _, t := range b.able(j) {
			times := 1
			if t.Name == ours {
				times = 3
			}
			row, err := pace(ctx, t, j, times)
			if err != nil {
				b.failed(ctx, fmt.Sprintf("pacing at %d/s", perS), err)
				continue
			}
			e.Pacing = append(e.Pacing, row)
			if t.Name == ours {
				e.Targets = append(e.Targets, target(fmt.Sprintf("pacing at %d/s: variance over mean per 10 ms", perS), row.Dispersion.Median,
					dispersionLimit, "ratio"))
			}
		}
	}
}

func pace(ctx context.Context, t *tool, j job, times int) (Pacing, error) {
	var seen, dispersion, lag []float64
	for range times {
		counts, o, err := arrivalsOf(ctx, t, j)
		if err != nil {
			return Pacing{}, err
		}
		d, ok := varianceOverMean(counts)
		if !ok {
			return Pacing{}, fmt.Errorf("%s: nothing arrived", t.Name)
		}
		dispersion = append(dispersion, d)
		var sum int64
		for _, n := range counts {
			sum += n
		}
		seen = append(seen, float64(sum)/(float64(len(counts))*binWidth.Seconds()))
		if o.Ours != nil {
			lag = append(lag, o.Ours.LagP99.Seconds()*1e6)
		}
	}
	row := Pacing{Tool: t.Name, AskedPerS: j.PerS, SeenPerS: spreadOf(seen), Dispersion: spreadOf(dispersion)}
	if len(lag) > 0 {
		s := spreadOf(lag)
		row.LagP99Us = &s
	}
	return row, nil
}

// arrivalsOf runs the job against a counting server.
func arrivalsOf(ctx context.Context, t *tool, j job) ([]int64, outcome, error) {
	c, err := newCounter()
	if err != nil {
		return nil, outcome{}, err
	}
	j.URL = c.url()
	o, err := t.run(ctx, j, nil)
	if closeErr := c.close(); err == nil {
		err = closeErr
	}
	return c.arrivals(pacingTrim), o, err
}

// leastLatencyLimit is plow's p50, microseconds, measured against a server that took 50–80 µs, on two
// CPUs like these.
const leastLatencyLimit = 83

// leastLatency measures the latency with an idle server, at 1,000/s: the medians of three interleaved
// runs.
func (b *bench) leastLatency(ctx context.Context, e *Entry) {
	b.progress("the least latency, at 1000/s")
	j := job{URL: b.servers.http1.url("/simple"), Connections: truthConnections, Pipelining: 1, Duration: time.Second, PerS: 1000}
	tools := b.able(j)
	p50, p99 := map[string][]float64{}, map[string][]float64{}
	resolution := map[string]float64{}
	for range 3 {
		for _, t := range tools {
			o, err := t.run(ctx, j, nil)
			if err != nil {
				b.failed(ctx, "least latency", err)
				continue
			}
			p50[t.Name] = append(p50[t.Name], o.P50.Seconds()*1e6)
			p99[t.Name] = append(p99[t.Name], o.P99.Seconds()*1e6)
			resolution[t.Name] = o.Resolution.Seconds() * 1e6
		}
	}
	for _, t := range tools {
		if len(p50[t.Name]) == 0 {
			continue
		}
		row := LeastLatency{Tool: t.Name, P50Us: spreadOf(p50[t.Name]), P99Us: spreadOf(p99[t.Name]), ResolutionUs: resolution[t.Name]}
		e.LeastLatency = append(e.LeastLatency, row)
		if t.Name == ours {
			e.Targets = append(e.Targets, target("p50 at 1000/s", row.P50Us.Median, leastLatencyLimit, "µs"))
		}
	}
}

const (
	holdFew, holdMany = 1000, 10000
	holdLimit         = 8 << 10 // bytes of user memory per connection
)

// hold measures the memory cost of a connection in our process.
func (b *bench) hold(ctx context.Context, e *Entry) {
	b.progress("%d connections held", holdMany)
	h := Hold{Few: holdFew, Many: holdMany}
	var err error
	if h.FewBytes, err = b.resident(ctx, holdFew); err == nil {
		h.ManyBytes, err = b.resident(ctx, holdMany)
	}
	if err != nil {
		b.failed(ctx, fmt.Sprintf("%d connections", holdMany), err)
		return
	}
	h.BytesPerConnection = (float64(h.ManyBytes) - float64(h.FewBytes)) / (holdMany - holdFew)
	e.Hold = &h
	e.Targets = append(e.Targets, target(fmt.Sprintf("user memory of each of %d connections", holdMany), h.BytesPerConnection, holdLimit,
		"bytes"))
}

// resident returns our process's peak resident set with that many connections. The rate lets each
// send at least one request.
func (b *bench) resident(ctx context.Context, connections int) (uint64, error) {
	j := job{URL: b.servers.http1.url("/simple"), Connections: connections, Pipelining: 1, Duration: 3 * time.Second, PerS: holdMany}
	var peak uint64
	o, err := b.tool(ours).run(ctx, j, func(pid int) {
		for pause.For(ctx, 10*time.Millisecond) {
			now, err := residentPeak(pid)
			if err != nil {
				return // it has exited: a zombie has no memory
			}
			peak = max(peak, now)
		}
	})
	switch {
	case err != nil:
		return 0, err
	case o.Ours.Established != connections:
		return 0, fmt.Errorf("%d of %d connections established", o.Ours.Established, connections)
	case o.Bad > 0:
		return 0, fmt.Errorf("%d requests failed with %d connections", o.Bad, connections)
	case peak == 0:
		return 0, fmt.Errorf("the memory of %d connections was not seen", connections)
	}
	return peak, nil
}
