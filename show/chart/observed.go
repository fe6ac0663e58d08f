package chart

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// observed converts rows of one kind to intervals. It skips rows without a width: the first
// sample of a kind has none.
func observed[R record.ObservedRow](of []R, keep func(R) bool, values func(r R, s float64) []float64) []row {
	var rows []row
	for _, r := range of {
		h := r.Observed()
		if h.WidthNs <= 0 || !keep(r) {
			continue
		}
		from, to := interval(h.TNs, h.WidthNs)
		rows = append(rows, row{from, to, h.Late, values(r, float64(h.WidthNs)/1e9)})
	}
	return rows
}

// Queues plots how many of the run's connections had unread bytes at either end: the samples
// behind the stations.
func Queues(run *Run, most int) (Plot, bool) {
	p := Plot{Title: "Queue depth over time (connections with unread data)",
		Says: "Connections with unread bytes: requests in the server's sockets, responses in the generator's."}
	if len(run.Agents) > 0 {
		p = queuesOfHosts(run, p, most)
		_, high, ok := bounds(p.Groups)
		if ok {
			p.axes(fromZero("connections", Plain, high))
		}
		return p, ok
	}
	rows := observed(run.observed().Sockets, func(*record.SocketsRow) bool { return true }, func(r *record.SocketsRow, _ float64) []float64 {
		server := math.NaN() // a server on a host that was not observed
		if r.Server.Sockets > 0 {
			server = float64(r.Server.Unread)
		}
		return []float64{server, float64(r.Client.Unread), float64(r.Client.Sockets)}
	})
	g := timed(run, thin(run.Label, rows, []Line{{Name: "requests unread by the server", Tone: 1},
		{Name: "responses unread by the generator", Tone: 0}, {Name: "connections", Tone: 7, Dashed: true}}, most))
	p.Groups = []Group{g}
	_, high, ok := bounds(p.Groups)
	if !ok {
		return p, false
	}
	p.axes(fromZero("connections", Plain, high))
	return p, true
}

// Link is an interface between the two ends of a run.
type Link struct {
	Host, Side, Iface string
	// Received and Sent cover the measured window.
	Received, Sent Direction
	// Dropped counts drops, overruns and errors of the interface, QueueDropped
	// those of its queueing discipline.
	Dropped, QueueDropped int64
	// Refused counts rows discarded because a counter went backwards.
	Refused       int
	Bits, Packets Plot
}

// Direction is one direction of a link.
type Direction struct {
	// BitsPerS is compared with Limit; with Framing it includes Ethernet's preamble, checksum and
	// gap.
	BitsPerS, PacketsPerS, BytesPerPacket float64
	PeakBitsPerS                          float64
	// Limit is in bits per second, 0 if unknown; LimitFrom names its source.
	Limit     float64
	LimitFrom string
	Framing   bool

	bytes, packets, seconds float64
}

// linkKey is one interface of one host.
type linkKey struct{ host, side, iface string }

// Links returns the interfaces between generator and server.
func Links(run *Run, most int) []Link {
	by := map[linkKey][]*record.NetDevRow{}
	for _, r := range run.observed().NetDevs {
		if r.Target && r.WidthNs > 0 {
			key := linkKey{r.Host, r.Side, r.Iface}
			by[key] = append(by[key], r)
		}
	}
	keys := slices.SortedFunc(maps.Keys(by), func(a, b linkKey) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.side, b.side), cmp.Compare(a.iface, b.iface))
	})
	var links []Link
	for _, key := range keys {
		links = append(links, linkOf(run, key, by[key], most))
	}
	return links
}

