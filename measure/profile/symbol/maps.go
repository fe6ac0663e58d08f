//go:build linux

// Package symbol turns addresses of running programs into names: native code by the tables of its
// ELF files, Go code by its line table, JIT-compiled code by the perf map that its process writes,
// the kernel's by /proc/kallsyms. The observed processes write its input, so every reader is
// bounded and accepts any bytes.
package symbol

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// Mapping is an executable part of a process's memory.
type Mapping struct {
	Start, End uint64
	Offset     uint64 // of Start in the file
	Device     string // "fe:00"
	Inode      uint64
	Path       string // as the process sees it; "[vdso]", or "" for anonymous memory
}

// mappingsMax bounds the executable mappings of a process: a large Java server has some hundred.
const mappingsMax = 4096

// ParseMaps parses the executable mappings of /proc/PID/maps, by address; it skips malformed lines.
func ParseMaps(text []byte) []Mapping {
	var list []Mapping
	for line := range bytes.Lines(text) {
		if m, ok := parseMapping(bytes.TrimSuffix(line, []byte("\n"))); ok {
			if list = append(list, m); len(list) == mappingsMax {
				break
			}
		}
	}
	sortMappings(list)
	return list
}

func sortMappings(list []Mapping) {
	slices.SortFunc(list, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) })
}

// parseMapping parses a line: 55d0c8a00000-55d0c8a2c000 r-xp 00002000 fe:00 1234   /bin/x
func parseMapping(line []byte) (Mapping, bool) {
	var m Mapping
	span, rest, _ := bytes.Cut(line, []byte(" "))
	modes, rest, _ := bytes.Cut(rest, []byte(" "))
	offset, rest, _ := bytes.Cut(rest, []byte(" "))
	device, rest, _ := bytes.Cut(rest, []byte(" "))
	inode, path, _ := bytes.Cut(rest, []byte(" "))
	if len(modes) < 3 || modes[2] != 'x' {
		return m, false
	}
	low, high, ok := bytes.Cut(span, []byte("-"))
	var errs [4]error
	m.Start, errs[0] = strconv.ParseUint(string(low), 16, 64)
	m.End, errs[1] = strconv.ParseUint(string(high), 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(string(offset), 16, 64)
	m.Inode, errs[3] = strconv.ParseUint(string(inode), 10, 64)
	if !ok || errs != [4]error{} || m.End <= m.Start {
		return m, false
	}
	m.Device, m.Path = string(device), string(bytes.TrimLeft(path, " "))
	return m, true
}

// find returns the mapping that contains an address; nil if none does. Hostile maps may overlap:
// then it is the one that begins last before it.
func find(list []Mapping, addr uint64) *Mapping {
	i, found := slices.BinarySearchFunc(list, addr, func(m Mapping, a uint64) int { return cmp.Compare(m.Start, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= list[i].End {
		return nil
	}
	return &list[i]
}
