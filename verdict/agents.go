package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// This file handles runs with several agents: it judges each by its own numbers, its own host and
// its own sockets, against the one server. The generator rules then ask each of them; one full
// agent is enough.

// oneMachine reports whether two hosts run on one kernel and so share its CPUs, as agents in
// containers or network namespaces do, whatever their names.
func oneMachine(run *record.Run, a, b string) bool {
	if a == b {
		return true
	}
	x, y := run.Agent(a), run.Agent(b)
	return x != nil && y != nil && x.Environment.SameMachine(&y.Environment)
}

// several builds the facts of each agent, and from all of them the facts that the generator rules
// ask for.
func (f *cpuFacts) several(loading []*record.Agent, series *record.Series, cpu []*record.CPURow) {
	for _, a := range loading {
		f.generator.agents = append(f.generator.agents, f.server.ofAgent(a, series, cpu))
	}
	f.sumGenerators()
	for i, a := range loading {
		v := f.generator.agents[i]
		// All agents together compete for the server's cores.
		v.cpu.generator.self.cores, v.cpu.generator.self.waiting = f.generator.self.cores, f.generator.self.waiting
		var load []record.LoadRow
		if series != nil {
			load = inWindow(series.Agents, a.Name)
		}
		v.places = occupancyOf(v, series, v.cpu.server.joined(series, []*facts{v}, v.base.slots/math.Max(f.base.slots, 1)), load)
	}
}

// ofAgent returns the facts from one agent's own account.
func (f *serverSide) ofAgent(a *record.Agent, series *record.Series, cpu []*record.CPURow) *facts {
	run := *f.base.run
	run.Load, run.Requests, run.Rate, run.Bytes = a.Load, a.Requests, a.Rate, a.Bytes
	run.Statuses, run.Errors, run.Latency = a.Statuses, a.Errors, a.Latency
	run.Generator, run.Environment = a.Generator, a.Environment
	if a.ElapsedS > 0 {
		run.ElapsedS = a.ElapsedS
	}
	v := newParts(runFacts{run: &run, open: f.base.open})
	v.cpu.generator.agent, v.cpu.generator.homeHost = a.Name, a.Name
	v.cpu.server.subject, v.cpu.server.host, v.cpu.server.cpus = f.subject, f.host, f.cpus
	v.cpu.generator.account()
	var load []record.LoadRow
	if series != nil {
		load = inWindow(series.Agents, a.Name)
	}
	v.base.scheduleOf(load)
	v.cpu.generator.own = processesOf(v.base, series, record.RoleGenerator, a.Name)
	v.cpu.generator.generatorSeen(load)
	v.cpu.atHome(cpu)
	return v
}

// sumGenerators combines the agents into one generator: as busy as the busiest, with the CPU of
// those on the server's machine, which is what other processes there lack.
func (f *cpuFacts) sumGenerators() {
	near := slices.DeleteFunc(slices.Clone(f.generator.agents), func(v *facts) bool { return !v.cpu.near })
	f.near = len(near) > 0
	if !f.near {
		near = f.generator.agents
	}
	g := generatorFacts{busy: some(0), where: "agents.generator.busiest_worker", cores: some(0)}
	for _, v := range f.generator.agents {
		own := &v.cpu.generator.self
		g.busy = figure{math.Max(g.busy.value, own.busy.value), g.busy.known && own.busy.known}
		g.wanting = larger(g.wanting, own.wanting)
		g.delay = larger(g.delay, own.delay)
	}
	for _, v := range near {
		g.cores = figure{g.cores.value + v.cpu.generator.self.cores.value, g.cores.known && v.cpu.generator.self.cores.known}
		g.waiting += v.cpu.generator.self.waiting
		f.together = f.together || v.cpu.together
		f.generator.cpus = append(f.generator.cpus, v.cpu.generator.cpus...)
	}
	f.generator.self = g
	f.generator.home, f.generator.homeHost = near[0].cpu.generator.home, near[0].cpu.generator.homeHost
	slices.Sort(f.generator.cpus)
	f.generator.cpus = slices.Compact(f.generator.cpus)
}

