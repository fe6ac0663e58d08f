//go:build linux

package tune

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
)

// Effects shown by a few sockets of our own, on the loopback of the calling thread's network
// namespace. The system calls are made directly: Go's net package reads somaxconn once for all
// namespaces.

const (
	// burstMost bounds the connections opened at once.
	burstMost  = 8192
	portProbes = 64
	// settle is how long the last handshakes may take.
	settle = 200 * time.Millisecond
)

// burst opens connections to a listener that accepts none: if possible, as many as its
// former queue was too short for.
func (e *effects) burst(before, after string) (effect, what string) {
	was, err1 := strconv.Atoi(before)
	now, err2 := strconv.Atoi(after)
	if err := errors.Join(err1, err2); err != nil {
		return NotShown, err.Error()
	}
	n := min(was+was/4+16, burstMost, max(now, 1))
	if now < was {
		n = min(now+now/4+16, burstMost) // shorter: it has to overflow
	}
	l, err := listenHere(1 << 20)
	if err != nil {
		return NotShown, "no listener on the loopback to try it with: " + err.Error()
	}
	defer syscall.Close(l.fd)
	calm, err := e.look()
	if err != nil {
		return NotShown, err.Error()
	}
	opened, err := l.connect(n)
	defer closeAll(opened)
	if err != nil {
		return NotShown, fmt.Sprintf("a burst of %s connections cannot be opened: %v", unit.FormatCount(int64(n)), err)
	}
	time.Sleep(settle)
	waiting, most, err := sys.ListenQueue(l.fd)
	if err != nil {
		return NotShown, "listener queue length unavailable: " + err.Error()
	}
	full, err := e.look()
	if err != nil {
		return NotShown, err.Error()
	}
	figures := fmt.Sprintf("a new listener's queue takes %s: of a burst of %s connections without accept(2) it holds %s, ListenOverflows +%s",
		unit.FormatCount(int64(most)), unit.FormatCount(int64(n)), unit.FormatCount(int64(waiting)),
		unit.FormatCount(full.Since(calm).ListenOverflows))
	// The queue is full when it exceeds its limit by one (sk_acceptq_is_full).
	if int(most) != now || int(waiting) < min(n, now) {
		return NotInEffect, figures
	}
	return InEffect, figures + "; listeners that exist keep theirs until they are started again"
}

// ports connects to a listener of our own and checks the ports it gets.
func ports(after string) (effect, what string) {
	var low, high int
	if _, err := fmt.Sscan(after, &low, &high); err != nil {
		return NotShown, err.Error()
	}
	l, err := listenHere(portProbes)
	if err != nil {
		return NotShown, "no listener on the loopback to try it with: " + err.Error()
	}
	defer syscall.Close(l.fd)
	opened, err := l.connect(portProbes)
	defer closeAll(opened)
	if err != nil {
		return NotShown, "no connections on the loopback to try it with: " + err.Error()
	}
	least, most := 1<<16, 0
	for _, fd := range opened {
		at, err := syscall.Getsockname(fd)
		own, is := at.(*syscall.SockaddrInet4)
		if err != nil || !is {
			return NotShown, "a socket reports no port"
		}
		least, most = min(least, own.Port), max(most, own.Port)
	}
	figures := fmt.Sprintf("%d connections got ports from %d to %d", len(opened), least, most)
	if least < low || most > high {
		return NotInEffect, figures
	}
	return InEffect, figures
}

const (
	// xpsDatagrams is how many are sent from a CPU; other traffic by another queue may be a tenth
	// of that.
	xpsDatagrams = 200
	discardPort  = 9 // RFC 863
)

