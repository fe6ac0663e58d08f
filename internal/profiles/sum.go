package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Sum summarises one value of a profile.
type Sum struct {
	Unit  string
	Total int64
	// Blocks has the total of each block, Processes that of each process.
	Blocks    []int64
	Processes map[string]int64
	// Functions by self value, largest first.
	Functions []Function
}

// Function is the cost of one function.
type Function struct {
	Name, File string
	Line       int // line of the largest part
	// Through is the runtime function that it waits in, for waits.
	Through string
	// Self is the function's own value, Total includes its callees.
	Self, Total int64
	// Blocks is Self per block.
	Blocks []int64
}

// Blame chooses the frame that a sample is attributed to: its index, innermost first.
type Blame func(frames []Frame) int

// Frame is a frame of a stack.
type Frame struct {
	Name, File string
	Line       int
	// Object is the program or library, if known.
	Object string
}

// Innermost blames the running function.
func Innermost([]Frame) int { return 0 }

// Waiting blames the innermost function of the program itself, where a wait can be fixed. Without
// one it blames the innermost function outside the kernel, the runtime and sync.
func Waiting(frames []Frame) int {
	second := -1
	for i := range frames {
		switch {
		case IsRuntime(frames[i].Name, frames[i].Object):
		case !IsStandard(frames[i].Name):
			return i
		case second < 0:
			second = i
		}
	}
	return max(second, 0)
}

// IsRuntime reports whether a function is common to all waits: of the kernel, of the C library,
// of Go's runtime.
func IsRuntime(name, object string) bool {
	for _, prefix := range []string{"runtime.", "sync.", "internal/", "syscall.", "sync/atomic."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, prefix := range []string{"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"} {
		if strings.HasPrefix(object, prefix) {
			return true
		}
	}
	return object == "kernel" || object == "vdso"
}

// IsStandard reports whether a function is in Go's standard library, by the first element of its
// package path, which no module can use.
func IsStandard(name string) bool {
	dir, base := "", name
	if i := strings.LastIndexByte(strings.SplitN(name, "[", 2)[0], '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	root, _, _ := strings.Cut(dir, "/")
	if root == "" {
		root, _, _ = strings.Cut(base, ".")
		if root == base {
			return false // no package: another language
		}
	}
	return slices.Contains([]string{
		"archive", "bufio", "bytes", "compress", "container", "context", "crypto", "database", "debug", "embed", "encoding", "errors", "expvar",
		"flag", "fmt", "go", "hash", "html", "image", "index", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin",
		"reflect", "regexp", "slices", "sort", "strconv", "strings", "structs", "testing", "text", "time", "unicode", "unique", "vendor", "weak",
	}, root)
}

// WithoutProfilers removes the samples of Go's own profilers, which block, allocate and run while
// a profile is fetched.
func WithoutProfilers(p *profile.Profile) {
	p.Sample = slices.DeleteFunc(p.Sample, func(s *profile.Sample) bool {
		return slices.ContainsFunc(Frames(s), func(f Frame) bool {
			return strings.HasPrefix(f.Name, "net/http/pprof.") || strings.HasPrefix(f.Name, "runtime/pprof.") ||
				strings.HasPrefix(f.Name, "runtime/trace.")
		})
	})
}

// Frames returns the named frames of a sample, innermost first.
func Frames(s *profile.Sample) []Frame {
	var list []Frame
	for _, loc := range s.Location {
		object := ""
		if loc.Mapping != nil {
			object = loc.Mapping.File
		}
		if len(loc.Line) == 0 {
			list = append(list, Frame{Name: fmt.Sprintf("[%s]", cmp.Or(object[strings.LastIndexByte(object, '/')+1:], "unknown")), Object: object})
		}
		for _, line := range loc.Line {
			f := Frame{Name: "[unknown]", Object: object, Line: int(line.Line)}
			if line.Function != nil {
				f.Name, f.File = cmp.Or(line.Function.Name, "[unknown]"), line.Function.Filename
			}
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		list = []Frame{{Name: "[unknown]"}}
	}
	return list
}

// IsIdle reports whether a sample is a wait of a thread with nothing to do.
func IsIdle(s *profile.Sample) bool { return len(s.Label[Idle]) > 0 }

// blockOf returns the block of a sample, -1 if it has none.
func blockOf(s *profile.Sample) int {
	if n := s.NumLabel[Block]; len(n) == 1 && n[0] >= 1 && n[0] < blocksMax {
		return int(n[0]) - 1
	}
	return -1
}

// blocksMax limits the blocks of a run: a foreign profile may contain anything.
const blocksMax = 10_000

// sums is a Sum under construction.
type sums struct {
	blame Blame
	of    map[functionKey]*Function
	lines map[functionKey]map[place]int64
}

// functionKey identifies a function. It omits the file: an inlined line may belong to another
// one.
type functionKey struct{ name, object string }

type place struct {
	file string
	line int
}

// Summarize summarises one value of a profile, without idle waits.
func Summarize(p *profile.Profile, value, blocks int, blame Blame) Sum {
	out := Sum{Unit: p.SampleType[value].Unit, Blocks: make([]int64, blocks), Processes: map[string]int64{}}
	sum := sums{blame, map[functionKey]*Function{}, map[functionKey]map[place]int64{}}
	for _, s := range p.Sample {
		v := s.Value[value]
		if v <= 0 || IsIdle(s) {
			continue
		}
		out.Total += v
		block := blockOf(s)
		if block >= 0 && block < blocks {
			out.Blocks[block] += v
		} else {
			block = -1
		}
		if name := s.Label[Process]; len(name) > 0 {
			out.Processes[name[0]] += v
		}
		sum.add(Frames(s), v, block, blocks)
	}
	for k, f := range sum.of {
		most := int64(0)
		for at, v := range sum.lines[k] {
			if v > most || v == most && (at.file < f.File || at.file == f.File && at.line < f.Line) {
				f.File, f.Line, most = at.file, at.line, v
			}
		}
		out.Functions = append(out.Functions, *f)
	}
	slices.SortFunc(out.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return out
}

func (sum *sums) add(frames []Frame, v int64, block, blocks int) {
	seen := map[functionKey]bool{}
	guilty := sum.blame(frames)
	for i, f := range frames {
		k := functionKey{f.Name, f.Object}
		one := sum.of[k]
		if one == nil {
			one = &Function{Name: f.Name, File: f.File, Line: f.Line, Blocks: make([]int64, blocks)}
			sum.of[k], sum.lines[k] = one, map[place]int64{}
		}
		if !seen[k] {
			seen[k] = true
			one.Total += v
		}
		if i != guilty {
			continue
		}
		one.Self += v
		sum.lines[k][place{f.File, f.Line}] += v
		if guilty > 0 {
			one.Through = frames[0].Name
		}
		if block >= 0 {
			one.Blocks[block] += v
		}
	}
}

// Fold writes a profile as folded stacks (Gregg): one "process;outermost;…;innermost value" per
// line, largest first, without idle waits.
func Fold(p *profile.Profile, value int) []byte {
	lines := map[string]int64{}
	for _, s := range p.Sample {
		if s.Value[value] <= 0 || IsIdle(s) {
			continue
		}
		var b strings.Builder
		if name := s.Label[Process]; len(name) > 0 {
			b.WriteString(Foldable(name[0]) + ";")
		}
		frames := Frames(s)
		for i := len(frames) - 1; i >= 0; i-- {
			b.WriteString(Foldable(frames[i].Name))
			if i > 0 {
				b.WriteByte(';')
			}
		}
		lines[b.String()] += s.Value[value]
	}
	order := make([]string, 0, len(lines))
	for line := range lines {
		order = append(order, line)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b)) })
	var out []byte
	for _, line := range order {
		out = fmt.Appendf(out, "%s %d\n", line, lines[line])
	}
	return out
}

// Foldable removes characters from a name that are special to the format or a terminal.
func Foldable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ';' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
}

