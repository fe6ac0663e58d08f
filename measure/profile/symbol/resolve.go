//go:build linux

package symbol

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Address is an address of a process, or of the kernel if Space is nil.
type Address struct {
	Space *Space
	At    uint64
}

// Frame is a symbolized address.
type Frame struct {
	// Name of the function; "": unknown.
	Name string
	// Package of the function: Go's import path, Java's package, a script's module, else the file
	// of the program or library, "kernel".
	Package string
	// File and Line of the source, if the tables have them.
	File string
	Line int
	// Mapped reports whether the address is code at all. Without frame pointers a stack may end in
	// addresses that are not.
	Mapped bool
}

// Kernel is the package of the kernel's functions.
const Kernel = "kernel"

// Names for what has none.
const (
	jit  = "code made at run time"
	vdso = "vdso"
)

// file is one program or library, shared by any number of processes.
type file struct {
	device string
	inode  uint64
	path   string
}

// want has the addresses requested of a file, by offset.
type want struct {
	space   *Space
	mapping *Mapping
	offsets map[uint64][]Address
}

// Resolve symbolizes addresses. missing says what had no symbols, at most one sentence per file.
func (n *Names) Resolve(list []Address) (frames map[Address]Frame, missing []string) {
	frames = make(map[Address]Frame, len(list))
	files := map[file]*want{}
	made := map[*Space][]uint64{}
	var kernel []uint64
	for _, a := range list {
		if _, seen := frames[a]; seen {
			continue
		}
		if a.Space == nil {
			kernel = append(kernel, a.At)
			frames[a] = Frame{Package: Kernel, Mapped: true}
			continue
		}
		m := find(a.Space.maps, a.At)
		switch {
		case m == nil:
			frames[a] = Frame{}
		case strings.HasPrefix(m.Path, "/") && m.Inode != 0 && !strings.HasPrefix(m.Path, "/memfd:") && !strings.HasPrefix(m.Path, "/dev/zero"):
			key := file{m.Device, m.Inode, m.Path}
			w := files[key]
			if w == nil {
				w = &want{a.Space, m, map[uint64][]Address{}}
				files[key] = w
			}
			offset := a.At - m.Start + m.Offset
			w.offsets[offset] = append(w.offsets[offset], a)
			frames[a] = Frame{Package: strings.TrimSuffix(path.Base(m.Path), " (deleted)"), Mapped: true}
		case m.Path == "[vdso]":
			frames[a] = Frame{Name: "[vdso]", Package: vdso, Mapped: true}
		default:
			made[a.Space] = append(made[a.Space], a.At)
			frames[a] = Frame{Package: jit, Mapped: true}
		}
	}
	missing = append(missing, n.resolveKernel(kernel, frames)...)
	for _, key := range slices.SortedFunc(maps.Keys(files), func(a, b file) int { return strings.Compare(a.path, b.path) }) {
		missing = append(missing, files[key].resolve(n, frames)...)
	}
	for s, addrs := range made {
		missing = append(missing, s.resolveMade(addrs, frames)...)
	}
	slices.Sort(missing)
	return frames, slices.Compact(missing)
}

// resolve symbolizes the addresses of one file.
func (w *want) resolve(n *Names, frames map[Address]Frame) []string {
	name := path.Base(w.mapping.Path)
	f, err := w.space.open(w.mapping)
	if err != nil {
		return []string{fmt.Sprintf("names of %s: %v", name, err)}
	}
	p, done, err := n.program(f)
	if err != nil {
		return []string{fmt.Sprintf("names of %s: %v", name, err)}
	}
	defer done()
	linked := map[uint64][]Address{}
	for offset, who := range w.offsets {
		if a, ok := p.address(offset); ok {
			linked[a] = append(linked[a], who...)
		}
	}
	addrs := slices.Sorted(maps.Keys(linked))
	found, full := p.lookup(addrs)
	if err := p.readErr(); err != nil {
		return []string{fmt.Sprintf("names of %s: %v", name, err)}
	}
	if !full && w.debug(n, p, addrs, found) {
		full = true
	}
	named := 0
	for a, who := range linked {
		at, ok := found[a]
		if !ok {
			continue
		}
		named++
		for _, one := range who {
			frames[one] = frameOf(at, frames[one].Package, p.isGo())
		}
	}
	if !full && named < len(linked) {
		return []string{fmt.Sprintf("names of %d of %d addresses in %s: it was stripped of its symbols; install its debug symbols",
			len(linked)-named, len(linked), name)}
	}
	return nil
}

// debug adds names from a distribution's separate debug file.
func (w *want) debug(n *Names, p *program, addrs []uint64, found map[uint64]place) bool {
	name := p.debugFile()
	if name == "" {
		return false
	}
	f, err := openRegular(fmt.Sprintf("/proc/%d/root%s", w.space.PID, name))
	if err != nil {
		if f, err = openRegular(name); err != nil {
			return false
		}
	}
	d, done, err := n.program(f)
	if err != nil {
		return false
	}
	defer done()
	more, full := d.lookup(addrs)
	maps.Copy(found, more)
	return full
}

// frameOf converts a symbol to a frame.
func frameOf(at place, module string, isGo bool) Frame {
	if isGo && at.file != "" {
		return Frame{Name: at.name, Package: goPackage(at.name), File: at.file, Line: max(at.line, 0), Mapped: true}
	}
	name := at.name
	if strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") {
		if plain := demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.MaxLength(nameMaxLog)); plain != "" {
			name = plain
		}
	}
	// "memcpy@@GLIBC_2.14": the version is not part of the name.
	name, _, _ = strings.Cut(name, "@")
	return Frame{Name: name, Package: module, File: at.file, Line: max(at.line, 0), Mapped: true}
}

// nameMaxLog bounds the length of a demangled name, 2^9 characters: a short mangled one can expand
// to gigabytes.
const nameMaxLog = 9

// goPackage is the import path of a function: "encoding/json" of
// "encoding/json.(*Decoder).Decode".
func goPackage(name string) string {
	name, _, _ = strings.Cut(name, "[")
	slash := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return "runtime" // assembly without a package: memeqbody, gogo
	}
	return strings.ReplaceAll(name[:slash+dot], "%2e", ".")
}

// resolveMade symbolizes JIT-compiled code.
func (s *Space) resolveMade(addrs []uint64, frames map[Address]Frame) []string {
	slices.Sort(addrs)
	f, err := s.perfMap()
	if err != nil {
		why := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			why = "the process writes no perf map" + perfMapHow(s.Runtime)
		}
		return []string{fmt.Sprintf("names of %d addresses of code that process %d (%s) made at run time: %s", len(addrs), s.PID, s.Comm, why)}
	}
	defer f.Close()
	names, err := readPerfMap(f, addrs)
	for a, name := range names {
		frames[Address{s, a}] = madeFrame(name)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// perfMapHow says how to make a runtime write one.
func perfMapHow(runtime string) string {
	switch runtime {
	case Node:
		return ": start it with node --perf-basic-prof"
	case Java:
		return ": start it with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, or run jcmd PID Compiler.perfmap"
	case Python:
		return ": start it with python3 -X perf (3.12 and later)"
	case DotNet:
		return ": start it with DOTNET_PerfMapEnabled=1"
	}
	return ""
}
