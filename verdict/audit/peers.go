package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// peers is what other points of the file say about one.
type peers struct {
	// serverCPU is the highest CPU share of a server, by instance and kind.
	serverCPU map[[2]string]float64
	// The runs that have the named conditions in common.
	routes  map[string][]*pointFacts // the route
	ramps   map[string][]*pointFacts // all but the connections
	clients map[string][]*pointFacts // generator, route, pipelining
	servers map[string][]*pointFacts // server, route, pipelining
}

func newPeers(all []*pointFacts) *peers {
	out := &peers{map[[2]string]float64{}, map[string][]*pointFacts{}, map[string][]*pointFacts{}, map[string][]*pointFacts{},
		map[string][]*pointFacts{}}
	for _, f := range all {
		if f.server.known() && f.server.refused == "" {
			k := [2]string{f.p.ServerInstance, f.p.ServerKind}
			out.serverCPU[k] = max(out.serverCPU[k], f.server.low)
		}
		out.ramps[f.rampKey()] = append(out.ramps[f.rampKey()], f)
		if !f.p.RPS.Known || f.void() != nil || f.p.Route == "" {
			continue // it lends nothing
		}
		out.routes[f.p.Route] = append(out.routes[f.p.Route], f)
		if key := f.clientKey(); key != "" {
			out.clients[key] = append(out.clients[key], f)
		}
		if key := f.serverKey(); key != "" {
			out.servers[key] = append(out.servers[key], f)
		}
	}
	return out
}

// keyOf joins the values of some conditions.
func (f *pointFacts) keyOf(names ...string) string {
	var key strings.Builder
	for _, c := range f.conditions() {
		if slices.Contains(names, c.key) {
			fmt.Fprintf(&key, "%q ", c.value)
		}
	}
	return key.String()
}

// rampKey is all conditions but the connections.
func (f *pointFacts) rampKey() string {
	var key strings.Builder
	for _, c := range f.conditions() {
		if c.key != "connections" {
			fmt.Fprintf(&key, "%q ", c.value)
		}
	}
	return key.String()
}

// clientKey is the generator with the work that it does: tool, host, workers,
// route and pipelining. "" where tool or host is not stated.
func (f *pointFacts) clientKey() string {
	if f.p.ClientTool == "" || f.p.ClientInstance == "" && !f.p.ClientVCPUs.Known {
		return ""
	}
	return f.keyOf("client_tool", "client_instance", "client_vcpus", "client_workers", "route", "pipelining")
}

// serverKey is the server with the work that it does.
func (f *pointFacts) serverKey() string {
	if f.p.ServerKind == "" {
		return ""
	}
	return f.keyOf("server_kind", "server_instance", "vcpus", "server_cpus_used", "route", "pipelining")
}

// differs tells whether both state one of the conditions, each another value.
func (f *pointFacts) differs(g *pointFacts, names ...string) bool {
	a, b := f.conditions(), g.conditions()
	for i := range a {
		if slices.Contains(names, a[i].key) && a[i].value != "" && b[i].value != "" && a[i].value != b[i].value {
			return true
		}
	}
	return false
}

// called names a point for people who read of it elsewhere.
func (f *pointFacts) called() string {
	if f.p.ID == "" {
		return f.p.Label()
	}
	return "point " + f.p.ID
}

// otherServerThan tells whether two runs name different servers. A name that
// begins as the other does may be the same server with more said of it.
func (f *pointFacts) otherServerThan(g *pointFacts) bool {
	if f.differs(g, "server_instance") {
		return true
	}
	a, b := strings.ToLower(f.p.ServerKind), strings.ToLower(g.p.ServerKind)
	if a == "" || b == "" || strings.Contains(a+b, "not stated") {
		return false
	}
	return !strings.HasPrefix(a, b) && !strings.HasPrefix(b, a)
}

// lent is what other points lend to one.
type lent struct {
	// bytes are the points whose responses stand in for this one's.
	bytes []*pointFacts
	// generator and server are the CPU that a run of the same kind used.
	generator, server *lentCPU
	// otherServer got more out of the same client, otherClient out of the same
	// server; more is the run with more connections that the rate follows.
	otherServer, otherClient, more *comparison
}

// lentCPU is what a side used, as shares of what it can use, by the CPU per
// request of another run.
type lentCPU struct {
	from      *pointFacts
	low, high float64
}

// comparison is another run and how many times this one's rate it had.
type comparison struct {
	with  *pointFacts
	times float64
	// slots is how many times the requests in flight it had, 1 at least.
	slots float64
}

