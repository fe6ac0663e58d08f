//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"ceiling/record"
)

// The interfaces of a namespace by rtnetlink (RTM_GETLINK): their numbers, by
// which queueing disciplines name them, and what they are made of.
//
//	request  ifinfomsg of 16 bytes: family, pad, type u16, index i32, flags u32, change u32; IFLA_EXT_MASK
//	answer   ifinfomsg; attributes IFLA_IFNAME, IFLA_LINKINFO with IFLA_INFO_KIND

const (
	ifInfoBytes = 16
	ifInfoIndex = 4

	iflaLinkInfo = 18 // IFLA_LINKINFO
	iflaInfoKind = 1  // IFLA_INFO_KIND, within it
	iflaExtMask  = 29 // IFLA_EXT_MASK

	extSkipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS: most of an answer, and not wanted
)

var errLinkShort = errors.New("rtnetlink: an interface is shorter than 16 bytes")

// link is one interface.
type link struct {
	index int
	name  string
	kind  string // "veth", "bridge"; "": a device with its own driver
}

// software reports whether the kind only moves packets in memory, so that its speed is a driver
// constant or borrowed from another interface.
func (l link) software() bool {
	switch l.kind {
	case "veth", "bridge", "tun", "dummy", "ifb":
		return true
	}
	return false
}

// parseLink reads the body of one answer.
func parseLink(body []byte, names *interned, l *link) error {
	if len(body) < ifInfoBytes {
		return errLinkShort
	}
	*l = link{index: int(int32(binary.NativeEndian.Uint32(body[ifInfoIndex:])))}
	attrs := body[ifInfoBytes:]
	l.name = names.of(trimNUL(attrOf(attrs, syscall.IFLA_IFNAME)))
	l.kind = names.of(trimNUL(attrOf(attrOf(attrs, iflaLinkInfo), iflaInfoKind)))
	return nil
}

// links knows a namespace's interfaces and their queueing disciplines.
type links struct {
	qdiscs
	linkRequest []byte
	all         []link
}

// newLinks opens a netlink socket in the calling thread's network namespace.
func newLinks(names *interned) (*links, error) {
	d, err := newDumper(syscall.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	request := make([]byte, nlHeadBytes+ifInfoBytes)
	request = binary.NativeEndian.AppendUint16(request, attrHeadBytes+4)
	request = binary.NativeEndian.AppendUint16(request, iflaExtMask)
	request = binary.NativeEndian.AppendUint32(request, extSkipStats)
	l := &links{
		qdiscs:      qdiscs{d: d, names: names, request: make([]byte, nlHeadBytes+tcMsgBytes)},
		linkRequest: request,
	}
	if err = l.list(); err == nil {
		err = l.read()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return l, nil
}

// list reads the interfaces again.
func (l *links) list() error {
	l.all = l.all[:0]
	err := dump(l.d, l.linkRequest, syscall.RTM_GETLINK, func(body []byte) error {
		var one link
		err := parseLink(body, l.names, &one)
		l.all = append(l.all, one)
		return err
	})
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	return nil
}

// of finds an interface, trying the expected position first; the zero link if it does not exist.
func (l *links) of(name string, guess int) link {
	if guess < len(l.all) && l.all[guess].name == name {
		return l.all[guess]
	}
	for i := range l.all {
		if l.all[i].name == name {
			return l.all[i]
		}
	}
	return link{}
}

// follow lists the interfaces again if one of devs is unknown, and remembers those still unknown,
// so that it does not ask for them at every sample.
func (l *links) follow(devs []netDev) error {
	if l.know(devs) {
		return nil
	}
	if err := l.list(); err != nil {
		return err
	}
	for i := range devs {
		if l.of(devs[i].name, i).name == "" {
			l.all = append(l.all, link{name: devs[i].name})
		}
	}
	return nil
}

func (l *links) know(devs []netDev) bool {
	for i := range devs {
		if l.of(devs[i].name, i).name == "" {
			return false
		}
	}
	return true
}

// fill copies what is known about an interface into its row. A reset one may have been recreated
// with another number, so fill lists all again.
func (l *links) fill(name string, guess int, row *record.NetDevRow) {
	one := l.of(name, guess)
	row.SpeedNominal = one.software()
	l.qdiscs.fill(one.index, row)
	if row.Bad != "" {
		l.all = l.all[:0]
	}
}

func (l *links) close() { l.d.close() }