// Node is a function and its callees.
type Node struct {
	Name, File, Object string
	Self, Total        int64
	Calls              []*Node // largest first

	calls map[functionKey]*Node
}

// Tree merges the stacks from their outermost frames, without idle waits. It omits what takes
// less than least, a share of the total.
func Tree(p *profile.Profile, value int, least float64) *Node {
	root := &Node{Name: "all"}
	for _, s := range p.Sample {
		v := s.Value[value]
		if v <= 0 || IsIdle(s) {
			continue
		}
		at := root
		at.Total += v
		for _, f := range slices.Backward(Frames(s)) {
			at = at.call(f)
			at.Total += v
		}
		at.Self += v
	}
	root.prune(int64(least * float64(root.Total)))
	return root
}

func (n *Node) call(f Frame) *Node {
	k := functionKey{f.Name, f.Object}
	c := n.calls[k]
	if c == nil {
		c = &Node{Name: f.Name, File: f.File, Object: f.Object}
		if n.calls == nil {
			n.calls = map[functionKey]*Node{}
		}
		n.calls[k] = c
		n.Calls = append(n.Calls, c)
	}
	return c
}

func (n *Node) prune(least int64) {
	n.Calls = slices.DeleteFunc(n.Calls, func(c *Node) bool { return c.Total < max(least, 1) })
	slices.SortFunc(n.Calls, func(a, b *Node) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	n.calls = nil
	for _, c := range n.Calls {
		c.prune(least)
	}
}