// Bounds for what other points prove.
const (
	// moreTimes is the rate of another run that shows a limit elsewhere. Runs of
	// one configuration on one host of a cloud differ by up to a tenth.
	moreTimes = 1.2
	// moreTimesApprox is the same where a rate is approximate: "about 200k" may
	// be 10 % off.
	moreTimesApprox = 1.5
	// costGrows is how many times the CPU per request may be at a lower rate,
	// where a wake-up finds fewer responses: our own engine takes 2.7 µs one by
	// one and 1.05 µs fifty at once.
	costGrows = 3
	// slotsFollow is the elasticity of rate by connections from which the
	// connections are the limit: a rate that is proportional has 1.
	slotsFollow = 0.8
	// slotsStep is the least step of connections that elasticity is told from.
	slotsStep = 1.4
)

// inform takes for a point what other points lend.
func (ps *peers) inform(f *pointFacts) {
	ps.lendBytes(f)
	if !f.p.RPS.Known || f.little.void != "" {
		return
	}
	if key := f.clientKey(); key != "" && f.p.Route != "" {
		group := ps.clients[key]
		f.lent.generator = lendCPU(f, group, func(g *pointFacts) (*pointCPU, bool) {
			return &g.generator.pointCPU, len(g.generator.capacityLacks) == 0 || g.generator.full()
		})
		f.lent.otherServer = best(f, group, func(g *pointFacts) bool {
			// An open loop does what it is asked for: what was asked has to be known.
			asked := !f.tool.fromDue || f.open()
			return f.otherServerThan(g) && asked && f.open() == g.open() && f.p.TargetRPS.Value == g.p.TargetRPS.Value
		})
	}
	if key := f.serverKey(); key != "" && f.p.Route != "" {
		group := ps.servers[key]
		f.lent.server = lendCPU(f, group, func(g *pointFacts) (*pointCPU, bool) { return &g.server.pointCPU, true })
		f.lent.otherClient = best(f, group, func(g *pointFacts) bool {
			return f.differs(g, "client_tool", "client_instance", "client_vcpus", "client_workers")
		})
	}
	f.lent.more = ps.more(f)
}

// lendCPU finds the run of a group with the nearest rate whose CPU is known. A
// side uses more CPU at a higher rate and, as wake-ups bring more work at once,
// no more of it per request.
func lendCPU(f *pointFacts, group []*pointFacts, side func(*pointFacts) (*pointCPU, bool)) *lentCPU {
	var out *lentCPU
	nearest := math.Inf(1)
	for _, g := range group {
		c, usable := side(g)
		if g == f || !usable || !c.known() || c.refused != "" || c.low <= 0 || g.p.Approx {
			continue
		}
		distance := math.Abs(math.Log(g.p.RPS.Value / f.p.RPS.Value))
		if distance > nearest || distance == nearest && g.p.Line >= out.from.p.Line {
			continue
		}
		nearest = distance
		times, use := f.p.RPS.Value/g.p.RPS.Value, c.use()
		out = &lentCPU{from: g}
		if times <= 1 {
			out.low, out.high = use*times, math.Min(use, use*times*costGrows)
		} else {
			out.low, out.high = use, math.Min(use*times, 1)
		}
	}
	return out
}

// best finds the run of a group that shows by its rate, more than connections
// explain, that the limit is in what the two have not in common.
func best(f *pointFacts, group []*pointFacts, fits func(*pointFacts) bool) *comparison {
	var out *comparison
	for _, g := range group {
		times := g.p.RPS.Value / f.p.RPS.Value
		enough := moreTimes
		if f.p.Approx || g.p.Approx {
			enough = moreTimesApprox
		}
		if g == f || times < enough || out != nil && (times < out.times || times == out.times && g.p.Line >= out.with.p.Line) {
			continue
		}
		// In a closed loop k times the requests in flight can bring k times the
		// rate: latency does not fall as they grow.
		slots, comparable := slotsTimes(f, g)
		if !comparable || times < enough*slots || !fits(g) || lessWork(g, f) {
			continue
		}
		out = &comparison{with: g, times: times, slots: slots}
	}
	return out
}

// slotsTimes is how many times the requests in flight of f g has, 1 at least;
// not comparable where it is unknown, or g had less than half: a side may be
// slower with more connections. An open loop is not held back by slots.
func slotsTimes(f, g *pointFacts) (times float64, comparable bool) {
	if f.open() || f.tool.fromDue {
		return 1, true
	}
	least, _, ok := f.slots()
	_, most, ok2 := g.slots()
	if !ok || !ok2 || g.open() || most < least/2 {
		return 0, false
	}
	return math.Max(most/least, 1), true
}

