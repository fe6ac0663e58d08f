package verdict

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// caveats collects what weakens a verdict.
type caveats []record.Statement

func (d *caveats) add(code string, values with) { *d = append(*d, say(code, values)) }

// both adds what was observed together with what to do about it.
func (d *caveats) both(seen record.Statement, next []record.Statement) {
	d.add("caveat.with-next", with{"seen": seen, "next": next})
}

// caveatsOf returns what weakens the run's figures and its bottleneck.
func caveatsOf(f *facts, slo sloResult, bottleneck record.Bottleneck) []record.Statement {
	var d caveats
	d.ofTheRun(f, slo)
	d.ofTheRate(f)
	d.ofTheHost(f, bottleneck)
	d.ofTheDisks(f.cpu.server, bottleneck)
	d.ofTheWatching(f)
	d.ofTheAgents(f.cpu.generator)
	return d
}

func (d *caveats) ofTheRun(f *facts, slo sloResult) {
	run := f.base.run
	if run.Unfinished {
		d.add("caveat.unfinished", nil)
	} else if run.StoppedEarly != "" {
		d.add("caveat.stopped-early", with{"why": run.StoppedEarly, "covered_ns": run.ElapsedS * 1e9, "asked_ns": time.Duration(run.Spec.Duration)})
	} else if run.Interrupted {
		d.add("caveat.interrupted", with{"covered_ns": run.ElapsedS * 1e9, "asked_ns": time.Duration(run.Spec.Duration)})
	}
	d.ofTheResponses(f)
	if asked := run.Spec.Pprof; asked != "" && asked != "off" {
		for _, n := range run.NotMeasured {
			if n.What == "pprof" {
				d.add("caveat.no-pprof", with{"host": f.base.named(n.Host), "why": n.Why})
			}
		}
	}
	if o := &f.time.outage; o.count > 0 {
		d.add("caveat.outage", with{"outage": o.says(f.base), "open": f.base.open})
	}
	if slo.latency && !f.base.open {
		d.add("caveat.slo-closed-loop", nil)
	}
	*d = append(*d, slo.risky...)
	for _, u := range slo.unknown {
		d.add("caveat.slo-not-checked", with{"term": u})
	}
	if f.base.elapsedS > 0 && f.base.elapsedS < shortS {
		d.add("caveat.short", with{"elapsed_s": f.base.elapsedS})
	}
	if run.WarmupS <= 0 && run.Spec.Warmup <= 0 {
		d.add("caveat.no-warmup", nil)
	}
	if share := f.base.errorShare.value; share > 0 && share < errorsMatter {
		d.add("caveat.errors", with{"share": share, "kinds": kindsOf(f.base.errorKinds())})
	}
	d.ofTheLatency(f.base)
	if run.Load.Established > 0 && run.Load.Established < run.Load.Connections {
		a := &f.cpu.server.accept
		d.add("caveat.connections", with{"established": run.Load.Established, "asked": run.Load.Connections,
			"closed": run.Load.Reconnects > 0 && a.overflows+a.before == 0 && run.Spec.NewConnections == 0})
	}
	d.ofTheConnections(run)
	d.ofTheHandshakes(run)
	d.ofTheStreams(run)
	if f.base.open && f.cpu.generator.full() {
		d.add("caveat.generator-full", with{"who": f.worst().cpu.generator.who(), "busy": f.cpu.generator.self.busy.value})
	}
}

