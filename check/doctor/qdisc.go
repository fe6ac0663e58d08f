package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// The queueing disciplines of an interface: RTM_GETQDISC (rtnetlink(7)).
//
//	request  tcmsg of 20 bytes: family, padding, interface's index, ...
//	answer   tcmsg, the index at 4; attributes TCA_KIND (text) and TCA_OPTIONS;
//	         for tbf the latter holds TCA_TBF_PARMS (struct tc_tbf_qopt: at 0 a
//	         tc_ratespec, whose rate is at 8, bytes/s) and TCA_TBF_RATE64

const (
	tcMsgBytes = 20
	tcaKind    = 1
	tcaOptions = 2
	tbfParms   = 1
	tbfRate64  = 4

	// answerBytes is more than the kernel puts into one message of a dump.
	answerBytes = 64 << 10
	// answersMost bounds a dump: a host with 10,000 qdiscs has fewer messages.
	answersMost = 10_000
)

// readQdiscs fills in the target's.
func (t *Target) readQdiscs() {
	iface, err := net.InterfaceByName(t.Iface)
	if err == nil {
		t.Qdiscs, err = dumpQdiscs(iface.Index)
	}
	if err != nil {
		t.QdiscErr = err.Error()
	}
}

func dumpQdiscs(index int) (list []Qdisc, err error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer func() { err = errors.Join(err, syscall.Close(fd)) }()
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 2}); err != nil {
		return nil, fmt.Errorf("bound the wait for netlink: %w", err)
	}
	request := make([]byte, syscall.NLMSG_HDRLEN+tcMsgBytes)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], syscall.RTM_GETQDISC)
	binary.NativeEndian.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("ask netlink: %w", err)
	}
	answer := make([]byte, answerBytes)
	for range answersMost {
		n, _, err := syscall.Recvfrom(fd, answer, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read netlink: %w", err)
		}
		more, done, err := parseQdiscs(answer[:n], index)
		if err != nil {
			return nil, err
		}
		if list = append(list, more...); done {
			return list, nil
		}
	}
	return nil, errors.New("netlink: the list of queues does not end")
}

// parseQdiscs reads one piece of the answer; done tells that it was the last.
func parseQdiscs(answer []byte, index int) (list []Qdisc, done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return nil, false, fmt.Errorf("netlink: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Type == syscall.NLMSG_DONE:
			return list, true, nil
		case m.Header.Type == syscall.NLMSG_ERROR:
			if len(m.Data) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
					return nil, false, fmt.Errorf("netlink: %w", syscall.Errno(-code))
				}
			}
			return nil, false, errors.New("netlink: an answer without a list")
		case m.Header.Type != syscall.RTM_NEWQDISC || len(m.Data) < tcMsgBytes:
			continue
		case int32(binary.NativeEndian.Uint32(m.Data[4:])) != int32(index):
			continue
		}
		q := Qdisc{}
		for attributes := m.Data[tcMsgBytes:]; ; {
			kind, value, rest, ok := nextAttribute(attributes)
			if !ok {
				break
			}
			switch kind {
			case tcaKind:
				q.Kind = strings.TrimRight(string(value), "\x00")
			case tcaOptions:
				if q.Kind == "tbf" { // the kind comes first
					q.BytesPerSecond = tbfRate(value)
				}
			}
			attributes = rest
		}
		list = append(list, q)
	}
	return list, false, nil
}

// tbfRate is the rate in the options of a tbf, bytes/s; 0 without one.
func tbfRate(options []byte) uint64 {
	rate := uint64(0)
	for {
		kind, value, rest, ok := nextAttribute(options)
		if !ok {
			return rate
		}
		switch {
		case kind == tbfParms && len(value) >= 12 && rate == 0:
			rate = uint64(binary.NativeEndian.Uint32(value[8:]))
		case kind == tbfRate64 && len(value) == 8: // beyond 4 GB/s
			rate = binary.NativeEndian.Uint64(value)
		}
		options = rest
	}
}

// nextAttribute takes one rtattr off: length, kind, value, padding to four.
func nextAttribute(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < 4 || n > len(b) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[2:]) & 0x3fff, b[4:n], b[min((n+3)&^3, len(b)):], true
}
