//go:build linux

package stacks

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"ceiling/internal/btf"
)

// The program on the scheduler's context switches. When a thread of a target leaves its
// CPU, it stores the time, both stacks, the state and the system call; when the thread
// returns it adds the off-CPU time to the sum of equal waits.
//
//	targets  process → 1
//	started  thread → start (48 bytes)
//	waits    wait (48 bytes) → ns u64, times u64
//	stacks   id → addresses, the innermost first
//
// It is loaded once and attached in bursts: between them it costs nothing.

// start is the state kept for an off-CPU thread. The order is the program's.
type start struct {
	AtNs    uint64 // 0: bpf_ktime_get_ns
	Kernel  int32  // 8: ids of stacks; negative: none
	User    int32  // 12
	Call    int64  // 16: number of the system call, -1 outside of one
	Arg     uint64 // 24: its first argument; of poll on one descriptor, that
	Process uint32 // 32
	State   uint32 // 36: 0 runnable, preempted; 1 asleep; 2 uninterruptible; for a futex, its operation above 8 bits
	_       uint64
}

// wait is the key of a sum.
type wait struct {
	Process, Thread uint32
	Kernel, User    int32
	Call            int64
	Arg             uint64
	State           uint32
	_               uint32
}

// sum is the value of a sum.
type sum struct{ Ns, Times uint64 }

const (
	startBytes = 48
	waitBytes  = 40
	sumBytes   = 16

	targetsMax = 4096
	startedMax = 16384
	waitsMax   = 8192
	stacksSlot = 8192
)

// switches is the loaded program with its maps.
type switches struct {
	program                         *ebpf.Program
	targets, started, waits, stacks *ebpf.Map
}

// layout has the offsets of what the program reads in the kernel (BTF).
type layout struct {
	arguments int // of the tracepoint sched_switch
	pid       int16
	state     int16 // of the thread, if the tracepoint does not provide it
	call, arg int16 // of the registers; -1: unknown on this architecture
	arg2      int16
}

// loadSwitches loads the program, or says why it cannot.
func loadSwitches() (*switches, error) {
	kernel, err := btf.Read()
	if err != nil {
		return nil, err
	}
	s := &switches{}
	at, err := layoutOf(kernel)
	if err == nil {
		err = s.load(at, kernel)
	}
	if err = errors.Join(err, kernel.Close()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *switches) load(at layout, kernel *btf.Types) (err error) {
	for _, m := range []struct {
		into **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&s.targets, ebpf.MapSpec{Name: "targets", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: targetsMax}},
		{&s.started, ebpf.MapSpec{Name: "started", Type: ebpf.Hash, KeySize: 4, ValueSize: startBytes, MaxEntries: startedMax}},
		{&s.waits, ebpf.MapSpec{Name: "waits", Type: ebpf.Hash, KeySize: waitBytes, ValueSize: sumBytes, MaxEntries: waitsMax}},
		{&s.stacks, ebpf.MapSpec{Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: 8 * framesMax, MaxEntries: stacksSlot}},
	} {
		if *m.into, err = ebpf.NewMap(&m.spec); err != nil {
			return permitted(fmt.Errorf("make a BPF map: %w", err))
		}
	}
	if s.program, err = kernel.Load("switches", "sched_switch", s.instructions(at)); err != nil {
		return permitted(fmt.Errorf("load the BPF program: %w", err))
	}
	return nil
}

// permitted says what would permit it.
func permitted(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w; run as root, or with CAP_BPF and CAP_PERFMON", err)
	}
	return err
}

