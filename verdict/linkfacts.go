package verdict

import (
	"math"

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
	from      string           // source of speed, as in record.LinkLimit
	sent      bool             // not received
	dropped   float64          // packets over the window: drops, overruns and errors
	all       float64          // packets over the window, both directions
	fromBytes bool             // no interface was watched: bits are the run's own bytes plus framing
	shaper    record.LinkShaper
}

// held reports whether a shaper is a queue of the loop.
func (l *linkFacts) held() bool { return l.shaper.Backlogged >= mostOf && l.shaper.Held > 0 }

// framing is what Ethernet, IPv4 and TCP with time stamps add to full packets:
// 1538 bytes on the wire carry 1448.
const framing = 1538.0 / 1448

// toward computes one direction of an interface against a limit.
func toward(s *record.LinkSum, name record.Statement, way int, limit record.LinkLimit) linkFacts {
	w := s.Against(way, limit)
	l := linkFacts{known: true, iface: s.Iface, host: s.Host, name: name, dropped: float64(s.Dropped), all: s.Packets[0] + s.Packets[1],
		from: limit.From, sent: way == record.WaySent, bits: w.BitsPerS, packets: max(s.Packets[0], s.Packets[1]) / s.Seconds,
		perPacket: w.BytesPerPacket, shaper: s.Shaper()}
	if limit.BitsPerS > 0 {
		l.speed = some(limit.BitsPerS)
	}
	if !l.sent {
		l.shaper.PacketsPerS = 0 // it is for what is sent
	}
	return l
}

// linkOf reads the interfaces that lead to the target, on either side. It returns the fuller
// direction, and the fullest interface of each direction, the one toward the server first.
func linkOf(f *cpuFacts, links []*record.LinkSum) (best linkFacts, ways [2]linkFacts) {
	given := positive(f.base.run.Spec.LinkBitsPerSecond)
	for _, s := range links {
		if s.Seconds <= 0 {
			continue
		}
		atServer := s.Side == record.SideServer || s.Side == "" && s.Host == f.server.subject.host && s.Host != f.generator.homeHost
		add := func(way int, limit record.LinkLimit) {
			l := toward(s, say("interface", with{"interface": s.Iface, "host": f.base.named(s.Host)}), way, limit)
			best = fuller(best, l)
			to := &ways[1-way] // what the generator's interface sends goes to the server
			if atServer {
				to = &ways[way]
			}
			*to = fuller(*to, l)
		}
		add(record.WayReceived, s.Speed(given))
		add(record.WaySent, s.Speed(given))
		if shaped := s.Shaped(); shaped.BitsPerS > 0 {
			add(record.WaySent, shaped)
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
	case a.held() != b.held():
		if b.held() {
			return b
		}
		return a
	case b.share() > a.share() || b.share() == a.share() && b.bits > a.bits:
		return b
	}
	return a
}

// fromRun uses the bytes that the run itself counted in each direction when no interface was
// watched and the user gave a link speed.
func fromRun(f *runFacts, given float64) (ways [2]linkFacts) {
	if given == 0 || f.elapsedS <= 0 {
		return ways
	}
	for i, bytes := range []uint64{f.run.Bytes.Written, f.run.Bytes.Read} {
		ways[i] = linkFacts{known: true, fromBytes: true, from: record.LimitGiven, speed: some(given), sent: i == 0,
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
	if !(l.shaper.PacketsPerS > 0) || !(l.perPacket > 0) {
		return 0
	}
	return l.bits / 8 / l.perPacket / l.shaper.PacketsPerS
}

// onLoopback reports whether the requests use the loopback interface. It has no speed, delivers
// within the sending system call, and its counters include all local traffic. A round trip there
// is a wait for a CPU or for a delayed acknowledgement. Only an explicitly installed queueing
// discipline can delay packets.
func (f *pathFacts) onLoopback() bool { return f.link.known && f.link.iface == loopback }

const loopback = "lo"