// larger returns the larger of the figures that are known.
func larger(a, b figure) figure {
	if !a.known || b.known && b.value > a.value {
		return b
	}
	return a
}

// worst returns the agent nearest to its own limit; f itself if there is only one generator.
func (f *facts) worst() *facts {
	if len(f.cpu.generator.agents) == 0 {
		return f
	}
	return slices.MaxFunc(f.cpu.generator.agents, func(a, b *facts) int {
		return cmp.Compare(math.Max(a.cpu.generator.self.busy.value, a.cpu.generator.self.wanting.value),
			math.Max(b.cpu.generator.self.busy.value, b.cpu.generator.self.wanting.value))
	})
}

// full reports whether a generator has nothing left by its own account.
func (f *generatorSide) full() bool {
	return slices.ContainsFunc(f.agents, func(a *facts) bool { return a.cpu.generator.full() }) || f.self.full()
}

// who returns how a sentence refers to the generator.
func (f *generatorSide) who() record.Statement { return say("who", with{"agent": f.agent}) }

// at names a field of the generator's account in the record.
func (f *generatorSide) at(place string) string {
	if f.agent == "" || strings.HasPrefix(place, "series.") {
		return place
	}
	return "agents." + f.agent + "." + place
}

// named returns a host's name if several hosts may have been watched, else "".
func (f *runFacts) named(host string) string {
	if len(f.run.Agents) < 2 {
		return ""
	}
	return host
}

// cpuNotRecorded is the missing measurement when a generator's CPU use is unknown.
func (f *generatorSide) cpuNotRecorded() record.Statement {
	return say("missing.generator-cpu", with{"agent": f.agent})
}

// machines returns the hosts whose CPU was watched, each machine once, the server's first.
func (f *cpuFacts) machines() []*hostFacts {
	list := []*hostFacts{&f.server.host}
	homes := []*hostFacts{&f.generator.home}
	if len(f.generator.agents) > 0 {
		homes = nil
		for _, v := range f.generator.agents {
			homes = append(homes, &v.cpu.generator.home)
		}
	}
	for _, home := range homes {
		seen := f.server.subject.known && oneMachine(f.base.run, f.server.host.name, home.name) ||
			slices.ContainsFunc(list[1:], func(h *hostFacts) bool { return oneMachine(f.base.run, h.name, home.name) })
		if !seen {
			list = append(list, home)
		}
	}
	return list
}

// apart returns the largest start skew of any agent from the common start, in ns.
func (f *generatorSide) apart() float64 {
	most := 0.0
	for _, v := range f.agents {
		most = math.Max(most, math.Abs(float64(f.base.run.Agent(v.cpu.generator.agent).StartSkewNs)))
	}
	return most
}

// slotsAt returns how many requests could be in flight at a time; a lost agent takes its slots
// with it.
func (f *generatorSide) slotsAt(tNs int64) float64 {
	slots := f.base.slots
	for _, v := range f.agents {
		if a := f.base.run.Agent(v.cpu.generator.agent); a.Lost != "" && tNs > a.LostAtNs {
			slots -= v.base.slots
		}
	}
	return math.Max(slots, 0)
}

// socketRows returns the samples of the run's sockets. If the two ends are on different hosts, it
// joins what each host read.
func (f *facts) socketRows(series *record.Series) []*record.SocketsRow {
	switch {
	case len(f.cpu.generator.agents) > 0:
		return f.cpu.server.joined(series, f.cpu.generator.agents, 1)
	case len(f.base.run.Agents) > 0 && f.cpu.server.subject.known && f.cpu.server.subject.host != f.cpu.generator.homeHost:
		return f.cpu.server.joined(series, []*facts{f}, 1)
	}
	return ours(f.cpu, series.Observed.Sockets)
}

