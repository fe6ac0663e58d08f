//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// Netlink, as far as dumps need it (include/uapi/linux/netlink.h). A message is a head of 16 bytes
// (length, type, flags, sequence number, port) and a body, both padded to 4 bytes; so are the
// attributes within a body, whose heads are a length and a type of 2 bytes each.

const (
	netlinkSockDiag = 4 // NETLINK_SOCK_DIAG

	nlHeadBytes   = 16
	attrHeadBytes = 4

	// netlinkBufferBytes is the most that the kernel puts into one answer of a
	// dump (af_netlink.c, netlink_recvmsg: max_recvmsg_len), so none is truncated.
	netlinkBufferBytes = 32 << 10
)

var (
	errNetlinkShort = errors.New("netlink: a message is shorter than its head says")
	errDumpEnd      = errors.New("netlink: the dump ended without saying so")
	errDumpSequence = errors.New("netlink: an answer to another question")
)

func align4(n int) int { return (n + 3) &^ 3 }

// nlMessage is one netlink message.
type nlMessage struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// nextMessage splits the first message off p.
func nextMessage(p []byte) (m nlMessage, rest []byte, err error) {
	if len(p) < nlHeadBytes {
		return m, nil, errNetlinkShort
	}
	size := binary.NativeEndian.Uint32(p)
	if size < nlHeadBytes || uint64(size) > uint64(len(p)) {
		return m, nil, errNetlinkShort
	}
	m.kind = binary.NativeEndian.Uint16(p[4:])
	m.flags = binary.NativeEndian.Uint16(p[6:])
	m.seq = binary.NativeEndian.Uint32(p[8:])
	m.body = p[nlHeadBytes:size]
	return m, p[min(align4(int(size)), len(p)):], nil
}

// nextAttr splits the first attribute off p; ok is false if there is none.
func nextAttr(p []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(p) < attrHeadBytes {
		return 0, nil, nil, false
	}
	size := int(binary.NativeEndian.Uint16(p))
	if size < attrHeadBytes || size > len(p) {
		return 0, nil, nil, false
	}
	// The two highest bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
	kind = binary.NativeEndian.Uint16(p[2:]) & 0x3fff
	return kind, p[attrHeadBytes:size], p[min(align4(size), len(p)):], true
}

// errorNumber reads the body of NLMSG_ERROR or NLMSG_DONE: a negative errno, 0 for success.
func errorNumber(body []byte) (syscall.Errno, error) {
	if len(body) < 4 {
		return 0, errNetlinkShort
	}
	return syscall.Errno(-int32(binary.NativeEndian.Uint32(body))), nil
}

// A dumper requests dumps from the kernel over one socket, and reads the answers into one buffer.
type dumper struct {
	fd   int
	seq  uint32
	buf  []byte
	left []byte // the unread rest of the last answer
}

// newDumper opens a netlink socket of a protocol in the calling thread's network namespace. It
// never blocks: the kernel makes each part of a dump within the read that asks for it.
func newDumper(protocol int) (*dumper, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return &dumper{fd: fd, buf: make([]byte, netlinkBufferBytes)}, nil
}

// ask sends a request, and fills in its head.
func (d *dumper) ask(request []byte, kind, flags uint16) error {
	d.seq++
	d.left = nil
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], kind)
	binary.NativeEndian.PutUint16(request[6:], flags|syscall.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(request[8:], d.seq)
	binary.NativeEndian.PutUint32(request[12:], 0)
	_, err := syscall.Write(d.fd, request)
	if err != nil {
		return fmt.Errorf("ask over netlink: %w", err)
	}
	return nil
}

// dump asks for a list and visits the body of each of its messages, valid during the visit only.
func dump(d *dumper, request []byte, kind uint16, visit func(body []byte) error) error {
	if err := d.ask(request, kind, syscall.NLM_F_DUMP); err != nil {
		return err
	}
	for {
		body, more, err := d.next()
		if err != nil || !more {
			return err
		}
		if err := visit(body); err != nil {
			return err
		}
	}
}

// next returns the body of a dump's next message, valid until the next call, and false at its end.
func (d *dumper) next() (body []byte, more bool, err error) {
	for {
		if len(d.left) == 0 {
			if err := d.read(); err != nil {
				return nil, false, err
			}
		}
		m, rest, err := nextMessage(d.left)
		if err != nil {
			return nil, false, err
		}
		d.left = rest
		if m.seq != d.seq {
			return nil, false, errDumpSequence
		}
		switch m.kind {
		case syscall.NLMSG_NOOP:
			continue
		case syscall.NLMSG_DONE, syscall.NLMSG_ERROR:
			errno, err := errorNumber(m.body)
			if err == nil && errno != 0 {
				err = errno
			}
			return nil, false, err
		}
		return m.body, true, nil
	}
}

func (d *dumper) read() error {
	for {
		n, err := syscall.Read(d.fd, d.buf)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN || err == nil && n == 0:
			return errDumpEnd
		case err != nil:
			return fmt.Errorf("read netlink answer: %w", err)
		}
		d.left = d.buf[:n]
		return nil
	}
}

func (d *dumper) close() { closeFile(&d.fd) }
