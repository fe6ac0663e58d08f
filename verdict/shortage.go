package verdict

import (
	"math"

	"ceiling/record"
)

// Errors that arose on the generator's host: it ran out of something, or refused. They are no
// measurement of any server.

// localFacts counts them.
type localFacts struct {
	kinds    []errorKind // in the window; before it if there were none
	requests float64     // failed requests
	connects float64     // failed connect attempts in the window
	share    float64     // of all attempts in the window
	missing  float64     // connections that the load lacked, on average
}

// originOf returns where an error arose, also for a record that does not say.
func originOf(run *record.Run, e record.Error) record.Origin {
	if e.Origin != "" {
		return e.Origin
	}
	return record.OriginOf(run.Spec.OverUnix(), e.Phase, e.Cause)
}

// localOf counts the errors of this side.
func localOf(run *record.Run) (l localFacts) {
	var before []errorKind
	for _, e := range run.Errors {
		if e.Count == 0 || originOf(run, e) != record.OfLocal {
			continue
		}
		kind := errorKind{name: e.Cause, connect: e.OfConnecting(), idle: e.Phase == record.PhaseIdle, count: e.Count}
		switch {
		case e.BeforeWindow:
			before = append(before, kind)
			continue
		case e.OfRequest():
			l.requests += float64(e.Count)
		case e.OfConnecting():
			l.connects += float64(e.Count)
		}
		l.kinds = append(l.kinds, kind)
	}
	if all := float64(run.Requests.Completed) + float64(run.Requests.Failed) + l.connects; all > 0 {
		l.share = math.Min((l.requests+l.connects)/all, 1)
	}
	if before != nil {
		l.missing = math.Max(float64(run.Load.Connections-run.Load.Established), 0)
	}
	if l.kinds == nil {
		l.kinds = before
	}
	return l
}

// lackConnections counts the connections that this host kept from being opened again, on average over
// the rows. Where each request has a connection of its own, these come and go: there a row counts in
// which nothing was answered. Errors are few then, because each is tried again later and later.
func (l *localFacts) lackConnections(run *record.Run, rows []record.LoadRow) {
	if l.connects == 0 || len(rows) == 0 {
		return
	}
	sum := 0.0
	for i := range rows {
		if !run.Spec.NewConnections.Each() || rows[i].Completed == 0 {
			sum += float64(run.Load.Connections - rows[i].Connected)
		}
	}
	l.missing = math.Max(l.missing, sum/float64(len(rows)))
}

// unreachable reports whether the server, not this host, kept most connections from being opened in
// the window.
func (l *localFacts) unreachable(run *record.Run) bool {
	all := 0.0
	for _, e := range run.Errors {
		if e.OfConnecting() && !e.BeforeWindow {
			all += float64(e.Count)
		}
	}
	return l.connects == 0 || 2*l.connects < all
}

// matters reports whether they make the run one of this host: its errors are as many as would fail
// a server, or the load began without connections that it needed.
func (l *localFacts) matters(run *record.Run) bool {
	return len(l.kinds) > 0 && (l.share >= errorsMatter || l.missing >= errorsMatter*float64(max(run.Load.Connections, 1)))
}

// ruleShortage asks whether the generator's host caused the errors. It comes before every rule that
// could blame another for them.
func ruleShortage(f *facts) finding {
	out := finding{bottleneck: record.LoadGenerator, alone: true}
	l := &f.base.local
	if len(l.kinds) == 0 {
		return out
	}
	n := l.total()
	out.pro = []record.Evidence{record.NewEvidence("errors.origin", float64(n), "errors",
		say("shortage.errors", with{"count": n, "kinds": kindsOf(l.kinds)}))}
	if !l.matters(f.base.run) {
		return out
	}
	why, next := shortageOf(f.base.run)
	out.answer, out.next = matched, next
	missing := l.missing
	if l.share >= errorsMatter {
		missing = 0 // the errors say more
	}
	out.because = just("shortage", with{"why": why, "none": f.base.run.Load.Established == 0 && f.base.run.Requests.Sent == 0,
		"missing": math.Ceil(missing), "asked": f.base.run.Load.Connections,
		"share": l.share, "connects": l.connects >= l.requests, "kinds": kindsOf(l.kinds)})
	return out
}

// total counts them.
func (l *localFacts) total() (n uint64) {
	for _, k := range l.kinds {
		n += k.count
	}
	return n
}

// shortageOf says what the host ran out of and what ends that: of several the one that met most errors.
func shortageOf(run *record.Run) (why record.Statement, next []record.Statement) {
	list := run.Generator.Shortages
	count := func(s *record.Shortage) (n uint64) {
		for _, e := range run.Errors {
			if e.Phase == s.Phase && e.Cause == s.Cause {
				n += e.Count
			}
		}
		return n
	}
	most := -1
	for i := range list {
		if most < 0 || count(&list[i]) > count(&list[most]) {
			most = i
		}
	}
	if most < 0 {
		return say("shortage.unknown", with{"host": ""}), just("shortage.unknown.next", nil)
	}
	return list[most].Says(), []record.Statement{list[most].Next()}
}

// invalidShortage: figures that this host's limits produced say nothing about the server.
func invalidShortage(f *facts, _ sloResult, _ *finding) *invalidity {
	short := ruleShortage(f)
	if short.answer != matched {
		return nil
	}
	return &invalidity{nothing: true, bottleneck: record.LoadGenerator, because: short.because, next: short.next, evidence: short.pro}
}
