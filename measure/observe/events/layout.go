//go:build linux

package events

import (
	"errors"

	"ceiling/internal/btf"
)

// layout has the offsets of the fields that the programs read, in bytes from the beginning of each
// struct. They come from the kernel's own BTF: the fields of struct tcp_sock move with every
// version and configuration.
type layout struct {
	localPort, remotePort int16 // struct sock: skc_num in the host's order, skc_dport in the network's
	localV4, remoteV4     int16 // struct sock: skc_rcv_saddr, skc_daddr
	localV6, remoteV6     int16 // struct sock: skc_v6_rcv_saddr, skc_v6_daddr, or noField without IPv6
	writeSeq              int16 // struct tcp_sock
	rcvNxt, copiedSeq     int16 // struct tcp_sock
	received              int16 // struct tcp_sock: bytes_received, 64 bits
	left                  int16 // struct msghdr: msg_iter.count, what a send still has to take over
}

const noField = int16(-1)

// readLayout gets the fields from the kernel's types.
func readLayout(kernel *btf.Types) (layout, error) {
	var l layout
	for _, f := range []struct {
		to   *int16
		of   string
		path []string
	}{
		{&l.localPort, "sock", []string{"__sk_common", "skc_num"}},
		{&l.remotePort, "sock", []string{"__sk_common", "skc_dport"}},
		{&l.localV4, "sock", []string{"__sk_common", "skc_rcv_saddr"}},
		{&l.remoteV4, "sock", []string{"__sk_common", "skc_daddr"}},
		{&l.writeSeq, "tcp_sock", []string{"write_seq"}},
		{&l.rcvNxt, "tcp_sock", []string{"rcv_nxt"}},
		{&l.copiedSeq, "tcp_sock", []string{"copied_seq"}},
		{&l.received, "tcp_sock", []string{"bytes_received"}},
		{&l.left, "msghdr", []string{"msg_iter", "count"}},
	} {
		offset, err := kernel.Offset(f.of, f.path...)
		if err != nil {
			return layout{}, err
		}
		*f.to = offset
	}
	var errs [2]error
	l.localV6, errs[0] = kernel.Offset("sock", "__sk_common", "skc_v6_rcv_saddr")
	l.remoteV6, errs[1] = kernel.Offset("sock", "__sk_common", "skc_v6_daddr")
	if errors.Join(errs[:]...) != nil {
		l.localV6, l.remoteV6 = noField, noField // CONFIG_IPV6 is off
	}
	return l, nil
}