// xps sends datagrams from a CPU of a queue's mask, and checks which queue they leave by.
func (e *effects) xps(c *Change) (effect, what string) {
	name, queue, _ := strings.Cut(c.Of, " ")
	mine := nic.NumberAtEnd(queue)
	cpus, err := nic.ParseMask(c.After)
	switch {
	case err != nil:
		return NotShown, err.Error()
	case !e.probe.Is4():
		return NotShown, "give a URL: it takes datagrams that leave by this interface to see their queue"
	case len(cpus) == 0:
		return NotShown, "no CPU is bound to this queue"
	}
	before, err := queuePackets(name)
	if err != nil {
		return NotShown, err.Error()
	}
	if err := sendFrom(cpus[0], e.probe); err != nil {
		return NotShown, fmt.Sprintf("no datagrams can be sent from CPU %d: %v", cpus[0], err)
	}
	after, err := queuePackets(name)
	if err != nil {
		return NotShown, err.Error()
	}
	own, others := after[mine]-before[mine], uint32(0)
	for q := range after {
		if q != mine {
			others += after[q] - before[q]
		}
	}
	figures := fmt.Sprintf("of %d datagrams that CPU %d sent %d left by this queue; by others %d packets in that time", xpsDatagrams, cpus[0], own, others)
	switch {
	case own+others < xpsDatagrams/2:
		return NotShown, figures + ": they left by another interface"
	case own >= xpsDatagrams && others <= xpsDatagrams/10:
		return InEffect, figures
	case own >= xpsDatagrams:
		return NotShown, figures + ": too much else was sent"
	}
	return NotInEffect, figures
}

// queuePackets counts what each transmit queue of an interface has sent, by its discipline below mq
// (tc-mq(8)), the default of multi-queue hardware.
func queuePackets(name string) (map[int]uint32, error) {
	h, err := netlink.NewHandle(syscall.NETLINK_ROUTE) // in the calling thread's namespace
	if err != nil {
		return nil, err
	}
	defer h.Close()
	link, err := h.LinkByName(name)
	if err != nil {
		return nil, err
	}
	all, err := h.QdiscList(link)
	if err != nil {
		return nil, fmt.Errorf("list the queueing disciplines of %s: %w", name, err)
	}
	counts := map[int]uint32{}
	for _, q := range all {
		a := q.Attrs()
		if a.Parent == netlink.HANDLE_ROOT || a.Statistics == nil || a.Statistics.Basic == nil {
			continue
		}
		if _, minor := netlink.MajorMinor(a.Parent); minor > 0 {
			counts[int(minor)-1] = a.Statistics.Basic.Packets
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%s has no queueing discipline for each queue (mq), so they are not counted apart", name)
	}
	return counts, nil
}

// sendFrom sends from a thread on a CPU, each datagram from a new socket: the queue of a socket's
// first packet applies to the following ones.
func sendFrom(cpu int, to netip.Addr) error {
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		return err
	}
	if err := sys.Pin(0, []int{cpu}); err != nil {
		return err
	}
	defer func() { _ = sys.Pin(0, allowed) }() // the thread ends soon, or has all its CPUs again
	for range xpsDatagrams {
		if err := sendOne(&syscall.SockaddrInet4{Port: discardPort, Addr: to.As4()}); err != nil {
			return err
		}
	}
	return nil
}

func sendOne(to *syscall.SockaddrInet4) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	err = syscall.Sendto(fd, []byte("ceiling"), 0, to)
	if errors.Is(err, syscall.ECONNREFUSED) { // the ICMP answer to an earlier one
		return nil
	}
	return err
}

// listener is a loopback socket that accepts nothing.
type listener struct {
	fd int
	at *syscall.SockaddrInet4
}

func listenHere(backlog int) (*listener, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.Listen(fd, backlog)
	}
	if err == nil {
		var at syscall.Sockaddr
		if at, err = syscall.Getsockname(fd); err == nil {
			if own, is := at.(*syscall.SockaddrInet4); is {
				return &listener{fd, own}, nil
			}
		}
	}
	return nil, errors.Join(err, syscall.Close(fd))
}

// connect begins n connections and does not wait for them.
func (l *listener) connect(n int) (fds []int, err error) {
	for range n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
		if err := syscall.Connect(fd, l.at); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
			return fds, err
		}
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd) // nothing was sent
	}
}
