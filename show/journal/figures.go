package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

var errNotMeasured = errors.New("was not measured")

// figures are what an entry can ask of a record, or of a part of one. Those of a record that is
// still to be measured are of an empty one, so that a wrong name is found before.
type figures struct {
	condition // without runs and a point if they are of something else
	// by has them by the names that entries use: an answer, figures, or a function that returns one
	// of them.
	by map[string]any
}

// names returns the names that can be asked for, in alphabetical order.
func (f figures) names() []string { return slices.Sorted(maps.Keys(f.by)) }

// source is the record that figures come from.
type source struct {
	of    *Record
	wrong error // why it has no figures; nil if it has
}

// number returns a figure; known is false if the record has none.
func (s source) number(k *form, v float64, known bool) answer {
	return s.between(k, record.Estimate{Mid: v, Low: v, High: v}, known)
}

// positive returns a figure that is 0 if it was not measured.
func (s source) positive(k *form, v float64) answer { return s.number(k, v, v > 0) }

// between returns a figure with its interval.
func (s source) between(k *form, v record.Estimate, known bool) answer {
	a := s.answer(k.format(v.Mid))
	a.kind, a.number, a.low, a.high = k, v.Mid, v.Low, v.High
	switch {
	case a.Pending:
	case !known:
		a.wrong = cmp.Or(a.wrong, s.unmeasured(k))
	case v.High > v.Low:
		a.Interval = interval(k.format(v.Low), k.format(v.High), v.Confidence)
	}
	return a
}

// answer returns a text of the record, or says that there is none yet.
func (s source) answer(text string) answer {
	if s.of.Pending() {
		return pending(s.of)
	}
	return answer{Figure: text, From: []*Record{s.of}, wrong: s.wrong}
}

// pending is the answer of records of which one is still to be measured.
func pending(of ...*Record) answer {
	return answer{Figure: "not measured yet", From: of, Pending: true}
}

// unmeasured is the error for a missing figure, with the reason that the run gives, if any.
func (s source) unmeasured(k *form) error {
	if s.of.Run != nil && k == kindNs {
		for _, n := range s.of.Run.NotMeasured {
			if n.What == "process" || n.What == "latency" {
				return fmt.Errorf("%w, because %s", errNotMeasured, n.Why)
			}
		}
	}
	return errNotMeasured
}

// share returns a number from 0 to 1; below 0 means not measured.
func (s source) share(v float64) answer { return s.number(kindShare, v, v >= 0) }

func (s source) count(v int) answer { return s.number(kindCount, float64(v), true) }

// says returns a text.
func (s source) says(text string) answer {
	a := s.answer(page.Shown(text))
	if text == "" && !a.Pending {
		a.wrong = cmp.Or(a.wrong, errors.New("is empty in the record"))
	}
	return a
}

func (s source) when(t time.Time) answer { return s.says(t.UTC().Format("2 January 2006, 15:04 UTC")) }

func (s source) seconds(v float64) answer { return s.number(kindNs, v*1e9, true) }

// quantiles are the figures of a distribution, all times.
func (s source) quantiles(q *record.Quantiles) map[string]any {
	by := map[string]any{"Mean": s.number(kindNs, q.MeanNs, q.Count > 0), "Min": s.number(kindNs, float64(q.MinNs), q.Count > 0)}
	for name, share := range map[string]float64{"P50": .5, "P90": .9, "P99": .99, "P999": .999, "Max": 1} {
		ns, _ := q.Quantile(share)
		a := s.number(kindNs, float64(ns), q.Count > 0)
		if q.IsBound(share) && a.wrong == nil && !a.Pending {
			a.Figure = "≥ " + a.Figure
		}
		by[name] = a
	}
	return by
}

// machine has the figures of the load generator's host.
func (s source) machine(env *record.Environment) map[string]any {
	return map[string]any{"Cores": s.count(env.CoresAllowed), "CPU": s.says(env.CPUModel), "Kernel": s.says(env.Kernel), "Host": s.says(env.Host),
		"Memory": s.positive(kindBytes, float64(env.MemoryBytes))}
}

