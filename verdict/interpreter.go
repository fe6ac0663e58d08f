package verdict

import (
	"ceiling/record"
	"slices"
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
func (f *serverSide) fullInterpreters() []processUse {
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
func (f *serverSide) interpretersSay(full []processUse) (next, because []record.Statement) {
	used := 0.0
	for _, p := range full {
		used += p.cores
	}
	return just("interpreter.next", nil), just("interpreter", with{"processes": len(full), "server": f.subjectName(), "used_cores": used,
		"cores": len(f.serverCPUs)})
}
