package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/measure/cores"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/verdict"
)

// The places part checks a verdict's basis against the kernel: the share of time that requests
// spend in each place, by random socket samples and by kernel events of the same run. It also
// measures the cost of observing.
const (
	placesRun    = 3 * time.Second
	placesWarmup = 500 * time.Millisecond
	placesMany   = 10_000           // connections in the last row
	placesLong   = 10 * time.Second // for that row: a request takes a tenth of a second there
	placesRounds = 7                // with and without observing, alternating
	placesError  = 0.05             // target for the largest difference
	observedLoss = 0.02             // target
)

func placesServers() []string { return []string{"nethttp", "fasthttp", "fiber"} }
func placesRoutes() []string  { return []string{"/simple", "/read", "/list", "/compute"} }

// PlaceShares is one run's time breakdown, by two methods.
type PlaceShares struct {
	Server      string           `json:"server"`
	Route       string           `json:"route"`
	Connections int              `json:"connections"`
	RatePerS    float64          `json:"rate_per_s"`
	Samples     int              `json:"samples"` // socket samples
	Bursts      int              `json:"bursts"`  // of kernel events
	Sockets     []record.Station `json:"sockets"`
	Events      []record.Station `json:"events"`
	Named       string           `json:"named"` // the bottleneck
}

// apart returns the largest difference between the two.
func (p *PlaceShares) apart() float64 {
	most := 0.0
	for _, a := range p.Sockets {
		for _, b := range p.Events {
			if a.Name == b.Name {
				most = max(most, math.Abs(a.Share-b.Share))
			}
		}
	}
	return most
}

// Observed is throughput with observing divided by throughput without, over pairs of runs.
type Observed struct {
	Server string `json:"server"`
	Route  string `json:"route"`
	Ratio  Spread `json:"ratio"`
}

// placed measures both parts, with generator and server on separate CPUs.
func (b *bench) placed(ctx context.Context, e *Entry) {
	split, err := run.SplitForOwn(b.connections)
	if err != nil {
		b.failed(ctx, "places", err)
		return
	}
	for _, server := range placesServers() {
		for _, route := range placesRoutes() {
			b.onePlace(ctx, e, split, server, route, b.connections, placesRun)
		}
	}
	b.onePlace(ctx, e, split, serverKind, "/simple", placesMany, placesLong)
	worst, compared := 0.0, 0
	for i := range e.Places {
		p := &e.Places[i]
		if len(p.Events) == 0 {
			b.caveat("%s %s with %d connections: the bursts of kernel events were too few, or accounted for too little, to speak of", p.Server,
				p.Route, p.Connections)
			continue
		}
		worst, compared = max(worst, p.apart()), compared+1
	}
	if compared == 0 {
		b.failed(ctx, "places", errors.New("no run has both methods to compare"))
	} else {
		e.Targets = append(e.Targets, target("share of time in a place, sockets against kernel events: largest difference", worst, placesError,
			"share"))
	}
	for _, server := range placesServers()[:2] {
		o, err := b.observing(ctx, split, server)
		if err != nil {
			b.failed(ctx, "observing "+server, err)
			continue
		}
		e.Observed = append(e.Observed, o)
		e.Targets = append(e.Targets, target("throughput lost by observing "+server, 1-o.Ratio.Median, observedLoss, "share"))
	}
}

// onePlace does one run against its own server.
func (b *bench) onePlace(ctx context.Context, e *Entry, split cores.Split, server, route string, connections int, d time.Duration) {
	b.progress("places: %s %s, %d connections", server, route, connections)
	row := PlaceShares{Server: server, Route: route, Connections: connections}
	err := b.against(ctx, split, server, func(addr string) error {
		r, series, err := observedRun(ctx, split, addr, route, connections, d)
		if err != nil {
			return err
		}
		return row.read(r, series)
	})
	if err != nil {
		b.failed(ctx, fmt.Sprintf("places of %s %s with %d connections", server, route, connections), err)
		return
	}
	e.Places = append(e.Places, row)
}

// read judges a record twice: as it is, and without its kernel events.
func (p *PlaceShares) read(r *record.Run, series *record.Series) error {
	p.RatePerS, p.Named = r.Rate.CompletedPerS, string(r.Verdict.Bottleneck)
	if len(series.Observed.Times) == 0 {
		return errors.New("no kernel events: they need root, and a kernel with BTF")
	}
	by := verdict.Judge(r, series)
	if by.StationsBy == record.ByKernelEvents {
		p.Events, p.Bursts = by.Stations, by.StationsOf
	}
	without := *series
	without.Observed.Times = nil
	by = verdict.Judge(r, &without)
	p.Sockets, p.Samples = by.Stations, by.StationsOf
	if len(p.Sockets) == 0 {
		return errors.New("too few looks at the sockets")
	}
	return nil
}