// lessWork tells that the responses of g are known to be smaller than those of f.
func lessWork(g, f *pointFacts) bool {
	a, ok := g.responseBytes()
	b, ok2 := f.responseBytes()
	return ok && ok2 && a < 0.9*b
}

// responseBytes is the size of one response, by whatever was counted.
func (f *pointFacts) responseBytes() (float64, bool) {
	if f.p.ResponseBytes.Known {
		return f.p.ResponseBytes.Value, true
	}
	if read, _, _, ok := f.read(); ok && f.p.RPS.Known {
		return read / f.p.RPS.Value, true
	}
	return f.p.BodyBytes.Value, f.p.BodyBytes.Known
}

// countedBytes is the size of one response where it does not stand on a printed
// MB/s, whose unit may be misread: least and most, for a head of up to 1 kB.
func (f *pointFacts) countedBytes() (least, most float64, known bool) {
	p := &f.p
	total, _, counted := f.totalRequests()
	switch {
	case p.TotalReadGB.Known && counted && p.TotalReadGB.Value > 0 && f.tool.name != "":
		unit := 1e9
		if f.tool.binary {
			unit = 1 << 30
		}
		each := p.TotalReadGB.Value * unit / total
		return each, each, true
	case p.ResponseBytes.Known:
		return p.ResponseBytes.Value, p.ResponseBytes.Value, true
	case p.BodyBytes.Known:
		return p.BodyBytes.Value, p.BodyBytes.Value + 1000, true
	}
	return 0, 0, false
}

// lendBytes gives a point that states no bytes those of its route, and one that
// states MB/s of an unlikely size the unit in which they fit its route.
func (ps *peers) lendBytes(f *pointFacts) {
	l := &f.link
	if f.p.Route == "" || !l.capacity.Known || !f.p.RPS.Known || f.little.void != "" {
		return
	}
	if l.used.Known {
		ps.repairUnit(f)
		return
	}
	low, high := math.Inf(1), 0.0
	var least, most *pointFacts
	for _, g := range ps.routes[f.p.Route] {
		each, ok := g.responseBytes()
		if !ok || g == f {
			continue
		}
		if each < low || each == low && g.p.Line < least.p.Line {
			low, least = each, g
		}
		if each > high || each == high && g.p.Line < most.p.Line {
			high, most = each, g
		}
	}
	if least == nil {
		return
	}
	f.lent.bytes = []*pointFacts{least}
	if most != least {
		f.lent.bytes = append(f.lent.bytes, most)
	}
	l.peersLow = record.Figure{Value: f.framed(low) * f.p.RPS.Value / l.capacity.Value, Known: true}
	l.peersHigh = record.Figure{Value: f.framed(high) * f.p.RPS.Value / l.capacity.Value, Known: true}
}

// repairUnit reads a printed MB/s as MiB/s where only that fits the bytes which
// another run of the route counted.
func (ps *peers) repairUnit(f *pointFacts) {
	t, l := f.p.ClientThroughput, &f.link
	if !t.Known || t.Value <= 0 || l.key != "client_throughput_mb_s" || f.tool.binary {
		return
	}
	if _, _, own := f.countedBytes(); own {
		return // its own count decides
	}
	var from *pointFacts
	for _, g := range ps.routes[f.p.Route] {
		least, most, ok := g.countedBytes()
		if !ok || g == f {
			continue
		}
		switch unitOf(t.Value, least*f.p.RPS.Value, most*f.p.RPS.Value) {
		case "MB":
			return
		case "MiB":
			if from == nil || g.p.Line < from.p.Line {
				from = g
			}
		}
	}
	if from == nil {
		return
	}
	f.lent.bytes = []*pointFacts{from}
	each := t.Value * mebi / f.p.RPS.Value
	l.used = record.Figure{Value: f.framed(each) * f.p.RPS.Value, Known: true}
	l.how = fmt.Sprintf("the generator read %s MiB/s: by the bytes of a response in %s the printed MB are MiB", plain(t.Value), from.called())
	f.say(KindUnit, []string{"client_throughput_mb_s", "rps"},
		"%s MB/s ÷ %s are %s bytes each; %s of the same route counts %s, which fits MiB/s only",
		plain(t.Value), unit.FormatRate(f.p.RPS.Value), plain(math.Round(t.Value*mega/f.p.RPS.Value)), from.called(), plain(math.Round(each)))
}