// ofTheConnections says that the server closes connections, and by which rule.
func (d *caveats) ofTheConnections(run *record.Run) {
	done, c := float64(run.Requests.Completed), run.Load.Closes
	switch {
	case run.Spec.NewConnections > 0 || done == 0:
		return
	case c == nil:
		if float64(run.Load.Reconnects) > reconnectShare*done {
			d.add("caveat.closes", with{"reconnects": run.Load.Reconnects})
		}
		return
	}
	all := float64(c.Announced + c.Idle + c.InFlight)
	switch {
	case all <= closesShare*done:
	case float64(c.Idle) >= closesAlike*all && c.IdleMeanNs >= idleLeast:
		d.add("caveat.idle-timeout", with{"idle_ns": c.IdleMeanNs, "reconnects": run.Load.Reconnects})
	case all > 1 && float64(c.AtMost) >= closesAlike*all:
		d.ofTheEnds(run, "limit")
	case float64(c.Idle) >= closesAlike*all:
		d.add("caveat.keepalive-timeout", with{"requests": c.Most, "reconnects": run.Load.Reconnects})
	case float64(c.Announced) >= closesAlike*all:
		d.ofTheEnds(run, "age")
	default:
		d.add("caveat.closes-at-random", with{"requests": c.Most, "in_flight": c.InFlight, "closed": all, "reconnects": run.Load.Reconnects})
	}
}

// ofTheEnds says how the server ends connections in order, in the words of their protocol: after a
// number of requests ("limit"), or of any other rule ("age").
func (d *caveats) ofTheEnds(run *record.Run, rule string) {
	c := run.Load.Closes
	values := with{"requests": c.Most, "reconnects": run.Load.Reconnects, "limit": rule == "limit", "code": c.Code, "goaway": run.Load.HTTP2 != nil}
	switch {
	case run.Spec.Kind == spec.Messages && c.Announced > 0:
		d.add("caveat.websocket-ends", values)
	case rule == "limit":
		d.add("caveat.keepalive-limit", with{"requests": c.Most, "reconnects": run.Load.Reconnects})
	default:
		d.add("caveat.closes-announced", values)
	}
}

// ofTheLatency adds caveats about response time figures that mislead on their own.
func (d *caveats) ofTheLatency(f *runFacts) {
	l := &f.run.Latency.Response
	if p50 := float64(l.P50Ns); l.Count > 0 && p50 > 0 && l.MeanNs >= meanApart*p50 {
		tail, at := "p90", l.P90Ns
		if float64(l.P90Ns) < l.MeanNs {
			tail, at = "p99", l.P99Ns
		}
		if float64(l.P99Ns) < l.MeanNs {
			tail, at = "max", l.MaxNs
		}
		d.add("caveat.mean-apart", with{"p50_ns": p50, "mean_ns": l.MeanNs, "tail": tail, "tail_ns": at})
	}
	if p := f.run.Load.Pipelining; p > 1 && f.run.Load.HTTP2 == nil {
		d.add("caveat.pipelined", with{"pipelining": p})
	}
}

func (d *caveats) ofTheRate(f *facts) {
	run, s := f.base.run, &f.base.run.Rate.Spread
	if law := f.base.little(); law.known && law.off > littleTolerance &&
		(run.Edges != nil && law.binding || float64(run.Requests.Completed) < littleCycles*f.base.slots) {
		d.add("caveat.edges", with{"share": law.off})
	}
	if f.time.stall.known && f.time.stall.count > 0 && f.time.stall.share < stallBottleneck && f.time.outage.count == 0 {
		d.add("caveat.gaps", with{"total_ns": f.time.stall.ns, "gaps": f.time.stall.count})
	}
	switch {
	case f.time.trend.known && !f.time.trend.worse():
		d.add("caveat.warming-up", with{"trend": f.time.trend.says()})
	case f.time.trend.known, f.base.open && !record.IsSteady(run): // it changed as asked
	case s.Samples > 1 && f.base.rate > 0 && s.StdevPerS/f.base.rate > unsteady:
		d.add("caveat.unstable", with{"min_per_s": s.MinPerS, "max_per_s": s.MaxPerS, "interval_s": s.WidthS})
	}
	if len(f.cpu.generator.agents) == 0 && s.Late > 0 && float64(s.Late) >= lateRows*float64(s.Late+s.Samples) {
		d.add("caveat.sampled-late", with{"late": s.Late, "intervals": s.Late + s.Samples})
	}
	if len(run.Statuses) > 1 && f.base.errorShare.known && f.base.errorShare.value > 0 && f.base.errorShare.value < errorsMatter {
		d.add("caveat.statuses-mixed", nil)
	}
}

