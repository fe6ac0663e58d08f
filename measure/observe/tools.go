//go:build linux

package observe

import (
	"fmt"
	"os"
	"syscall"

	"ceiling/internal/sys"
)

// tools is what the samplers of one observer share. They run one after another, so one of each
// suffices.
type tools struct {
	r     reader
	list  lister
	path  path
	link  [4096]byte // PATH_MAX
	names *interned

	proc    string // "/proc"
	sysfs   string // "/sys"
	procDir int    // descriptor of proc

	pageBytes   int64
	maxThreads  int // over all watched processes, each a descriptor
	openThreads int
}

// maxThreads bounds the descriptors held for threads; a quarter of the limit on open files is the
// other bound, since the load needs the rest.
const maxThreads = 1024

func newTools(proc, sysfs string) (*tools, error) {
	t := &tools{
		names: newInterned(), proc: proc, sysfs: sysfs,
		pageBytes: int64(os.Getpagesize()), maxThreads: maxThreads,
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("ask for the limit on open files: %w", err)
	}
	t.maxThreads = int(min(maxThreads, limit.Cur/4))
	var err error
	if t.procDir, err = openFile(proc); err != nil {
		return nil, err
	}
	return t, nil
}

// threadLimit returns how many threads of p may be read.
func (t *tools) threadLimit(p *process) int {
	return len(p.usage.threads) + t.maxThreads - t.openThreads
}

func (t *tools) closeThread(th *thread) {
	if th.file >= 0 {
		closeFile(&th.file)
		t.openThreads--
	}
}

// hasSchedstat reports whether the kernel keeps run and queue times (CONFIG_SCHED_INFO).
func (t *tools) hasSchedstat() bool {
	fd, err := sys.OpenBelow(t.procDir, t.path.of("self/schedstat").end())
	if err != nil {
		return false
	}
	defer closeFile(&fd)
	text, err := t.r.single(fd)
	var s sys.Schedstat
	return err == nil && sys.ParseSchedstat(text, &s) == nil
}

func (t *tools) close() { closeFile(&t.procDir) }

// interned keeps one string per distinct text, so that the names that kernel files repeat ten times
// a second (interfaces, commands, kernel functions) are allocated once.
type interned struct {
	known map[string]string
}

// maxInterned bounds the table. A host has some tens of such names; only a program that keeps
// renaming its threads can reach this.
const maxInterned = 4096

func newInterned() *interned {
	return &interned{known: make(map[string]string)}
}

// of returns the text as a string.
func (t *interned) of(text []byte) string {
	if s, ok := t.known[string(text)]; ok {
		return s
	}
	if len(t.known) >= maxInterned {
		clear(t.known)
	}
	s := string(text)
	t.known[s] = s
	return s
}
