package run

import (
	"errors"
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
	off     *stacks.OffSampler
	missing []record.NotMeasured
	opened  chan struct{} // closed when the samplers are
	found   stacks.Summary
}

// prepare loads what takes time, before the load begins.
func (s *stacker) prepare(to target) {
	off, err := stacks.NewOffSampler(to.addr.Port())
	if err != nil {
		s.missing = append(s.missing, record.NotMeasured{What: "off-CPU stacks", Why: err.Error()})
		return
	}
	s.off = off
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
	pids := slices.Sorted(maps.Keys(s.pids))
	cpu, err := stacks.NewCPUSampler(pids)
	if err == nil {
		err = cpu.Start()
	}
	if err != nil {
		s.missing = append(s.missing, record.NotMeasured{What: "CPU stacks", Why: err.Error()})
		cpu = nil
	}
	s.cpu = cpu
	if s.off != nil {
		s.off.Start(cpu, pids)
	}
}

// close ends with the window.
func (s *stacker) close() {
	if s.opened != nil {
		<-s.opened
	}
	if s.off != nil {
		s.off.Stop()
	}
	if s.cpu != nil {
		s.cpu.Stop()
	}
}

// end names what was sampled, once the load is over and while the server is there.
func (s *stacker) end(host string) {
	s.close()
	if len(s.pids) == 0 {
		return
	}
	if s.found = stacks.Summarize(s.cpu, s.off); s.found.Stacks != nil {
		s.found.Stacks.Host = host
	}
}

// Files that keep the stacks.
const (
	cpuStacksFile = "cpu.folded"
	offStacksFile = "off-cpu.folded"
)

// keepStacks puts them into the record.
func keepStacks(w *record.Writer, r *record.Run, f *Found) error {
	r.Stacks = f.Stacks
	if r.Stacks == nil {
		return nil
	}
	var err error
	if r.Stacks.CPU != nil && len(f.Folded) > 0 {
		r.Stacks.CPU.File = cpuStacksFile
		err = w.Extra(cpuStacksFile, f.Folded)
	}
	if r.Stacks.OffCPU != nil && len(f.FoldedOff) > 0 {
		r.Stacks.OffCPU.File = offStacksFile
		err = errors.Join(err, w.Extra(offStacksFile, f.FoldedOff))
	}
	return err
}
