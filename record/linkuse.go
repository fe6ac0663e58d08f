package record

import (
	"cmp"
	"slices"
)

// WirePerPacket is what an Ethernet frame takes on the wire beyond what the kernel counts, in bytes:
// preamble 8, checksum 4, gap 12 (IEEE 802.3, 3.1, 4.4.2).
const WirePerPacket = 24

// Ways of a link, as its interface sees them.
const (
	WayReceived = iota
	WaySent
)

// LinkID identifies an interface among those of all hosts; Side as in NetDevRow.
type LinkID struct{ Host, Side, Iface string }

// LinkSum sums the rows of an interface between generator and server over a stretch of time.
type LinkSum struct {
	LinkID
	Bytes, Packets        [2]float64 // by way, as the kernel counts them
	Seconds               float64
	Dropped, QueueDropped int64 // by the interface, with overruns and errors; by its queueing discipline
	Refused               int   // rows that are not summed: a counter went backwards

	kernel, shaped   float64 // bits per second; 0: unknown
	kind             string  // of the queueing discipline
	charged          float64 // bytes that it charges a smaller packet as
	held, backlog    float64 // packets it delayed; sum of the bytes that waited
	backlogged, rows int     // summed rows with a backlog, and all
}

// LinksOf sums rows by interface, in the order of their IDs.
func LinksOf(rows []*NetDevRow) (list []*LinkSum) {
	for _, row := range rows {
		if !row.Target || row.WidthNs <= 0 {
			continue
		}
		id := LinkID{row.Host, row.Side, row.Iface}
		at, known := slices.BinarySearchFunc(list, id, func(s *LinkSum, id LinkID) int {
			return cmp.Or(cmp.Compare(s.Host, id.Host), cmp.Compare(s.Side, id.Side), cmp.Compare(s.Iface, id.Iface))
		})
		if !known {
			list = slices.Insert(list, at, &LinkSum{LinkID: id})
		}
		list[at].add(row)
	}
	return list
}

func (s *LinkSum) add(row *NetDevRow) {
	if row.Bad != "" {
		s.Refused++
		return
	}
	for way, n := range [][2]int64{{row.RxBytes, row.RxPackets}, {row.TxBytes, row.TxPackets}} {
		s.Bytes[way] += float64(max(n[0], 0))
		s.Packets[way] += float64(max(n[1], 0))
	}
	s.Dropped += row.Lost()
	s.QueueDropped += max(row.QdiscDrops, 0)
	s.Seconds += float64(row.WidthNs) / 1e9
	if row.SpeedMbit > 0 && !row.SpeedNominal {
		s.kernel = float64(row.SpeedMbit) * 1e6
	}
	s.shaped = cmp.Or(float64(max(row.QdiscRateBitsPerS, 0)), s.shaped)
	s.kind = cmp.Or(row.Qdisc, s.kind)
	s.charged = max(s.charged, float64(row.QdiscPacketBytes))
	s.held += float64(max(row.QdiscOverlimits, 0))
	s.backlog += float64(max(row.QdiscBacklogBytes, 0))
	s.rows++
	if row.QdiscBacklogBytes > 0 {
		s.backlogged++
	}
}

// LinkShaper is a queueing discipline over a stretch of time.
type LinkShaper struct {
	Kind         string
	Held         float64 // packets that it delayed
	BacklogBytes float64 // mean
	Backlogged   float64 // share of the samples with a backlog
	PacketsPerS  float64 // its limit, if it charges small packets as larger ones; 0: none
}

// Shaper returns what the interface's queueing discipline did.
func (s *LinkSum) Shaper() LinkShaper {
	all := float64(max(s.rows, 1))
	q := LinkShaper{Kind: s.kind, Held: s.held, BacklogBytes: s.backlog / all, Backlogged: float64(s.backlogged) / all}
	if s.charged > 0 {
		q.PacketsPerS = s.shaped / 8 / s.charged
	}
	return q
}

// Sources of a link's limit; a shaper's is the kind of its queueing discipline.
const (
	LimitGiven  = "given"
	LimitKernel = "kernel"
)

// LinkLimit is what a link can carry.
type LinkLimit struct {
	BitsPerS float64 // 0: unknown
	From     string  // "" if unknown
}

// Framed reports whether Ethernet's framing counts toward the limit.
func (l *LinkLimit) Framed() bool { return l.From == LimitKernel }

// Says returns the source of the limit.
func (l *LinkLimit) Says() string {
	switch l.From {
	case LimitGiven:
		return "given (--link-speed)"
	case LimitKernel:
		return "the kernel's link speed"
	}
	return "rate of the " + l.From + " queueing discipline"
}

// Speed returns the link's own speed: the one that the user gave, 0 for none, before the kernel's.
func (s *LinkSum) Speed(givenBitsPerS float64) LinkLimit {
	switch {
	case givenBitsPerS > 0:
		return LinkLimit{givenBitsPerS, LimitGiven}
	case s.kernel > 0:
		return LinkLimit{s.kernel, LimitKernel}
	}
	return LinkLimit{}
}

// Shaped returns the rate that what is sent is shaped to.
func (s *LinkSum) Shaped() LinkLimit {
	if s.shaped > 0 {
		return LinkLimit{s.shaped, s.kind}
	}
	return LinkLimit{}
}

// Limit returns the lower one of them.
func (s *LinkSum) Limit(way int, givenBitsPerS float64) LinkLimit {
	speed, shaped := s.Speed(givenBitsPerS), s.Shaped()
	if way == WaySent && shaped.BitsPerS > 0 && (speed.BitsPerS == 0 || shaped.BitsPerS < speed.BitsPerS) {
		return shaped
	}
	return speed
}

// LinkWay is one direction of a link against a limit.
type LinkWay struct {
	// BitsPerS is what counts toward the limit.
	BitsPerS, PacketsPerS, BytesPerPacket float64
	Limit                                 LinkLimit
}

// Share returns how much of its limit the direction used; -1 if that is unknown.
func (w *LinkWay) Share() float64 {
	if w.Limit.BitsPerS <= 0 {
		return -1
	}
	return w.BitsPerS / w.Limit.BitsPerS
}

// Against returns a direction with what counts toward a limit.
func (s *LinkSum) Against(way int, limit LinkLimit) LinkWay {
	w := LinkWay{Limit: limit}
	if s.Seconds > 0 {
		w.BitsPerS, w.PacketsPerS = limit.bits(s.Bytes[way], s.Packets[way])/s.Seconds, s.Packets[way]/s.Seconds
	}
	if s.Packets[way] > 0 {
		w.BytesPerPacket = s.Bytes[way] / s.Packets[way]
	}
	return w
}

func (l *LinkLimit) bits(bytes, packets float64) float64 {
	if l.Framed() {
		bytes += packets * WirePerPacket
	}
	return bytes * 8
}