// more finds the next run with more connections, where the rate follows them.
func (ps *peers) more(f *pointFacts) *comparison {
	next, connections := ps.next(f)
	if next == nil || connections < slotsStep || next.p.Approx || f.p.Approx {
		return nil
	}
	times := next.p.RPS.Value / f.p.RPS.Value
	if math.Log(times)/math.Log(connections) < slotsFollow {
		return nil
	}
	return &comparison{with: next, times: times, slots: connections}
}

// next is the run with the next number of connections and nothing else that
// differs.
func (ps *peers) next(f *pointFacts) (next *pointFacts, times float64) {
	opened, ok := f.opened()
	if !ok || !f.p.RPS.Known || f.open() || f.tool.fromDue || f.little.void != "" {
		return nil, 0
	}
	nearest := math.Inf(1)
	for _, g := range ps.ramps[f.rampKey()] {
		more, ok := g.opened()
		if ok && g.p.RPS.Known && g.little.void == "" && more >= 1.1*opened && more < nearest {
			next, nearest = g, more
		}
	}
	return next, nearest / opened
}

// hints are what the other points say about one whose bottleneck is not
// determined. They point, and prove nothing.
func (ps *peers) hints(f *pointFacts) []string {
	if f.little.void != "" {
		return nil
	}
	var list []string
	p := &f.p
	if highest := ps.serverCPU[[2]string{p.ServerInstance, p.ServerKind}]; p.ServerInstance != "" && f.server.known() && f.server.low >= 0.5 &&
		highest > f.server.low+0.005 {
		list = append(list, fmt.Sprintf("%.1f%% is not this server's limit: the same server ran at %.1f%% in another run of this file",
			100*f.server.low, 100*highest))
	}
	if s, c := f.lent.otherServer, f.lent.otherClient; s != nil && c != nil {
		list = append(list, fmt.Sprintf("neither side alone is the limit: the same client got %.2f× as much from another server (%s), and the server gave %.2f× as much to another client (%s)",
			s.times, s.with.called(), c.times, c.with.called()))
	}
	if text := ps.rampHint(f); text != "" {
		list = append(list, text)
	}
	return list
}

// rampHint says what more connections did in a run that is the same otherwise.
func (ps *peers) rampHint(f *pointFacts) string {
	next, connections := ps.next(f)
	if next == nil {
		return ""
	}
	times := next.p.RPS.Value / f.p.RPS.Value
	elasticity := math.Log(times) / math.Log(connections)
	text := fmt.Sprintf("in another run that differs in nothing stated but %.2g× the connections the rate was %.2f×", connections, times)
	switch {
	case elasticity >= 0.5:
		return text + ": the slots held this one back, at least in part"
	case elasticity <= 0.1:
		return text + ": the slots are not what limits it"
	}
	return text
}

// generatorFree tells whether the generator had something left, by its own
// figures or those of other points, which are then named.
func (f *pointFacts) generatorFree() (says string, from []*pointFacts, free bool) {
	g, loan := &f.generator, f.lent.generator
	switch {
	case g.free():
		return fmt.Sprintf("the generator used %s of what it can", unit.Percent(g.use())), nil, true
	case g.known():
		return "", nil, false
	case loan != nil && loan.high <= pointFree:
		return fmt.Sprintf("the generator used at most %s of what it can", unit.Percent(loan.high)), []*pointFacts{loan.from}, true
	case f.lent.otherServer != nil:
		c := f.lent.otherServer
		return fmt.Sprintf("the same client got %.2f× as much from another server", c.times), []*pointFacts{c.with}, true
	}
	return "", nil, false
}

// serverFull is the same of the server.
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

// linkFree is the same of the link.
func (f *pointFacts) linkFree() (says string, from []*pointFacts, free bool) {
	l := &f.link
	switch {
	case l.known() && l.free():
		return "the link is at " + l.shareSays(), nil, true
	case l.known():
		return "", nil, false
	case l.free():
		return "the link is at " + l.shareSays(), f.lent.bytes, true
	case f.lent.otherServer != nil && !f.differs(f.lent.otherServer.with, "server_instance", "nic_gbps"):
		return "a link of this kind carried more", []*pointFacts{f.lent.otherServer.with}, true
	}
	return "", nil, false
}

