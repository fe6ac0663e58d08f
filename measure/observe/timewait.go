//go:build linux

package observe

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

const tcpTimeWait = 6

// TimeWait counts this network namespace's TCP sockets in TIME_WAIT whose peer is the given
// address: the local ports that they keep from new connections to it.
func TimeWait(to netip.AddrPort) (int64, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return 0, err
	}
	defer d.close()
	family := uint8(syscall.AF_INET6)
	if to.Addr().Unmap().Is4() {
		family = syscall.AF_INET
	}
	p := make([]byte, nlHeadBytes+inetDiagReqBytes, inetDiagRequestMax)
	fillRequest(p[nlHeadBytes:], family, 1<<tcpTimeWait)
	binary.BigEndian.PutUint16(p[nlHeadBytes+inetDiagReqSport+2:], to.Port())
	n := int64(0)
	err = dump(d, p, sockDiagByFamily, func(body []byte) error {
		var s inetSocket
		err := parseInetSocket(body, &s)
		if err == nil && s.state == tcpTimeWait && s.dport == to.Port() && s.dst == to.Addr().Unmap() {
			n++
		}
		return err
	})
	return n, err
}