// ofTheHost adds what else ran on the hosts.
func (d *caveats) ofTheHost(f *facts, bottleneck record.Bottleneck) {
	byCPU := []record.Bottleneck{record.LoadGenerator, record.ServerCPU, record.ServerThread, record.Uneven}
	if f.cpu.together && slices.Contains(byCPU, bottleneck) {
		d.add("caveat.shared-cores", with{"who": f.cpu.generator.sharing(), "cores": len(common(f.cpu.server.cpus, f.cpu.generator.cpus)), "apart": len(f.base.run.Agents) == 0})
	}
	if crowded := f.cpu.server.crowded(); crowded.Code != "" {
		*d = append(*d, crowded)
	}
	if pair := f.cpu.siblings(); pair != "" {
		d.add("caveat.siblings", with{"cpus": pair})
	}
	for _, h := range f.cpu.machines() {
		if !h.known {
			continue
		}
		if s := h.stolenOf(h.numbers()); s > 0 {
			d.add("caveat.steal", with{"share": s, "host": f.base.named(h.name)})
		}
	}
	if others := f.cpu.others(); others.known && others.value >= max(foreignCores, foreignShare*float64(len(f.cpu.server.host.cores))) {
		d.add("caveat.others", with{"used_cores": others.value, "cores": len(f.cpu.server.host.cores)})
	}
	if pids := f.cpu.server.sleeps.frozen; len(pids) > 0 {
		d.add("caveat.frozen", with{"pid": pids[0], "more": len(pids) - 1, "of": len(f.base.run.Subject.Processes)})
	}
	for _, lost := range f.cpu.server.subject.lost {
		d.add("caveat.process-lost", with{"process": lost})
	}
	if n := f.cpu.server.neverAccepted(); n > 0 && bottleneck != record.AcceptQueue {
		d.both(f.cpu.server.unacceptedSays(), f.cpu.server.unacceptedNext())
	} else if l := &f.cpu.server.unaccepted.files; l.full() && bottleneck != record.AcceptQueue {
		d.both(l.says(), l.next())
	}
	if f.cpu.server.acceptHurtsTail() && bottleneck != record.AcceptQueue {
		d.both(f.cpu.server.acceptTailSays(), acceptNext())
	}
	if f.cpu.server.accept.before > 0 && bottleneck != record.AcceptQueue {
		d.add("caveat.accept-before", with{"connections": f.cpu.server.accept.before})
	}
	for i := range f.path.exceeded {
		if a := &f.path.exceeded[i]; !f.path.namedBy(bottleneck, a) {
			d.add("allowance.exceeded", a.values(f.base))
		}
	}
	if p := &f.places; p.retrans.known && p.retrans.value >= lossMatters && bottleneck != record.Bandwidth && bottleneck != record.Packets {
		d.add("caveat.retransmitted", with{"share": p.retrans.value})
	}
}

// siblings returns a pair of CPUs of one core, one used by each side, if the two sides are pinned
// apart.
func (f *cpuFacts) siblings() string {
	if f.together || !f.near || len(f.generator.cpus) == 0 {
		return ""
	}
	env := &f.base.run.Environment
	if a := f.base.run.Agent(f.server.subject.host); a != nil {
		env = &a.Environment
	}
	for _, group := range env.Siblings {
		cpus, err := spec.ParseCPUList(group)
		if err == nil && len(common(cpus, f.server.cpus)) > 0 && len(common(cpus, f.generator.cpus)) > 0 {
			return group
		}
	}
	return ""
}

