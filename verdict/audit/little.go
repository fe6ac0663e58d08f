package audit

import (
	"fmt"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// pointLittle is Little's law held against a point: the requests in flight are
// the rate times their mean latency, and in a closed loop they cannot be more
// than the slots. Where no mean is printed the percentiles bound it: a share
// 1-q of the requests took at least the q-th quantile, so the mean is at least
// (1-q) times it, and with several quantiles the sum of their steps.
type pointLittle struct {
	void    string // why rate and latency cannot both be true, or ""
	found   []Inconsistency
	caveats []string
}

// printedQuantile is one printed percentile, milliseconds.
type printedQuantile struct {
	q   float64
	key string
	ms  record.Figure
}

// quantiles are the printed ones, in order.
func (f *pointFacts) quantiles() []printedQuantile {
	p := &f.p
	var list []printedQuantile
	for _, c := range []printedQuantile{
		{0.025, "latency_p2_5_ms", p.LatencyP2_5Ms}, {0.5, "p50_ms", p.P50Ms}, {0.75, "p75_ms", p.P75Ms}, {0.9, "p90_ms", p.P90Ms},
		{0.95, "p95_ms", p.P95Ms}, {0.975, "latency_p97_5_ms", p.LatencyP97_5Ms}, {0.99, "p99_ms", p.P99Ms},
		{1, "latency_max_ms", p.LatencyMaxMs},
	} {
		if c.ms.Known {
			list = append(list, c)
		}
	}
	return list
}

// leastMeanMs is the least mean that the printed latencies allow.
func (f *pointFacts) leastMeanMs() (ms float64, key string, known bool) {
	if avg := f.p.LatencyAvgMs; avg.Known && !f.tool.corrected {
		return math.Max(avg.Value-avg.Step(), 0), "latency_avg_ms", true
	}
	least := 0.0
	list := f.quantiles()
	if f.tool.corrected {
		list = onlyMedian(list)
	}
	for i, c := range list {
		next := 1.0
		if i+1 < len(list) {
			next = list[i+1].q
		}
		// Printed 3 may have been anything that rounds or truncates to it.
		ms += (next - c.q) * math.Max(c.ms.Value-c.ms.Step(), 0)
		if (next-c.q)*c.ms.Value > least {
			least, key = (next-c.q)*c.ms.Value, c.key
		}
	}
	return ms, key, key != ""
}

// onlyMedian leaves the one figure of a corrected distribution that still bounds
// the mean. wrk knows the mean interval E of a connection's responses, which in a
// closed loop is the mean latency, and adds x-E, x-2E, … above E for each latency
// x beyond 2E (stats_correct). The values added are fewer than N, the requests,
// because the latencies sum up to N·E and each x adds fewer than x/E. For n of the
// latencies and k of the values added at or above a median P > E: n·P + k·E is at
// most N·E, and 2n + k is at least N for them to be half of all. So n·(P/E - 2)
// is at most 0: the median is at most twice the mean, corrected or not. The mean
// and the higher quantiles have no such bound: a run of 16 connections prints a
// mean with which 52 requests would have been in flight.
func onlyMedian(list []printedQuantile) []printedQuantile {
	return slices.DeleteFunc(list, func(q printedQuantile) bool { return q.q != 0.5 })
}

// slots are the requests that can be in flight: most with the connections
// asked for, least with those that the tool opens for certain.
func (f *pointFacts) slots() (least, most float64, known bool) {
	p := &f.p
	least, most, known = f.openedRange()
	if !known || !p.Pipelining.Known {
		return 0, 0, false
	}
	return least * p.Pipelining.Value, math.Max(most, p.Connections.Value) * p.Pipelining.Value, true
}

// loadLacks are the figures without which Little's law cannot be checked. An
// open loop has no fixed number of slots.
func (f *pointFacts) loadLacks() []string {
	if f.open() || f.tool.fromDue {
		return nil
	}
	var keys []string
	if _, ok := f.opened(); !ok {
		keys = append(keys, "connections")
	}
	if !f.p.Pipelining.Known {
		keys = append(keys, "pipelining")
	}
	if !f.p.LatencyAvgMs.Known && !f.p.P50Ms.Known {
		keys = append(keys, "p50_ms")
	}
	return keys
}

func (f *pointFacts) slotsSays() string {
	_, most, _ := f.slots()
	return fmt.Sprintf("%s connections × %s = %s slots", plain(most/f.p.Pipelining.Value), plain(f.p.Pipelining.Value), plain(most))
}

func (f *pointFacts) newLittle() pointLittle {
	var out pointLittle
	p := &f.p
	f.checkInFlight(&out)
	least, most, ok := f.slots()
	if !ok || !p.RPS.Known || f.open() || f.tool.fromDue {
		// The latencies of an open loop may count from when a request was due:
		// then they hold the time before it was sent, which needs no slot.
		return out
	}
	rate := p.RPS.Value
	keys := []string{"connections", "pipelining", "rps"}
	tell := func(key, format string, args ...any) {
		out.found = append(out.found, Inconsistency{Kind: KindLittle, Keys: append(keys[:3:3], key), Says: fmt.Sprintf(format, args...)})
	}
	mean, key, _ := f.leastMeanMs()
	if inFlight := rate * mean / 1000; inFlight > littleImpossible*most {
		out.void = f.littleVoid(mean, key, most)
		tell(key, "%s", out.void)
		return out
	}
	if avg := p.LatencyAvgMs; avg.Known {
		inFlight := rate * avg.Value / 1000
		switch {
		case rate*(avg.Value-avg.Step())/1000 > littleStrained*most && f.tool.corrected:
			out.caveats = append(out.caveats, fmt.Sprintf(
				"wrk adds latencies that it did not measure (its correction for coordinated omission): %s × its mean of %s would be %s requests in flight, and there are %s; its mean and its percentiles above the median are too high",
				unit.FormatRate(rate), ms(avg.Value), plain(math.Round(inFlight)), f.slotsSays()))
		case rate*(avg.Value-avg.Step())/1000 > littleStrained*most:
			tell("latency_avg_ms", "%s × %s = %s requests in flight, but there are %s", unit.FormatRate(rate), ms(avg.Value), plain(math.Round(inFlight)),
				f.slotsSays())
		case rate*(avg.Value+avg.Step())/1000 < littleIdle*least:
			tell("latency_avg_ms", "%s × %s = %s requests in flight of %s slots: the rest was idle", unit.FormatRate(rate), ms(avg.Value),
				plain(math.Round(inFlight)), plain(least))
		}
		return out
	}
	p50 := p.P50Ms
	if !p50.Known {
		return out
	}
	needed := 1000 * least / rate
	switch {
	case rate*(p50.Value-p50.Step())/1000 > littleStrained*most:
		tell("p50_ms", "%s and %s leave a mean of at most %s, below the median of %s: possible only if the faster half took far less than the median; a rate averaged over samples that came late reads too high",
			f.slotsSays(), unit.FormatRate(rate), ms(1000*most/rate), ms(p50.Value))
	case needed > tailLong*(p50.Value+p50.Step()):
		out.caveats = append(out.caveats, fmt.Sprintf(
			"by Little's law %s slots at %s take %s each in the mean, beside a median of %s: a part of the connections waits far longer than the others, or slots stood idle",
			plain(least), unit.FormatRate(rate), ms(needed), ms(p50.Value)))
	}
	return out
}

func (f *pointFacts) littleVoid(mean float64, key string, most float64) string {
	p := &f.p
	rate := p.RPS.Value
	bound := fmt.Sprintf("the latencies printed make the mean at least %s", ms(mean))
	switch key {
	case "latency_avg_ms":
		bound = fmt.Sprintf("the mean is %s", ms(p.LatencyAvgMs.Value))
	case "p50_ms":
		bound = fmt.Sprintf("half of the requests took %s or more, so the mean is at least %s", ms(p.P50Ms.Value), ms(mean))
	}
	text := fmt.Sprintf("Little's law: %s; %s; so the rate is at most %s, and %s would need %s in flight", f.slotsSays(), bound,
		unit.FormatRate(1000*most/mean), unit.FormatRate(rate), plain(math.Round(rate*mean/1000)))
	if p.P50Ms.Known && p.P50Ms.Value > 0 {
		text += fmt.Sprintf(" (were the mean the median: %s)", unit.FormatRate(1000*most/p.P50Ms.Value))
	}
	return text
}

// checkInFlight holds the author's own product of rate and latency.
func (f *pointFacts) checkInFlight(out *pointLittle) {
	p := &f.p
	latency, key := p.P50Ms, "p50_ms"
	if !p.InFlight.Known || !p.RPS.Known || !latency.Known {
		return
	}
	low, high := p.RPS.Value*(latency.Value-latency.Step())/1000, p.RPS.Value*(latency.Value+latency.Step())/1000
	step := math.Max(p.InFlight.Step(), 0.02*p.InFlight.Value)
	if p.InFlight.Value+step < low || p.InFlight.Value-step > high {
		out.found = append(out.found, Inconsistency{Kind: KindLittle, Keys: []string{"in_flight_little", "rps", key},
			Says: fmt.Sprintf("%s × %s = %s in flight, not %s", unit.FormatRate(p.RPS.Value), ms(latency.Value), plain(p.RPS.Value*latency.Value/1000),
				plain(p.InFlight.Value))})
	}
}

// checkLatencies looks for percentiles out of order, and for zeros.
func (f *pointFacts) checkLatencies() {
	list := f.quantiles()
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.ms.Value > b.ms.Value+math.Max(a.ms.Step(), b.ms.Step())*0.999 {
			f.say(KindOrder, []string{a.key, b.key}, "%s = %s is above %s = %s", a.key, ms(a.ms.Value), b.key, ms(b.ms.Value))
		}
	}
	avg := f.p.LatencyAvgMs
	if longest := f.p.LatencyMaxMs; avg.Known && longest.Known && avg.Value > longest.Value {
		f.say(KindOrder, []string{"latency_avg_ms", "latency_max_ms"}, "the mean of %s is above the maximum of %s", ms(avg.Value),
			ms(longest.Value))
	}
	if avg.Known {
		f.p.LatencyAvgMs = record.Figure{}
		least, key, ok := f.leastMeanMs()
		f.p.LatencyAvgMs = avg
		if ok && least > (avg.Value+avg.Step())*littleStrained {
			f.say(KindOrder, []string{"latency_avg_ms", key}, "the percentiles make the mean at least %s, printed is %s", ms(least), ms(avg.Value))
		}
	}
	for _, c := range append(list, printedQuantile{0, "latency_avg_ms", avg}) {
		if c.ms.Known && c.ms.Value == 0 {
			f.say(KindResolution, []string{c.key}, "%s = 0 is printed for less than %s: it can be neither compared nor multiplied", c.key,
				ms(c.ms.Step()))
		}
	}
}
