//go:build linux

package observe

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/record"
)

// attr appends an attribute and its padding.
func attr(p []byte, kind uint16, value []byte) []byte {
	p = binary.NativeEndian.AppendUint16(p, uint16(attrHeadBytes+len(value)))
	p = binary.NativeEndian.AppendUint16(p, kind)
	p = append(p, value...)
	return append(p, make([]byte, align4(len(p))-len(p))...)
}

func words(v ...uint32) (p []byte) {
	for _, w := range v {
		p = binary.NativeEndian.AppendUint32(p, w)
	}
	return p
}

// netlinkMessage puts a head before a body.
func netlinkMessage(body []byte) []byte {
	p := words(uint32(nlHeadBytes+len(body)), 0, 0, 0)
	return append(p, body...)
}

func tcMessage(index int, handle, parent uint32, kind string) []byte {
	return attr(words(0, uint32(index), handle, parent, 0), tcaKind, append([]byte(kind), 0))
}

func queueStats(backlog, drops, overlimits uint32) []byte {
	return attr(attr(nil, 1, make([]byte, 12)), tcaStatsQueue, words(3, backlog, drops, 0, overlimits))
}

// tbfMessage is a tbf with a rate in bytes per second; wide says it in 64 bits.
func tbfMessage(index int, parent, rate uint32, wide uint64) []byte {
	options := attr(nil, tbfParms, words(0, 0, rate, 0, 0, 0, 0, 0, 0))
	if wide != 0 {
		options = attr(options, tbfRate64, binary.NativeEndian.AppendUint64(nil, wide))
	}
	p := attr(tcMessage(index, 0x80010000, parent, "tbf"), tcaOptions|0x8000, options) // NLA_F_NESTED
	return attr(p, tcaStats2, queueStats(1500, 2, 30))
}

// packetsMessage is a tbf that charges a smaller packet as so many bytes: the upper half of the second word.
func packetsMessage(index int, rate uint32, charged uint16) []byte {
	return attr(tcMessage(index, 0x10000, tcRoot, "tbf"), tcaOptions, attr(nil, tbfParms, words(0, uint32(charged)<<16, rate, 0, 0, 0, 0, 0, 0)))
}

func htbMessage(index int, defcls uint32) []byte {
	return attr(tcMessage(index, 0x10000, tcRoot, "htb"), tcaOptions, attr(nil, htbInit, words(3, 10, defcls, 0, 0)))
}

func TestParseQdisc(t *testing.T) {
	names := newInterned()
	check := func(what string, body []byte, wantRoot bool, want qdisc) {
		t.Helper()
		var q qdisc
		root, err := parseQdisc(body, names, &q)
		if err != nil || root != wantRoot || root && q != want {
			t.Errorf("%s: root %v, %+v, %v", what, root, q, err)
		}
	}
	tbf := qdisc{index: 7, handle: 0x80010000, kind: "tbf", rate: 125_000, backlog: 1500, drops: 2, overlimits: 30}
	check("1 Mbit/s", tbfMessage(7, tcRoot, 125_000, 0), true, tbf)
	tbf.rate = 5_000_000_000
	check("40 Gbit/s", tbfMessage(7, tcRoot, 1<<32-1, tbf.rate), true, tbf)
	check("packets", packetsMessage(7, 1000, 1514), true, qdisc{index: 7, handle: 0x10000, kind: "tbf", rate: 1000, charged: 1514})
	check("below another", tbfMessage(7, 0x10001, 125_000, 0), false, qdisc{})
	check("ingress", tcMessage(7, 0xffff0000, 0xfffffff1, "ingress"), false, qdisc{})
	check("htb", htbMessage(2, 0x10), true, qdisc{index: 2, handle: 0x10000, kind: "htb", defcls: 0x10})
	check("without options", tcMessage(3, 0, tcRoot, "tbf"), true, qdisc{index: 3, kind: "tbf"})
	check("options cut off", attr(tcMessage(3, 0, tcRoot, "tbf"), tcaOptions, attr(nil, tbfParms, words(1, 2))), true,
		qdisc{index: 3, kind: "tbf"})
	if _, err := parseQdisc(make([]byte, tcMsgBytes-1), names, &tbf); err == nil {
		t.Error("19 bytes were accepted")
	}
}

