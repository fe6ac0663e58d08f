//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"

	"ceiling/record"
)

// Queueing disciplines (include/uapi/linux/pkt_sched.h): what a packet passes
// between the stack and its interface. A shaped link is recognised by them.
//
//	request  tcmsg of 20 bytes: family, three unused, index i32, handle u32, parent u32, info u32
//	answer   tcmsg; attributes TCA_KIND, TCA_OPTIONS, TCA_STATS2
//
// Only the root of each interface is looked at: everything that is sent passes
// it, and it counts for those below (mq adds up its queues').

const (
	rtmGetQdisc  = 38 // RTM_GETQDISC
	rtmGetTClass = 42 // RTM_GETTCLASS

	tcMsgBytes  = 20
	tcMsgIndex  = 4
	tcMsgHandle = 8
	tcMsgParent = 12

	tcRoot = 0xffffffff // TC_H_ROOT

	tcaKind    = 1 // TCA_KIND
	tcaOptions = 2 // TCA_OPTIONS
	tcaStats2  = 7 // TCA_STATS2

	// Inside TCA_STATS2: struct gnet_stats_queue, five u32.
	tcaStatsQueue    = 3
	queueBacklog     = 4 // bytes; packets precede it
	queueDrops       = 8
	queueOverlimits  = 16
	queueStatsBytes  = 20
	rateSpecBytes    = 12 // struct tc_ratespec
	rateSpecMPU      = 6  // u16 bytes: a smaller packet is charged as many
	rateSpecRate     = 8  // u32 bytes per second; all ones: see the 64-bit attribute
	rateSpecTooLarge = 1<<32 - 1

	tbfParms  = 1 // TCA_TBF_PARMS: tc_ratespec rate and more
	tbfRate64 = 4 // TCA_TBF_RATE64: u64 bytes per second

	htbParms  = 1 // TCA_HTB_PARMS: tc_ratespec rate, tc_ratespec ceil and more
	htbInit   = 2 // TCA_HTB_INIT: struct tc_htb_glob
	htbRate64 = 6 // TCA_HTB_RATE64
	htbCeil64 = 7 // TCA_HTB_CEIL64
	htbDefcls = 8 // offset in tc_htb_glob: minor number of the default class
	htbGlob   = 20

	mostRate = 1<<60 - 1 // bytes per second that fit 63 bits as bits

	minorBits = 16 // low bits of a handle: the class's number within its qdisc
)

var errTCShort = errors.New("rtnetlink: a queueing discipline is shorter than 20 bytes")

// qdisc is the root queueing discipline of one interface.
type qdisc struct {
	index   int // of the interface
	handle  uint32
	kind    string
	rate    uint64 // bytes per second, 0: unknown
	charged uint16 // bytes that a smaller packet is charged as, of tbf
	defcls  uint32 // of htb
	backlog uint32 // bytes

	// 32-bit counters that wrap, and restart with a new discipline.
	drops, overlimits uint32
}

// parseQdisc parses one answer; root is false for a discipline below another, or for ingress.
func parseQdisc(body []byte, names *interned, q *qdisc) (root bool, err error) {
	if len(body) < tcMsgBytes {
		return false, errTCShort
	}
	*q = qdisc{
		index:  int(int32(binary.NativeEndian.Uint32(body[tcMsgIndex:]))),
		handle: binary.NativeEndian.Uint32(body[tcMsgHandle:]),
	}
	if binary.NativeEndian.Uint32(body[tcMsgParent:]) != tcRoot {
		return false, nil
	}
	var options []byte
	for rest := body[tcMsgBytes:]; ; {
		kind, value, more, ok := nextAttr(rest)
		if !ok {
			break
		}
		switch kind {
		case tcaKind:
			q.kind = names.of(trimNUL(value))
		case tcaOptions:
			options = value
		case tcaStats2:
			q.readStats(value)
		}
		rest = more
	}
	switch q.kind {
	case "tbf":
		q.rate = attrRate(options, tbfParms, 0, tbfRate64)
		if p := attrOf(options, tbfParms); len(p) >= rateSpecBytes {
			q.charged = binary.NativeEndian.Uint16(p[rateSpecMPU:])
		}
	case "htb":
		if glob := attrOf(options, htbInit); len(glob) >= htbGlob {
			q.defcls = binary.NativeEndian.Uint32(glob[htbDefcls:])
		}
	}
	return true, nil
}

func (q *qdisc) readStats(stats []byte) {
	s := attrOf(stats, tcaStatsQueue)
	if len(s) < queueStatsBytes {
		return
	}
	q.backlog = binary.NativeEndian.Uint32(s[queueBacklog:])
	q.drops = binary.NativeEndian.Uint32(s[queueDrops:])
	q.overlimits = binary.NativeEndian.Uint32(s[queueOverlimits:])
}

// attrOf finds an attribute in a list, nil if there is none.
func attrOf(p []byte, wanted uint16) []byte {
	for {
		kind, value, rest, ok := nextAttr(p)
		if !ok {
			return nil
		}
		if kind == wanted {
			return value
		}
		p = rest
	}
}

// attrRate reads a rate in bytes per second: the tc_ratespec at an offset of one attribute, or
// another attribute's 64 bits if it does not fit.
func attrRate(options []byte, parms uint16, at int, wide uint16) uint64 {
	p := attrOf(options, parms)
	if len(p) < at+rateSpecBytes {
		return 0
	}
	rate := uint64(binary.NativeEndian.Uint32(p[at+rateSpecRate:]))
	if v := attrOf(options, wide); rate == rateSpecTooLarge && len(v) >= 8 {
		rate = binary.NativeEndian.Uint64(v)
	}
	return rate
}

