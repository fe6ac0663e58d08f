//go:build linux

package ring

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sqWanted = 4096
	cqWanted = 32768
)

// uring owns its memory and descriptors; they all belong to one thread.
type uring struct {
	fd      int // the ring, or its index among the registered rings
	realFD  int
	enter   uintptr // flags of every io_uring_enter
	granted []string
	minWait bool

	rings   []byte
	sqeMem  []byte
	sqes    []sqe
	cqes    []cqe
	sqHead  *uint32
	sqTail  *uint32
	sqFlags *uint32
	sqMask  uint32
	tail    uint32 // ours, published by flush
	flushed uint32 // the part of tail that the kernel has taken
	cqHead  *uint32
	cqTail  *uint32
	cqMask  uint32

	bufMem   []byte // the receive buffers
	bufRing  []byte
	buffers  []bufEntry
	bufTail  uint16
	bufBytes int
	held     []uint16 // buffers of the last Wait's events

	conns []uconn       // by tag index
	polls map[Tag]uint8 // which have a Readable (1) or Writable (2) pending
	// epoch counts the batches reaped. A send of the current epoch may still turn out short.
	epoch    uint32
	deferred []Tag // sends and closes after a send of the same epoch
	spare    []Tag
	rearm    []Tag            // receives and accepts that the kernel ended
	served   []Tag            // those of them that had data: after the others, which found no buffer
	resting  rest             // listeners that wait for descriptors or memory
	keep     []unsafe.Pointer // memory that unsubmitted entries of closed connections point to
	broken   error            // of a submission that no wait has returned

	events []Event
	arg    eventsArg
	ts     unix.Timespec
}

// giveBack returns a buffer to the kernel once publishBuffers is called.
func (u *uring) giveBack(id uint16) {
	e := &u.buffers[int(u.bufTail)&(len(u.buffers)-1)]
	e.addr = uint64(uintptr(unsafe.Pointer(&u.bufMem[int(id)*u.bufBytes])))
	e.length = uint32(u.bufBytes)
	e.id = id
	u.bufTail++
}

// publishBuffers stores the tail. The kernel reads entries up to the tail with acquire
// (io_uring/kbuf.c), so the entries must be written first; Go's atomic store is at least a release.
// There is no 16-bit atomic: the tail shares its word with the id of entry 0, so it is stored along
// with that id.
func (u *uring) publishBuffers() {
	word := (*uint32)(unsafe.Pointer(&u.buffers[0].id))
	atomic.StoreUint32(word, uint32(u.buffers[0].id)|uint32(u.bufTail)<<16)
}

// next returns a free submission entry, cleared.
func (u *uring) next() *sqe {
	if u.tail-atomic.LoadUint32(u.sqHead) >= uint32(len(u.sqes)) {
		u.submit()
	}
	s := &u.sqes[u.tail&u.sqMask]
	*s = sqe{}
	u.tail++
	return s
}

// submit submits what is queued without waiting; for a full queue.
func (u *uring) submit() {
	for {
		atomic.StoreUint32(u.sqTail, u.tail)
		n := u.tail - u.flushed
		_, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(n), 0, u.enter&enterRegisteredRing, 0, 0)
		u.flushed = atomic.LoadUint32(u.sqHead)
		if u.flushed == u.tail {
			return
		}
		if e != 0 && e != syscall.EINTR && e != syscall.EAGAIN && e != syscall.EBUSY {
			u.broken = os.NewSyscallError("io_uring_enter, queue full", e)
			u.tail = u.flushed // there is no room; the next wait reports it
			return
		}
	}
}

func userData(op uint64, t Tag) uint64 { return op<<56 | uint64(t) }

func (u *uring) wait(p Patience) ([]Event, error) {
	for _, id := range u.held {
		u.giveBack(id)
	}
	if len(u.held) > 0 {
		u.publishBuffers()
		u.held = u.held[:0]
	}
	u.events = u.events[:0]
	u.rearm, p.Timeout = u.resting.over(append(u.rearm, u.served...), p.Timeout)
	for _, t := range u.rearm {
		u.armAgain(t)
	}
	u.rearm, u.served = u.rearm[:0], u.served[:0]
	for len(u.deferred) > 0 {
		if err := u.round(Patience{}); err != nil {
			return nil, err
		}
		u.undefer()
	}
	if len(u.events) > 0 {
		p.Timeout = 0
	}
	err := u.round(p)
	return u.events, err
}

