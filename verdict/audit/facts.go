package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict"
)

// Thresholds for figures that others printed. They are wider than those for
// our own records: a published CPU is the mean of a host over a time that is
// seldom the run's, and a rate may be rounded.
const (
	// pointFull is the share of its CPU from which a side counts as full. Means
	// of a host hold the run's beginning and end and cores that got less than
	// their part; hosts whose busiest cores stood at 100 % print 85 to 96.
	pointFull = 0.85
	// pointFree is the share up to which a side clearly had something left.
	pointFree = 0.70
	// linkFull is the share of a link that its least possible bytes must fill.
	// What is not counted (longer heads, TCP options, acknowledgements) makes
	// up the rest.
	linkFull = 0.95
	// linkFree is the share up to which a link cannot be full whatever its
	// frames: with 1,500-byte frames they add 6 %, short heads another 5.
	linkFree = 0.80
	// linkPossible is the share that a link cannot carry, with room for a
	// rounded rate and bytes that waited before the measurement.
	linkPossible = 1.02
	// littleImpossible is how far rate × least mean latency may exceed the
	// slots before the figures cannot all be true: rounding is taken off
	// before, the rest is for requests in flight at the edges.
	littleImpossible = 1.10
	// littleStrained is where they are only odd.
	littleStrained = 1.05
	// littleIdle is the share of the slots that must be in flight by rate ×
	// mean latency; below it connections stood idle.
	littleIdle = 0.90
	// tailLong is how many times the median the mean has to be to be told.
	tailLong = 3
	// scheduleMet is the part of an asked rate that counts as all of it.
	scheduleMet = 0.98
	// totalsOff, totalsOffAsked are differences between rate and requests ÷
	// time: with the time as it was, and with the one that was asked for.
	totalsOff, totalsOffAsked = 0.02, 0.05
	// totalsImpossible is where one of the two is not a rate of this run.
	totalsImpossible = 0.20
	// figureMost bounds the figures: 10^15 of anything a second was never
	// measured, and neither was 10^-15.
	figureMost = 1e15
	// bytesOff is the difference between two counts of the same bytes.
	bytesOff = 0.02
)

// pointFacts is a point with what follows from its figures.
type pointFacts struct {
	p               record.Point // without the figures that cannot be
	tool            pointTool
	inconsistencies []Inconsistency
	generator       pointGenerator
	server          pointServer
	link            pointLink
	little          pointLittle
	lent            lent
	stated          []condition // see conditions
}

func newPointFacts(p record.Point) *pointFacts {
	f := &pointFacts{p: p}
	f.dropImpossible()
	f.tool = toolOf(f.p.ClientTool)
	f.tool.coarsen(&f.p)
	p = f.p
	var found []Inconsistency
	f.server.pointCPU, found = newPointCPU("server", p.ServerCPUPct, p.ServerCPUDetail)
	f.add(found...)
	f.add(f.server.size(&p)...)
	f.generator.pointCPU, found = newPointCPU("client", p.ClientCPUPct, p.ClientCPUDetail)
	f.add(found...)
	f.generator.size(&p)
	f.checkConnections()
	f.checkLatencies()
	f.little = f.newLittle()
	f.add(f.little.found...)
	f.checkTotals()
	f.link = f.newLink()
	f.checkBytes()
	f.checkLink()
	f.checkSchedule()
	return f
}

func (f *pointFacts) add(list ...Inconsistency) {
	f.inconsistencies = append(f.inconsistencies, list...)
}

func (f *pointFacts) say(kind string, keys []string, format string, args ...any) {
	f.add(Inconsistency{Kind: kind, Keys: keys, Says: fmt.Sprintf(format, args...)})
}

// dropImpossible takes out figures that no measurement can have.
func (f *pointFacts) dropImpossible() {
	positive := []string{"client_workers", "connections", "pipelining", "target_rps", "duration_s", "elapsed_s",
		"vcpus", "client_vcpus", "server_cpus_used", "nic_gbps", "nic_gbps_spec", "client_nic_gbps_spec", "rps", "body_bytes",
		"mean_response_bytes"}
	percents := []string{"server_cpu_pct", "client_cpu_pct", "nic_pct_author"}
	for _, n := range f.p.Figures() {
		v := n.Figure.Value
		if !n.Figure.Known {
			continue
		}
		why := ""
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			why = "is no number"
		case v < 0:
			why = "is below zero"
		case v == 0 && slices.Contains(positive, n.Key):
			why = "is zero"
		case v > figureMost || v < 1/figureMost && v > 0:
			// Nor would the arithmetic on it be one.
			why = "is beyond any measurement"
		case v > 100.5 && slices.Contains(percents, n.Key):
			why = "is above 100% of the host (percent of one core?)"
		default:
			continue
		}
		f.say(KindField, []string{n.Key}, "%s = %s %s: taken as not stated", n.Key, plain(v), why)
		*n.Figure = record.Figure{}
	}
}