// joined merges the server's sockets (a part of them) and those of some agents into one row per
// server sample or, without server samples, per sample of the agent with the fewest. The loop is
// steady, so the ends need not be read at one instant, only within joinWithin.
func (f *serverSide) joined(series *record.Series, agents []*facts, part float64) []*record.SocketsRow {
	by := map[string][]*record.SocketsRow{}
	for _, row := range observed(f.base, series.Observed.Sockets) {
		by[row.Host] = append(by[row.Host], row)
	}
	var ticks []*record.SocketsRow
	if f.subject.known {
		ticks = slices.DeleteFunc(slices.Clone(by[f.subject.host]), func(r *record.SocketsRow) bool { return r.Server.Sockets <= 0 })
	}
	if len(ticks) == 0 {
		fewest := slices.MinFunc(agents, func(a, b *facts) int { return len(by[a.cpu.generator.homeHost]) - len(by[b.cpu.generator.homeHost]) })
		ticks = by[fewest.cpu.generator.homeHost]
	}
	var rows []*record.SocketsRow
	for _, tick := range ticks {
		row := &record.SocketsRow{ObservedHead: tick.ObservedHead}
		if f.subject.known && tick.Host == f.subject.host {
			row.Server = scaled(tick.Server, part)
		}
		whole := true
		for _, v := range agents {
			near := nearest(by[v.cpu.generator.homeHost], tick.TNs)
			switch a := f.base.run.Agent(v.cpu.generator.homeHost); {
			case near != nil:
				addQueues(&row.Client, &near.Client)
			case a != nil && a.Lost != "" && tick.TNs > a.LostAtNs:
			default:
				whole = false
			}
		}
		if whole {
			rows = append(rows, row)
		}
	}
	return rows
}

// nearest returns the row nearest to a time, at most joinWithin away. rows are in time order.
func nearest(rows []*record.SocketsRow, tNs int64) *record.SocketsRow {
	i, _ := slices.BinarySearchFunc(rows, tNs, func(r *record.SocketsRow, t int64) int { return cmp.Compare(r.TNs, t) })
	var best *record.SocketsRow
	for _, k := range []int{i - 1, i} {
		if k < 0 || k >= len(rows) {
			continue
		}
		off := math.Abs(float64(rows[k].TNs) - float64(tNs))
		if off <= joinWithin && (best == nil || off < math.Abs(float64(best.TNs)-float64(tNs))) {
			best = rows[k]
		}
	}
	return best
}

func addQueues(to, q *record.EndQueues) {
	to.Sockets += q.Sockets
	to.Unaccepted += q.Unaccepted
	to.Unread += q.Unread
	to.UnreadBytes += q.UnreadBytes
	to.UnreadMaxBytes = max(to.UnreadMaxBytes, q.UnreadMaxBytes)
	to.Unacked += q.Unacked
	to.UnackedBytes += q.UnackedBytes
	to.UnackedMaxBytes = max(to.UnackedMaxBytes, q.UnackedMaxBytes)
	to.Connecting += q.Connecting
	to.PeerClosed += q.PeerClosed
}

// scaled returns one agent's part of the server's sockets, by its share of the slots: the
// server's host does not know which socket belongs to which agent.
func scaled(q record.EndQueues, part float64) record.EndQueues {
	if part == 1 {
		return q
	}
	n := func(v int) int { return int(math.Round(float64(v) * part)) }
	q.Sockets, q.Connecting = max(n(q.Sockets), 1), n(q.Connecting)
	q.Unaccepted, q.Unread, q.UnreadBytes = q.Unaccepted*part, q.Unread*part, q.UnreadBytes*part
	q.Unacked, q.UnackedBytes, q.PeerClosed = q.Unacked*part, q.UnackedBytes*part, q.PeerClosed*part
	return q
}