// runOf returns the figures of a run; the quantiles are of its response time. Errors counts the requests
// that failed or got an unexpected status, ErrorShare is their share of all. Read and Written are bytes
// above TCP, Transfer is bytes read per second, BytesPerRequest is per response: head, framing and body.
// Station is the share of a request's time spent at a station.
func runOf(of *Record) figures {
	run, s := of.Run, source{of: of}
	if run == nil {
		run = &chart.Run{Run: new(record.Run)}
	}
	load, v, generator := &run.Load, &run.Verdict, &run.Generator
	done, failed, read := run.Requests.Completed, run.Requests.Failed, float64(run.Bytes.Read)
	all := float64(done + failed)
	next, server := s.number(kindCount, 0, false), s.number(kindNs, 0, false)
	if v.NextBottleneck != nil {
		next = s.says(prose.Text(v.NextBottleneck.Says))
	}
	if run.Subject != nil {
		server = s.number(kindNs, run.Subject.CPUNsPerRequest, true)
	}
	by := s.quantiles(&run.Latency.Response)
	maps.Copy(by, s.machine(&run.Environment))
	maps.Copy(by, map[string]any{
		"Service": figures{condition{source: s}, s.quantiles(&run.Latency.Service)}, "Lag": figures{condition{source: s}, s.quantiles(&run.Latency.Lag)},

		"Connections": s.count(load.Connections), "Pipelining": s.count(load.Pipelining), "Threads": s.count(load.Threads),
		"Mode": s.says(load.Mode), "Engine": s.says(load.Engine), "Duration": s.seconds(run.ElapsedS), "Warmup": s.seconds(run.WarmupS),
		"Target": s.says(run.Target), "Started": s.when(run.Started), "ID": s.says(run.ID),

		"Rate": s.number(kindPerS, run.Rate.CompletedPerS, true), "SentRate": s.number(kindPerS, run.Rate.SentPerS, true),
		"TargetRate": s.positive(kindPerS, load.TargetPerS), "Completed": s.count(int(done)), "Failed": s.count(int(failed)),
		"Errors": s.number(kindCount, math.Round(run.BadShare()*all), all > 0), "ErrorShare": s.number(kindShare, run.BadShare(), all > 0),
		"Read": s.number(kindBytes, read, true), "Written": s.number(kindBytes, float64(run.Bytes.Written), true),
		"Transfer":        s.number(kindBytesPS, read/run.ElapsedS, run.ElapsedS > 0),
		"BytesPerRequest": s.number(kindBytes, read/float64(done), done > 0),

		"Outcome": s.says(string(v.Outcome)), "Bottleneck": s.says(string(v.Bottleneck)), "NextBottleneck": next,
		"Because": s.says(prose.Sentence(v.Because)), "Caveats": s.says(prose.Sentence(v.Caveats)), "Next": s.says(prose.Sentence(v.Next)),
		"Station": func(name string) (answer, error) {
			one, err := named(s, v.Stations, "unknown station", name, func(one record.Station) string { return one.Name })
			return s.share(one.Share), err
		},

		"Headroom": s.positive(kindTimes, run.Headroom()), "BusiestWorker": s.share(generator.BusiestWorker),
		"RunDelay": s.share(generator.RunDelay), "GeneratorCPU": s.positive(kindNs, generator.CPUNsPerRequest), "ServerCPU": server,
	})
	return figures{condition{source: s, runs: []*chart.Run{run}}, by}
}

// planOf returns the figures of a plan. Count is its runs, Invalid the invalid ones; Ended and
// Because are how it ended.
func planOf(of *Record) figures {
	p, s := of.Plan, source{of: of}
	if p == nil {
		p = new(record.Plan)
	}
	invalid := 0
	for i := range p.Runs {
		if p.Runs[i].Outcome == record.Invalid {
			invalid++
		}
	}
	x := &p.Experiment
	by := s.machine(&p.Environment)
	maps.Copy(by, map[string]any{
		"Says": s.answerOf(p), "Count": s.count(len(p.Runs)), "Invalid": s.count(invalid),
		"Kind": s.says(x.Kind), "Question": s.says(x.Question), "SLO": s.says(x.SLO.String()), "Repeats": s.count(x.Repeats), "Seed": s.count(int(x.Seed)),
		"Duration":    s.says(time.Duration(x.Load.Duration).String()),
		"Connections": s.says(settings(x.Load.Connections)), "Pipelining": s.says(settings(x.Load.Pipelining)),
		"Ended": s.says(p.Ended), "Because": s.says(prose.Text(p.Because)), "Took": s.seconds(p.TookS), "Started": s.when(p.Created), "ID": s.says(p.ID),
	})
	search, proof := cmp.Or(p.Search, new(record.Search)), cmp.Or(p.Proof, new(record.Proof))
	only := func(there bool, what string) source {
		if !there {
			return source{of, lacks(p, what)}
		}
		return s
	}
	by["Capacity"] = only(p.Search != nil, "capacity").between(kindPerS, search.Capacity, true)
	by["Limit"] = only(p.Search != nil, "limit").says(search.Limit)
	by["Bottleneck"] = only(p.Search != nil, "bottleneck").says(string(search.Bottleneck))
	by["Proved"] = only(p.Proof != nil, "proof").says(proof.Proved)
	return figures{condition{source: s}, by}
}

