package process

import (
	"syscall"
	"time"

	"ceiling/internal/sys"
)

// Stop asks the process to end and waits as End does.
func (p *Process) Stop() {
	if p.Signal(p.death) == nil { // otherwise it has ended
		p.End()
	}
}

// End waits until the process has ended, and kills its whole group if that takes too long. Where a
// shell wraps the program, it waits for every process of the group: the shell ends first, and what
// it started may keep its port for a while longer.
func (p *Process) End() {
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		if !p.group || p.groupEnds(timeout.C) {
			return
		}
	case <-timeout.C:
	}
	_ = signal(-p.PID, syscall.SIGKILL)
	<-p.done
	if p.group {
		killed := time.NewTimer(stopTimeout)
		defer killed.Stop()
		p.groupEnds(killed.C)
	}
}

// groupEnds waits until every process of the group has ended, whether its parent has noticed or
// not, and returns false if that takes too long.
func (p *Process) groupEnds(tooLong <-chan time.Time) bool {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for p.groupLives() {
		select {
		case <-again.C:
		case <-tooLong:
			return false
		}
	}
	return true
}

func (p *Process) groupLives() bool {
	if signal(-p.PID, 0) != nil {
		return false
	}
	// An error: nothing more can be learned of it than that a signal found it.
	all, err := sys.Processes()
	if err != nil {
		return true
	}
	for _, one := range all {
		if one.Group == p.PID && !one.Ended() {
			return true
		}
	}
	return false
}