// ofTheWatching adds what the observers could not do.
func (d *caveats) ofTheWatching(f *facts) {
	for _, h := range f.cpu.machines() {
		if float64(h.bad) > badRowsSaid*float64(h.rows) {
			d.add("cpu.samples-bad", with{"bad": h.bad, "rows": h.rows, "host": f.base.named(h.name)})
		}
		for i := range h.cores {
			if c := &h.cores[i]; c.missing >= missingSaid*c.total {
				d.add("cpu.charged-to-nothing", with{"cpu": c.cpu, "host": f.base.named(h.name), "share": c.missing / c.total})
			}
		}
	}
	if n := f.places.moments; f.places.by != record.ByKernelEvents && n > 0 && n < samplesFew {
		d.add("caveat.few-samples", with{"samples": n})
	}
	if p := &f.places; p.sourcesDiffer() {
		at, _ := p.apart()
		d.add("stations.differ", with{"at": record.PlaceNames()[at], "by": p.by, "share": p.share[at], "other": p.other.by,
			"other_share": p.other.share[at]})
	}
	if f.observerShare.known && f.observerShare.value > observerMost {
		d.add("caveat.observers", with{"share": f.observerShare.value})
	}
	if f.cpu.server.subject.known && !f.cpu.server.subject.queue.known {
		d.add("caveat.no-run-queue", nil)
	}
	for _, n := range f.base.run.NotMeasured {
		switch n.What {
		case record.OtherAddresses:
			d.add("caveat.other-addresses", with{"why": n.Why, "all": f.base.run.Spec.AllAddresses})
		case record.BehindProxy:
			d.add("caveat.proxy", with{"why": n.Why})
		}
	}
	var lost []record.Statement
	for _, n := range f.lostLater {
		lost = append(lost, say("caveat.lost.what", with{"what": n.What, "host": f.base.named(n.Host), "why": n.Why}))
	}
	if len(lost) > 0 {
		d.add("caveat.lost", with{"lost": lost})
	}
}

// lostLater returns what became impossible to measure during the run.
func lostLater(f *runFacts, series *record.Series) []record.NotMeasured {
	list := slices.Clone(f.run.NotMeasured)
	if series != nil {
		list = append(list, series.NotMeasured...)
	}
	list = slices.DeleteFunc(list, func(n record.NotMeasured) bool {
		return n.TNs <= 0 || n.TNs > f.run.WindowEndNs() ||
			!slices.Contains([]string{"cpu", "sockets", "process", "subject", "listener", "tcp_info", "netdev", "database", "server status"}, n.What)
	})
	slices.SortFunc(list, func(a, b record.NotMeasured) int {
		return cmp.Or(strings.Compare(a.What+a.Why, b.What+b.Why), strings.Compare(a.Host, b.Host))
	})
	return slices.CompactFunc(list, func(a, b record.NotMeasured) bool {
		return a.What == b.What && a.Why == b.Why && f.named(a.Host) == f.named(b.Host)
	})
}

// observerShareOf returns the CPU that the observers used, in cores.
func observerShareOf(f *cpuFacts, series *record.Series) figure {
	by := map[string][2]float64{}
	for _, row := range ours(f, series.Observed.Observer) {
		sum := by[row.Host]
		by[row.Host] = [2]float64{sum[0] + positive(float64(row.CPUNs)), sum[1] + float64(row.WidthNs)}
	}
	var most figure
	for _, sum := range by {
		if sum[1] > 0 && (!most.known || sum[0]/sum[1] > most.value) {
			most = some(sum[0] / sum[1])
		}
	}
	return most
}

// ofTheHandshakes adds that the run measured handshakes as much as requests.
func (d *caveats) ofTheHandshakes(run *record.Run) {
	t := run.Load.TLS
	if t == nil || run.Requests.Completed == 0 || float64(t.Count()) < handshakesMatter*float64(run.Requests.Completed) {
		return
	}
	d.add("caveat.handshakes", with{"handshakes": t.Count(), "requests": run.Requests.Completed, "asked": run.Spec.NewConnections > 0})
}