// fromOthers is the verdict that stands on other points where this one's own
// figures decide nothing, and on which; nil where they decide nothing either.
func (f *pointFacts) fromOthers() (*record.Verdict, []*pointFacts) {
	l, n := &f.link, &f.lent
	use, serverFrom, serverFull := f.serverFull()
	generatorSays, generatorFrom, generatorFree := f.generatorFree()
	linkSays, linkFrom, linkFree := f.linkFree()
	full := n.generator != nil && n.generator.low >= pointFull && !f.generator.known()
	switch {
	case !l.used.Known && l.peersLow.Known && l.peersLow.Value >= linkFull && l.peersHigh.Value <= linkPossible:
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

// ownEvidence is what the point itself states of the three.
func (f *pointFacts) ownEvidence() []record.Evidence {
	list := f.generator.evidence()
	if f.server.known() {
		list = append(list, f.server.evidence())
	}
	return append(list, f.link.evidence()...)
}

func (f *pointFacts) bandwidthFromOthers() *record.Verdict {
	l := &f.link
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.Bandwidth,
		Because: fmt.Sprintf("the link is full: with the bytes of a response there it carries at least %s of its %s Gbit/s", l.shareSays(),
			plain(f.p.NICGbps.Value)),
		Evidence: f.ownEvidence(), Next: "make the responses smaller, or give the link more"}
}

func (f *pointFacts) generatorFromOthers() *record.Verdict {
	n := f.lent.generator
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.LoadGenerator,
		Because: fmt.Sprintf("the generator is full: at the CPU per request of that run it used at least %s of the CPU it can use; this number describes the generator, not the server", unit.Percent(n.low)),
		Evidence: append(f.ownEvidence(), record.NewEvidence("client_cpu_pct", 100*n.low, "%",
			"the same generator at %s used %s of what it can; this run is at %s",
			unit.FormatRate(n.from.p.RPS.Value), unit.Percent(n.from.generator.use()), unit.FormatRate(f.p.RPS.Value))),
		Next: "load from more machines, or with a generator that uses less CPU/request"}
}

func (f *pointFacts) serverFromOthers(use float64, generatorSays, linkSays string) *record.Verdict {
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.ServerCPU,
		Because: fmt.Sprintf("the server's CPU is full, at least %s of %s busy; %s; %s", unit.Percent(use), f.server.all(), generatorSays,
			linkSays),
		Evidence: f.ownEvidence(), Next: "make the handler cheaper, or give the server more CPU"}
}

func (f *pointFacts) clientSide() *record.Verdict {
	c := f.lent.otherClient
	v := &record.Verdict{Outcome: record.Invalid, Bottleneck: record.LoadGenerator,
		Because: fmt.Sprintf("the limit is the client: another client got %s from the same server, %.2f× as much; this number describes the generator, not the server",
			unit.FormatRate(c.with.p.RPS.Value), c.times),
		Evidence: append(f.ownEvidence(), c.evidence(f)),
		Next:     "load from more machines, or with a generator that uses less CPU/request"}
	return v
}

func (f *pointFacts) serverSide() *record.Verdict {
	c := f.lent.otherServer
	v := &record.Verdict{Outcome: record.Valid, Bottleneck: ServerSide,
		Because: fmt.Sprintf("the limit is on the server's side: the same client got %s from another server, %.2f× as much",
			unit.FormatRate(c.with.p.RPS.Value), c.times),
		Evidence: append(f.ownEvidence(), c.evidence(f)),
		Next:     "measure the CPU of each of the server's threads during the run: its CPU, one thread, a lock or a pool"}
	if f.server.known() && f.server.refused == "" && f.server.use() <= pointFree {
		v.Because += fmt.Sprintf("; its CPU is not full, %s", unit.Percent(f.server.use()))
		v.Next = "watch the server's threads and sockets during the run: one full thread, a lock, a pool, or too few connections"
	}
	return v
}

func (f *pointFacts) slotsFromOthers() *record.Verdict {
	c := f.lent.more
	return &record.Verdict{Outcome: record.Valid, Bottleneck: record.Concurrency,
		Because: fmt.Sprintf("the connections are the limit: with %.2g× as many, and nothing else that differs, the rate was %.2f×", c.slots,
			c.times),
		Evidence: append(f.ownEvidence(), c.evidence(f)), Next: "open more connections, until the rate stops growing"}
}

// evidence names the other run and what it has not in common.
func (c *comparison) evidence(f *pointFacts) record.Evidence {
	a, b := c.with.conditions(), f.conditions()
	return record.NewEvidence("rps", c.times, "×", "%s had %s; the two differ in %s", c.with.called(), unit.FormatRate(c.with.p.RPS.Value),
		differenceText(a, b, differences(a, b)))
}
