//go:build linux

package observe

import (
	"cmp"
	"fmt"
	"slices"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The host's other processes that used CPU: which ones ran while the server or the generator was
// runnable. It reads all of /proc, 8 µs per process, so it does that seldom; what a process used
// before the first reading does not count.

const (
	// neighboursMost bounds a row, neighbourScanMost what one reading costs: 8 ms.
	neighboursMost    = 8
	neighbourScanMost = 1024
)

// neighbourUse is the last reading of a process.
type neighbourUse struct {
	startTicks, ticks uint64
}

type neighbourSampler struct {
	t        *tools
	subject  *subject
	pids     []int
	was, now map[int]neighbourUse
	used     []record.Neighbour
}

func newNeighbourSampler(t *tools, s *subject) *neighbourSampler {
	return &neighbourSampler{t: t, subject: s, was: make(map[int]neighbourUse), now: make(map[int]neighbourUse)}
}

func (s *neighbourSampler) sample(at tick, emit Emit) error {
	var err error
	if s.pids, err = s.t.list.numbers(s.t.procDir, s.pids); err != nil {
		return err
	}
	if len(s.pids) > neighbourScanMost {
		return fmt.Errorf("%d processes are here, more than the %d that are looked through for their CPU time", len(s.pids), neighbourScanMost)
	}
	s.was, s.now = s.now, s.was
	clear(s.now)
	s.used = s.used[:0]
	for _, pid := range s.pids {
		if s.watched(pid) {
			continue
		}
		text, err := s.t.r.below(s.t.procDir, s.t.path.of("").number(pid).text("/stat").end())
		var st sys.PIDStat
		if err != nil || sys.ParsePIDStat(text, &st) != nil {
			continue // gone since it was listed
		}
		now, before := neighbourUse{st.StartTicks, st.UserTicks + st.SystemTicks}, s.was[pid]
		if s.now[pid] = now; before.startTicks != now.startTicks {
			before.ticks = 0 // it began in this interval
		}
		if now.ticks > before.ticks && !at.first() {
			cpu := -1 // the line is about the first thread; others may have run elsewhere
			if st.Threads == 1 {
				cpu = sys.LastCPU(text)
			}
			s.used = append(s.used, record.Neighbour{
				PID: pid, Comm: s.t.names.of(st.Comm), CPUNs: int64(now.ticks-before.ticks) * tickNs, CPU: cpu,
			})
		}
	}
	if at.first() {
		return nil
	}
	slices.SortFunc(s.used, func(a, b record.Neighbour) int {
		return cmp.Or(cmp.Compare(b.CPUNs, a.CPUNs), cmp.Compare(a.PID, b.PID))
	})
	most := s.used[:min(len(s.used), neighboursMost)]
	row := &record.NeighboursRow{ObservedHead: at.head(record.KindNeighbours), Neighbours: slices.Clone(most)}
	for _, one := range s.used[len(most):] {
		row.MoreNs += one.CPUNs
	}
	emit(row)
	return nil
}

// watched reports whether a process has rows of its own: the server's and the generator's. A
// database that the server queries is a neighbour too.
func (s *neighbourSampler) watched(pid int) bool {
	for _, p := range s.subject.processes {
		if p.identity.pid == pid && p.identity.role != record.RolePeer && !p.gone {
			return true
		}
	}
	return false
}

func (s *neighbourSampler) close() {}
