package verdict

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"ceiling/record"
)

// linkFacts describes the interface between generator and server in its fuller direction.
type linkFacts struct {
	known     bool
	iface     string
	host      string           // that it belongs to
	name      record.Statement // iface, with its host if there are several
	bits      float64          // per second on the wire, framing included
	packets   float64          // per second
	perPacket float64          // mean bytes of a packet
	speed     figure           // bits per second
	from      string           // source of speed: "", "given" or the kind of the queueing discipline
	sent      bool             // not received
	dropped   float64          // packets over the window: drops, overruns and errors
	all       float64          // packets over the window, both directions
	fromBytes bool             // no interface was watched: bits are the run's own bytes plus framing
	shaper    shaperFacts
}

// shaperFacts describes a queueing discipline that delays packets.
type shaperFacts struct {
	kind    string
	held    float64 // how often it delayed a packet
	dropped float64 // packets dropped because its queue was full
	backlog float64 // mean bytes waiting
	queued  bool    // something was waiting in most samples
	packets float64 // limit in packets per second, if it charges small ones as larger; 0: none
}

// holds reports whether the shaper is a queue of the loop.
func (s *shaperFacts) holds() bool { return s.queued && s.held > 0 }

// framing is what Ethernet, IPv4 and TCP with time stamps add to full packets:
// 1538 bytes on the wire carry 1448.
const framing = 1538.0 / 1448

// ifaceSums is one interface over the window.
type ifaceSums struct {
	bytes, packets     [2]float64 // received, sent
	dropped            float64
	seconds            float64
	speed, shaped      float64 // bits per second; 0 if unknown
	held, lost         float64
	backlog, with, all float64 // bytes, rows with any, rows
	charged            float64 // bytes that the shaper charges a smaller packet as
	kind               string
}

func (s *ifaceSums) add(row *record.NetDevRow) {
	count := func(n int64) float64 { return math.Max(float64(n), 0) }
	s.bytes[0] += count(row.RxBytes)
	s.bytes[1] += count(row.TxBytes)
	s.packets[0] += count(row.RxPackets)
	s.packets[1] += count(row.TxPackets)
	s.dropped += float64(row.Lost())
	s.seconds += float64(row.WidthNs) / 1e9
	if row.SpeedMbit > 0 && !row.SpeedNominal {
		s.speed = float64(row.SpeedMbit) * 1e6
	}
	if row.QdiscRateBitsPerS > 0 {
		s.shaped = float64(row.QdiscRateBitsPerS)
	}
	if row.Qdisc != "" {
		s.kind = row.Qdisc
	}
	s.charged = math.Max(s.charged, float64(row.QdiscPacketBytes))
	s.held += count(row.QdiscOverlimits)
	s.lost += count(row.QdiscDrops)
	s.backlog += count(row.QdiscBacklogBytes)
	s.all++
	if row.QdiscBacklogBytes > 0 {
		s.with++
	}
}

// link computes one direction of an interface against one speed. A shaper counts the bytes that
// the kernel counts; the wire carries more.
func (s *ifaceSums) link(of ifaceKey, name record.Statement, way int, speed float64, from string) linkFacts {
	l := linkFacts{known: true, iface: of.iface, host: of.host, name: name, dropped: s.dropped, all: s.packets[0] + s.packets[1],
		from: from, sent: way == 1, bits: s.bytes[way] * 8 / s.seconds, packets: math.Max(s.packets[0], s.packets[1]) / s.seconds}
	if s.packets[way] > 0 {
		l.perPacket = s.bytes[way] / s.packets[way]
	}
	if speed > 0 {
		l.speed = some(speed)
		if from == "" {
			l.bits += s.packets[way] * record.WirePerPacket * 8 / s.seconds
		}
	}
	l.shaper = shaperFacts{kind: s.kind, held: s.held, dropped: s.lost, backlog: s.backlog / s.all, queued: s.with >= mostOf*s.all}
	if s.charged > 0 && way == 1 {
		l.shaper.packets = s.shaped / 8 / s.charged
	}
	return l
}

