package run

import (
	"maps"
	"slices"
	"sync"

	"ceiling/profile/stacks"
	"ceiling/record"
)

// stacker takes stacks of the server's processes while the window is open. It
// follows the observer, which finds the processes.
type stacker struct {
	mu      sync.Mutex
	pids    map[int]bool
	cpu     *stacks.CPUSampler
	missing []record.NotMeasured
	opened  chan struct{} // closed when the samplers are
	stacks  *record.Stacks
	folded  []byte
}

// see takes a row of the observer's.
func (s *stacker) see(row record.ObservedRow) {
	r, ok := row.(*record.SubjectRow)
	if !ok || r.Role != record.RoleSubject || r.Event == record.SubjectGone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pids == nil {
		s.pids = map[int]bool{}
	}
	s.pids[r.PID] = true
	if s.cpu != nil {
		s.cpu.Watch(r.PID)
	}
}

// open begins with the window, beside the load: it looks into programs' files.
func (s *stacker) open() {
	s.opened = make(chan struct{})
	go func() {
		defer close(s.opened)
		s.begin()
	}()
}

func (s *stacker) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pids) == 0 {
		return // the server is not on this host; the observer has said so
	}
	cpu, err := stacks.NewCPUSampler(slices.Sorted(maps.Keys(s.pids)))
	if err == nil {
		err = cpu.Start()
	}
	if err != nil {
		s.missing = append(s.missing, record.NotMeasured{What: "CPU stacks", Why: err.Error()})
		return
	}
	s.cpu = cpu
}

// close ends with the window.
func (s *stacker) close() {
	if s.opened == nil {
		return
	}
	<-s.opened
	if s.cpu != nil {
		s.cpu.Stop()
	}
}

// end names what was sampled, once the load is over and while the server is there.
func (s *stacker) end(host string) {
	s.close()
	if s.cpu == nil {
		return
	}
	s.stacks, s.folded = s.cpu.Summary()
	s.stacks.Host = host
}

// cpuStacksFile is where the stacks are kept.
const cpuStacksFile = "cpu.folded"

// keepStacks puts them into the record.
func keepStacks(w *record.Writer, r *record.Run, f *Found) error {
	r.Stacks = f.Stacks
	if r.Stacks == nil || len(f.Folded) == 0 {
		return nil
	}
	r.Stacks.File = cpuStacksFile
	return w.Extra(cpuStacksFile, f.Folded)
}
