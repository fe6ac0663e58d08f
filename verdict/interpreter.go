package verdict

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
)

// Bounds of the CPU of a process whose interpreter is at work all the time: what
// its threads do in system calls goes on beside it.
const (
	interpreterFull = 0.85
	interpreterMost = 1.3
)

// fullInterpreters are the server's processes in which one thread at a time runs
// code, and always one does: CPython and Ruby have one lock for that. No thread
// of theirs is full, for they take turns.
func (f *facts) fullInterpreters() []processUse {
	if f.run.Stacks == nil {
		return nil
	}
	var full []processUse
	for _, p := range f.run.Stacks.Processes {
		if p.Runtime != "python" && p.Runtime != "ruby" {
			continue
		}
		i := slices.IndexFunc(f.subject.processes, func(u processUse) bool { return u.pid == p.PID })
		if i < 0 {
			continue
		}
		if u := f.subject.processes[i]; u.cores >= interpreterFull && u.cores <= interpreterMost && u.busiest < threadFull {
			full = append(full, u)
		}
	}
	return full
}

// interpretersSay is what to do about them, and the finding.
func (f *facts) interpretersSay(full []processUse) (next, because string) {
	used, who := 0.0, f.subjectName()
	for _, p := range full {
		used += p.cores
	}
	if len(full) > 1 {
		who = fmt.Sprintf("each of %d processes of %s", len(full), who)
	}
	return "run more processes of the server: its interpreter lets one thread of each run at a time",
		fmt.Sprintf("single-threaded server: the threads of %s run one at a time under the interpreter's lock, and used %.2f of %s", who, used,
			unit.Plural(len(f.serverCPUs), "core", "cores"))
}
