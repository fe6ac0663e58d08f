package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

// caveats collects what weakens a verdict.
type caveats []string

func (d *caveats) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// caveatsOf is what weakens the run's figures and its bottleneck.
func caveatsOf(f *facts, slo sloResult, bottleneck record.Bottleneck) []string {
	var d caveats
	d.ofTheRun(f, slo)
	d.ofTheRate(f)
	d.ofTheHost(f, bottleneck)
	d.ofTheWatching(f)
	d.ofTheAgents(f)
	return d
}

func (d *caveats) ofTheRun(f *facts, slo sloResult) {
	run := f.run
	if run.Unfinished {
		d.add("the figures come from what the run had written")
	} else if run.Interrupted {
		d.add("%s", interruptedSays(run))
	}
	if asked := run.Spec.Pprof; asked != "" && asked != "off" {
		for _, n := range run.NotMeasured {
			if n.What == "pprof" {
				d.add("no profiles of the server%s: %s; check --pprof", f.of(n.Host), n.Why)
			}
		}
	}
	if o := &f.outage; o.count > 0 {
		meant := "a closed loop sends nothing during that time, so its latencies hide the outage"
		if f.open {
			meant = "requests due in that time were sent late, and their response times include the delay"
		}
		d.add("%s; %s", o.says(f), meant)
	}
	if slo.latency && !f.open {
		d.add("closed-loop latency understates what users see; test an SLO at a fixed rate (-R)")
	}
	for _, u := range slo.unknown {
		d.add("not checked: %s", u)
	}
	if f.elapsedS > 0 && f.elapsedS < shortS {
		d.add("a short run: %.3g s", f.elapsedS)
	}
	if run.WarmupS <= 0 && run.Spec.Warmup <= 0 {
		d.add("no warm-up: the first responses are included")
	}
	if share := f.errorShare.value; share > 0 && share < errorsMatter {
		d.add("%s of requests failed or got an unexpected status%s", unit.Percent(share), kindsOf(f.errorKinds()))
	}
	d.ofTheLatency(f)
	if run.Load.Established > 0 && run.Load.Established < run.Load.Connections {
		d.add("only %d of %d connections were established", run.Load.Established, run.Load.Connections)
	}
	d.ofTheConnections(run)
	if f.open && f.generatorFull() {
		d.add("%s was full (its busiest worker ran %s of the time): it adds to the response times", f.worst().who(),
			unit.Percent(f.generator.busy.value))
	}
}

// ofTheConnections says that the server closes connections, and by which rule.
func (d *caveats) ofTheConnections(run *record.Run) {
	done, again, c := float64(run.Requests.Completed), count(run.Load.Reconnects), run.Load.Closes
	switch {
	case run.Spec.NewConnections || done == 0:
		return
	case c == nil:
		if float64(run.Load.Reconnects) > reconnectShare*done {
			d.add("the server closed connections: %s reconnects", again)
		}
		return
	}
	all := float64(c.Announced + c.Idle + c.InFlight)
	switch {
	case all <= closesShare*done:
	case all > 1 && float64(c.AtMost) >= closesAlike*all:
		d.add("the server closes each connection after %s (keep-alive limit): %s reconnects", requests(c.Most), again)
	case float64(c.Idle) >= closesAlike*all:
		d.add("the server closes idle connections, after %s at most (keep-alive timeout): %s reconnects", requests(c.Most), again)
	default:
		d.add("the server closes connections at random moments, after %s at most: %s of %s with a request in flight, %s reconnects",
			requests(c.Most), count(c.InFlight), count(uint64(all)), again)
	}
}

// requests is a number of them, in words.
func requests(n uint64) string {
	if n == 1 {
		return "1 request"
	}
	return count(n) + " requests"
}