// htbClass is a class of htb.
type htbClass struct {
	id, parent uint32
	rate, ceil uint64 // bytes per second
}

func parseHTBClass(body []byte) (htbClass, error) {
	if len(body) < tcMsgBytes {
		return htbClass{}, errTCShort
	}
	options := attrOf(body[tcMsgBytes:], tcaOptions)
	return htbClass{
		id:     binary.NativeEndian.Uint32(body[tcMsgHandle:]),
		parent: binary.NativeEndian.Uint32(body[tcMsgParent:]),
		rate:   attrRate(options, htbParms, 0, htbRate64),
		ceil:   attrRate(options, htbParms, rateSpecBytes, htbCeil64),
	}, nil
}

// htbLimit returns the rate limit, in bytes per second, of packets that no filter classifies: the
// smallest ceiling of the default class and its ancestors. A class without a parent cannot borrow,
// so its rate is its ceiling (net/sched/sch_htb.c, htb_activate_prios). 0: such packets pass
// unlimited, or the class does not exist.
func htbLimit(classes []htbClass, handle, defcls uint32) uint64 {
	if defcls == 0 {
		return 0
	}
	var limit uint64
	id := handle&^(1<<minorBits-1) | defcls
	for range len(classes) { // a cycle of parents ends too
		i := 0
		for i < len(classes) && classes[i].id != id {
			i++
		}
		if i == len(classes) {
			return limit
		}
		c := &classes[i]
		most := c.ceil
		if c.parent == tcRoot {
			most = c.rate
		}
		if most > 0 && (limit == 0 || most < limit) {
			limit = most
		}
		id = c.parent
	}
	return limit
}

// qdiscs lists the root disciplines of all interfaces in one namespace.
type qdiscs struct {
	d         *dumper
	names     *interned
	request   []byte
	classes   []htbClass
	prev, cur []qdisc
}

// RootQdisc returns the queueing discipline of an interface in this process's network namespace, ""
// if there is none, and its rate limit in bytes per second, 0 if unknown or none.
func RootQdisc(iface string) (kind string, bytesPerS uint64, err error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return "", 0, err
	}
	d, err := newDumper(syscall.NETLINK_ROUTE)
	if err != nil {
		return "", 0, err
	}
	defer d.close()
	s := qdiscs{d: d, names: newInterned(), request: make([]byte, nlHeadBytes+tcMsgBytes)}
	if err := s.read(); err != nil {
		return "", 0, err
	}
	if q := ofInterface(s.cur, i.Index); q != nil {
		kind, bytesPerS = q.kind, q.rate
	}
	return kind, bytesPerS, nil
}

// read lists them again.
func (s *qdiscs) read() error {
	s.prev, s.cur = s.cur, s.prev[:0]
	err := s.each(0, rtmGetQdisc, func(body []byte) error {
		var q qdisc
		root, err := parseQdisc(body, s.names, &q)
		if root {
			s.cur = append(s.cur, q)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list queueing disciplines: %w", err)
	}
	for i := range s.cur {
		if q := &s.cur[i]; q.kind == "htb" {
			if err := s.readHTB(q); err != nil {
				return fmt.Errorf("list classes of htb: %w", err)
			}
		}
	}
	return nil
}

func (s *qdiscs) readHTB(q *qdisc) error {
	s.classes = s.classes[:0]
	err := s.each(q.index, rtmGetTClass, func(body []byte) error {
		c, err := parseHTBClass(body)
		s.classes = append(s.classes, c)
		return err
	})
	q.rate = htbLimit(s.classes, q.handle, q.defcls)
	return err
}

// each dumps disciplines, or the classes of an interface.
func (s *qdiscs) each(index int, kind uint16, visit func(body []byte) error) error {
	binary.NativeEndian.PutUint32(s.request[nlHeadBytes+tcMsgIndex:], uint32(index))
	return dump(s.d, s.request, kind, visit)
}

// counted is the difference of two readings of a 32-bit counter. One that fell by less than half
// its range has restarted, so its value was counted since.
func counted(prev, cur uint32) int64 {
	if d := cur - prev; d < 1<<31 {
		return int64(d)
	}
	return int64(cur)
}

// fill copies an interface's discipline into its row.
func (s *qdiscs) fill(index int, row *record.NetDevRow) {
	cur := ofInterface(s.cur, index)
	if cur == nil {
		return
	}
	row.Qdisc = cur.kind
	row.QdiscRateBitsPerS, row.QdiscBacklogBytes = int64(min(cur.rate, mostRate))*8, int64(cur.backlog)
	row.QdiscPacketBytes = int64(cur.charged)
	prev := ofInterface(s.prev, index)
	if prev == nil || prev.handle != cur.handle || prev.kind != cur.kind {
		prev = &qdisc{} // created since: it counts from 0
	}
	row.QdiscDrops, row.QdiscOverlimits = counted(prev.drops, cur.drops), counted(prev.overlimits, cur.overlimits)
}

// ofInterface finds an interface's discipline, nil if it has none.
func ofInterface(list []qdisc, index int) *qdisc {
	for i := range list {
		if list[i].index == index {
			return &list[i]
		}
	}
	return nil
}

// trimNUL cuts a C string at its end.
func trimNUL(p []byte) []byte {
	for i, c := range p {
		if c == 0 {
			return p[:i]
		}
	}
	return p
}
