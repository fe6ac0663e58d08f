//go:build linux

package events

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf/asm"
)

// A tracepoint is one that a program of ours attaches to.
type tracepoint struct {
	name string
	kind Kind
}

// tracepoints lists them. All fire with the socket locked, so a program reads a
// consistent socket, and its events are in order.
//
//   - sk_data_ready(sk), net/core/sock.c: bytes have been queued, rcv_nxt counts them
//   - tcp_rcv_space_adjust(sk), net/ipv4/tcp_input.c: the program has taken bytes,
//     copied_seq counts them. sock_recv_length fires after the socket has been
//     unlocked, for reads that find nothing too, and never for splice.
//   - tcp_sendmsg_locked(sk, msg, skb, size_goal), net/ipv4/tcp.c: a send is about
//     to take bytes over. sock_send_length fires when the send returns, and by then
//     loopback has carried the packet into the other end's socket.
//   - inet_sock_set_state(sk, oldstate, newstate), net/ipv4/af_inet.c: the
//     client's end is no longer established
func tracepoints() []tracepoint {
	return []tracepoint{
		{"sk_data_ready", Arrived},
		{"tcp_rcv_space_adjust", Taken},
		{"tcp_sendmsg_locked", Sending},
		{"inet_sock_set_state", Closing},
	}
}

// Layout of a program's record in the ring buffer, in native byte order.
const (
	atTime      = 0  // u64, ns of CLOCK_MONOTONIC
	atSocket    = 8  // u64, the socket's address: distinguishes two sockets on one port
	atWriteSeq  = 16 // u32
	atRcvNxt    = 20 // u32
	atCopiedSeq = 24 // u32
	atLeft      = 28 // u32: bytes still to be written in Sending, the new state in Closing
	atPort      = 32 // u16, the client's
	atEnd       = 34 // u8, with freshBit
	atKind      = 35 // u8
	atAddress   = 36 // u32, the client's: for IPv6 the last four bytes
	recordSize  = 40

	freshBit = 2 // nothing has been received since the connection was established
)

// What the programs read from the control map, and the counters they keep in it.
const (
	controlSeed      = 0  // u32, odd
	controlThreshold = 4  // u32
	controlLost      = 8  // u64, events that did not fit into the ring buffer
	controlLostNs    = 16 // u64, when the first of them was
	controlSize      = 24
)

// control is a value of the control map.
type control [controlSize]byte

func newControl(seed, threshold uint32) (c control) {
	binary.NativeEndian.PutUint32(c[controlSeed:], seed)
	binary.NativeEndian.PutUint32(c[controlThreshold:], threshold)
	return c
}

// lost returns how many events did not fit, and when the first occurred.
func (c *control) lost() (events uint64, firstNs int64) {
	return binary.NativeEndian.Uint64(c[controlLost:]), int64(binary.NativeEndian.Uint64(c[controlLostNs:]))
}

// sampled reports whether a connection is followed, by the rule of the programs.
func sampled(port uint16, seed, threshold uint32) bool { return uint32(port)*seed <= threshold }

// program builds the program of one tracepoint. Registers: r6 the socket, r7 the tracepoint's
// arguments, r8 the control map's value, r9 the client's port with the end above it.
func (t tracepoint) program(l layout, target netip.AddrPort, controlFD, ringFD int) asm.Instructions {
	bigEndianPort := int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, target.Port())))
	code := asm.Instructions{
		asm.Mov.Reg(asm.R7, asm.R1),
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.JEq.Imm(asm.R6, 0, "out"), // newer verifiers require it if a tracepoint may pass none
		asm.LoadMem(asm.R2, asm.R6, l.remotePort, asm.Half),
		asm.LoadMem(asm.R9, asm.R6, l.localPort, asm.Half),
		asm.JEq.Imm(asm.R2, bigEndianPort, "client"),
		asm.JNE.Imm(asm.R9, int32(target.Port()), "out"),
		asm.Mov.Reg(asm.R9, asm.R2),
		asm.HostTo(asm.BE, asm.R9, asm.Half),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Or.Imm(asm.R9, int32(Server)<<16),
		asm.Ja.Label("sample"),
		asm.Mov.Reg(asm.R2, asm.R9).WithSymbol("client"),
	}
	code = append(code, matchAddress(l, target.Addr())...)
	code = append(code,
		asm.LoadMapValue(asm.R8, controlFD, 0).WithSymbol("sample"),
		asm.LoadMem(asm.R3, asm.R8, controlSeed, asm.Word),
		asm.Mul.Reg32(asm.R2, asm.R3),
		asm.LoadMem(asm.R3, asm.R8, controlThreshold, asm.Word),
		asm.JGT.Reg32(asm.R2, asm.R3, "out"),
	)
	if t.kind == Closing {
		code = append(code, onlyClosing()...)
	}
	code = append(code, t.fill(l, target.Addr())...)
	code = append(code,
		asm.LoadMapPtr(asm.R1, ringFD),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -recordSize),
		asm.Mov.Imm(asm.R3, recordSize),
		asm.Mov.Imm(asm.R4, noWakeup),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R8, controlLostNs, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "count"),
		asm.LoadMem(asm.R1, asm.RFP, atTime-recordSize, asm.DWord),
		asm.StoreMem(asm.R8, controlLostNs, asm.R1, asm.DWord), // on a race both are nearly equal
		asm.Mov.Imm(asm.R1, 1).WithSymbol("count"),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Add.Imm(asm.R2, controlLost),
		asm.StoreXAdd(asm.R2, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	return code
}

