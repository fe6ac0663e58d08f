package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// This file is what can go wrong between several agents: one is lost, begins
// too late, has a clock that nobody knows, gets less done than its share, or
// shares its machine.

// byName are all agents, by name.
func byName(run *record.Run) []*record.Agent {
	var list []*record.Agent
	for i := range run.Agents {
		list = append(list, &run.Agents[i])
	}
	slices.SortStableFunc(list, func(a, b *record.Agent) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// loadersOf are the agents that load, by name.
func loadersOf(run *record.Run) []*record.Agent {
	return slices.DeleteFunc(byName(run), func(a *record.Agent) bool { return !a.Loads })
}

// lostOf are the agents of which nothing more came, by name.
func lostOf(run *record.Run) []*record.Agent {
	return slices.DeleteFunc(byName(run), func(a *record.Agent) bool { return a.Lost == "" })
}

// lostWhen says when an agent was lost.
func lostWhen(a *record.Agent) string {
	if a.LostAtNs <= 0 {
		return "before the window opened"
	}
	return ns(float64(a.LostAtNs)) + " into the window"
}

// invalidLost looks for a run that was ended because an agent was lost, or has
// lost all that loaded.
func invalidLost(f *facts) *invalidity {
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
		because: fmt.Sprintf("agent %s was lost %s: %s", lost[0].Name, lostWhen(lost[0]), lost[0].Lost),
		next:    "see why " + lost[0].Name + " went silent, then rerun; with --allow-loss the run continues without it",
	}
	if allowed {
		v.because = "every agent that loads was lost; " + v.because
		v.next = "see why " + lost[0].Name + " went silent, then rerun"
	}
	if strings.HasPrefix(lost[0].Lost, record.LostController) {
		v.next = "start the controller again on its host: ceiling controller; the agents come back by themselves, then rerun"
	}
	for _, a := range lost {
		v.evidence = append(v.evidence, record.NewEvidence("agents."+a.Name+".lost_at_ns", float64(a.LostAtNs), "ns",
			"agent %s with %s of the load was lost %s: %s",
			a.Name, unit.Percent(fraction(a)), lostWhen(a), a.Lost))
	}
	return v
}

// fraction of the run that an agent was given; 0 where the record has nonsense.
func fraction(a *record.Agent) float64 {
	if !a.Loads {
		return 0
	}
	return math.Min(positive(a.Share.Fraction()), 1)
}

// lostPart is the part of the window's load that was not asked for, because
// its agents were lost.
func (f *facts) lostPart() float64 {
	sum, window := 0.0, f.windowS()*1e9
	for _, a := range lostOf(f.run) {
		if window > 0 {
			sum += fraction(a) * math.Min(math.Max(1-math.Max(float64(a.LostAtNs), 0)/window, 0), 1)
		}
	}
	return math.Min(sum, 1)
}

// invalidAgentsAccounting holds every agent's books, and their sum, against the run's.
func (f *facts) invalidAgentsAccounting() *invalidity {
	loading := loadersOf(f.run)
	if len(loading) == 0 || f.run.Unfinished || len(lostOf(f.run)) > 0 {
		return nil
	}
	var sum record.Requests
	because := ""
	for _, a := range loading {
		r := a.Requests
		sum.Sent += r.Sent
		sum.Completed += r.Completed
		sum.Failed += r.Failed
		sum.InFlight += r.InFlight
		if r.Sent != r.Completed+r.Failed+r.InFlight && because == "" {
			because = fmt.Sprintf("request accounting mismatch at agent %s: %s sent, but %s completed, %s failed and %s in flight",
				a.Name, count(r.Sent), count(r.Completed), count(r.Failed), count(r.InFlight))
		}
	}
	all := f.run.Requests
	if because == "" && (sum.Sent != all.Sent || sum.Completed != all.Completed || sum.Failed != all.Failed || sum.InFlight != all.InFlight) {
		because = fmt.Sprintf("request accounting mismatch between agents and run: %s sent and %s completed by them, %s and %s by the run",
			count(sum.Sent), count(sum.Completed), count(all.Sent), count(all.Completed))
	}
	if because == "" {
		return nil
	}
	return &invalidity{
		nothing: true, because: because,
		next:     "rerun; if it happens twice, it is a bug in the generator: report it with the record",
		evidence: []record.Evidence{record.NewEvidence("requests.sent", float64(all.Sent), "requests", "%s requests sent", count(all.Sent))},
	}
}

// ofTheAgents is what weakens the figures of several agents.
func (d *caveats) ofTheAgents(f *facts) {
	d.ofTheLost(f)
	for _, a := range byName(f.run) {
		d.ofTheClock(f, a)
	}
	for _, a := range loadersOf(f.run) {
		d.ofTheStart(f, a)
		if l := &a.Load; l.Established > 0 && l.Established < l.Connections {
			d.add("agent %s established %d of its %d connections", a.Name, l.Established, l.Connections)
		}
	}
	if len(f.agents) == 0 {
		return
	}
	for _, v := range f.agents {
		if s := &v.run.Rate.Spread; s.Late > 0 && float64(s.Late) >= lateRows*float64(s.Late+s.Samples) {
			d.add("%d of %d intervals of agent %s were sampled late: its host was overloaded", s.Late, s.Late+s.Samples, v.agent)
		}
	}
	d.ofTheShares(f)
	d.ofTheMachines(f)
}

// ofTheLost is what the run went on without.
func (d *caveats) ofTheLost(f *facts) {
	lost := lostOf(f.run)
	if f.run.Fleet == nil || !f.run.Fleet.AllowLoss {
		return // the run is invalid for it
	}
	share, why, from := 0.0, []string{}, math.MaxFloat64
	for _, a := range lost {
		if !a.Loads {
			d.add("the observer %s was lost %s (%s): nothing of its host is known after that", a.Name, lostWhen(a), a.Lost)
			continue
		}
		share += fraction(a)
		from = math.Min(from, math.Max(float64(a.LostAtNs), 0))
		why = append(why, a.Name+": "+a.Lost)
	}
	if len(why) > 0 {
		d.add("%s of the asked load was lost from %s on (%s): what follows is of the rest, and means are of both", unit.Percent(share), ns(from),
			strings.Join(why, "; "))
	}
}

// ofTheStart is how well an agent kept to the common start.
func (d *caveats) ofTheStart(f *facts, a *record.Agent) {
	late := float64(a.StartSkewNs)
	if len(f.agents) == 0 || math.Abs(late) <= skewMost {
		return
	}
	missing := ""
	if gone := late/1e9 - positive(f.run.WarmupS); gone > unsentShare*f.windowS() && f.windowS() > 0 {
		missing = fmt.Sprintf(", and was missing from %s of the window", unit.Percent(math.Min(gone/f.windowS(), 1)))
	}
	d.add("agent %s began %s off the common start (±%s)%s: rows of the same time are not of the same load", a.Name, ns(math.Abs(late)),
		ns(float64(a.Clock.ErrorNs)), missing)
}

// ofTheClock is how well it is known what an agent's times mean to the others.
func (d *caveats) ofTheClock(f *facts, a *record.Agent) {
	switch {
	case len(f.run.Agents) < 2:
	case a.Clock.ErrorNs > clockErrorMost:
		d.add("the clock of agent %s is known to ±%s only: its rows may be of another moment than those of the others", a.Name,
			ns(float64(a.Clock.ErrorNs)))
	case a.Clock.Pings <= 0 && !f.run.Unfinished: // else it is told at the end
		d.add("the clock of agent %s was not compared with the others: its rows may be of another moment", a.Name)
	}
}

// ofTheShares looks for an agent of a closed loop that gets far less done than
// its connections would with the others' response times.
func (d *caveats) ofTheShares(f *facts) {
	if f.open {
		return
	}
	slots, rate := 0.0, 0.0
	there := slices.DeleteFunc(slices.Clone(f.agents), func(v *facts) bool { return f.run.Agent(v.agent).Lost != "" })
	for _, v := range there {
		slots += v.slots
		rate += v.rate
	}
	for _, v := range there {
		if slots > 0 && rate > 0 && v.rate/rate < agentShort*v.slots/slots {
			d.add("agent %s made %s of the answers with %s of the slots: each took it %s on average, all of them %s; its path or its host is slower, and quantiles are of two kinds of clients",
				v.agent, unit.Percent(v.rate/rate), unit.Percent(v.slots/slots), ns(v.run.Latency.Response.MeanNs), ns(f.run.Latency.Response.MeanNs))
		}
	}
}

// ofTheMachines names agents that take CPU from each other.
func (d *caveats) ofTheMachines(f *facts) {
	told := map[string]bool{}
	for _, v := range f.agents {
		group := f.onMachine(v.agent)
		if len(group) < 2 || told[v.agent] {
			continue
		}
		for _, name := range group {
			told[name] = true
		}
		d.add("agents %s run on one machine: each has only the CPU that the others leave it", listed(group))
	}
}

// onMachine are the agents that load from the machine of a host.
func (f *facts) onMachine(host string) []string {
	var names []string
	for _, v := range f.agents {
		if oneMachine(f.run, v.agent, host) {
			names = append(names, v.agent)
		}
	}
	return names
}

// sharing is who shares CPUs with the server.
func (f *facts) sharing() string {
	var names []string
	for _, v := range f.agents {
		if v.together {
			names = append(names, v.agent)
		}
	}
	switch len(names) {
	case 0:
		return "generator"
	case 1:
		return "agent " + names[0]
	}
	return "agents " + listed(names)
}

// listed writes names: "a", "a and b", "a, b and c".
func listed(names []string) string {
	n := len(names)
	if n < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
}
