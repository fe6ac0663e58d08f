package verdict

import (
	"math"
	"slices"

	"ceiling/internal/stat"
	"ceiling/record"
)

// trendFacts says whether the run rose or fell from beginning to end: throughput in a closed
// loop, mean response time in an open one, whose throughput is given.
type trendFacts struct {
	known    bool // it did, beyond chance and by at least a tenth
	open     bool
	from, to float64 // medians of the first and the last fifth of the rows
	// slope is Sen's slope as a share of the mean per second; low and high are its interval.
	slope, low, high float64
	// What else changed, first fifth to last.
	rss, cpuPerRequest, files, threads, others change
}

// change is a figure at the beginning of the window and at its end.
type change struct {
	known    bool
	from, to float64
}

// grew reports whether the end is at least times the beginning.
func (c change) grew(times float64) bool { return c.known && c.to >= times*c.from && c.to > 0 }

// trendOf looks for a trend in the window's rows.
func trendOf(f *cpuFacts, load []record.LoadRow, series *record.Series) trendFacts {
	t := trendFacts{open: f.base.open}
	if f.base.open && !record.IsSteady(f.base.run) || f.base.schedule.owed.value > backlogMax {
		return t // a requested ramp, or a queue that grows by itself
	}
	times, values := bins(load, f.base.open)
	if len(values) < trendBins || times[len(times)-1]-times[0] < trendLeastS {
		return t
	}
	sen, err := stat.MannKendall(times, values, .95)
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	if err != nil || mean <= 0 || sen.Stretches < trendStretches || sen.P > trendChance || sen.Slope.Low*sen.Slope.High <= 0 {
		return t
	}
	c := fifths(values)
	if math.Abs(c.to-c.from) < unsteady*mean || (c.to-c.from)*sen.Slope.Value <= 0 {
		return t
	}
	t.known, t.from, t.to = true, c.from, c.to
	t.slope, t.low, t.high = sen.Slope.Value/mean, sen.Slope.Low/mean, sen.Slope.High/mean
	t.changes(f, load, series)
	return t
}

// bins returns means over at most trendBinsMost stretches of rows: throughput, or response times
// in an open loop.
func bins(rows []record.LoadRow, open bool) (times, values []float64) {
	each := (len(rows) + trendBinsMost - 1) / trendBinsMost
	for i := 0; i+each <= len(rows) && each > 0; i += each {
		done, width, sum := 0.0, 0.0, 0.0
		for _, r := range rows[i : i+each] {
			done, width = done+float64(r.Completed), width+float64(r.WidthNs)/1e9
			sum += float64(r.Completed) * positive(r.MeanNs)
		}
		at, v := float64(rows[i+each-1].TNs)/1e9, done/width
		if open {
			if done == 0 {
				continue
			}
			v = sum / done
		}
		if len(times) > 0 && at <= times[len(times)-1] {
			continue
		}
		times, values = append(times, at), append(values, v)
	}
	return times, values
}

// fifths returns the medians of the first and the last fifth.
func fifths(values []float64) change {
	n := len(values) / 5
	if n == 0 {
		return change{}
	}
	return change{true, stat.Middle(values[:n]), stat.Middle(values[len(values)-n:])}
}