// ofTheLatency is where a figure of the response times, taken alone, misleads.
func (d *caveats) ofTheLatency(f *facts) {
	l := &f.run.Latency.Response
	if p50 := float64(l.P50Ns); l.Count > 0 && p50 > 0 && l.MeanNs >= meanApart*p50 {
		tail := "p90 " + ns(float64(l.P90Ns))
		if float64(l.P90Ns) < l.MeanNs {
			tail = "p99 " + ns(float64(l.P99Ns))
		}
		if float64(l.P99Ns) < l.MeanNs {
			tail = "max " + ns(float64(l.MaxNs))
		}
		d.add("p50 and mean differ: half of the responses took %s or less, the mean is %s (%s): a few slow responses dominate", ns(p50),
			ns(l.MeanNs), tail)
	}
	if p := f.run.Load.Pipelining; p > 1 {
		d.add("pipelined latency is the latency of a batch: with %d requests in flight on a connection a response waits for those before it", p)
	}
}

func (d *caveats) ofTheRate(f *facts) {
	run, s := f.run, &f.run.Rate.Spread
	if law := f.little(); law.known && law.off > littleTolerance &&
		(run.Edges != nil && law.binding || float64(run.Requests.Completed) < littleCycles*f.slots) {
		d.add("requests cut off at the edges of the window are %s of every mean: measure longer (-d)", unit.Percent(law.off))
	}
	if f.stall.known && f.stall.count > 0 && f.stall.share < stallBottleneck && f.outage.count == 0 {
		d.add("no response for %s in total (%d gaps): the rest of the time was faster than the mean", ns(f.stall.ns), f.stall.count)
	}
	switch {
	case f.trend.known && !f.trend.worse():
		d.add("%s: the server was still warming up (JIT, caches, connection pools); lengthen the warm-up (--warmup)", f.trend.says())
	case f.trend.known:
	case s.Samples > 1 && f.rate > 0 && s.StdevPerS/f.rate > Unsteady:
		d.add("throughput was unstable: %s–%s req/s over %.3g s intervals", unit.FormatCount(int64(s.MinPerS+.5)),
			unit.FormatCount(int64(s.MaxPerS+.5)), s.WidthS)
	}
	if len(f.agents) == 0 && s.Late > 0 && float64(s.Late) >= lateRows*float64(s.Late+s.Samples) {
		d.add("%d of %d intervals were sampled late: this host was overloaded", s.Late, s.Late+s.Samples)
	}
	if len(run.Statuses) > 1 && f.errorShare.known && f.errorShare.value > 0 && f.errorShare.value < errorsMatter {
		d.add("responses differ in status: mean sizes and times mix them")
	}
}

// ofTheHost is what else went on where it ran.
func (d *caveats) ofTheHost(f *facts, bottleneck record.Bottleneck) {
	if f.together && f.aboutCPU(bottleneck) {
		how := "; --apart separates them"
		if len(f.run.Agents) > 0 {
			how = ""
		}
		d.add("%s and server share %s%s", f.sharing(), unit.Plural(len(common(f.serverCPUs, f.generatorCPUs)), "core", "cores"), how)
	}
	if text := f.crowded(); text != "" {
		d.add("%s", text)
	}
	if pair := f.siblings(); pair != "" {
		d.add("generator and server run on two threads of one physical core (CPUs %s): each slows the other", pair)
	}
	for _, h := range f.machines() {
		if !h.known {
			continue
		}
		if s := h.over(h.numbers(), stolen) / float64(len(h.cores)); s >= stealMatters {
			d.add("the hypervisor took %s of the CPU time%s (steal): absolute figures are those of a smaller machine", unit.Percent(s), f.of(h.name))
		}
	}
	if others := f.others(); others.known && others.value >= max(foreignCores, foreignShare*float64(len(f.host.cores))) {
		d.add("other processes used %.2g of %s on the server host", others.value, unit.Plural(len(f.host.cores), "core", "cores"))
	}
	for _, lost := range f.subject.lost {
		d.add("a process of the server was lost during the run: %s", lost)
	}
	if n := f.neverAccepted(); n > 0 && bottleneck != record.AcceptQueue {
		d.add("%s; %s", f.unacceptedSays(), f.unacceptedNext())
	} else if l := &f.unaccepted.files; l.full() && bottleneck != record.AcceptQueue {
		d.add("%s; %s", l.says(), l.next())
	}
	if f.acceptHurtsTail() && bottleneck != record.AcceptQueue {
		d.add("%s; %s", f.acceptTailSays(), acceptNext())
	}
	if f.accept.before > 0 && bottleneck != record.AcceptQueue {
		d.add("%.0f connections overflowed the server's accept queue before the window", f.accept.before)
	}
	if p := &f.places; p.retrans.known && p.retrans.value >= lossMatters && bottleneck != record.Bandwidth && bottleneck != record.Packets {
		d.add("the server retransmitted %s of its TCP segments", unit.Percent(p.retrans.value))
	}
}

