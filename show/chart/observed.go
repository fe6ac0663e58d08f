package chart

import (
	"fmt"
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
	record.LinkID
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
	record.LinkWay
	PeakBitsPerS float64
}

// Links returns the interfaces between generator and server.
func Links(run *Run, most int) (links []Link) {
	outside := func(r *record.NetDevRow) bool { return !run.InWindow(&r.ObservedHead) }
	sums := record.LinksOf(slices.DeleteFunc(slices.Clone(run.observed().NetDevs), outside))
	for _, all := range record.LinksOf(run.observed().NetDevs) {
		l := Link{LinkID: all.LinkID, Refused: all.Refused}
		window := &record.LinkSum{}
		if at := slices.IndexFunc(sums, func(s *record.LinkSum) bool { return s.LinkID == all.LinkID }); at >= 0 {
			window = sums[at]
		}
		l.Dropped, l.QueueDropped = window.Dropped, window.QueueDropped
		l.Received.LinkWay = window.Against(record.WayReceived, all.Limit(record.WayReceived, run.Spec.LinkBitsPerSecond))
		l.Sent.LinkWay = window.Against(record.WaySent, all.Limit(record.WaySent, run.Spec.LinkBitsPerSecond))
		l.plots(run, most)
		links = append(links, l)
	}
	return links
}

// plots draws each row.
func (l *Link) plots(run *Run, most int) {
	var bits, packets []row
	for _, r := range run.observed().NetDevs {
		sums := record.LinksOf([]*record.NetDevRow{r})
		if len(sums) == 0 || sums[0].LinkID != l.LinkID || sums[0].Seconds <= 0 {
			continue
		}
		from, to := interval(r.TNs, r.WidthNs)
		received, sent := sums[0].Against(record.WayReceived, l.Received.Limit), sums[0].Against(record.WaySent, l.Sent.Limit)
		bits = append(bits, row{from, to, r.Late, []float64{received.BitsPerS, sent.BitsPerS}})
		packets = append(packets, row{from, to, r.Late, []float64{received.PacketsPerS, sent.PacketsPerS}})
		if run.InWindow(&r.ObservedHead) {
			l.Received.PeakBitsPerS = max(l.Received.PeakBitsPerS, received.BitsPerS)
			l.Sent.PeakBitsPerS = max(l.Sent.PeakBitsPerS, sent.BitsPerS)
		}
	}
	l.Bits = l.plot(run, "Bits per second", BitPerSecond, bits, most)
	l.Packets = l.plot(run, "Packets per second", PerSecond, packets, most)
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
			if limit := w.Limit.BitsPerS; limit > 0 && limit <= limitShown*high {
				p.limit("limit", limit)
				high = max(high, limit)
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
