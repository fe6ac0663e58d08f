package verdict

import (
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// This file covers what can go wrong with several agents: one is lost, starts too late, has an
// unknown clock, does less than its share, or shares its machine.

// byName returns all agents, sorted by name.
func byName(run *record.Run) []*record.Agent {
	var list []*record.Agent
	for i := range run.Agents {
		list = append(list, &run.Agents[i])
	}
	slices.SortStableFunc(list, func(a, b *record.Agent) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// loadersOf returns the agents that load, sorted by name.
func loadersOf(run *record.Run) []*record.Agent {
	return slices.DeleteFunc(byName(run), func(a *record.Agent) bool { return !a.Loads })
}

// lostOf returns the agents that stopped reporting, sorted by name.
func lostOf(run *record.Run) []*record.Agent {
	return slices.DeleteFunc(byName(run), func(a *record.Agent) bool { return a.Lost == "" })
}

// invalidLost looks for a run that ended because it lost an agent, or that lost all its loading
// agents.
func invalidLost(f *runFacts) *invalidity {
	lost := lostOf(f.run)
	if len(lost) == 0 {
		return nil
	}
	allowed := f.run.Fleet != nil && f.run.Fleet.AllowLoss
	loading := loadersOf(f.run)
	left := slices.ContainsFunc(loading, func(a *record.Agent) bool { return a.Lost == "" })
	if allowed && left {
		return nil
	}
	v := &invalidity{
		nothing: true,
		because: just("agent.lost", with{"agent": lost[0].Name, "at_ns": max(lost[0].LostAtNs, 0), "why": lost[0].Lost}),
		next:    just("agent.lost.next", with{"agent": lost[0].Name, "allow": true}),
	}
	if allowed {
		v.because = slices.Insert(v.because, 0, say("agents.all-lost", nil))
		v.next = just("agent.lost.next", with{"agent": lost[0].Name, "allow": false})
	}
	if strings.HasPrefix(lost[0].Lost, record.LostController) {
		v.next = just("controller.lost.next", nil)
	}
	for _, a := range lost {
		v.evidence = append(v.evidence, record.NewEvidence("agents."+a.Name+".lost_at_ns", float64(a.LostAtNs), "ns",
			say("agent.lost-share", with{"agent": a.Name, "share": fraction(a), "at_ns": max(a.LostAtNs, 0), "why": a.Lost})))
	}
	return v
}

// fraction is the share of the run assigned to an agent; 0 if the record's value is nonsense.
func fraction(a *record.Agent) float64 {
	if !a.Loads {
		return 0
	}
	return math.Min(positive(a.Share.Fraction()), 1)
}

// lostPart returns the share of the window's load that was not generated because its agents were
// lost.
func (f *runFacts) lostPart() float64 {
	sum, window := 0.0, f.run.WindowS()*1e9
	for _, a := range lostOf(f.run) {
		if window > 0 {
			sum += fraction(a) * math.Min(math.Max(1-math.Max(float64(a.LostAtNs), 0)/window, 0), 1)
		}
	}
	return math.Min(sum, 1)
}

// invalidAgentsAccounting checks each agent's request accounting, and the sum of all, against the
// run's.
func (f *runFacts) invalidAgentsAccounting() *invalidity {
	loading := loadersOf(f.run)
	if len(loading) == 0 || f.run.Unfinished || len(lostOf(f.run)) > 0 {
		return nil
	}
	var sum record.Requests
	var because record.Statement
	for _, a := range loading {
		r := a.Requests
		sum.Sent += r.Sent
		sum.Completed += r.Completed
		sum.Failed += r.Failed
		sum.InFlight += r.InFlight
		if r.Sent != r.Completed+r.Failed+r.InFlight && because.Code == "" {
			because = say("accounting.agent", with{"agent": a.Name, "sent": r.Sent, "completed": r.Completed, "failed": r.Failed,
				"in_flight": r.InFlight})
		}
	}
	all := f.run.Requests
	if because.Code == "" && (sum.Sent != all.Sent || sum.Completed != all.Completed ||
		sum.Failed != all.Failed || sum.InFlight != all.InFlight) {
		because = say("accounting.agents", with{"agents_sent": sum.Sent, "agents_completed": sum.Completed, "sent": all.Sent,
			"completed": all.Completed})
	}
	if because.Code == "" {
		return nil
	}
	return &invalidity{
		nothing: true, because: []record.Statement{because},
		next: just("accounting.next", nil),
		evidence: []record.Evidence{record.NewEvidence("requests.sent", float64(all.Sent), "requests",
			say("requests.sent", with{"requests": all.Sent}))},
	}
}

// ofTheAgents adds what weakens the figures of several agents.
func (d *caveats) ofTheAgents(f *generatorSide) {
	d.ofTheLost(f.base)
	for _, a := range byName(f.base.run) {
		d.ofTheClock(f.base, a)
	}
	for _, a := range loadersOf(f.base.run) {
		d.ofTheStart(f, a)
		if l := &a.Load; l.Established > 0 && l.Established < l.Connections {
			d.add("agent.connections", with{"agent": a.Name, "established": l.Established, "asked": l.Connections})
		}
	}
	if len(f.agents) == 0 {
		return
	}
	for _, v := range f.agents {
		if s := &v.base.run.Rate.Spread; s.Late > 0 && float64(s.Late) >= lateRows*float64(s.Late+s.Samples) {
			d.add("agent.sampled-late", with{"agent": v.cpu.generator.agent, "late": s.Late, "intervals": s.Late + s.Samples})
		}
	}
	d.ofTheShares(f)
	d.ofTheMachines(f)
}

// ofTheLost adds what the run continued without.
func (d *caveats) ofTheLost(f *runFacts) {
	lost := lostOf(f.run)
	if f.run.Fleet == nil || !f.run.Fleet.AllowLoss {
		return // the run is invalid because of it
	}
	share, from := 0.0, math.MaxFloat64
	var why []record.Statement
	for _, a := range lost {
		if !a.Loads {
			d.add("observer.lost", with{"agent": a.Name, "at_ns": max(a.LostAtNs, 0), "why": a.Lost})
			continue
		}
		share += fraction(a)
		from = math.Min(from, math.Max(float64(a.LostAtNs), 0))
		why = append(why, say("agent.lost.why", with{"agent": a.Name, "why": a.Lost}))
	}
	if len(why) > 0 {
		d.add("agents.lost-load", with{"share": share, "from_ns": from, "why": why})
	}
}

// ofTheStart adds how far an agent missed the common start.
func (d *caveats) ofTheStart(f *generatorSide, a *record.Agent) {
	late := float64(a.StartSkewNs)
	if len(f.agents) == 0 || math.Abs(late) <= skewMost {
		return
	}
	missing := 0.0
	if gone := late/1e9 - positive(f.base.run.WarmupS); gone > unsentShare*f.base.run.WindowS() && f.base.run.WindowS() > 0 {
		missing = math.Min(gone/f.base.run.WindowS(), 1)
	}
	d.add("agent.start", with{"agent": a.Name, "off_ns": math.Abs(late), "error_ns": a.Clock.ErrorNs, "missing": missing})
}

// ofTheClock adds how uncertain an agent's clock is relative to the others.
func (d *caveats) ofTheClock(f *runFacts, a *record.Agent) {
	switch {
	case len(f.run.Agents) < 2:
	case a.Clock.ErrorNs > clockErrorMost:
		d.add("agent.clock", with{"agent": a.Name, "error_ns": a.Clock.ErrorNs})
	case a.Clock.Pings <= 0 && !f.run.Unfinished: // else the caveat comes at the end
		d.add("agent.clock-unknown", with{"agent": a.Name})
	}
}

// ofTheShares looks for a closed-loop agent that does far less than its connections would with
// the others' response times.
func (d *caveats) ofTheShares(f *generatorSide) {
	if f.base.open {
		return
	}
	slots, rate := 0.0, 0.0
	there := slices.DeleteFunc(slices.Clone(f.agents), func(v *facts) bool { return f.base.run.Agent(v.cpu.generator.agent).Lost != "" })
	for _, v := range there {
		slots += v.base.slots
		rate += v.base.rate
	}
	for _, v := range there {
		if slots > 0 && rate > 0 && v.base.rate/rate < agentShort*v.base.slots/slots {
			d.add("agent.slower", with{"agent": v.cpu.generator.agent, "share": v.base.rate / rate, "slots_share": v.base.slots / slots,
				"mean_ns": v.base.run.Latency.Response.MeanNs, "all_ns": f.base.run.Latency.Response.MeanNs})
		}
	}
}

// ofTheMachines names agents that compete for CPU on one machine.
func (d *caveats) ofTheMachines(f *generatorSide) {
	told := map[string]bool{}
	for _, v := range f.agents {
		group := f.onMachine(v.cpu.generator.agent)
		if len(group) < 2 || told[v.cpu.generator.agent] {
			continue
		}
		for _, name := range group {
			told[name] = true
		}
		d.add("agents.one-machine", with{"agents": listed(group)})
	}
}

// onMachine returns the agents that load from the machine of a host.
func (f *generatorSide) onMachine(host string) []string {
	var names []string
	for _, v := range f.agents {
		if oneMachine(f.base.run, v.cpu.generator.agent, host) {
			names = append(names, v.cpu.generator.agent)
		}
	}
	return names
}

// sharing names who shares CPUs with the server.
func (f *generatorSide) sharing() record.Statement {
	var names []string
	for _, v := range f.agents {
		if v.cpu.together {
			names = append(names, v.cpu.generator.agent)
		}
	}
	return say("who.shares", with{"agents": listed(names), "number": len(names)})
}

// listed makes one statement of each name.
func listed(names []string) []record.Statement {
	var list []record.Statement
	for _, name := range names {
		list = append(list, say("name", with{"name": name}))
	}
	return list
}
