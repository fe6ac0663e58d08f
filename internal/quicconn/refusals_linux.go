package quicconn

import (
	"errors"
	"syscall"
)

// reportRefusals makes the kernel report ICMP errors on an unconnected socket (ip(7),
// IP_RECVERR).
func reportRefusals(network, _ string, on syscall.RawConn) error {
	var failed error
	err := on.Control(func(fd uintptr) {
		if network == "udp4" {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_RECVERR, 1)
		} else {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR, 1)
		}
	})
	return errors.Join(err, failed)
}
