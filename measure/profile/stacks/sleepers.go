//go:build linux

package stacks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"

	"ceiling/internal/sys"
)

// Threads that are asleep when a burst begins: their switch has passed, so what they wait for is
// read from /proc, and given to the program as if it had seen them leave. Their user stack is not
// available. Without them every wait longer than the burst would be missing, and of the others the
// part before their first switch: a fifth of waits of 20 ms.

// sleptBefore is the ID of their stack.
const sleptBefore = -1 << 16

// sleepers passes them to the program, and counts the server's threads.
func (o *OffSampler) sleepers(pids []int) (threads int, err error) {
	looked := 0
	for _, pid := range pids {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue // it has ended
		}
		if o.members.peerOf(pid) == nil {
			threads += len(entries)
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if looked++; looked > sleepersMax {
				o.lost++
				continue
			}
			at := uint64(sys.MonotonicNs())
			b, arg, ok := sleeper(pid, tid)
			if !ok {
				continue
			}
			o.now.asleep[tid] = b
			one := start{AtNs: at, Kernel: sleptBefore, User: sleptBefore, Call: b.call, Arg: arg, Process: uint32(pid), State: b.state}
			// One that has left its CPU since is already there, with its stack.
			err = o.s.started.Update(uint32(tid), one, ebpf.UpdateNoExist)
			if err != nil && !errors.Is(err, ebpf.ErrKeyExist) && !errors.Is(err, syscall.E2BIG) {
				return threads, fmt.Errorf("name a thread to the kernel: %w", err)
			}
		}
	}
	return threads, nil
}

// sleeper reads what a thread sleeps in; not ok: it is running, or has ended.
func sleeper(pid, tid int) (b *blocked, arg uint64, ok bool) {
	dir := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	text, err := os.ReadFile(dir + "syscall")
	if err != nil {
		return nil, 0, false
	}
	call, args, ok := parseSyscall(text)
	if !ok {
		return nil, 0, false
	}
	stack, err := os.ReadFile(dir + "stack")
	if err != nil {
		return nil, 0, false
	}
	b = &blocked{call: call, state: 1, names: parseKernelStack(stack)}
	if len(b.names) == 0 {
		return nil, 0, false
	}
	arg = args[0]
	switch {
	case call == syscall.SYS_FUTEX:
		b.state |= uint32(args[1]&0x7f) << stateBits
	case call == pollNumber && args[1] != 1:
		arg = 1<<64 - 1
	case call == pollNumber:
		arg = pollFile(pid, args[0])
	}
	return b, arg, true
}

// parseSyscall parses /proc/PID/syscall: the number and six arguments in hexadecimal; "running" and
// "-1 …" (outside of a call) are not ok.
func parseSyscall(text []byte) (call int64, args [6]uint64, ok bool) {
	fields := bytes.Fields(text)
	if len(fields) < 7 {
		return 0, args, false
	}
	call, err := strconv.ParseInt(string(fields[0]), 10, 32)
	if err != nil || call < 0 {
		return 0, args, false
	}
	for i := range args {
		if args[i], err = strconv.ParseUint(strings.TrimPrefix(string(fields[1+i]), "0x"), 16, 64); err != nil {
			return 0, args, false
		}
	}
	return call, args, true
}

// parseKernelStack parses /proc/PID/stack: "[<0>] futex_do_wait+0x35/0x60", innermost first.
func parseKernelStack(text []byte) []string {
	var names []string
	for line := range bytes.Lines(text) {
		_, rest, ok := bytes.Cut(line, []byte("] "))
		if !ok {
			continue
		}
		name, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte("+"))
		if len(name) > 0 && len(names) < framesMax {
			names = append(names, string(name[:min(len(name), 128)]))
		}
	}
	return names
}

// pollFile reads the descriptor of a pollfd in a process's memory.
func pollFile(pid int, at uint64) uint64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 1<<64 - 1
	}
	defer f.Close()
	var fd [4]byte
	if _, err := f.ReadAt(fd[:], int64(at)); err != nil {
		return 1<<64 - 1
	}
	return uint64(binary.NativeEndian.Uint32(fd[:]))
}
