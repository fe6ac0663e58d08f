package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// kernelTable has the kernel's functions by where they begin: 120,000 in 4 MB.
// Those that it was built with stay; modules and BPF programs, which lie
// elsewhere, come and go.
type kernelTable struct {
	functions []kernelFunction
	text      []byte
	built     struct{ from, to uint64 } // where the first and the last of them begin
	loaded    string                    // what else there was, as loadedNow has it
}

type kernelFunction struct {
	start    uint64
	from, to uint32 // its name in text
}

// resolveKernel names the kernel's addresses.
func (n *Names) resolveKernel(addrs []uint64, frames map[Address]Frame) []string {
	if len(addrs) == 0 {
		return nil
	}
	if n.kernel == nil || !n.kernel.knows(addrs) {
		t, err := openKallsyms()
		if err != nil {
			return []string{fmt.Sprintf("names of the kernel's functions: %v", err)}
		}
		n.kernel = t
	}
	for _, a := range addrs {
		if name := n.kernel.name(a); name != "" {
			frames[Address{nil, a}] = Frame{Name: name, Package: Kernel, Mapped: true}
		}
	}
	return nil
}

// loadedMost bounds the BPF programs that are listed.
const loadedMost = 10_000

// loadedNow tells apart what the kernel has loaded besides itself: a module by
// its name and address, a BPF program by its number, which is given once. false:
// it may not be asked.
func loadedNow() (list string, ok bool) {
	var b strings.Builder
	modules, err := readBounded("/proc/modules")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without modules has no such file
		return "", false
	}
	for line := range bytes.Lines(modules) { // name, size, users, used by, state, address
		if f := bytes.Fields(line); len(f) >= 6 {
			fmt.Fprintf(&b, "%s %s\n", f[0], f[5])
		}
	}
	id := ebpf.ProgramID(0)
	for range loadedMost {
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break
		}
		fmt.Fprintln(&b, id)
	}
	return b.String(), errors.Is(err, fs.ErrNotExist)
}

// openKallsyms reads the functions that there are now.
func openKallsyms() (*kernelTable, error) {
	loaded, ok := loadedNow() // before: what is loaded meanwhile makes another list
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readKallsyms(f)
	if err != nil {
		return nil, err
	}
	if t.loaded = loaded; !ok {
		t.loaded = "not known" // no list is that
	}
	return t, nil
}

// readKallsyms reads the kernel's functions from /proc/kallsyms: "ffffffff81000000
// T name", of a module or a BPF program with a tab and its owner behind. Where the
// kernel hides its addresses they are all 0.
func readKallsyms(r io.Reader) (*kernelTable, error) {
	t := &kernelTable{}
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
			name, _, loaded := bytes.Cut(rest[2:], []byte("\t"))
			t.add(start, name)
			if !loaded {
				t.built.to = max(t.built.to, start)
				if t.built.from == 0 || start < t.built.from {
					t.built.from = start
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	if hidden {
		return nil, errors.New("the kernel hides its symbols (kernel.kptr_restrict): run as root")
	}
	// Of several at one address the first stays the first.
	slices.SortStableFunc(t.functions, func(a, b kernelFunction) int { return cmp.Compare(a.start, b.start) })
	return t, nil
}

func (t *kernelTable) add(start uint64, name []byte) {
	from := uint32(len(t.text))
	t.text = append(t.text, name...)
	t.functions = append(t.functions, kernelFunction{start, from, uint32(len(t.text))})
}

// knows tells whether the table is as true of some addresses as it was when it
// was read.
func (t *kernelTable) knows(addrs []uint64) bool {
	if !slices.ContainsFunc(addrs, func(a uint64) bool { return a < t.built.from || a > t.built.to }) {
		return true
	}
	loaded, ok := loadedNow()
	return ok && loaded == t.loaded
}

// name is that of the function which begins last at or before an address, of
// several there the first; "" where none reaches so far.
func (t *kernelTable) name(a uint64) string {
	find := func(start uint64) (int, bool) {
		return slices.BinarySearchFunc(t.functions, start, func(f kernelFunction, a uint64) int { return cmp.Compare(f.start, a) })
	}
	i, exact := find(a)
	if !exact {
		if i == 0 {
			return ""
		}
		i, _ = find(t.functions[i-1].start)
	}
	f := &t.functions[i]
	if a-f.start >= functionMax {
		return ""
	}
	return string(t.text[f.from:min(f.to, f.from+nameMax)])
}
