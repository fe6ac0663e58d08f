// Package verdict decides what a run proves: whether it passed, failed or is invalid, which
// resource was its bottleneck, on what evidence and with what caveats, where requests wait, what
// the next bottleneck would be, and what to do. It is pure: the same record always yields the
// same verdict.
//
// Each rule is one function in its own file, over facts that are computed once (facts.go). A rule
// may claim its bottleneck only from what the record holds, and names what is missing. The worst
// error is to call a run server-bound while the generator was, or might have been, the
// bottleneck.
package verdict

import (
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/record"
)

// Judge decides what the run proves. The series may be nil or empty: then Judge uses only the
// result itself and names what was not observed. It modifies neither argument.
func Judge(run *record.Run, series *record.Series) record.Verdict {
	f := newFacts(run, series)
	return judge(f, arbitrate(f))
}

// Forming judges what exists so far of a run that is still going: unfinished, but not killed.
func Forming(run *record.Run, series *record.Series) record.Verdict {
	f := newFacts(run, series)
	f.base.forming = true
	return judge(f, arbitrate(f))
}

// Stations returns where requests wait, without the rest of the verdict.
func Stations(run *record.Run, series *record.Series) []record.Station {
	return newFacts(run, series).places.stationsOf()
}

func judge(f *facts, r ruling) record.Verdict {
	slo := checkSLO(f.base)
	found, all := r.found, r.all
	why := invalidOf(f, slo, &found)
	upcoming := nextBottleneck(f.cpu, found.bottleneck, all)
	if why == nil {
		explainWait(f, &found, upcoming)
		slowdown(f, &found)
		explainCPU(f.cpu.server, &found)
		explainBlocked(f.cpu.server, &found)
		explainPool(f, &found)
		explainDelayedAck(f, &found)
		explainQuorum(f.cpu.server, &found)
		explainWorkers(f, &found)
		explainDatabase(f.cpu.server, &found)
		explainRetries(f.cpu.server, &found)
	}
	byErrors := f.base.errorShare.known && f.base.run.Spec.SLO.FailsBy(f.base.errorShare.value) || f.time.outage.share >= outageMatters
	outcome := record.Valid
	if slo.asked && len(slo.unknown) == 0 {
		outcome = record.Pass
	}
	v := record.Verdict{
		Outcome: outcome, Bottleneck: found.bottleneck, Because: found.because, Next: found.next,
		Evidence: found.pro, Against: found.against, SLO: slo.terms, OtherCores: f.cpu.others().value, BacklogShare: f.base.schedule.owed.value,
		Stations: f.places.stationsOf(), Uses: f.usesOf(), Disks: f.cpu.server.disks.uses(), Hosts: f.cpu.hosts,
	}
	v.Stalls = f.stalls()
	v.Concurrency = f.lone.result(f.base)
	if p := &f.places; p.known {
		v.StationsBy, v.StationsOf = p.by, p.moments
	}
	if found.answer == unknown {
		v.Missing = found.missing
	}
	switch {
	case why != nil:
		v.Outcome, v.Because, v.Next = record.Invalid, why.because, why.next
		v.Bottleneck, v.Evidence = why.bottleneck, slices.Concat(why.evidence, why.with(found))
		if v.Bottleneck == "" {
			v.Bottleneck = record.Inconclusive
		}
	case len(slo.broken) == 0 && byErrors:
		v.Outcome = record.Fail
		if found.bottleneck != record.Failures {
			v.Because = just("errors.and", with{"errors": f.base.errorsSentence(), "found": v.Because})
		}
	case len(slo.broken) > 0:
		sloBroke(f, &v, slo, &found)
	}
	if v.Bottleneck == found.bottleneck {
		v.Caveats = append(v.Caveats, found.caveats...)
	}
	if why != nil && f.time.trend.worse() {
		v.Caveats = append(v.Caveats, f.time.trend.says())
	}
	v.Evidence = slices.Concat(v.Evidence, slo.evidence, f.places.sourceEvidence())
	v.Caveats = slices.Concat(v.Caveats, caveatsOf(f, slo, v.Bottleneck))
	switch {
	case why == nil:
		v.NextBottleneck = upcoming
	case !why.nothing:
		v.NextBottleneck = nextBottleneck(f.cpu, v.Bottleneck, all)
	}
	if short := f.base.shortOfTarget(); short.Code != "" {
		v.Because = slices.Insert(slices.Clone(v.Because), 0, short)
	}
	inUnit(&v, f.base.run.Spec.Kind)
	return v
}

// shortOfTarget says how much of an open loop's rate was answered, if that is less than all of it.
func (f *runFacts) shortOfTarget() record.Statement {
	asked := positive(f.run.Load.TargetPerS) * (1 - f.lostPart())
	answered := math.Min(f.rate*f.elapsedS/math.Max(f.run.WindowS(), 1e-9), asked)
	if !f.open || asked == 0 || f.rate == 0 || f.run.WindowS() == 0 {
		return record.Statement{}
	}
	if slack := 2 / math.Sqrt(asked*f.run.WindowS()); 1-answered/asked <= math.Max(unsentShare, slack) {
		return record.Statement{}
	}
	return say("rate.short", with{"per_s": f.rate, "of_per_s": asked})
}

