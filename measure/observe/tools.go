package observe

import (
	"fmt"
	"os"
	"syscall"

	"ceiling/internal/sys"
)

// tools is what the samplers of one observer share. They run one after
// another, so one of each is enough.
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
	maxThreads  int // of all watched processes, each a descriptor
	openThreads int
}

// maxThreads bounds the descriptors that are held for threads; a quarter of
// the limit on open files is the other bound, since the load needs the rest.
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

// threadLimit is how many threads of p may be read.
func (t *tools) threadLimit(p *process) int {
	return len(p.threads) + t.maxThreads - t.openThreads
}

func (t *tools) closeThread(th *thread) {
	if th.file >= 0 {
		closeFile(&th.file)
		t.openThreads--
	}
}

// hasSchedstat tells whether the kernel keeps run and queue times
// (CONFIG_SCHED_INFO).
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
