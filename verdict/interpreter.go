package verdict

import (
	"slices"

	"ceiling/record"
)

// Bounds for the CPU of a process whose interpreter is always busy; threads in system calls use
// CPU in addition.
const (
	interpreterFull = 0.85
	interpreterMost = 1.3
)

// fullInterpreters returns the server's processes in which one thread at a time runs code, and
// one always does: CPython and Ruby have one lock for that. None of their threads is full,
// because they take turns.
func (f *serverSide) fullInterpreters() []processUse {
	if f.base.run.Stacks == nil {
		return nil
	}
	var full []processUse
	for _, p := range f.base.run.Stacks.Processes {
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

// interpretersSay returns the finding and what to do about it.
func (f *serverSide) interpretersSay(full []processUse) (next, because []record.Statement) {
	used := 0.0
	for _, p := range full {
		used += p.cores
	}
	return just("interpreter.next", nil), just("interpreter", with{"processes": len(full), "server": f.subjectName(), "used_cores": used,
		"cores": len(f.cpus)})
}