func linkOf(run *Run, key linkKey, rows []*record.NetDevRow, most int) Link {
	l := Link{Host: key.host, Side: key.side, Iface: key.iface}
	l.limits(run, rows)
	var bits, packets []row
	for _, r := range rows {
		if r.Bad != "" {
			l.Refused++
			continue
		}
		from, to := interval(r.TNs, r.WidthNs)
		s := to - from
		if !(s > 0) {
			continue
		}
		received, sent := l.Received.bits(r.RxBytes, r.RxPackets), l.Sent.bits(r.TxBytes, r.TxPackets)
		bits = append(bits, row{from, to, r.Late, []float64{received / s, sent / s}})
		packets = append(packets, row{from, to, r.Late, []float64{count(r.RxPackets) / s, count(r.TxPackets) / s}})
		if run.InWindow(&r.ObservedHead) {
			l.Received.add(received, r.RxPackets, r.RxBytes, s)
			l.Sent.add(sent, r.TxPackets, r.TxBytes, s)
			l.Dropped += r.Lost()
			l.QueueDropped += max(r.QdiscDrops, 0)
		}
	}
	l.Received.close()
	l.Sent.close()
	l.Bits = l.plot(run, "Bits per second", BitPerSecond, bits, most)
	l.Packets = l.plot(run, "Packets per second", PerSecond, packets, most)
	return l
}

func count(n int64) float64 { return max(float64(n), 0) }

// limits determines the link speed: the user's setting takes precedence over the kernel's, and a
// traffic shaper's lower rate over both.
func (l *Link) limits(run *Run, rows []*record.NetDevRow) {
	for _, w := range []*Direction{&l.Received, &l.Sent} {
		if given := run.Spec.LinkBitsPerSecond; given > 0 {
			w.Limit, w.LimitFrom = given, "given (--link-speed)"
			continue
		}
		for _, r := range rows {
			if r.SpeedMbit > 0 && !r.SpeedNominal {
				w.Limit, w.LimitFrom, w.Framing = float64(r.SpeedMbit)*1e6, "the kernel's link speed", true
			}
		}
	}
	for _, r := range rows {
		if shaped := float64(r.QdiscRateBitsPerS); shaped > 0 && (l.Sent.Limit == 0 || shaped < l.Sent.Limit) {
			l.Sent.Limit, l.Sent.LimitFrom, l.Sent.Framing = shaped, "rate of the "+r.Qdisc+" queueing discipline", false
		}
	}
}

// bits returns one row's bits as they count towards the limit.
func (w *Direction) bits(bytes, packets int64) float64 {
	sum := count(bytes)
	if w.Framing {
		sum += count(packets) * record.WirePerPacket
	}
	return sum * 8
}

func (w *Direction) add(bits float64, packets, bytes int64, s float64) {
	w.BitsPerS += bits
	w.packets += count(packets)
	w.bytes += count(bytes)
	w.seconds += s
	w.PeakBitsPerS = max(w.PeakBitsPerS, bits/s)
}

// close turns sums into means.
func (w *Direction) close() {
	if w.seconds > 0 {
		w.BitsPerS, w.PacketsPerS = w.BitsPerS/w.seconds, w.packets/w.seconds
	}
	if w.packets > 0 {
		w.BytesPerPacket = w.bytes / w.packets
	}
}

// limitShown is the highest ratio of limit to traffic at which the limit is drawn; beyond it the
// lines would sit on the x axis, and the text states it better.
const limitShown = 4

// plot draws both directions in one figure.
func (l *Link) plot(run *Run, title, of string, rows []row, most int) Plot {
	p := Plot{Title: title + " on " + l.Iface}
	p.Groups = []Group{timed(run, thin(run.Label, rows, []Line{{Name: "received", Tone: 0}, {Name: "sent", Tone: 1, Dashed: true}}, most))}
	_, high, _ := bounds(p.Groups)
	if of == BitPerSecond {
		for _, w := range []*Direction{&l.Received, &l.Sent} {
			if w.Limit > 0 && w.Limit <= limitShown*high {
				p.limit("limit", w.Limit)
				high = max(high, w.Limit)
			}
		}
		p.Says = fmt.Sprintf("Bits per second in both directions, at most %s.", unit.FormatBits(unit.BitsPerSecond(max(high, 0))))
	} else {
		p.Says = fmt.Sprintf("Packets per second in both directions, at most %s.", unit.FormatSI(high))
	}
	name := map[string]string{BitPerSecond: "bit/s", PerSecond: "packets/s"}[of]
	p.axes(fromZero(name, of, high))
	return p
}