func TestHTBLimit(t *testing.T) {
	parms := attr(nil, htbParms, words(0, 0, 1000, 0, 0, 2000, 0, 0, 0, 0, 0))
	body := attr(tcMessage(7, 0x10010, 0x10001, "htb"), tcaOptions, parms)
	c, err := parseHTBClass(body)
	if want := (htbClass{id: 0x10010, parent: 0x10001, rate: 1000, ceil: 2000}); err != nil || c != want {
		t.Errorf("%+v %v", c, err)
	}
	classes := []htbClass{
		{0x10001, tcRoot, 500, 9000}, {0x10010, 0x10001, 100, 400}, {0x10020, 0x10001, 100, 800}, {0x10030, 0x10031, 5, 6},
		{0x10031, 0x10030, 5, 6},
	}
	check := func(defcls uint32, want uint64) {
		t.Helper()
		if got := htbLimit(classes, 0x10000, defcls); got != want {
			t.Errorf("default class %x: %d, want %d", defcls, got, want)
		}
	}
	check(0, 0)      // goes by all classes
	check(0x99, 0)   // likewise, the class is not there
	check(0x01, 500) // nobody above to borrow from
	check(0x10, 400)
	check(0x20, 500) // its parent has less than its ceiling
	check(0x30, 6)   // a ring
}

func TestCounted(t *testing.T) {
	check := func(prev, cur uint32, want int64) {
		t.Helper()
		if got := counted(prev, cur); got != want {
			t.Errorf("%d to %d: %d, want %d", prev, cur, got, want)
		}
	}
	check(5, 7, 2)
	check(7, 7, 0)
	check(1<<32-2, 3, 5) // wrapped
	check(1000, 3, 3)    // begun anew
}

// A discipline that was replaced counts from 0, and one that is gone is not shown.
func TestQdiscIsReplaced(t *testing.T) {
	s := qdiscs{
		prev: []qdisc{{index: 1, handle: 1, kind: "tbf", drops: 100, overlimits: 9}, {index: 2, handle: 1, kind: "tbf", drops: 5},
			{index: 3, kind: "mq"}},
		cur: []qdisc{{index: 1, handle: 2, kind: "tbf", drops: 200, rate: 10, charged: 1514, backlog: 3},
			{index: 2, handle: 1, kind: "tbf", drops: 7, rate: 1<<64 - 1}},
	}
	check := func(index int, want record.NetDevRow) {
		t.Helper()
		var row record.NetDevRow
		s.fill(index, &row)
		if d := cmp.Diff(want, row); d != "" {
			t.Errorf("interface %d: %s", index, d)
		}
	}
	check(1, record.NetDevRow{QdiscUse: record.QdiscUse{Qdisc: "tbf", QdiscRateBitsPerS: 80, QdiscPacketBytes: 1514, QdiscBacklogBytes: 3,
		QdiscDrops: 200}})
	check(2, record.NetDevRow{QdiscUse: record.QdiscUse{Qdisc: "tbf", QdiscRateBitsPerS: mostRate * 8, QdiscDrops: 2}})
	check(3, record.NetDevRow{})
}

func TestParseLink(t *testing.T) {
	info := attr(nil, iflaInfoKind, []byte("veth\x00"))
	body := attr(words(0, 12, 0, 0), syscall.IFLA_IFNAME, []byte("eth0\x00"))
	var l link
	if err := parseLink(attr(body, iflaLinkInfo, info), newInterned(), &l); err != nil || l != (link{12, "eth0", "veth"}) || !l.software() {
		t.Errorf("%+v %v", l, err)
	}
	if err := parseLink(body, newInterned(), &l); err != nil || l.software() {
		t.Errorf("a device: %+v %v", l, err)
	}
	if parseLink(body[:ifInfoBytes-1], newInterned(), &l) == nil {
		t.Error("15 bytes were accepted")
	}
}

// The interfaces that the two ways of asking list are the same, and a new one
// is taken in.
func TestLinksFollowTheInterfaces(t *testing.T) {
	checkDescriptors(t)
	l, err := newLinks(newInterned())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if l.of("lo", 0).index != 1 {
		t.Errorf("%+v", l.all)
	}
	if i := slices.IndexFunc(l.cur, func(q qdisc) bool { return q.kind == "" }); i >= 0 {
		t.Errorf("without a kind: %+v", l.cur[i])
	}
	l.all = nil
	if err := l.follow([]netDev{{name: "lo"}, {name: "no such one"}}); err != nil || l.of("lo", 9).index != 1 ||
		l.of("no such one", 0).index != 0 {
		t.Errorf("%v %+v", err, l.all)
	}
	all := len(l.all)
	l.linkRequest = nil // would fail
	if err := l.follow([]netDev{{name: "no such one"}}); err != nil || len(l.all) != all {
		t.Errorf("asked again: %v %+v", err, l.all)
	}
}

func TestRouteTellsTheAddressThatPacketsLeaveWith(t *testing.T) {
	iface, from, err := routeTo(netip.MustParseAddr("127.0.0.1"))
	if err != nil || iface != "lo" || from != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%s from %s, %v", iface, from, err)
	}
}