// against runs do with a started server.
func (b *bench) against(ctx context.Context, split cores.Split, server string, do func(addr string) error) error {
	child, err := run.StartChildOn(ctx, split.Server, b.binary, "serve", server, "--addr", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer child.Stop()
	return do(child.Addr)
}

// observedRun does a run as ceiling does, in this process.
func observedRun(ctx context.Context, split cores.Split, addr, route string, connections int, d time.Duration) (*record.Run, *record.Series,
	error) {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	s := spec.Spec{
		Targets: []spec.Target{{Method: "GET", URL: "http://" + addr + route, Weight: 1}}, Connections: connections, Threads: 1, Pipelining: 1,
		Duration: d, Warmup: placesWarmup, NoLone: true, Timeout: 10 * time.Second, Engine: spec.EngineAuto, Seed: 1,
		PinGenerator: cores.Format(split.Generator),
	}
	done, err := run.Do(ctx, s, run.Options{Out: filepath.Join(dir, "run"), Command: []string{"bench"}})
	if err != nil {
		return nil, nil, err
	}
	if done.KeepErr != nil {
		return nil, nil, done.KeepErr
	}
	if n := done.Run.Load.Established; n != connections {
		return nil, nil, fmt.Errorf("%d of %d connections established", n, connections)
	}
	r, series, err := record.Open(done.File)
	return r, &series, err
}

// observing compares throughput with and without observing: the engine alone, otherwise the same
// load. The order within pairs alternates.
func (b *bench) observing(ctx context.Context, split cores.Split, server string) (Observed, error) {
	const route, each = "/simple", time.Second
	b.progress("observing %s, with and without", server)
	o := Observed{Server: server, Route: route}
	var ratios []float64
	err := b.against(ctx, split, server, func(addr string) error {
		for round := range placesRounds {
			var rates [2]float64
			for half := range 2 {
				with := (half + round) % 2
				rate := func() (float64, error) { return bareRun(ctx, split, addr, route, b.connections, each) }
				if with == 1 {
					rate = func() (float64, error) {
						r, _, err := observedRun(ctx, split, addr, route, b.connections, each)
						if err != nil {
							return 0, err
						}
						return r.Rate.CompletedPerS, nil
					}
				}
				var err error
				if rates[with], err = rate(); err != nil {
					return err
				}
			}
			ratios = append(ratios, rates[1]/rates[0])
		}
		return nil
	})
	o.Ratio = spreadOf(ratios)
	return o, err
}

// bareRun runs the load engine by itself.
func bareRun(ctx context.Context, split cores.Split, addr, route string, connections int, d time.Duration) (perS float64, err error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0, err
	}
	request, err := http1.AppendRequest(nil, "GET", route, addr, nil, nil)
	if err != nil {
		return 0, err
	}
	r, err := load.Run(ctx, load.Config{
		To: load.To(ring.TCPAddr(to)), Mix: []load.Request{{Bytes: request, Weight: 1}},
		Connections: connections, Threads: 1, Pipelining: 1, Seed: 1,
		Warmup: placesWarmup, Duration: d, Timeout: 10 * time.Second, Engine: spec.EngineAuto, CPUs: split.Generator,
	}, nopListener{})
	if err != nil {
		return 0, err
	}
	if r.Interrupted || r.WindowNs <= 0 || r.Total.Completed == 0 {
		return 0, errors.New("the load engine completed nothing")
	}
	return float64(r.Total.Completed) / float64(r.WindowNs) * 1e9, nil
}

// nopListener ignores the load's events.
type nopListener struct{}

func (nopListener) Connected(int, int, time.Time) {}
func (nopListener) Window(bool, time.Time)        {}
func (nopListener) Interval(*load.Tally, bool)    {}

func printPlaces(w io.Writer, e *Entry) {
	if len(e.Places) > 0 {
		columns := []string{"server", "route", "connections", "named"}
		for _, s := range e.Places[0].Sockets {
			columns = append(columns, s.Name)
		}
		head(w, "Where the time goes, %: by looks at the sockets / by kernel events", append(columns, "apart", "looks", "bursts")...)
		for i := range e.Places {
			p := &e.Places[i]
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t", p.Server, p.Route, p.Connections, p.Named)
			for _, s := range p.Sockets {
				fmt.Fprintf(w, "%.0f / %s\t", 100*s.Share, shareOf(p.Events, s.Name))
			}
			apart := "?"
			if len(p.Events) > 0 {
				apart = fmt.Sprintf("%.1f", 100*p.apart())
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t\n", apart, p.Samples, p.Bursts)
		}
	}
	if len(e.Observed) > 0 {
		head(w, fmt.Sprintf("Throughput with observing over that without, median [min–max] of %d pairs", placesRounds), "server", "route",
			"ratio")
		for _, o := range e.Observed {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", o.Server, o.Route, ranged(o.Ratio, "%.3f"))
		}
	}
}

func shareOf(list []record.Station, name string) string {
	for _, s := range list {
		if s.Name == name {
			return fmt.Sprintf("%.0f", 100*s.Share)
		}
	}
	return "?"
}