// States of a socket that is no longer established: include/net/tcp_states.h.
const (
	finWait1  = 4
	closeWait = 8
	lastAck   = 9
)

// onlyClosing exits unless a client's socket leaves the established state.
func onlyClosing() asm.Instructions {
	return asm.Instructions{
		asm.JGE.Imm(asm.R9, int32(Server)<<16, "out"),
		asm.LoadMem(asm.R2, asm.R7, 16, asm.DWord), // the third argument
		asm.JLT.Imm32(asm.R2, finWait1, "out"),
		asm.JGT.Imm32(asm.R2, lastAck, "out"),
	}
}

// noWakeup is BPF_RB_NO_WAKEUP: the reader drains the ring after the burst, and waking it costs
// more than the event.
const noWakeup = 1

// matchAddress exits for a client's socket that is not connected to the target. An IPv6 socket with
// an IPv4 peer keeps that address in skc_daddr too.
func matchAddress(l layout, target netip.Addr) (code asm.Instructions) {
	word := func(b []byte) int32 { return int32(binary.NativeEndian.Uint32(b)) }
	switch {
	case target.IsUnspecified():
	case target.Is4():
		b := target.As4()
		code = asm.Instructions{
			asm.LoadMem(asm.R3, asm.R6, l.remoteV4, asm.Word),
			asm.JNE.Imm32(asm.R3, word(b[:]), "out"),
		}
	default:
		b := target.As16()
		for i := 0; i < 16; i += 4 {
			code = append(code,
				asm.LoadMem(asm.R3, asm.R6, l.remoteV6+int16(i), asm.Word),
				asm.JNE.Imm32(asm.R3, word(b[i:]), "out"))
		}
	}
	return code
}

// fill builds the record on the stack.
func (t tracepoint) fill(l layout, target netip.Addr) asm.Instructions {
	store := func(at int16, from asm.Register, size asm.Size) asm.Instruction {
		return asm.StoreMem(asm.RFP, at-recordSize, from, size)
	}
	code := asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		store(atTime, asm.R0, asm.DWord),
		store(atSocket, asm.R6, asm.DWord),
		store(atPort, asm.R9, asm.Half),
		asm.RSh.Imm(asm.R9, 16),
		asm.Mov.Imm(asm.R2, int32(t.kind)),
		store(atKind, asm.R2, asm.Byte),
	}
	local, remote := l.localV4, l.remoteV4
	if target.Is6() && !target.IsUnspecified() {
		local, remote = l.localV6+12, l.remoteV6+12
	}
	code = append(code,
		asm.LoadMem(asm.R2, asm.R6, local, asm.Word),
		asm.JEq.Imm(asm.R9, int32(Client), "address"),
		asm.LoadMem(asm.R2, asm.R6, remote, asm.Word),
		store(atAddress, asm.R2, asm.Word).WithSymbol("address"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, l.received, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "served"),
		asm.Or.Imm(asm.R9, freshBit),
		store(atEnd, asm.R9, asm.Byte).WithSymbol("served"),
	)
	for _, f := range []struct{ at, from int16 }{{atWriteSeq, l.writeSeq}, {atRcvNxt, l.rcvNxt}, {atCopiedSeq, l.copiedSeq}} {
		code = append(code, asm.LoadMem(asm.R1, asm.R0, f.from, asm.Word), store(f.at, asm.R1, asm.Word))
	}
	switch t.kind {
	case Closing:
		return append(code, asm.LoadMem(asm.R1, asm.R7, 16, asm.DWord), store(atLeft, asm.R1, asm.Word))
	case Arrived, Taken:
		return append(code, asm.Mov.Imm(asm.R1, 0), store(atLeft, asm.R1, asm.Word))
	}
	return append(code,
		asm.LoadMem(asm.R2, asm.R7, 8, asm.DWord), // the second argument: struct msghdr *
		asm.JEq.Imm(asm.R2, 0, "out"),
		asm.LoadMem(asm.R1, asm.R2, l.left, asm.Word),
		store(atLeft, asm.R1, asm.Word),
	)
}