// sloBroke says which SLO terms failed, why, and what to do about it.
func sloBroke(f *facts, v *record.Verdict, slo sloResult, found *finding) {
	v.Outcome = record.Fail
	var why record.Statement
	switch {
	case f.cpu.server.acceptHurtsTail():
		why = f.cpu.server.acceptTailSays()
	case f.time.late != nil:
		why = f.time.late.says()
	}
	v.Because = just("slo.broken", with{"terms": slo.broken, "why": why, "found": found.because})
	switch {
	case slo.timedOut:
		v.Next = just("slo.broken.next.timeout", with{"timed_out": f.base.run.Latency.Waited("service").TimedOut,
			"timeout_ns": f.base.run.Spec.Timeout.Nanoseconds()})
	case v.Bottleneck == record.Concurrency && f.lone.is == alone && !slices.ContainsFunc(slo.terms, missesRate):
		v.Next = just("slo.broken.next.alone", with{"command": f.base.again("profile")})
	case v.Bottleneck == record.TargetRate && f.cpu.server.acceptHurtsTail():
		v.Next = acceptNext()
	case v.Bottleneck == record.TargetRate && f.time.late != nil:
		v.Next = f.time.late.next()
	case v.Bottleneck == record.TargetRate:
		v.Next = just("slo.broken.next.slow", nil)
	case f.time.late != nil && f.base.open:
		v.Next = slices.Concat(v.Next, f.time.late.next())
	}
}

// missesRate reports whether a term asks for a higher rate than there was.
func missesRate(t record.SLOTerm) bool { return !t.Met && strings.HasPrefix(t.Term, spec.MetricRate) }

// invalidOf returns the first reason the run is invalid, or nil.
func invalidOf(f *facts, slo sloResult, found *finding) *invalidity {
	for _, c := range validity() {
		if why := c.find(f, slo, found); why != nil {
			return why
		}
	}
	return nil
}

// ExitOf returns the exit code for a run.
func ExitOf(r *record.Run) int {
	switch {
	case r.Interrupted:
		return exit.Interrupted
	case r.Verdict.Outcome == record.Fail:
		return exit.Fail
	case r.Verdict.Outcome.Sound():
		return exit.Pass
	}
	return exit.Invalid
}

// nextBottleneck returns the resource that would be full next, and at what multiple of this run's
// rate; nil if unknown, and of a rate of errors. If both sides compete for the same cores, neither
// side's CPU is a separate bottleneck.
func nextBottleneck(f *cpuFacts, bottleneck record.Bottleneck, all []finding) *record.NextBottleneck {
	var upcoming *record.NextBottleneck
	for _, found := range all {
		switch {
		case found.times < 1 || found.times > timesMost || found.bottleneck == bottleneck, bottleneck == record.Failures:
			continue
		case bottleneck == record.SharedCPU && (found.bottleneck == record.LoadGenerator || found.bottleneck == record.ServerCPU ||
			found.bottleneck == record.ServerThread):
			continue
		case found.bottleneck == record.ServerThread && sameThing(bottleneck, found.bottleneck):
			continue
		case found.bottleneck == record.ServerCPU && bottleneck == record.ServerThread && f.together:
			continue // there the generator uses part of the cores
		}
		if upcoming == nil || found.times < upcoming.Times {
			upcoming = &record.NextBottleneck{Bottleneck: found.bottleneck, Times: found.times,
				Says: say("next-bottleneck", with{"bottleneck": found.bottleneck, "times": found.times, "nearly": found.nearly})}
		}
	}
	return upcoming
}

// usesOf returns how much of the generator's busiest thread, the server's cores and the link was
// used, as far as each was observed.
func (f *facts) usesOf() []record.Use {
	var list []record.Use
	add := func(at, what, name string, used float64, of figure) {
		list = append(list, record.NewUse(at, what, name, used, of.value))
	}
	if busy := f.worst().cpu.generator.self.busy; busy.known {
		add(record.PlaceGenerator, record.UseOfThread, "", busy.value, some(1))
	}
	if f.cpu.server.subject.known {
		capacity, _ := f.cpu.server.capacity()
		add(record.PlaceInServer, record.UseOfCores, "", f.cpu.server.subject.cores, capacity)
		if len(f.cpu.server.subject.threads) > 0 {
			add(record.PlaceInServer, record.UseOfThread, "", f.cpu.server.subject.threads[0].run, some(1))
		}
	}
	for i, at := range []string{record.PlaceToServer, record.PlaceToClient} {
		if way := &f.path.ways[i]; way.known {
			add(at, record.UseOfLink, way.iface, way.bits, way.speed)
		}
	}
	return list
}