func (s *switches) close() error {
	var err error
	if s.program != nil {
		err = s.program.Close()
	}
	for _, m := range []*ebpf.Map{s.targets, s.started, s.waits, s.stacks} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

func layoutOf(kernel *btf.Types) (layout, error) {
	at := layout{state: -1, call: -1, arg: -1, arg2: -1}
	var err error
	if _, at.arguments, err = kernel.Tracepoint("sched_switch"); err != nil {
		return at, err
	}
	if at.pid, err = kernel.Offset("task_struct", "pid"); err != nil {
		return at, err
	}
	offset := func(of, name string) int16 {
		if at, err := kernel.Offset(of, name); err == nil {
			return at
		}
		return -1 // this kernel, or this architecture, has none
	}
	// __state since 5.14, state before.
	if at.state = offset("task_struct", "__state"); at.state < 0 {
		at.state = offset("task_struct", "state")
	}
	// x86, and arm64, whose first argument stays in orig_x0.
	for _, names := range [][3]string{{"orig_ax", "di", "si"}, {"syscallno", "orig_x0", ""}} {
		call, arg := offset("pt_regs", names[0]), offset("pt_regs", names[1])
		if call >= 0 && arg >= 0 {
			at.call, at.arg, at.arg2 = call, arg, offset("pt_regs", names[2])
			break
		}
	}
	return at, nil
}

// Offsets on the program's stack.
const (
	atKey  = -4  // u32
	atFile = -16 // s32, of a pollfd
	atNew  = -64 // start, 48 bytes
	atWait = -64 // wait, 40 bytes
	atSum  = -80 // sum
)

const userStack = 1 << 8 // BPF_F_USER_STACK

func (s *switches) instructions(at layout) asm.Instructions {
	return append(append(append(s.leave(at), s.systemCall(at)...), s.keep()...), s.enter(at)...)
}

// place loads the address of a stack slot into a register.
func place(r asm.Register, at int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(r, asm.RFP), asm.Add.Imm(r, at)}
}

// leave: r6 is the context, r7 the thread that leaves.
func (s *switches) leave(at layout) asm.Instructions {
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, atKey, asm.R0, asm.Word),
		asm.StoreMem(asm.RFP, atNew+32, asm.R0, asm.Word), // process
		asm.LoadMapPtr(asm.R1, s.targets.FD()),
	}
	out = append(out, place(asm.R2, atKey)...)
	out = append(out,
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "enter"),
		asm.StoreMem(asm.RFP, atKey, asm.R8, asm.Word), // thread
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, atNew, asm.R0, asm.DWord),
	)
	for _, stack := range []struct {
		flags int32
		into  int16
	}{{0, atNew + 8}, {userStack, atNew + 12}} {
		out = append(out,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, s.stacks.FD()),
			asm.Mov.Imm(asm.R3, stack.flags),
			asm.FnGetStackid.Call(),
			asm.StoreMem(asm.RFP, stack.into, asm.R0, asm.Word),
		)
	}
	// The state: 0 if it was preempted, whatever it was about to do.
	out = append(out, asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), asm.Mov.Imm(asm.R2, 0), asm.And.Imm(asm.R1, 1),
		asm.JNE.Imm(asm.R1, 0, "state"))
	if at.arguments >= 4 {
		out = append(out, asm.LoadMem(asm.R2, asm.R6, 24, asm.DWord))
	} else {
		out = append(out, asm.LoadMem(asm.R2, asm.R7, at.state, asm.Word))
	}
	return append(out,
		asm.And.Imm(asm.R2, 0xff),
		asm.StoreMem(asm.RFP, atNew+36, asm.R2, asm.Word).WithSymbol("state"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, atNew+40, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, atNew+24, asm.R1, asm.DWord), // argument
		asm.Mov.Imm(asm.R1, -1),
		asm.StoreMem(asm.RFP, atNew+16, asm.R1, asm.DWord), // system call
	)
}

