//go:build linux

package ring

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func openUring(c Config) (*uring, error) {
	base := uint32(setupCQSize | setupClamp | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun)
	u := &uring{realFD: -1, polls: map[Tag]uint8{}}
	var p uringParams
	for _, flags := range []uint32{base | setupNoSQArray, base} {
		limit := lockedMemory()
		fd, e := setup(flags, &p)
		for tries := 0; e == syscall.ENOMEM && limit == math.MaxUint64 && tries < setupTries; tries++ {
			time.Sleep(setupRest)
			fd, e = setup(flags, &p)
		}
		if e == 0 {
			u.realFD = fd
			break
		}
		if e != syscall.EINVAL || flags == base {
			return nil, setupError(e, limit)
		}
	}
	if p.features&(featSingleMmap|featExtArg) != featSingleMmap|featExtArg {
		return nil, errors.Join(errors.New("io_uring lacks a needed feature (Linux 6.1 has them all)"), u.shut())
	}
	u.minWait = p.features&featMinTimeout != 0
	if err := u.mapRings(&p); err != nil {
		return nil, errors.Join(err, u.shut())
	}
	if err := u.provideBuffers(c); err != nil {
		return nil, errors.Join(err, u.shut())
	}
	u.fd, u.enter = registered(u.realFD)
	u.granted = grantedNames(p.flags, u.minWait, u.enter&enterRegisteredRing != 0)
	u.arg.ts = uint64(uintptr(unsafe.Pointer(&u.ts))) // u is on the heap, which does not move
	u.events = make([]Event, 0, 1024)
	u.epoch = 1
	return u, nil
}

// setupTries and setupRest bound how often a ring is asked for again. The kernel wants 512 KiB of it in
// one piece (io_uring/memmap.c io_mem_alloc_compound), and begins to compact the host's memory when
// there is none: with 10 GiB free in small pieces it refused 4 of some thousand rings once.
const (
	setupTries = 20
	setupRest  = 10 * time.Millisecond
)

func setup(flags uint32, p *uringParams) (fd int, e syscall.Errno) {
	*p = uringParams{flags: flags, cqEntries: cqWanted}
	r, _, e := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, sqWanted, uintptr(unsafe.Pointer(p)), 0)
	return int(r), e
}

// setupError says how to fix a refusal. Since Linux 6.14 (io_uring/memmap.c io_create_region), as
// before 5.12, rings count as locked memory of their user, whose processes share the limit;
// CAP_IPC_LOCK exempts a process.
func setupError(e syscall.Errno, limit uint64) error {
	switch {
	case e != syscall.ENOMEM:
		return fmt.Errorf("io_uring_setup: %w", e)
	case limit == math.MaxUint64:
		return fmt.Errorf("io_uring_setup: %w: the host, or this cgroup, has no 770 KiB for a ring; free some, or take the engine epoll", e)
	}
	return fmt.Errorf("io_uring_setup: %w: all rings of this user together may lock %d KiB, and one takes 770; raise ulimit -l, or take the engine epoll", e, limit>>10)
}

// lockedMemory returns the limit in bytes; none if the process is exempt or the limit cannot be
// read.
func lockedMemory() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err == nil && caps[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 {
		return math.MaxUint64
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return math.MaxUint64
	}
	return l.Cur
}

func grantedNames(flags uint32, minWait, registered bool) []string {
	names := []string{"SINGLE_ISSUER", "DEFER_TASKRUN", "MULTISHOT_RECV", "PBUF_RING"}
	if flags&setupNoSQArray != 0 {
		names = append(names, "NO_SQARRAY")
	}
	if minWait {
		names = append(names, "MIN_TIMEOUT")
	}
	if registered {
		names = append(names, "REGISTERED_RING")
	}
	return names
}

func (u *uring) mapRings(p *uringParams) error {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := max(int(p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(cqe{}))), int(p.sq.array+p.sqEntries*4))
	var err error
	if u.rings, err = unix.Mmap(u.realFD, 0, size, prot, flags); err != nil {
		return fmt.Errorf("map io_uring: %w", err)
	}
	if u.sqeMem, err = unix.Mmap(u.realFD, sqOffsetSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})), prot, flags); err != nil {
		return fmt.Errorf("map io_uring entries: %w", err)
	}
	at := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[off])) }
	u.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&u.sqeMem[0])), p.sqEntries)
	u.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&u.rings[p.cq.cqes])), p.cqEntries)
	u.sqHead, u.sqTail, u.sqMask = at(p.sq.head), at(p.sq.tail), *at(p.sq.ringMask)
	u.sqFlags = at(p.sq.flags)
	u.cqHead, u.cqTail, u.cqMask = at(p.cq.head), at(p.cq.tail), *at(p.cq.ringMask)
	if p.flags&setupNoSQArray == 0 { // the array maps slots to entries; ours is the identity
		array := unsafe.Slice(at(p.sq.array), p.sqEntries)
		for i := range array {
			array[i] = uint32(i)
		}
	}
	return nil
}

