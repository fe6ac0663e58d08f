package audit

import (
	"slices"

	"ceiling/record"
)

// This file has the verdicts that rest on other points.

// generatorFree reports whether the generator had CPU left, by its own figures or those of other
// points, which from then lists.
func (f *pointFacts) generatorFree() (says record.Statement, from []*pointFacts, free bool) {
	g, loan := &f.generator, f.lent.generator
	switch {
	case g.free():
		return say("point.generator.free", with{"share": g.use()}), nil, true
	case g.known():
		return says, nil, false
	case loan != nil && loan.high <= pointFree:
		return say("point.generator.free-at-most", with{"share": loan.high}), []*pointFacts{loan.from}, true
	case f.lent.otherServer != nil:
		c := f.lent.otherServer
		return say("point.generator.got-more", with{"times": c.times}), []*pointFacts{c.with}, true
	}
	return says, nil, false
}

// serverFull does the same for the server.
func (f *pointFacts) serverFull() (use float64, from []*pointFacts, full bool) {
	s, loan := &f.server, f.lent.server
	switch {
	case s.known():
		return s.use(), nil, s.full()
	case loan != nil && loan.low >= pointFull:
		return loan.low, []*pointFacts{loan.from}, true
	}
	return 0, nil, false
}

// linkFree does the same for the link.
func (f *pointFacts) linkFree() (says record.Statement, from []*pointFacts, free bool) {
	l, faster := &f.link, f.lent.otherServer
	switch {
	case l.free():
		if !l.known() {
			from = f.lent.bytes
		}
		return say("point.link.at", with{"share": l.shareSays()}), from, true
	case !l.known() && faster != nil && !f.conditions.contradict(faster.with.conditions, "server_instance", "nic_gbps"):
		return say("point.link.carried-more", nil), []*pointFacts{faster.with}, true
	}
	return says, nil, false
}

// fromOthers returns the verdict that rests on other points, and those points, if this point's
// own figures decide nothing; nil if they decide nothing either.
func (f *pointFacts) fromOthers() (*record.Verdict, []*pointFacts) {
	l, n := &f.link, &f.lent
	use, serverFrom, serverFull := f.serverFull()
	generatorSays, generatorFrom, generatorFree := f.generatorFree()
	linkSays, linkFrom, linkFree := f.linkFree()
	full := n.generator != nil && n.generator.low >= pointFull && !f.generator.known()
	switch {
	case !l.used.known() && l.peersLow.Known && l.peersLow.Value >= linkFull && l.peersHigh.Value <= linkPossible:
		return f.bandwidthFromOthers(), n.bytes
	case full && n.otherServer == nil:
		return f.generatorFromOthers(), []*pointFacts{n.generator.from}
	case serverFull && generatorFree && linkFree && n.otherClient == nil:
		from := slices.Concat(serverFrom, generatorFrom, linkFrom)
		return f.serverFromOthers(use, generatorSays, linkSays), from
	case n.otherClient != nil && n.otherServer == nil && !generatorFree && !serverFull:
		return f.clientSide(), []*pointFacts{n.otherClient.with}
	case n.otherServer != nil && n.otherClient == nil && !f.generator.full() && !full && !(l.known() && !l.free()):
		return f.serverSide(), []*pointFacts{n.otherServer.with}
	case n.more != nil && !f.generator.full() && !f.server.full() && !full && !serverFull:
		return f.slotsFromOthers(), []*pointFacts{n.more.with}
	}
	return nil, nil
}

func (f *pointFacts) bandwidthFromOthers() *record.Verdict {
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.Bandwidth,
		Because:  just("point.link.full-by-others", with{"share": f.link.shareSays(), "gbps": f.point.NICGbps.Value}),
		Evidence: f.evidence(), Next: just("point.link.full.next", nil)}
}

func (f *pointFacts) generatorFromOthers() *record.Verdict {
	n := f.lent.generator
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.LoadGenerator,
		Because: just("point.generator.full-by-others", with{"share": n.low}),
		Evidence: append(f.evidence(), record.NewEvidence("client_cpu_pct", 100*n.low, "%", say("point.generator.elsewhere",
			with{"per_s": n.from.point.RPS.Value, "share": n.from.generator.use(), "here_per_s": f.point.RPS.Value}))),
		Next: just("point.generator.full.next", nil)}
}

func (f *pointFacts) serverFromOthers(use float64, generatorSays, linkSays record.Statement) *record.Verdict {
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.ServerCPU,
		Because: []record.Statement{
			say("point.server.full-by-others", with{"share": use, "allowed_cpus": f.server.part()}), generatorSays, linkSays},
		Evidence: f.evidence(), Next: just("point.server.full.next", nil)}
}

func (f *pointFacts) clientSide() *record.Verdict {
	c := f.lent.otherClient
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.LoadGenerator,
		Because:  just("point.client-side", with{"per_s": c.with.point.RPS.Value, "times": c.times}),
		Evidence: append(f.evidence(), c.evidence(f)), Next: just("point.generator.full.next", nil)}
}

func (f *pointFacts) serverSide() *record.Verdict {
	c := f.lent.otherServer
	v := &record.Verdict{Outcome: record.Valid, Bottleneck: ServerSide,
		Because:  just("point.server-side", with{"per_s": c.with.point.RPS.Value, "times": c.times}),
		Evidence: append(f.evidence(), c.evidence(f)), Next: just("point.server-side.next", nil)}
	if f.server.known() && f.server.whole() && f.server.use() <= pointFree {
		v.Because = append(v.Because, say("point.server.not-full", with{"share": f.server.use()}))
		v.Next = just("point.server.not-full.next", nil)
	}
	return v
}

func (f *pointFacts) slotsFromOthers() *record.Verdict {
	c := f.lent.more
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.Concurrency,
		Because:  just("point.connections.limit", with{"connections": c.slots, "times": c.times}),
		Evidence: append(f.evidence(), c.evidence(f)), Next: just("point.connections.limit.next", nil)}
}

// evidence names the other run and how it differs.
func (c *comparison) evidence(f *pointFacts) record.Evidence {
	a, b := c.with.conditions, f.conditions
	return record.NewEvidence("rps", c.times, "×", say("point.compared", with{"point": c.with.point.called(), "per_s": c.with.point.RPS.Value,
		"differences": differencesSay(a, b, differences(a, b))}))
}