// round submits, waits and reaps. Afterwards the outcome of every submitted send is known: with
// MSG_DONTWAIT it was done inside the submission, and if not whole its completion is among those
// reaped.
func (u *uring) round(p Patience) error {
	if err := u.enterKernel(p); err != nil {
		return err
	}
	if u.tail == u.flushed {
		clear(u.keep)
		u.keep = u.keep[:0]
	}
	u.reap()
	for atomic.LoadUint32(u.sqFlags)&sqCQOverflow != 0 { // the kernel holds overflowed completions, and delivers them on entry
		if err := u.enterKernel(Patience{}); err != nil {
			return err
		}
		u.reap()
	}
	u.epoch++
	return nil
}

func (u *uring) enterKernel(p Patience) error {
	if u.broken != nil {
		return u.broken
	}
	atomic.StoreUint32(u.sqTail, u.tail)
	n := u.tail - u.flushed
	// With DEFER_TASKRUN the kernel posts completions only inside enter, so the ring enters even
	// with nothing to submit or wait for.
	want := uint32(1)
	u.arg.minWaitUs = 0
	// Without a minimum the kernel would wait for all of them until Timeout.
	if us := min(p.GatherFor, p.Timeout, time.Hour) / time.Microsecond; p.Gather > 1 && u.minWait && us > 0 {
		want, u.arg.minWaitUs = uint32(min(p.Gather, len(u.cqes))), uint32(us)
	}
	if p.Timeout <= 0 || *u.cqHead != atomic.LoadUint32(u.cqTail) {
		want = 0
	}
	u.ts = unix.NsecToTimespec(int64(max(p.Timeout, 0)))
	_, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(n), uintptr(want), u.enter,
		uintptr(unsafe.Pointer(&u.arg)), unsafe.Sizeof(u.arg))
	u.flushed = atomic.LoadUint32(u.sqHead)
	switch e {
	case 0, syscall.ETIME, syscall.EINTR, syscall.EAGAIN, syscall.EBUSY:
		return nil
	}
	return os.NewSyscallError("io_uring_enter", e)
}

// reap turns the ready completions into events. It reads the tail with acquire, so the entries
// before it are complete; it stores the head with release after reading them, so that the kernel
// may reuse them.
func (u *uring) reap() {
	head, tail := *u.cqHead, atomic.LoadUint32(u.cqTail)
	for ; head != tail; head++ {
		u.deliver(&u.cqes[head&u.cqMask])
	}
	atomic.StoreUint32(u.cqHead, head)
}

func (u *uring) deliver(c *cqe) {
	t := Tag(c.userData & (1<<56 - 1))
	ev := Event{Tag: t}
	if c.res < 0 {
		ev.Err = syscall.Errno(-c.res)
	}
	switch c.userData >> 56 {
	case doReceive:
		ev.Kind = Received
		if c.flags&cqeBuffer != 0 {
			id := uint16(c.flags >> 16)
			u.held = append(u.held, id)
			if c.res > 0 {
				at := int(id) * u.bufBytes
				ev.Data = u.bufMem[at : at+int(c.res) : at+int(c.res)]
			}
		}
		if c.flags&cqeMore == 0 && u.ended(&ev, c) {
			return
		}
	case doConnect:
		ev.Kind = Connected
		u.connected(t)
	case doAccept:
		ev.Kind, ev.FD = Accepted, int(c.res)
		if c.flags&cqeMore == 0 && u.ended(&ev, c) {
			return
		}
	case doSend:
		u.sent(t, c.res)
		return
	case doClose:
		if u.broken == nil {
			u.broken = os.NewSyscallError("close", ev.Err)
		}
		return
	case doDiscard:
		u.discarded(&ev, c)
	case doPollIn, doPollOut:
		if !u.polled(&ev, c.userData>>56) {
			return
		}
	default: // doCancel: its target had already ended
		return
	}
	u.events = append(u.events, ev)
}
