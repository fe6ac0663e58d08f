//go:build linux

package symbol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// resolveKernel names the kernel's addresses. It asks the kernel for each, which takes 2 µs; if
// that is not possible, it reads all of its 150,000 names, which takes 50 ms.
func (n *Names) resolveKernel(addrs []uint64, frames map[Address]Frame) []string {
	if len(addrs) == 0 {
		return nil
	}
	ask := kallsyms
	if n.kernel == nil {
		n.kernel, _ = openKernelNames() // on failure kallsyms may still be readable
	}
	if n.kernel != nil {
		ask = n.kernel.names
	}
	found, err := ask(addrs)
	for a, name := range found {
		frames[Address{nil, a}] = Frame{Name: name, Package: Kernel, Mapped: true}
	}
	if err != nil {
		return []string{fmt.Sprintf("names of the kernel's functions: %v", err)}
	}
	return nil
}

// kernelNames is a BPF program that prints an address by name: with %pS, as the kernel prints its
// own stacks, "tcp_sendmsg+0x2d/0x50", for a module or a BPF program followed by a space and its
// owner in brackets.
type kernelNames struct {
	program        *ebpf.Program // takes the address
	format, answer *ebpf.Map     // one text each
}

// kernelNameBytes holds the longest name: KSYM_SYMBOL_LEN is some 600 bytes.
const kernelNameBytes = 1024

// openKernelNames loads the program: Linux 5.14, as root or with CAP_BPF and
// CAP_PERFMON.
func openKernelNames() (*kernelNames, error) {
	k := &kernelNames{}
	var err error
	if k.answer, err = ebpf.NewMap(textMap("answer", make([]byte, kernelNameBytes), 0)); err != nil {
		return nil, fmt.Errorf("make a BPF map: %w", err)
	}
	// The format must be in read-only memory.
	k.format, err = ebpf.NewMap(textMap("format", []byte("%pS\x00"), readOnlyForPrograms))
	if err == nil {
		err = k.format.Freeze()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a BPF map: %w", err), k.close())
	}
	k.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "kernel_names", Type: ebpf.Syscall, Flags: sleepable, License: "Dual MIT/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R3, asm.R1, 0, asm.DWord),
			asm.StoreMem(asm.RFP, -8, asm.R3, asm.DWord),
			asm.LoadMapValue(asm.R1, k.answer.FD(), 0),
			asm.Mov.Imm(asm.R2, kernelNameBytes),
			asm.LoadMapValue(asm.R3, k.format.FD(), 0),
			asm.Mov.Reg(asm.R4, asm.RFP),
			asm.Add.Imm(asm.R4, -8),
			asm.Mov.Imm(asm.R5, 8),
			asm.FnSnprintf.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load the BPF program: %w", err), k.close())
	}
	return k, nil
}

func textMap(name string, text []byte, flags uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(text)), MaxEntries: 1, Flags: flags,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: text}},
	}
}

// Flags of maps and programs (include/uapi/linux/bpf.h).
const (
	readOnlyForPrograms = 1 << 7 // BPF_F_RDONLY_PROG
	sleepable           = 1 << 4 // BPF_F_SLEEPABLE
)

func (k *kernelNames) close() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.program.Close(), k.format.Close(), k.answer.Close()) // closing nil does nothing
}

// names returns the name of each; one outside of any function has none.
func (k *kernelNames) names(addrs []uint64) (map[uint64]string, error) {
	found := make(map[uint64]string, len(addrs))
	var answer [kernelNameBytes]byte
	for _, a := range addrs {
		if _, err := k.program.Run(&ebpf.RunOptions{Context: a}); err != nil {
			return found, err
		}
		if err := k.answer.Lookup(uint32(0), &answer); err != nil {
			return found, err
		}
		text, _, _ := bytes.Cut(answer[:], []byte{0})
		if name := kernelNameOf(text); name != "" {
			found[a] = name
		}
	}
	return found, nil
}

// kernelNameOf extracts the function from what the kernel prints for an address, which is just
// "0xffffffff81000000" outside of any.
func kernelNameOf(text []byte) string {
	text, _, _ = bytes.Cut(text, []byte(" "))
	at := bytes.LastIndex(text, []byte("+0x"))
	if at <= 0 {
		return ""
	}
	offset, _, _ := bytes.Cut(text[at+3:], []byte("/"))
	if n, err := strconv.ParseUint(string(offset), 16, 64); err != nil || n >= functionMax {
		return ""
	}
	return string(text[:min(at, nameMax)])
}

// kallsyms reads the names from /proc/kallsyms.
func kallsyms(addrs []uint64) (map[uint64]string, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readKallsyms(f, addrs)
}

// readKallsyms names addresses from /proc/kallsyms: "ffffffff81000000 T name", for a module or a
// BPF program followed by a tab and its owner. If the kernel hides its addresses they are all 0.
func readKallsyms(r io.Reader, addrs []uint64) (map[uint64]string, error) {
	n := newNearest(slices.Compact(slices.Sorted(slices.Values(addrs))))
	hidden := true
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		first, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		start, err := strconv.ParseUint(string(first), 16, 64)
		if err != nil || start == 0 || len(rest) < 3 {
			continue
		}
		hidden = false
		switch rest[0] {
		case 't', 'T', 'w', 'W':
			if at, ok := n.wants(start, 0); ok {
				name, _, _ := bytes.Cut(rest[2:], []byte("\t"))
				n.keep(at, start, 0, name)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	if hidden {
		return nil, errors.New("the kernel hides its symbols (kernel.kptr_restrict): run as root")
	}
	return n.names(), nil
}