// interfacesOf sums up the interfaces that lead to the target, on either side.
func interfacesOf(f *cpuFacts, series *record.Series) (by map[ifaceKey]*ifaceSums, keys []ifaceKey) {
	by = map[ifaceKey]*ifaceSums{}
	for _, row := range ours(f, series.Observed.NetDevs) {
		if !row.Target || row.Bad != "" || row.WidthNs <= 0 {
			continue
		}
		key := ifaceKey{row.Host, row.Side, row.Iface}
		if by[key] == nil {
			by[key] = &ifaceSums{}
		}
		by[key].add(row)
	}
	keys = slices.SortedFunc(maps.Keys(by), func(a, b ifaceKey) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.side, b.side), cmp.Compare(a.iface, b.iface))
	})
	return by, keys
}

// linkOf reads the interfaces that lead to the target, on either side. It returns the fuller
// direction, and the fullest interface of each direction, the one toward the server first.
func linkOf(f *cpuFacts, series *record.Series) (best linkFacts, ways [2]linkFacts) {
	by, keys := interfacesOf(f, series)
	given := positive(f.base.run.Spec.LinkBitsPerSecond)
	add := func(key ifaceKey, way int, l linkFacts) {
		best = fuller(best, l)
		to := &ways[1-way] // what the generator's interface sends goes to the server
		if key.side == record.SideServer || key.side == "" && key.host == f.server.subject.host && key.host != f.generator.homeHost {
			to = &ways[way]
		}
		*to = fuller(*to, l)
	}
	for _, key := range keys {
		s := by[key]
		if s.seconds <= 0 {
			continue
		}
		name := say("interface", with{"interface": key.iface, "host": f.base.named(key.host)})
		for way := range s.bytes {
			speed, from := s.speed, ""
			if given > 0 {
				speed, from = given, "given"
			}
			add(key, way, s.link(key, name, way, speed, from))
		}
		if s.shaped > 0 {
			add(key, 1, s.link(key, name, 1, s.shaped, s.kind))
		}
	}
	if !best.known {
		ways = fromRun(f.base, given)
		best = fuller(ways[1], ways[0])
	}
	return best, ways
}

// fuller returns the link nearer to its speed; if neither speed is known, the one that carries
// more. A link that delays packets comes before one that does not.
func fuller(a, b linkFacts) linkFacts {
	switch {
	case !a.known:
		return b
	case a.shaper.holds() != b.shaper.holds():
		if b.shaper.holds() {
			return b
		}
		return a
	case b.share() > a.share() || b.share() == a.share() && b.bits > a.bits:
		return b
	}
	return a
}

// ifaceKey is one interface of one host.
type ifaceKey struct{ host, side, iface string }

// fromRun uses the bytes that the run itself counted in each direction when no interface was
// watched and the user gave a link speed.
func fromRun(f *runFacts, given float64) (ways [2]linkFacts) {
	if given == 0 || f.elapsedS <= 0 {
		return ways
	}
	for i, bytes := range []uint64{f.run.Bytes.Written, f.run.Bytes.Read} {
		ways[i] = linkFacts{known: true, fromBytes: true, from: "given", speed: some(given), sent: i == 0,
			bits: float64(bytes) * 8 * framing / f.elapsedS}
	}
	return ways
}

// share returns how full the link was, by its bytes or its packets; 0 if its speed is unknown.
func (l *linkFacts) share() float64 { return math.Max(l.byteShare(), l.packetShare()) }

func (l *linkFacts) byteShare() float64 {
	if !l.known || !l.speed.known {
		return 0
	}
	return l.bits / l.speed.value
}

// packetShare is the share of the packets that a shaper lets through. It is the smaller share where
// they are larger than what it charges a small one as.
func (l *linkFacts) packetShare() float64 {
	if !(l.shaper.packets > 0) || !(l.perPacket > 0) {
		return 0
	}
	return l.bits / 8 / l.perPacket / l.shaper.packets
}

// onLoopback reports whether the requests use the loopback interface. It has no speed, delivers
// within the sending system call, and its counters include all local traffic. A round trip there
// is a wait for a CPU or for a delayed acknowledgement. Only an explicitly installed queueing
// discipline can delay packets.
func (f *pathFacts) onLoopback() bool { return f.link.known && f.link.iface == loopback }

const loopback = "lo"