// answerOf returns the answer of a plan in one sentence, for a sweep with a single curve.
func (s source) answerOf(p *record.Plan) answer {
	switch sweep := p.Sweep; {
	case sweep != nil && len(sweep.Curves) > 1:
		s.wrong = fmt.Errorf("a sweep of %d curves says something of each; take one, as in (curve %q %q).Says", len(sweep.Curves),
			s.of.Name, sweep.Curves[0].Server)
	case sweep == nil && p.Search == nil && p.Proof == nil && p.Comparison == nil && p.Factorial == nil:
		s.wrong = lacks(p, "answer")
	}
	return s.says(prose.Text(p.Says()))
}

// settings lists the values of a setting.
func settings[N ~int64](list []N) string {
	var texts []string
	between := ", "
	for _, n := range list {
		texts = append(texts, unit.FormatCount(int64(n)))
		if n >= 1000 {
			between = "; "
		}
	}
	return strings.Join(texts, between)
}

// lacks is the error for an answer that the plan does not have.
func lacks(p *record.Plan, what string) error {
	if p.Ended == "" {
		return fmt.Errorf("the plan was interrupted after %d runs and has no such answer; %s", len(p.Runs), prose.Text(p.Onward()))
	}
	return fmt.Errorf("a plan of kind %s has no %s", p.Experiment.Kind, what)
}

// named returns the list element with a given name; missing begins the error if there is none.
func named[T any](s source, list []T, missing, name string, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, one := range list {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	if s.of.Pending() {
		return found, nil
	}
	return found, fmt.Errorf("%s %q%s", missing, clip(name), nearTo(name, names))
}

// form of a number, by its kind: how it is printed, and what it can be compared with.
type form struct{ format func(v float64) string }

// The kinds.
var (
	kindCount   = &form{formatCount}                                                             // read-only
	kindPerS    = &form{unit.FormatRate}                                                         // read-only; per second
	kindNs      = &form{func(v float64) string { return unit.FormatNs(integer(v)) }}             // read-only; nanoseconds
	kindBytes   = &form{func(v float64) string { return unit.FormatBytesSI(integer(v)) }}        // read-only
	kindBytesPS = &form{func(v float64) string { return unit.FormatBytesSI(integer(v)) + "/s" }} // read-only; bytes per second
	kindShare   = &form{unit.Percent}                                                            // read-only; 0 to 1
	kindChange  = &form{unit.Change}                                                             // read-only; a share with its sign
	kindTimes   = &form{func(v float64) string { return ratio(v) + " times" }}                   // read-only
	kindTwo     = &form{func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }}    // read-only; two decimals
)

func integer(v float64) int64 { return int64(math.Round(min(max(v, -1e18), 1e18))) }

func formatCount(v float64) string {
	if v != math.Trunc(v) {
		return unit.FormatSI(v)
	}
	return unit.FormatCount(integer(v))
}

// ratio formats three significant digits, like other figures.
func ratio(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// interval formats an interval; a unit shared by both ends appears once. It names a confidence
// below 95%; 0 means minimum to maximum.
func interval(low, high string, confidence float64) string {
	figure, of, _ := strings.Cut(low, " ")
	if of != "" && strings.HasSuffix(high, " "+of) {
		low = figure
	}
	between := "–"
	if strings.ContainsAny(low+high, "+−") {
		between = " to " // a dash next to a sign reads as another sign
	}
	switch text := low + between + high; {
	case confidence >= 0.95: // the levels of medians of eight runs, and of several effects together, are above it
		return "(" + text + ")"
	case confidence == 0:
		return "(" + text + ", min–max)"
	default:
		return fmt.Sprintf("(%.0f%% CI %s)", 100*confidence, text)
	}
}

// rounded formats a mean of whole numbers.
func rounded(v float64) string { return unit.FormatCount(int64(math.Round(v))) }
