package events

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
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

// readLayout gets the fields from the kernel's BTF, and checks that it has the tracepoints: the
// error names a missing one.
func readLayout(kernel *btf.Spec) (layout, error) {
	for _, point := range tracepoints() {
		var t *btf.Typedef
		if err := kernel.TypeByName("btf_trace_"+point.name, &t); err != nil {
			return layout{}, fmt.Errorf("this kernel has no tracepoint %s: %w", point.name, err)
		}
	}
	var l layout
	fields := []struct {
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
	}
	for _, f := range fields {
		offset, err := fieldOffset(kernel, f.of, f.path...)
		if err != nil {
			return layout{}, err
		}
		*f.to = offset
	}
	var errs [2]error
	l.localV6, errs[0] = fieldOffset(kernel, "sock", "__sk_common", "skc_v6_rcv_saddr")
	l.remoteV6, errs[1] = fieldOffset(kernel, "sock", "__sk_common", "skc_v6_daddr")
	if errors.Join(errs[:]...) != nil {
		l.localV6, l.remoteV6 = noField, noField // CONFIG_IPV6 is off
	}
	return l, nil
}

// fieldOffset returns a field's offset, looking through anonymous structs and unions.
func fieldOffset(kernel *btf.Spec, of string, path ...string) (int16, error) {
	var s *btf.Struct
	if err := kernel.TypeByName(of, &s); err != nil {
		return 0, fmt.Errorf("find struct %s in the kernel's BTF: %w", of, err)
	}
	var t btf.Type = s
	total := uint32(0)
	for _, name := range path {
		member, offset, ok := findMember(t, name)
		if !ok {
			return 0, fmt.Errorf("struct %s has no field %s in this kernel's BTF", of, name)
		}
		total += offset
		t = member
	}
	if total > 1<<15-1 {
		return 0, fmt.Errorf("field %s of struct %s lies %d bytes into it: too far for one load", path[len(path)-1], of, total)
	}
	return int16(total), nil
}

// findMember finds a member by name, and its offset in bytes from the beginning of t.
func findMember(t btf.Type, name string) (found btf.Type, offset uint32, ok bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Type, m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		if found, offset, ok = findMember(m.Type, name); ok {
			return found, m.Offset.Bytes() + offset, true
		}
	}
	return nil, 0, false
}
