//go:build linux

package observe

import (
	"errors"
	"fmt"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/net/dev (net/core/net-procfs.c, dev_seq_show): two heading lines, then "name: " and sixteen
// counters since the interface came up, eight received and eight sent.

// netDev has one interface's counters.
type netDev struct {
	name                                       string
	rxBytes, rxPackets, rxErrs, rxDrop, rxFifo uint64
	txBytes, txPackets, txErrs, txDrop         uint64
}

// netDevFields is the number of counters on a line.
const netDevFields = 16

var errNetDev = errors.New("/proc/net/dev: a line is not a name and sixteen counters")

// parseNetDev parses /proc/net/dev into devs[:0]. It takes names from names, so that known ones
// cost no allocation.
func parseNetDev(text []byte, names *interned, devs []netDev) ([]netDev, error) {
	devs = devs[:0]
	c := sys.Cursor{Text: text}
	c.Line()
	if heading, ok := c.Line(); !ok || !hasPrefix(heading, " face |") {
		return devs, errNetDev
	}
	for {
		line, ok := c.Line()
		if !ok {
			return devs, nil
		}
		l := sys.Cursor{Text: line}
		l.Blanks()
		start := l.At
		colon := -1
		for i := len(line) - 1; i >= start; i-- { // an alias has colons in its name: the last one ends it
			if line[i] == ':' {
				colon = i
				break
			}
		}
		if colon <= start {
			return devs, errNetDev
		}
		l.At = colon + 1
		var v [netDevFields]uint64
		for i := range v {
			if v[i], ok = l.Uint(); !ok {
				return devs, errNetDev
			}
		}
		devs = append(devs, netDev{
			name:    names.of(line[start:colon]),
			rxBytes: v[0], rxPackets: v[1], rxErrs: v[2], rxDrop: v[3], rxFifo: v[4],
			txBytes: v[8], txPackets: v[9], txErrs: v[10], txDrop: v[11],
		})
	}
}

// netDevDelta is the difference of two readings of one interface. A counter that went backwards
// belongs to a recreated interface.
func netDevDelta(prev, cur *netDev, row *record.NetDevRow) {
	row.RxBytes, row.RxPackets = int64(cur.rxBytes-prev.rxBytes), int64(cur.rxPackets-prev.rxPackets)
	row.RxErrs, row.RxDrop, row.RxFifo = int64(cur.rxErrs-prev.rxErrs), int64(cur.rxDrop-prev.rxDrop), int64(cur.rxFifo-prev.rxFifo)
	row.TxBytes, row.TxPackets = int64(cur.txBytes-prev.txBytes), int64(cur.txPackets-prev.txPackets)
	txErrs, txDrop := int64(cur.txErrs-prev.txErrs), int64(cur.txDrop-prev.txDrop)
	row.TxDrop = txErrs + txDrop
	if min(row.RxBytes, row.RxPackets, row.TxBytes, row.TxPackets, row.RxErrs, row.RxDrop, row.RxFifo, txErrs, txDrop) < 0 {
		row.Bad = "a counter went backwards: the interface was reset"
	}
}

// maxInterfaces bounds the rows of one sample: a host of containers has hundreds of interfaces. The
// target's always comes first.
const maxInterfaces = 16

// netDevSampler samples /proc/net/dev of one namespace.
type netDevSampler struct {
	r         *reader
	fd        int
	names     *interned
	side      *side
	speedMbit map[string]int64 // by interface, read once
	speed     func(iface string) int64
	links     *links      // nil: what shapes the interfaces is unknown
	lost      func(error) // called when the links are lost
	prev, cur []netDev
}

// newNetDevSampler takes ownership of the links, which may be nil, even if it fails.
func newNetDevSampler(r *reader, names *interned, of *side, speed func(string) int64, l *links) (*netDevSampler, error) {
	fd, err := openFile(of.netDir + "/dev")
	if err != nil {
		if l != nil {
			l.close()
		}
		return nil, err
	}
	return &netDevSampler{
		r: r, fd: fd, names: names, side: of, speed: speed, speedMbit: make(map[string]int64), links: l, lost: func(error) {},
	}, nil
}

func (s *netDevSampler) sample(at tick, emit Emit) error {
	text, err := s.r.whole(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/net/dev: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if s.cur, err = parseNetDev(text, s.names, s.cur); err != nil {
		return err
	}
	s.readLinks()
	if at.first() {
		return nil
	}
	s.emitDeltas(at, emit, true)
	s.emitDeltas(at, emit, false)
	return nil
}

// readLinks reads the queueing disciplines; sampling continues without them.
func (s *netDevSampler) readLinks() {
	if s.links == nil {
		return
	}
	err := s.links.follow(s.cur)
	if err == nil {
		err = s.links.read()
	}
	if err != nil {
		s.links.close()
		s.links = nil
		s.lost(err)
	}
}

// emitDeltas emits the target's interface, or the others.
func (s *netDevSampler) emitDeltas(at tick, emit Emit, target bool) {
	sent := 0
	for i := range s.cur {
		cur := &s.cur[i]
		if (cur.name == s.side.iface) != target || sent == maxInterfaces {
			continue
		}
		prev := netDevNamed(s.prev, cur.name, i)
		if prev == nil || !target && *cur == *prev {
			continue // new: nothing to compare with, or nothing moved
		}
		row := &record.NetDevRow{ObservedHead: at.head(record.KindNetDev), Iface: cur.name, Side: s.side.name, Target: target}
		netDevDelta(prev, cur, row)
		row.SpeedMbit = s.speedOf(cur.name)
		if s.links != nil {
			s.links.fill(cur.name, i, row)
		}
		emit(row)
		sent++
	}
}

// netDevNamed finds an interface, trying the expected position first.
func netDevNamed(devs []netDev, name string, guess int) *netDev {
	if guess < len(devs) && devs[guess].name == name {
		return &devs[guess]
	}
	for i := range devs {
		if devs[i].name == name {
			return &devs[i]
		}
	}
	return nil
}

func (s *netDevSampler) speedOf(iface string) int64 {
	v, ok := s.speedMbit[iface]
	if !ok {
		v = s.speed(iface)
		s.speedMbit[iface] = v
	}
	return v
}

func (s *netDevSampler) close() {
	closeFile(&s.fd)
	if s.links != nil {
		s.links.close()
		s.links = nil
	}
}

// linkSpeed reads the speed of an interface, in 10⁶ bit/s, from /sys/class/net/IFACE/speed. -1,
// unknown: the file says so (no carrier, a virtual interface) or returns EINVAL (lo).
func linkSpeed(r *reader, sysfs, iface string) int64 {
	var p path
	text, err := r.below(atCWD, p.of(sysfs).text("/class/net/").text(iface).text("/speed").end())
	if err != nil {
		return -1
	}
	c := sys.Cursor{Text: text}
	v, ok := c.Int()
	if !ok || v <= 0 {
		return -1
	}
	return v
}