// changes collects what else changed during the run.
func (t *trendFacts) changes(f *cpuFacts, load []record.LoadRow, series *record.Series) {
	var rss, files, threads, cores, perRequest []float64
	rows := slices.DeleteFunc(observed(f.base, series.Observed.Processes), func(r *record.ProcessRow) bool {
		return r.Role != record.RoleSubject || !f.server.subject.known || r.Host != f.server.subject.host || r.WidthNs <= 0
	})
	for i := 0; i < len(rows); { // the processes of one sample end their interval together
		var sums [4]float64
		from, at := rows[i].TNs-rows[i].WidthNs, rows[i].TNs
		looked := false
		for ; i < len(rows) && rows[i].TNs == at; i++ {
			sums[0] += positive(float64(rows[i].RSSBytes))
			sums[1] += positive(float64(rows[i].OpenFiles))
			sums[2] += positive(float64(rows[i].Threads))
			sums[3] += positive(float64(rows[i].CPUNs)) / float64(rows[i].WidthNs)
			looked = looked || rows[i].OpenFiles > 0
		}
		rss, threads, cores = append(rss, sums[0]), append(threads, sums[2]), append(cores, sums[3])
		if looked {
			files = append(files, sums[1])
		}
		if rate := rateIn(load, from, at); rate > 0 {
			perRequest = append(perRequest, sums[3]*1e9/rate)
		}
	}
	t.rss, t.files, t.threads, t.cpuPerRequest = fifths(rss), fifths(files), fifths(threads), fifths(perRequest)
	var others []float64
	for _, r := range observed(f.base, series.Observed.CPU) {
		if r.WidthNs <= 0 || !f.server.subject.known || r.Host != f.server.subject.host {
			continue
		}
		busy := 0.0
		for i := range r.Cores {
			busy += float64(r.Cores[i].Busy()) * 1e7 / float64(r.WidthNs)
		}
		others = append(others, busy)
	}
	if all, own := fifths(others), fifths(cores); all.known && own.known && f.generator.self.cores.known {
		home := 0.0
		if f.near {
			home = f.generator.self.cores.value
		}
		t.others = change{true, math.Max(all.from-own.from-home, 0), math.Max(all.to-own.to-home, 0)}
	}
}

// rateIn returns the throughput between two times.
func rateIn(load []record.LoadRow, fromNs, toNs int64) float64 {
	done, width := 0.0, 0.0
	for i := range load {
		if middle := load[i].TNs - load[i].WidthNs/2; middle > fromNs && middle <= toNs {
			done, width = done+float64(load[i].Completed), width+float64(load[i].WidthNs)
		}
	}
	if width == 0 {
		return 0
	}
	return done / width * 1e9
}

// worse reports whether the run ended worse than it began.
func (t *trendFacts) worse() bool { return t.known && (t.slope < 0) != t.open }

// says returns the trend as a statement.
func (t *trendFacts) says() record.Statement {
	if t.open {
		return say("trend.latency", with{"from_ns": t.from, "to_ns": t.to, "slope": t.slope, "low": t.low, "high": t.high})
	}
	return say("trend.rate", with{"from_per_s": t.from, "to_per_s": t.to, "slope": t.slope, "low": t.low, "high": t.high})
}

// grown returns the server's figures that grew by a fifth or more.
func (t *trendFacts) grown() (says []record.Statement, evidences []record.Evidence) {
	add := func(c change, what, source, unitName string) {
		if c.grew(grewMatters) {
			of := with{"from_" + unitName: c.from, "to_" + unitName: c.to}
			grew := say("grew."+what, of)
			says, evidences = append(says, grew), append(evidences, record.NewEvidence(source, c.to, unitName, grew))
		}
	}
	add(t.rss, "memory", "series.process.rss_bytes", "bytes")
	add(t.cpuPerRequest, "cpu", "series.process.cpu_ns", "ns")
	add(t.files, "files", "series.process.open_files", "files")
	add(t.threads, "threads", "series.process.threads", "threads")
	return says, evidences
}

// slowdown adds a server that slows down during the run to a finding: whatever limits it, the
// mean describes no steady state. Other processes that took its CPU, or a full generator, are
// blamed first.
func slowdown(f *facts, found *finding) {
	t := &f.time.trend
	if !t.worse() {
		return
	}
	if t.others.known && t.others.to-t.others.from >= foreignCores {
		found.caveats = append(found.caveats, say("trend.others", with{"trend": t.says(), "more_cores": t.others.to - t.others.from}))
		return
	}
	if free, missing := f.generatorFree(); !free || missing != nil || !f.cpu.server.subject.known || found.bottleneck == record.Failures {
		found.caveats = append(found.caveats, t.says())
		return
	}
	what := "series.load.completed"
	if t.open {
		what = "series.load.mean_ns"
	}
	says, grown := t.grown()
	found.pro = slices.Concat([]record.Evidence{record.NewEvidence(what, t.slope, "1/s", t.says())}, grown, found.pro)
	found.because = append(found.because, say("trend.slows", with{"trend": t.says()}))
	found.next = slices.Insert(found.next, 0, say("trend.slows.next", with{"grown": says}))
}