// provideBuffers registers the ring of receive buffers, group 0.
func (u *uring) provideBuffers(c Config) error {
	n := c.Buffers
	if n < 1 || n > 32768 || n&(n-1) != 0 {
		return fmt.Errorf("ring: %d receive buffers; a power of two up to 32768 is needed", n)
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	var err error
	if u.bufRing, err = unix.Mmap(-1, 0, n*int(unsafe.Sizeof(bufEntry{})), prot, flags|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("map buffer ring: %w", err)
	}
	if u.bufMem, err = unix.Mmap(-1, 0, n*c.BufferBytes, prot, flags); err != nil {
		return fmt.Errorf("map receive buffers: %w", err)
	}
	reg := struct {
		addr    uint64
		entries uint32
		group   uint16
		flags   uint16
		_       [3]uint64
	}{addr: uint64(uintptr(unsafe.Pointer(&u.bufRing[0]))), entries: uint32(n)}
	if _, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(u.realFD), registerPbufRing, uintptr(unsafe.Pointer(&reg)), 1, 0,
		0); e != 0 {
		return fmt.Errorf("io_uring_register PBUF_RING: %w", e)
	}
	u.buffers = unsafe.Slice((*bufEntry)(unsafe.Pointer(&u.bufRing[0])), n)
	u.bufBytes = c.BufferBytes
	for id := range n {
		u.giveBack(uint16(id))
	}
	u.publishBuffers()
	u.held = make([]uint16, 0, n)
	return nil
}

// registered saves the kernel a descriptor look-up per enter: it returns the ring's place among the
// registered ones and the flags of an enter. A failure, after which that is the descriptor itself, is not
// worth reporting.
func registered(realFD int) (fd int, enter uintptr) {
	up := ringUpdate{offset: ^uint32(0), data: uint64(realFD)}
	n, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(realFD), registerRingFDs, uintptr(unsafe.Pointer(&up)), 1, 0, 0)
	if e == 0 && n == 1 {
		return int(up.offset), enterGetEvents | enterExtArg | enterRegisteredRing
	}
	return realFD, enterGetEvents | enterExtArg
}

// shut cancels what is armed before it closes: the kernel ends a closed ring's requests in a worker
// (io_uring/io_uring.c io_ring_exit_work), and until then they hold their sockets open.
func (u *uring) shut() error {
	var err error
	if u.rings != nil && u.sqes != nil && u.realFD >= 0 {
		err = u.cancelEverything()
	}
	if u.enter&enterRegisteredRing != 0 { // the registration holds the ring too
		up := ringUpdate{offset: uint32(u.fd)}
		if _, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(u.realFD), unregisterRingFDs, uintptr(unsafe.Pointer(&up)), 1, 0,
			0); e != 0 {
			err = errors.Join(err, fmt.Errorf("io_uring_register, give the ring's place back: %w", e))
		}
	}
	if u.realFD >= 0 {
		err = errors.Join(err, os.NewSyscallError("close io_uring", syscall.Close(u.realFD)))
	}
	for _, m := range [][]byte{u.rings, u.sqeMem, u.bufRing, u.bufMem} {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
		}
	}
	*u = uring{realFD: -1}
	return err
}

// cancelEverything also does what is queued, and closes connections that were accepted but never
// reported, since no caller knows of them.
//
// What was cancelled one by one must have ended before the rest is cancelled: looking for all there are,
// the kernel begins at the first request each time, also at those that it has found already
// (io_uring/poll.c __io_poll_cancel), which for 10,000 took 0.8 s. An enter ends about 20 of them
// (io_uring/io_uring.c IO_LOCAL_TW_DEFAULT_MAX).
func (u *uring) cancelEverything() error {
	for len(u.deferred) > 0 {
		if err := u.round(Patience{}); err != nil {
			return err
		}
		u.undefer()
	}
	if err := u.settle(); err != nil {
		return err
	}
	s := u.next()
	s.opcode, s.fd, s.opFlags = opAsyncCancel, -1, cancelAll|cancelAny
	s.userData, s.flags = userData(doCancel, 0), sqeCQESkipSuccess
	return u.settle()
}

// settle goes on until nothing ends any more.
func (u *uring) settle() error {
	for {
		before := *u.cqHead
		u.events = u.events[:0]
		if err := u.round(Patience{}); err != nil {
			return err
		}
		for _, ev := range u.events {
			if ev.Kind == Accepted && ev.Err == 0 {
				if err := syscall.Close(ev.FD); err != nil {
					return os.NewSyscallError("close accepted", err)
				}
			}
		}
		if *u.cqHead == before && u.flushed == u.tail {
			return nil
		}
	}
}