// open tells whether a rate was asked for.
func (f *pointFacts) open() bool { return f.p.TargetRPS.Known }

func (f *pointFacts) metSchedule() bool {
	return f.p.RPS.Known && f.p.RPS.Value >= scheduleMet*f.p.TargetRPS.Value
}

func (f *pointFacts) scheduleSays() string {
	return fmt.Sprintf("the target rate was not sent: %s of %s is %s", unit.FormatRate(f.p.RPS.Value), unit.FormatRate(f.p.TargetRPS.Value),
		unit.Percent(f.p.RPS.Value/f.p.TargetRPS.Value))
}

func (f *pointFacts) checkSchedule() {
	if !f.open() || !f.p.RPS.Known {
		return
	}
	keys := []string{"rps", "target_rps"}
	if !f.metSchedule() {
		f.say(KindSchedule, keys, "%s: its latencies are those of a slower load", f.scheduleSays())
	} else if f.p.RPS.Value > 1.05*f.p.TargetRPS.Value {
		f.say(KindSchedule, keys, "%s came out where %s were asked", unit.FormatRate(f.p.RPS.Value), unit.FormatRate(f.p.TargetRPS.Value))
	}
}

// checkTotals holds the requests counted against the rate.
func (f *pointFacts) checkTotals() {
	if f.p.PeakRPS.Known && f.p.PeakRPS.Value < f.p.RPS.Value {
		f.say(KindTotals, []string{"peak_rps", "rps"}, "the peak of %s is below the mean of %s", unit.FormatRate(f.p.PeakRPS.Value),
			unit.FormatRate(f.p.RPS.Value))
	}
	total, key, ok := f.totalRequests()
	elapsed, elapsedKey, timed := f.seconds()
	if !ok || !timed || !f.p.RPS.Known {
		return
	}
	rate := total / elapsed
	limit := totalsOff
	if elapsedKey == "duration_s" {
		limit = totalsOffAsked
	}
	if off := math.Abs(rate/f.p.RPS.Value - 1); off > limit {
		f.say(KindTotals, []string{key, elapsedKey, "rps"}, "%s requests ÷ %s s = %s, not %s (%s off)",
			plain(total), plain(elapsed), unit.FormatRate(rate), unit.FormatRate(f.p.RPS.Value), unit.Percent(off))
	}
}

func (f *pointFacts) totalRequests() (total float64, key string, known bool) {
	switch {
	case f.p.TotalRequests.Known && f.p.TotalRequests.Value > 0:
		return f.p.TotalRequests.Value, "total_requests", true
	case f.p.TotalRequestsK.Known && f.p.TotalRequestsK.Value > 0:
		return f.p.TotalRequestsK.Value * 1000, "total_requests_k", true
	}
	return 0, "", false
}

// seconds is how long the run took, or was to take.
func (f *pointFacts) seconds() (s float64, key string, known bool) {
	if f.p.ElapsedS.Known {
		return f.p.ElapsedS.Value, "elapsed_s", true
	}
	return f.p.DurationS.Value, "duration_s", f.p.DurationS.Known
}

// caveats is what weakens the point's figures, whatever the bottleneck.
func (f *pointFacts) caveats() []string {
	list := slices.Clone(f.little.caveats)
	if f.p.Approx {
		list = append(list, "the figures are approximate by their author's word")
	}
	if s := f.p.RPSStdev; s.Known && f.p.RPS.Known && s.Value/f.p.RPS.Value > verdict.Unsteady {
		list = append(list, fmt.Sprintf("the rate was not steady: its standard deviation is %s of the mean", unit.Percent(s.Value/f.p.RPS.Value)))
	}
	return list
}

// plain writes a figure as a person would: thousands separated, no more
// digits than it has.
func plain(v float64) string {
	if math.Abs(v) < 1e15 && v == math.Trunc(v) {
		return unit.FormatCount(int64(v))
	}
	if math.Abs(v) >= 1000 {
		return unit.FormatSI(v)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
}

// ms writes milliseconds.
func ms(v float64) string { return unit.FormatNsFloat(v * 1e6) }