// systemCall finds which one the thread is in, and its argument. r9 holds its registers.
func (s *switches) systemCall(at layout) asm.Instructions {
	if at.call < 0 {
		return nil
	}
	size := asm.DWord
	out := asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnTaskPtRegs.Call(),
		asm.JEq.Imm(asm.R0, 0, "keep"),
		asm.Mov.Reg(asm.R9, asm.R0),
	}
	if at.arg2 < 0 { // arm64: an int
		size = asm.Word
	}
	out = append(out,
		asm.LoadMem(asm.R1, asm.R9, at.call, size),
		asm.StoreMem(asm.RFP, atNew+16, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R9, at.arg, asm.DWord),
		asm.StoreMem(asm.RFP, atNew+24, asm.R2, asm.DWord),
	)
	if at.arg2 < 0 || pollNumber < 0 {
		return out
	}
	// futex: the operation distinguishes a lock from a condition.
	out = append(out,
		asm.JNE.Imm(asm.R1, int32(syscall.SYS_FUTEX), "poll"),
		asm.LoadMem(asm.R3, asm.R9, at.arg2, asm.DWord),
		asm.And.Imm(asm.R3, 0x7f), // without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
		asm.LSh.Imm(asm.R3, 8),
		asm.LoadMem(asm.R4, asm.RFP, atNew+36, asm.Word),
		asm.Or.Reg(asm.R4, asm.R3),
		asm.StoreMem(asm.RFP, atNew+36, asm.R4, asm.Word),
		asm.Ja.Label("keep"),
	)
	// poll on one descriptor: it is in the program's memory.
	out = append(out,
		asm.JNE.Imm(asm.R1, pollNumber, "keep").WithSymbol("poll"),
		asm.LoadMem(asm.R1, asm.R9, at.arg2, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.Mov.Imm(asm.R2, -1),
		asm.StoreMem(asm.RFP, atNew+24, asm.R2, asm.DWord),
		asm.JNE.Imm(asm.R1, 1, "keep"),
	)
	out = append(out, place(asm.R1, atFile)...)
	return append(out,
		asm.Mov.Imm(asm.R2, 4),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "keep"),
		asm.LoadMem(asm.R1, asm.RFP, atFile, asm.Word),
		asm.StoreMem(asm.RFP, atNew+24, asm.R1, asm.DWord),
	)
}

func (s *switches) keep() asm.Instructions {
	out := asm.Instructions{asm.LoadMapPtr(asm.R1, s.started.FD()).WithSymbol("keep")}
	out = append(out, place(asm.R2, atKey)...)
	out = append(out, place(asm.R3, atNew)...)
	return append(out, asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
}

// enter: the thread that arrives. r7 is its start, r8 how long it was away.
func (s *switches) enter(at layout) asm.Instructions {
	out := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord).WithSymbol("enter"),
		asm.LoadMem(asm.R1, asm.R7, at.pid, asm.Word),
		asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, atWait+4, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, s.started.FD()),
	}
	out = append(out, place(asm.R2, atKey)...)
	out = append(out,
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R1, asm.R7, 0, asm.DWord),
		asm.Sub.Reg(asm.R8, asm.R1),
		asm.LoadMem(asm.R1, asm.R7, 32, asm.Word),
		asm.StoreMem(asm.RFP, atWait, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R7, 8, asm.DWord), // both stacks
		asm.StoreMem(asm.RFP, atWait+8, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, 16, asm.DWord),
		asm.StoreMem(asm.RFP, atWait+16, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, 24, asm.DWord),
		asm.StoreMem(asm.RFP, atWait+24, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, 36, asm.Word),
		asm.StoreMem(asm.RFP, atWait+32, asm.R1, asm.DWord), // and nothing after it
		asm.LoadMapPtr(asm.R1, s.waits.FD()),
	)
	out = append(out, place(asm.R2, atWait)...)
	out = append(out,
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "first"),
		asm.StoreXAdd(asm.R0, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R1, 1),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Ja.Label("forget"),
		asm.StoreMem(asm.RFP, atSum, asm.R8, asm.DWord).WithSymbol("first"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, atSum+8, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.waits.FD()),
	)
	out = append(out, place(asm.R2, atWait)...)
	out = append(out, place(asm.R3, atSum)...)
	out = append(out, asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call(),
		asm.LoadMapPtr(asm.R1, s.started.FD()).WithSymbol("forget"))
	out = append(out, place(asm.R2, atKey)...)
	return append(out,
		asm.FnMapDeleteElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	)
}
