package audit

import (
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// peers is what the file's other points say about one.
type peers struct {
	// serverCPU is the highest CPU share of a server, by instance and kind.
	serverCPU map[[2]string]float64
	// Runs that share the named conditions.
	routes  map[string][]*pointFacts // the route
	ramps   map[string][]*pointFacts // all but the connections
	clients map[string][]*pointFacts // generator, route, pipelining
	servers map[string][]*pointFacts // server, route, pipelining
}

func newPeers(all []*pointFacts) *peers {
	out := &peers{map[[2]string]float64{}, map[string][]*pointFacts{}, map[string][]*pointFacts{}, map[string][]*pointFacts{},
		map[string][]*pointFacts{}}
	for _, f := range all {
		if f.server.known() && f.server.whole() {
			k := [2]string{f.point.ServerInstance, f.point.ServerKind}
			out.serverCPU[k] = max(out.serverCPU[k], f.server.low)
		}
		out.ramps[f.rampKey()] = append(out.ramps[f.rampKey()], f)
		if !f.point.RPS.Known || f.void() != nil || f.point.Route == "" {
			continue // it contributes nothing
		}
		out.routes[f.point.Route] = append(out.routes[f.point.Route], f)
		if key := f.clientKey(); key != "" {
			out.clients[key] = append(out.clients[key], f)
		}
		if key := f.serverKey(); key != "" {
			out.servers[key] = append(out.servers[key], f)
		}
	}
	return out
}

// rampKey covers all conditions but the connections.
func (f *pointFacts) rampKey() string {
	return f.conditions.keyWhere(func(name string) bool { return name != "connections" })
}

// clientKey covers the generator and its work: tool, host, workers, route and pipelining; "" if
// tool or host is not stated.
func (f *pointFacts) clientKey() string {
	if f.point.ClientTool == "" || f.point.ClientInstance == "" && !f.point.ClientVCPUs.Known {
		return ""
	}
	return f.conditions.key("client_tool", "client_instance", "client_vcpus", "client_workers", "route", "pipelining")
}

// serverKey covers the server and its work; "" if the server is not stated.
func (f *pointFacts) serverKey() string {
	if f.point.ServerKind == "" {
		return ""
	}
	return f.conditions.key("server_kind", "server_instance", "vcpus", "server_cpus_used", "route", "pipelining")
}

// otherServerThan reports whether two runs name different servers. If one name is a prefix of the
// other, they may be the same server.
func (f *pointFacts) otherServerThan(g *pointFacts) bool {
	if f.conditions.contradict(g.conditions, "server_instance") {
		return true
	}
	a, b := strings.ToLower(f.point.ServerKind), strings.ToLower(g.point.ServerKind)
	if a == "" || b == "" || strings.Contains(a+b, "not stated") {
		return false
	}
	return !strings.HasPrefix(a, b) && !strings.HasPrefix(b, a)
}

// borrowedEvidence is what other points contribute to one.
type borrowedEvidence struct {
	// bytes are the points whose responses substitute for this one's.
	bytes []*pointFacts
	// generator and server are the CPU use of a run of the same kind.
	generator, server *lentCPU
	// otherServer got a higher rate from the same client, otherClient from the same server; more
	// is the run with more connections if the rate follows them.
	otherServer, otherClient, more *comparison
}

// lentCPU is a side's CPU use, as shares of its capacity, estimated from another run's CPU per
// request.
type lentCPU struct {
	from      *pointFacts
	low, high float64
}

// comparison is another run and the ratio of its rate to this one's.
type comparison struct {
	with  *pointFacts
	times float64
	// slots is the ratio of its requests in flight to this one's, at least 1.
	slots float64
}

// Bounds for what other points prove.
const (
	// moreTimes is the ratio of another run's rate that shows a limit elsewhere. Runs of one
	// configuration on one cloud instance type differ by up to a tenth.
	moreTimes = 1.2
	// moreTimesApprox is the same for an approximate rate: "about 200k" may be 10 % off.
	moreTimesApprox = 1.5
	// costGrows is the ratio by which CPU per request may rise at a lower rate, where a wake-up
	// finds fewer responses: our own engine takes 2.7 µs for one and 1.05 µs each for fifty at
	// once.
	costGrows = 3
	// slotsFollow is the elasticity of rate to connections from which the connections are the
	// limit: proportional growth has 1.
	slotsFollow = 0.8
	// slotsStep is the smallest ratio of connections from which to compute an elasticity.
	slotsStep = 1.4
)

// inform returns a point with what other points contribute.
func (ps *peers) inform(f *pointFacts) *pointFacts {
	informed := *f
	ps.lendBytes(f, &informed)
	if !f.point.RPS.Known || !f.little.holds() {
		return &informed
	}
	n := &informed.lent
	if key := f.clientKey(); key != "" && f.point.Route != "" {
		group := ps.clients[key]
		n.generator = borrowCPU(f, group, func(g *pointFacts) (*pointCPU, bool) {
			return &g.generator.pointCPU, len(g.generator.capacityLacks) == 0 || g.generator.full()
		})
		n.otherServer = best(f, group, func(g *pointFacts) bool {
			// An open loop does what it is asked to: its target rate must be known.
			asked := !f.point.tool.fromDue || f.point.open()
			return f.otherServerThan(g) && asked && f.point.open() == g.point.open() && f.point.TargetRPS.Value == g.point.TargetRPS.Value
		})
	}
	if key := f.serverKey(); key != "" && f.point.Route != "" {
		group := ps.servers[key]
		n.server = borrowCPU(f, group, func(g *pointFacts) (*pointCPU, bool) { return &g.server.pointCPU, true })
		n.otherClient = best(f, group, func(g *pointFacts) bool {
			return f.conditions.contradict(g.conditions, "client_tool", "client_instance", "client_vcpus", "client_workers")
		})
	}
	n.more = ps.more(f)
	return &informed
}

// borrowCPU finds the run of a group with known CPU and the nearest rate. A side uses more CPU at a
// higher rate but, as wake-ups bring more work at once, no more per request.
func borrowCPU(f *pointFacts, group []*pointFacts, side func(*pointFacts) (*pointCPU, bool)) *lentCPU {
	var out *lentCPU
	nearest := math.Inf(1)
	for _, g := range group {
		c, usable := side(g)
		if g == f || !usable || !c.known() || !c.whole() || c.low <= 0 || g.point.Approx {
			continue
		}
		distance := math.Abs(math.Log(g.point.RPS.Value / f.point.RPS.Value))
		if distance > nearest || distance == nearest && g.point.Line >= out.from.point.Line {
			continue
		}
		nearest = distance
		times, use := f.point.RPS.Value/g.point.RPS.Value, c.use()
		out = &lentCPU{from: g}
		if times <= 1 {
			out.low, out.high = use*times, math.Min(use, use*times*costGrows)
		} else {
			out.low, out.high = use, math.Min(use*times, 1)
		}
	}
	return out
}

// best finds the run of a group whose rate shows, beyond what connections explain, that the limit
// is in what the two runs do not share.
func best(f *pointFacts, group []*pointFacts, fits func(*pointFacts) bool) *comparison {
	var out *comparison
	for _, g := range group {
		times := g.point.RPS.Value / f.point.RPS.Value
		enough := moreTimes
		if f.point.Approx || g.point.Approx {
			enough = moreTimesApprox
		}
		if g == f || times < enough || out != nil && (times < out.times || times == out.times && g.point.Line >= out.with.point.Line) {
			continue
		}
		// In a closed loop, k times the requests in flight can bring k times the rate: latency
		// does not fall as they grow.
		slots, comparable := slotsTimes(f, g)
		if !comparable || times < enough*slots || !fits(g) || lessWork(g, f) {
			continue
		}
		out = &comparison{with: g, times: times, slots: slots}
	}
	return out
}

// slotsTimes returns the ratio of g's requests in flight to f's, at least 1. They are not
// comparable if unknown, or if g had less than half: a side may be slower with more connections.
// Slots do not limit an open loop.
func slotsTimes(f, g *pointFacts) (times float64, comparable bool) {
	if f.point.open() || f.point.tool.fromDue {
		return 1, true
	}
	least, _, ok := f.point.slots()
	_, most, ok2 := g.point.slots()
	if !ok || !ok2 || g.point.open() || most < least/2 {
		return 0, false
	}
	return math.Max(most/least, 1), true
}

// lessWork reports whether the responses of g are known to be smaller than those of f.
func lessWork(g, f *pointFacts) bool {
	a, ok := g.bytes.responseBytes()
	b, ok2 := f.bytes.responseBytes()
	return ok && ok2 && a < 0.9*b
}

// lendBytes gives a point without bytes those of its route, and a point whose MB/s imply an
// unlikely size the unit that fits its route.
func (ps *peers) lendBytes(f, informed *pointFacts) {
	if f.point.Route == "" || !f.link.capacity.Known || !f.point.RPS.Known || !f.little.holds() {
		return
	}
	if f.link.used.known() {
		ps.repairUnit(f, informed)
		return
	}
	low, high := math.Inf(1), 0.0
	var least, most *pointFacts
	for _, g := range ps.routes[f.point.Route] {
		each, ok := g.bytes.responseBytes()
		if !ok || g == f {
			continue
		}
		if each < low || each == low && g.point.Line < least.point.Line {
			low, least = each, g
		}
		if each > high || each == high && g.point.Line < most.point.Line {
			high, most = each, g
		}
	}
	if least == nil {
		return
	}
	informed.lent.bytes = []*pointFacts{least}
	if most != least {
		informed.lent.bytes = append(informed.lent.bytes, most)
	}
	share := func(each float64) record.Figure {
		return record.Figure{Value: f.bytes.framed(each) * f.point.RPS.Value / f.link.capacity.Value, Known: true}
	}
	informed.link.peersLow, informed.link.peersHigh = share(low), share(high)
}

// repairUnit reads a printed MB/s as MiB/s if only that fits the bytes that another run of the
// route counted.
func (ps *peers) repairUnit(f, informed *pointFacts) {
	printed := f.point.ClientThroughput
	if !printed.Known || printed.Value <= 0 || f.link.used.key != "client_throughput_mb_s" || f.point.tool.binary {
		return
	}
	if _, _, own := f.bytes.countedBytes(); own {
		return // its own count decides
	}
	var from *pointFacts
	for _, g := range ps.routes[f.point.Route] {
		least, most, ok := g.bytes.countedBytes()
		if !ok || g == f {
			continue
		}
		switch unitOf(printed.Value, least*f.point.RPS.Value, most*f.point.RPS.Value).bytes {
		case mega:
			return
		case mebi:
			if from == nil || g.point.Line < from.point.Line {
				from = g
			}
		}
	}
	if from == nil {
		return
	}
	each := printed.Value * mebi / f.point.RPS.Value
	informed.lent.bytes = []*pointFacts{from}
	informed.link.used.perS = f.bytes.framed(each) * f.point.RPS.Value
	informed.link.used.how = say("point.bytes.repaired", with{"printed": printed.Value, "point": from.point.called()})
	informed.inconsistencies = slices.Clone(f.inconsistencies)
	informed.inconsistencies.note(KindUnit, say("point.bytes.fits-other", with{"printed": printed.Value, "per_s": f.point.RPS.Value,
		"printed_bytes": printed.Value * mega / f.point.RPS.Value, "point": from.point.called(), "response_bytes": each}), "client_throughput_mb_s", "rps")
}

// more finds the next run with more connections, if the rate follows them.
func (ps *peers) more(f *pointFacts) *comparison {
	next, connections := ps.next(f)
	if next == nil || connections < slotsStep || next.point.Approx || f.point.Approx {
		return nil
	}
	times := next.point.RPS.Value / f.point.RPS.Value
	if math.Log(times)/math.Log(connections) < slotsFollow {
		return nil
	}
	return &comparison{with: next, times: times, slots: connections}
}

// next returns the run that has the next number of connections and is otherwise the same.
func (ps *peers) next(f *pointFacts) (next *pointFacts, times float64) {
	opened, ok := f.point.opened()
	if !ok || !f.point.RPS.Known || f.point.open() || f.point.tool.fromDue || !f.little.holds() {
		return nil, 0
	}
	nearest := math.Inf(1)
	for _, g := range ps.ramps[f.rampKey()] {
		more, ok := g.point.opened()
		if ok && g.point.RPS.Known && g.little.holds() && more >= 1.1*opened && more < nearest {
			next, nearest = g, more
		}
	}
	return next, nearest / opened
}

// hints returns what other points suggest about one without a bottleneck. Hints prove nothing.
func (ps *peers) hints(f *pointFacts) []record.Statement {
	if !f.little.holds() {
		return nil
	}
	var list []record.Statement
	if highest := ps.serverCPU[[2]string{f.point.ServerInstance, f.point.ServerKind}]; f.point.ServerInstance != "" && f.server.known() &&
		f.server.low >= 0.5 && highest > f.server.low+0.005 {
		list = append(list, say("point.server.used-more", with{"percent": 100 * f.server.low, "highest_percent": 100 * highest}))
	}
	if s, c := f.lent.otherServer, f.lent.otherClient; s != nil && c != nil {
		list = append(list, say("point.neither-side", with{"server_times": s.times, "server_point": s.with.point.called(),
			"client_times": c.times, "client_point": c.with.point.called()}))
	}
	if next, connections := ps.next(f); next != nil {
		list = append(list, rampHint(next.point.RPS.Value/f.point.RPS.Value, connections))
	}
	return list
}

// rampHint says what more connections did in an otherwise identical run.
func rampHint(times, connections float64) record.Statement {
	of := with{"connections": connections, "times": times}
	switch elasticity := math.Log(times) / math.Log(connections); {
	case elasticity >= 0.5:
		return say("point.ramp.held-back", of)
	case elasticity <= 0.1:
		return say("point.ramp.flat", of)
	}
	return say("point.ramp", of)
}
