//go:build linux

package stacks

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The ring of a perf event: a page of counters, then the records. The kernel moves the head and the
// reader the tail (struct perf_event_mmap_page in include/uapi/linux/perf_event.h).
const (
	headAt = 1024
	tailAt = 1032
)

// ring reads records. It belongs to one goroutine.
type ring struct {
	counters []byte
	data     []byte // a power of two long
	record   []byte // a record that wraps around, in one piece
}

func newRing(mapped []byte, page int) ring {
	return ring{counters: mapped[:page], data: mapped[page:]}
}

func (r *ring) counter(at int) *uint64 { return (*uint64)(unsafe.Pointer(&r.counters[at])) }

// read visits every record and frees its space. A record is valid during the visit. Invalid data
// ends the reading: the rest is dropped.
func (r *ring) read(visit func(kind uint32, body []byte)) {
	// The kernel writes a record before it moves the head (smp_store_release in
	// perf_output_put_handle); Go's atomic load is at least an acquire.
	head := atomic.LoadUint64(r.counter(headAt))
	tail := *r.counter(tailAt) // ours
	size := uint64(len(r.data))
	if head-tail > size {
		tail = head
	}
	for tail < head {
		left := head - tail
		if left < 8 {
			break
		}
		first := r.at(tail, 8)
		kind, length := binary.NativeEndian.Uint32(first), uint64(binary.NativeEndian.Uint16(first[6:]))
		if length < 8 || length > left {
			break
		}
		visit(kind, r.at(tail, length)[8:])
		tail += length
	}
	// A store of Go's atomics is a full barrier: the data is read before the kernel may overwrite
	// it.
	atomic.StoreUint64(r.counter(tailAt), head)
}

// at returns a part of the ring in one piece.
func (r *ring) at(from, length uint64) []byte {
	size := uint64(len(r.data))
	from %= size
	if from+length <= size {
		return r.data[from : from+length]
	}
	r.record = append(append(r.record[:0], r.data[from:]...), r.data[:length-(size-from)]...)
	return r.record
}

// Kinds of records (enum perf_event_type).
const (
	recordLost   = 2
	recordFork   = 7
	recordSample = 9
)

// Markers in a stack (enum perf_callchain_context): what follows is the kernel's, or the program's.
const (
	contextKernel = ^uint64(128 - 1) // -128
	contextUser   = ^uint64(512 - 1) // -512
	contextMax    = ^uint64(4095 - 1)
)

// sample is one of PERF_RECORD_SAMPLE, as internal/sys asks for it.
type sample struct {
	pid, tid int
	timeNs   uint64
	// kernel and user frames, innermost first. They point into the record's own copy and are valid
	// until the next one.
	kernel, user []uint64
}

// parse decodes ip u64, pid u32, tid u32, time u64, nr u64, ips[nr]. The kernel's frames come
// first, each part after its marker.
func (s *sample) parse(body []byte) bool {
	if len(body) < 32 {
		return false
	}
	s.pid, s.tid = int(int32(binary.NativeEndian.Uint32(body[8:]))), int(int32(binary.NativeEndian.Uint32(body[12:])))
	s.timeNs = binary.NativeEndian.Uint64(body[16:])
	n := binary.NativeEndian.Uint64(body[24:])
	s.kernel, s.user = s.kernel[:0], s.user[:0]
	body = body[32:]
	if n > uint64(len(body)/8) {
		return false
	}
	into := &s.user
	for range n {
		ip := binary.NativeEndian.Uint64(body)
		body = body[8:]
		switch {
		case ip == contextKernel:
			into = &s.kernel
		case ip == contextUser:
			into = &s.user
		case ip >= contextMax:
			into = nil // a hypervisor's, or a guest's
		case into != nil:
			*into = append(*into, ip)
		}
	}
	return true
}

// parseFork decodes a PERF_RECORD_FORK: pid, ppid, tid, ptid, u32 each.
func parseFork(body []byte) (pid, parent int, ok bool) {
	if len(body) < 16 {
		return 0, 0, false
	}
	pid, parent = int(int32(binary.NativeEndian.Uint32(body))), int(int32(binary.NativeEndian.Uint32(body[4:])))
	return pid, parent, pid != parent
}

// parseLost decodes a PERF_RECORD_LOST: id u64, lost u64.
func parseLost(body []byte) uint64 {
	if len(body) < 16 {
		return 0
	}
	return binary.NativeEndian.Uint64(body[8:])
}
