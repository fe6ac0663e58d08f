//go:build linux

package observe

import (
	"encoding/binary"
	"slices"

	"ceiling/record"
)

// struct tcp_info (include/uapi/linux/tcp.h) only grows at its end, so an old kernel's is shorter.
// Offsets in bytes; times are µs.
const (
	infoSendMSS      = 16  // u32 bytes
	infoUnacked      = 24  // u32 segments
	infoRTT          = 68  // u32
	infoCwnd         = 80  // u32 segments
	infoTotalRetrans = 100 // u32 segments
	infoBytesAcked   = 120 // u64, sent and acknowledged
	infoBytesRecv    = 128 // u64
	infoSegsOut      = 136 // u32
	infoSegsIn       = 140 // u32
	infoNotSent      = 144 // u32 bytes written that have not left yet
	infoMinRTT       = 148 // u32, all ones: none yet
	infoBusyTime     = 168 // u64
	infoRwndLimited  = 176 // u64
	infoSndbufLimit  = 184 // u64

	infoBytesSent    = 200 // u64, retransmissions included
	infoBytesRetrans = 208 // u64

	infoGaugesEnd   = infoTotalRetrans + 4 // any kernel since 2.6
	infoCountersEnd = infoSndbufLimit + 8  // since 4.10
	infoFlowEnd     = infoBytesRetrans + 8 // since 4.19
)

// flowOf returns how far an end has come; unknown on a kernel before 4.19.
func flowOf(p []byte) flow {
	if len(p) < infoFlowEnd {
		return flow{}
	}
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(p[at:]) }
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(p[at:]) }
	unsent, flying := u32(infoNotSent), u32(infoUnacked)
	return flow{
		known: true, sent: u64(infoBytesSent) - u64(infoBytesRetrans), received: u64(infoBytesRecv), unsent: uint64(unsent),
		heldBack: unsent > 0 && unsent < u32(infoSendMSS) && flying > 0 && flying < u32(infoCwnd),
	}
}

// tcpInfo has the fields in use.
type tcpInfo struct {
	rttUs, minRTTUs, cwnd, unacked uint32
	counters                       tcpCounts
	short                          bool // ends before the counters
}

// tcpCounts are the fields that only grow while the connection lives. Segments are 32 bits wide and
// wrap.
type tcpCounts struct {
	retrans, segsOut, segsIn uint32
	acked, received          uint64
	busyUs, rwndUs, sndbufUs uint64
}

const noMinRTT = 1<<32 - 1

// parseTCPInfo decodes a struct tcp_info; false if it ends before the oldest fields.
func parseTCPInfo(p []byte, t *tcpInfo) bool {
	if len(p) < infoGaugesEnd {
		return false
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(p[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(p[at:]) }
	*t = tcpInfo{rttUs: u32(infoRTT), cwnd: u32(infoCwnd), unacked: u32(infoUnacked), minRTTUs: noMinRTT}
	if len(p) < infoCountersEnd {
		t.short = true
		return true
	}
	t.minRTTUs = u32(infoMinRTT)
	t.counters = tcpCounts{
		retrans: u32(infoTotalRetrans), segsOut: u32(infoSegsOut), segsIn: u32(infoSegsIn),
		acked: u64(infoBytesAcked), received: u64(infoBytesRecv),
		busyUs: u64(infoBusyTime), rwndUs: u64(infoRwndLimited), sndbufUs: u64(infoSndbufLimit),
	}
	return true
}

// endInfo collects one end of the connections over one dump. Cookies identify sockets from one dump
// to the next.
type endInfo struct {
	rtts      []uint32
	prev, cur map[uint64]tcpCounts
	row       record.EndTCPInfo
}

// begin drops the dump before the last.
func (e *endInfo) begin() {
	if e.cur == nil {
		e.prev, e.cur = make(map[uint64]tcpCounts), make(map[uint64]tcpCounts)
	}
	e.prev, e.cur = e.cur, e.prev
	clear(e.cur)
	e.rtts = e.rtts[:0]
	e.row = record.EndTCPInfo{}
}

// add adds one socket.
func (e *endInfo) add(cookie uint64, t *tcpInfo) {
	r := &e.row
	r.Sockets++
	e.rtts = append(e.rtts, t.rttUs)
	if t.minRTTUs != noMinRTT && (r.RTTMinUs == 0 || int64(t.minRTTUs) < r.RTTMinUs) {
		r.RTTMinUs = int64(t.minRTTUs)
	}
	if r.Sockets == 1 || int64(t.cwnd) < r.CwndMin {
		r.CwndMin = int64(t.cwnd)
	}
	r.UnackedSegs += int64(t.unacked)
	if t.short {
		r.Short++
		return
	}
	e.cur[cookie] = t.counters
	was, ok := e.prev[cookie]
	if !ok {
		return
	}
	is := &t.counters
	r.Matched++
	r.RetransSegs += int64(is.retrans - was.retrans)
	r.SentSegs += int64(is.segsOut - was.segsOut)
	r.RecvSegs += int64(is.segsIn - was.segsIn)
	r.AckedBytes += int64(is.acked - was.acked)
	r.RecvBytes += int64(is.received - was.received)
	r.BusyNs += int64(is.busyUs-was.busyUs) * 1000
	r.RwndNs += int64(is.rwndUs-was.rwndUs) * 1000
	r.SndbufNs += int64(is.sndbufUs-was.sndbufUs) * 1000
}

// finish fills in the quantiles: the value that the share of sockets is at or below (nearest rank).
func (e *endInfo) finish() {
	if len(e.rtts) == 0 {
		return
	}
	slices.Sort(e.rtts)
	at := func(percent int) int64 {
		rank := (len(e.rtts)*percent + 99) / 100
		return int64(e.rtts[max(rank, 1)-1])
	}
	e.row.RTTp50Us, e.row.RTTp90Us, e.row.RTTp99Us, e.row.RTTMaxUs = at(50), at(90), at(99), at(100)
}
