//go:build linux

package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"ceiling/internal/sys"
)

// Space is the address space of one process.
type Space struct {
	PID  int
	Comm string
	// Runtime of the program, one of the constants below.
	Runtime string

	maps  []Mapping
	inner int // PID in its own PID namespace
}

// Runtimes, recognized by the process's mappings.
const (
	Go     = "go"
	Java   = "java"
	Python = "python"
	Node   = "node"
	PHP    = "php"
	Ruby   = "ruby"
	DotNet = "dotnet"
	Erlang = "erlang"
	Perl   = "perl"
	Native = "native"
)

// OpenSpace reads a process's code mappings. It requires the right to trace it: its user, or root.
func OpenSpace(pid int) (*Space, error) {
	s := &Space{PID: pid, inner: pid}
	dir := fmt.Sprintf("/proc/%d/", pid)
	text, err := readBounded(dir + "maps")
	if err != nil {
		return nil, err
	}
	s.maps = ParseMaps(text)
	if comm, err := readBounded(dir + "comm"); err == nil {
		s.Comm = string(bytes.TrimSpace(comm))
	}
	if status, err := readBounded(dir + "status"); err == nil {
		s.inner = innerPID(status, pid)
	}
	s.Runtime = s.runtime()
	return s, nil
}

// Refresh adds the mappings made since; known ones stay.
func (s *Space) Refresh() {
	text, err := readBounded(fmt.Sprintf("/proc/%d/maps", s.PID))
	if err != nil {
		return // it has ended: the earlier mappings serve
	}
	for _, m := range ParseMaps(text) {
		if old := find(s.maps, m.Start); old == nil && len(s.maps) < mappingsMax {
			s.maps = append(s.maps, m)
		}
	}
	sortMappings(s.maps)
}

// mapsMax bounds the text of /proc/PID/maps: with 65,530 mappings, the kernel's usual limit, it has
// about 6 MB.
const mapsMax = 32 << 20

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mapsMax))
}

// innerPID returns the last number of "NSpid:" in /proc/PID/status.
func innerPID(status []byte, pid int) int {
	all := sys.Field(status, "NSpid")
	if n, err := strconv.Atoi(all[strings.LastIndexAny(all, "\t ")+1:]); err == nil {
		return n
	}
	return pid
}

// runtime returns the runtime of the program.
func (s *Space) runtime() string {
	if f, err := openRegular(fmt.Sprintf("/proc/%d/exe", s.PID)); err == nil {
		defer f.Close()
		if p, err := openProgram(f); err == nil && p.isGo() {
			return Go
		}
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID))
	if err != nil {
		exe = ""
	}
	return runtimeOf(path.Base(exe), s.maps)
}

// runtimeOf detects it by the names of the program and its libraries.
func runtimeOf(exe string, maps []Mapping) string {
	for _, m := range maps {
		name := path.Base(m.Path)
		for _, r := range [...]struct{ prefix, runtime string }{
			{"libjvm.so", Java}, {"libpython", Python}, {"libnode.so", Node}, {"libphp", PHP},
			{"libruby", Ruby}, {"libcoreclr.so", DotNet}, {"libperl.so", Perl},
		} {
			if strings.HasPrefix(name, r.prefix) {
				return r.runtime
			}
		}
	}
	for _, r := range [...]struct{ prefix, runtime string }{
		{"python", Python}, {"pypy", Python}, {"nodejs", Node}, {"node", Node}, {"php", PHP}, {"ruby", Ruby}, {"beam", Erlang}, {"perl", Perl},
	} {
		if strings.HasPrefix(exe, r.prefix) {
			return r.runtime
		}
	}
	return Native
}

// openRegular opens an untrusted file, but nothing that could block a reader, such as a pipe by
// that name.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// open opens the file behind a mapping: through the mapping itself, which requires root and finds
// deleted files and those in a container, or else by its name there.
func (s *Space) open(m *Mapping) (*os.File, error) {
	f, err := openRegular(fmt.Sprintf("/proc/%d/map_files/%x-%x", s.PID, m.Start, m.End))
	if err == nil {
		return f, nil
	}
	name := strings.TrimSuffix(m.Path, " (deleted)")
	if f, err = openRegular(fmt.Sprintf("/proc/%d/root%s", s.PID, name)); err == nil {
		return f, nil
	}
	if _, gone := os.Stat(fmt.Sprintf("/proc/%d", s.PID)); gone != nil {
		return openRegular(name) // the process has ended; its program file has not
	}
	return nil, err
}

// perfMap opens the process's perf map.
func (s *Space) perfMap() (*os.File, error) {
	return openRegular(fmt.Sprintf("/proc/%d/root/tmp/perf-%d.map", s.PID, s.inner))
}
