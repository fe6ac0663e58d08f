package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/observe"
	"ceiling/record"
	"ceiling/spec"
)

// A pinning takes the subject's threads to given CPUs for the time of a run and
// gives them back what they had. What they had is noted in a file first, so
// that a run that is killed leaves a note which the next start finds.
type pinning struct {
	note string
	was  pinNote
}

// pinNote is the file: who may run where once the run is over.
type pinNote struct {
	Schema string `json:"schema"` // "ceiling.pins/1"
	// Owner is the process that pinned; the note is stale once it is gone.
	Owner     int           `json:"owner"`
	OwnerTick uint64        `json:"owner_start_ticks"`
	Processes []pinnedGroup `json:"processes"`
}

// pinnedGroup is one process with its threads as they were.
type pinnedGroup struct {
	PID        int           `json:"pid"`
	StartTicks uint64        `json:"start_ticks"`
	CPUs       []int         `json:"cpus"` // of the main thread: for threads born meanwhile
	Threads    map[int][]int `json:"threads"`
}

const pinSchema = "ceiling.pins/1"

// pinDir holds the notes: $XDG_STATE_HOME/ceiling/pins, or
// ~/.local/state/ceiling/pins.
func pinDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set: there is no place for the note that restores the pinning")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "ceiling", "pins"), nil
}

// pinServer moves every thread of the subject to the CPUs of the list.
func pinServer(list string, to target) (*pinning, error) {
	cpus, err := spec.ParseCPUList(list)
	if err != nil {
		return nil, fmt.Errorf("%w: --pin-server: %w", ErrRefused, err)
	}
	pids, err := subjectPIDs(to)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("%w: --pin-server: no process that serves %s was found on this host; it has to run here, and be yours or you root", ErrRefused, to)
	}
	dir, err := pinDir(os.Getenv)
	if err != nil {
		return nil, err
	}
	start, err := startTicks(os.Getpid())
	if err != nil {
		return nil, err
	}
	p := &pinning{was: pinNote{Schema: pinSchema, Owner: os.Getpid(), OwnerTick: start}}
	for _, pid := range pids {
		g, err := groupOf(pid)
		if err != nil {
			return nil, fmt.Errorf("--pin-server: %w", err)
		}
		p.was.Processes = append(p.was.Processes, g)
	}
	if err := p.writeNote(dir); err != nil {
		return nil, err
	}
	for _, g := range p.was.Processes {
		if err := g.pinAll(func(int) []int { return cpus }); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: --pin-server: %w", ErrRefused, err), p.restore())
		}
	}
	return p, nil
}

func groupOf(pid int) (pinnedGroup, error) {
	g := pinnedGroup{PID: pid, Threads: map[int][]int{}}
	var err error
	if g.StartTicks, err = startTicks(pid); err != nil {
		return g, err
	}
	tids, err := sys.Threads(pid)
	if err != nil {
		return g, err
	}
	for _, tid := range tids {
		cpus, err := sys.AllowedCPUs(tid)
		if errors.Is(err, syscall.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return g, err
		}
		g.Threads[tid] = cpus
	}
	g.CPUs = g.Threads[pid]
	return g, nil
}

// pinAll walks the threads until a walk finds no new one: a thread that is
// born meanwhile inherits what its parent had.
func (g *pinnedGroup) pinAll(cpus func(tid int) []int) error {
	done := map[int]bool{}
	for range 10 {
		tids, err := sys.Threads(g.PID)
		if err != nil {
			return err
		}
		found := false
		for _, tid := range tids {
			if done[tid] {
				continue
			}
			done[tid], found = true, true
			if err := sys.Pin(tid, cpus(tid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !found {
			return nil
		}
	}
	return fmt.Errorf("process %d makes threads faster than they can be pinned", g.PID)
}

func (p *pinning) writeNote(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("note the pinning: %w", err)
	}
	b, err := json.Marshal(p.was)
	if err != nil {
		return err
	}
	p.note = filepath.Join(dir, fmt.Sprintf("%d.json", p.was.Owner))
	if err := os.WriteFile(p.note, b, 0o600); err != nil {
		return fmt.Errorf("note the pinning: %w", err)
	}
	return nil
}

// restore gives every thread what it had, and threads born meanwhile what
// their process had. Processes that ended, or whose number is another's now,
// are left alone.
func (p *pinning) restore() error {
	if p == nil {
		return nil
	}
	var failed error
	for _, g := range p.was.Processes {
		if start, err := startTicks(g.PID); err != nil || start != g.StartTicks {
			continue
		}
		err := g.pinAll(func(tid int) []int {
			if had, ok := g.Threads[tid]; ok {
				return had
			}
			return g.CPUs
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("restore the CPUs of process %d: %w", g.PID, err))
		}
	}
	if failed != nil {
		return failed
	}
	return os.Remove(p.note)
}

// RestorePins undoes what runs have left behind that were killed. It is called
// at the start of every run; an error is told and does not stop it.
func RestorePins() error {
	dir, err := pinDir(os.Getenv)
	if err != nil {
		return nil // without a place for notes there are none
	}
	notes, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	var failed error
	for _, note := range notes {
		p := &pinning{note: note}
		b, err := os.ReadFile(note)
		if err == nil {
			err = json.Unmarshal(b, &p.was)
		}
		if err != nil || p.was.Schema != pinSchema {
			failed = errors.Join(failed, fmt.Errorf("%s is not a note of pinned threads (%v); look at it and remove it", note, err))
			continue
		}
		if start, err := startTicks(p.was.Owner); err == nil && start == p.was.OwnerTick {
			continue // its run goes on
		}
		failed = errors.Join(failed, p.restore())
	}
	return failed
}

// startTicks tells when a process began, in ticks since boot: with its number
// its identity (proc_pid_stat(5), field 22).
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(b)
	// The name in parentheses may hold anything, a parenthesis too.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) >= 1 && fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields behind the name", pid, len(fields))
	}
	var ticks uint64
	if _, err := fmt.Sscan(fields[19], &ticks); err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return ticks, nil
}

// subjectPIDs finds the server's processes as an observer would.
func subjectPIDs(to target) ([]int, error) {
	o, err := observe.New(to.observed())
	if err != nil {
		return nil, err
	}
	defer o.Close()
	var pids []int
	o.Sample(1, func(row record.ObservedRow) {
		if s, ok := row.(*record.SubjectRow); ok && s.Role == record.RoleSubject && s.Event == record.SubjectFound {
			pids = append(pids, s.PID)
		}
	})
	return pids, nil
}
