package run

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"ceiling/measure/profile/stacks"
	"ceiling/record"
)

// stacker samples stacks of the server's processes while the window is open, and of the servers
// behind it. It follows the observer, which finds them.
type stacker struct {
	effort float64 // as in stacks.NewCPUSampler

	mu    sync.Mutex     // guards what the observer has found
	pids  []int          // the server's
	peers []peerProcess  // of the servers behind it
	asked map[string]int // the outermost process that answers on each address

	samplers sync.Mutex
	telling  sync.WaitGroup
	cpu      *stacks.CPUSampler
	off      *stacks.OffSampler
	begun    bool
	late     bool // the window is open, and the server has not been found yet
	blocks   bool // blocks are separate, and complete or discarded
	over     bool
	missing  []record.NotMeasured
	opened   chan struct{} // closed when the samplers are open
	found    stacks.Summary
}

type peerProcess struct{ pid, parent int }

// prepare does the slow loading, before the load begins.
func (s *stacker) prepare(t *stacks.Tables, to target) {
	off, err := stacks.NewOffSampler(t, to.addr.Port(), s.effort)
	if err != nil {
		s.missing = append(s.missing, record.NotMeasured{What: "off-CPU stacks", Why: err.Error()})
		return
	}
	s.off = off
}

// see handles a row from the observer.
func (s *stacker) see(row record.ObservedRow) {
	if !s.note(row) {
		return
	}
	// Inspecting a program takes milliseconds, too long for the observer.
	s.telling.Go(s.follow)
}

// note reports whether a row has something new.
func (s *stacker) note(row record.ObservedRow) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := row.(type) {
	case *record.SubjectRow:
		switch {
		case r.Event == record.SubjectGone || r.Role == record.RoleGenerator:
		case r.Role == record.RolePeer:
			s.peers, fresh = append(s.peers, peerProcess{r.PID, r.ParentPID}), true
		case !slices.Contains(s.pids, r.PID):
			s.pids, fresh = append(s.pids, r.PID), true
		}
	case *record.PeersRow:
		for i := range r.Peers {
			if p := &r.Peers[i]; p.PID != 0 && s.asked[p.Addr] != p.PID {
				if s.asked == nil {
					s.asked = map[string]int{}
				}
				s.asked[p.Addr], fresh = p.PID, true
			}
		}
	}
	return fresh
}

// follow adds new processes to the samplers.
func (s *stacker) follow() {
	s.samplers.Lock()
	defer s.samplers.Unlock()
	if s.late && !s.over && !s.blocks {
		s.start()
		return
	}
	s.tell()
}

func (s *stacker) tell() {
	var to interface {
		Watch(pid int)
		WatchPeer(pid, parent int)
		Answers(root int, addr string)
	}
	switch {
	case !s.begun || s.over:
		return
	case s.cpu != nil:
		to = s.cpu
	case s.off != nil:
		to = s.off
	default:
		return
	}
	s.mu.Lock()
	pids, peers, asked := slices.Clone(s.pids), slices.Clone(s.peers), maps.Clone(s.asked)
	s.mu.Unlock()
	for _, pid := range pids {
		to.Watch(pid)
	}
	for _, p := range peers {
		to.WatchPeer(p.pid, p.parent)
	}
	for addr, root := range asked {
		to.Answers(root, addr)
	}
}

// open begins with the window, concurrently with the load: it reads the programs' files.
func (s *stacker) open() {
	s.opened = make(chan struct{})
	go func() {
		defer close(s.opened)
		s.begin()
	}()
}

func (s *stacker) begin() {
	s.samplers.Lock()
	defer s.samplers.Unlock()
	s.start()
}

// start begins sampling. A server that the observer has not found yet, for lack of a warm-up, is
// sampled once found; one on another host is never found.
func (s *stacker) start() {
	pids := s.server()
	if s.late = len(pids) == 0; s.late {
		return
	}
	cpu, err := stacks.NewCPUSampler(pids, s.effort)
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
	s.begun = true
	s.tell()
}

// server returns the server's processes.
func (s *stacker) server() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pids)
}

// mark counts the following samples for a block of the run. A server found since the window opened
// is sampled from here on.
func (s *stacker) mark(block int) {
	<-s.opened
	s.samplers.Lock()
	defer s.samplers.Unlock()
	s.blocks = true
	if s.late && !s.over {
		s.start()
	}
	if s.cpu != nil && !s.over {
		s.cpu.Mark(block)
	}
	if s.off != nil && !s.over {
		s.off.Mark(block)
	}
}

// pause stops sampling until the next block.
func (s *stacker) pause() {
	<-s.opened
	s.samplers.Lock()
	defer s.samplers.Unlock()
	s.blocks = true
	if s.cpu != nil && !s.over {
		s.cpu.Pause()
	}
	if s.off != nil && !s.over {
		s.off.Pause()
	}
}

// close ends with the window.
func (s *stacker) close() {
	if s.opened != nil {
		<-s.opened
	}
	s.samplers.Lock()
	defer s.samplers.Unlock()
	s.over = true
	if s.off != nil {
		s.off.Stop()
	}
	if s.cpu != nil {
		s.cpu.Stop()
	}
}

// end symbolizes the samples, once the load is over and while the server is there.
func (s *stacker) end(t *stacks.Tables, host string) {
	s.close()
	s.telling.Wait()
	if len(s.server()) == 0 {
		return
	}
	if s.found = stacks.Summarize(t, s.cpu, s.off); s.found.Stacks != nil {
		s.found.Stacks.Host = host
	}
}

// Files of the stacks.
const (
	cpuStacksFile = "cpu.folded"
	offStacksFile = "off-cpu.folded"
)

// keepStacks adds the stacks to the record.
func keepStacks(w *record.Writer, r *record.Run, f *ServerInfo) error {
	r.Stacks = f.Stacks
	if r.Stacks == nil {
		return nil
	}
	var err error
	if r.Stacks.CPU != nil && len(f.Folded) > 0 {
		r.Stacks.CPU.File = cpuStacksFile
		err = w.Attach(cpuStacksFile, f.Folded)
	}
	if r.Stacks.OffCPU != nil && len(f.FoldedOff) > 0 {
		r.Stacks.OffCPU.File = offStacksFile
		err = errors.Join(err, w.Attach(offStacksFile, f.FoldedOff))
	}
	return err
}