// aboutCPU tells whether a bottleneck is named by who has the CPU.
func (f *facts) aboutCPU(bottleneck record.Bottleneck) bool {
	return slices.Contains([]record.Bottleneck{record.LoadGenerator, record.ServerCPU, record.ServerThread, record.Uneven}, bottleneck)
}

// siblings answers a pair of CPUs of one core, one for either side, where the
// two are pinned apart.
func (f *facts) siblings() string {
	if f.together || !f.near || len(f.generatorCPUs) == 0 {
		return ""
	}
	env := &f.run.Environment
	if a := f.run.Agent(f.subject.host); a != nil {
		env = &a.Environment
	}
	for _, group := range env.Siblings {
		cpus, err := spec.ParseCPUList(group)
		if err == nil && len(common(cpus, f.serverCPUs)) > 0 && len(common(cpus, f.generatorCPUs)) > 0 {
			return group
		}
	}
	return ""
}

// interruptedSays is how much of a run there is that was told to end early.
func interruptedSays(run *record.Run) string {
	if asked := time.Duration(run.Spec.Duration); asked > 0 {
		return fmt.Sprintf("interrupted: results cover %s of %s", unit.FormatNs(int64(run.ElapsedS*1e9)), unit.FormatNs(int64(asked)))
	}
	return fmt.Sprintf("interrupted: results cover %s", unit.FormatNs(int64(run.ElapsedS*1e9)))
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// ofTheWatching is what the observers could not do.
func (d *caveats) ofTheWatching(f *facts) {
	for _, h := range f.machines() {
		if float64(h.bad) > badRowsSaid*float64(h.rows) {
			d.add("%d of %s%s %s inconsistent and discarded", h.bad, unit.Plural(h.rows, "CPU sample", "CPU samples"), f.of(h.name), were(h.bad))
		}
	}
	if n := f.places.moments; f.places.by != record.ByKernelEvents && n > 0 && n < samplesFew {
		d.add("only %s: treat the time breakdown as rough", unit.Plural(n, "queue sample", "queue samples"))
	}
	if f.observerShare.known && f.observerShare.value > observerMost {
		d.add("monitoring overhead: %s of one core", unit.Percent(f.observerShare.value))
	}
	if f.subject.known && !f.subject.queue.known {
		d.add("the run-queue delay of the server's threads was not measured")
	}
	for _, n := range f.run.NotMeasured {
		if n.What == record.OtherAddresses {
			d.add("%s; give an address, or measure each", n.Why)
		}
	}
	var late []string
	for _, n := range f.lostLater {
		late = append(late, n.What+f.of(n.Host)+" ("+n.Why+")")
	}
	if len(late) > 0 {
		d.add("lost during the run: %s", strings.Join(late, "; "))
	}
}

// lostLater is what could not be measured any more at some point of the run.
func lostLater(f *facts, series *record.Series) []record.NotMeasured {
	list := slices.Clone(f.run.NotMeasured)
	if series != nil {
		list = append(list, series.NotMeasured...)
	}
	list = slices.DeleteFunc(list, func(n record.NotMeasured) bool {
		return n.TNs <= 0 || n.TNs > f.endNs() ||
			!slices.Contains([]string{"cpu", "sockets", "process", "subject", "listener", "tcp_info", "netdev"}, n.What)
	})
	slices.SortFunc(list, func(a, b record.NotMeasured) int {
		return cmp.Or(strings.Compare(a.What+a.Why, b.What+b.Why), strings.Compare(a.Host, b.Host))
	})
	return slices.CompactFunc(list, func(a, b record.NotMeasured) bool {
		return a.What == b.What && a.Why == b.Why && f.of(a.Host) == f.of(b.Host)
	})
}

// observerShareOf is what the observers used, in cores.
func observerShareOf(f *facts, series *record.Series) figure {
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
