//go:build linux

package perturb

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/sys"
)

// note is a file about a change that a process made on this host and how to undo it. One note is
// about one change: pinned threads, or a slower link.
type note struct {
	Schema string `json:"schema"` // noteSchema
	// Owner is the process that made the change; the note is stale once it is gone. OwnerTicks is
	// its start time: its PID may be reused.
	Owner      int          `json:"owner"`
	OwnerTicks uint64       `json:"owner_start_ticks"`
	Processes  []pinnedTask `json:"processes,omitempty"`
	Link       *heldLink    `json:"link,omitempty"`

	path string
}

const noteSchema = "ceiling.taken/1"

// notesDir returns the directory of the notes: $XDG_STATE_HOME/ceiling/taken, or
// ~/.local/state/ceiling/taken.
func notesDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set: the note that undoes a change cannot be written")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "ceiling", "taken"), nil
}

// newNote returns a note of this process.
func newNote() (*note, error) {
	ticks, err := StartTicks(os.Getpid())
	return &note{Schema: noteSchema, Owner: os.Getpid(), OwnerTicks: ticks}, err
}

// write stores the note atomically where the next start looks. Its name ends in the time, so that
// the latest change is undone first.
func (n *note) write() error {
	dir, err := notesDir(os.Getenv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("note what is changed: %w", err)
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	n.path = filepath.Join(dir, fmt.Sprintf("%d-%d.json", n.Owner, time.Now().UnixNano()))
	if err := os.WriteFile(n.path+".part", b, 0o600); err != nil {
		return fmt.Errorf("note what is changed: %w", err)
	}
	if err := os.Rename(n.path+".part", n.path); err != nil {
		return fmt.Errorf("note what is changed: %w", err)
	}
	return nil
}

// undo reverts what the note says and removes it. On failure the note stays.
func (n *note) undo() error {
	failed := restoreTasks(n.Processes)
	if n.Link != nil {
		failed = errors.Join(failed, n.Link.restore())
	}
	if failed != nil {
		return failed
	}
	return os.Remove(n.path)
}

// Restore undoes the changes of killed processes. Every run calls it at its start; its error names
// what could not be undone and need not stop the run.
func Restore() error {
	var failed error
	for _, path := range notePaths() {
		n, err := readNote(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another start was faster
		case err != nil:
			failed = errors.Join(failed, err)
		case !n.stale():
		default:
			if err := n.undo(); !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}

// notePaths returns the files of all notes, the latest first.
func notePaths() []string {
	dir, err := notesDir(os.Getenv)
	if err != nil {
		return nil // without a directory there are none
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing was ever changed
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(writtenAt(b), writtenAt(a)) })
	return paths
}

// notes returns the readable ones.
func notes() []*note {
	var all []*note
	for _, path := range notePaths() {
		if n, err := readNote(path); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// writtenAt returns the time in a note's name, 0 if there is none.
func writtenAt(path string) int64 {
	_, text, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".json"), "-")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return at
}

func readNote(path string) (*note, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := &note{}
	if err := json.Unmarshal(b, n); err != nil || n.Schema != noteSchema {
		return nil, fmt.Errorf("%s is not a note of what was changed on this host (%v); look at it and remove it", path, err)
	}
	n.path = path
	return n, nil
}

// stale reports whether the note's process is gone.
func (n *note) stale() bool {
	ticks, err := StartTicks(n.Owner)
	return err != nil || ticks != n.OwnerTicks
}

// StartTicks returns when a process began, in ticks since boot: with its PID its identity
// (proc_pid_stat(5), field 22). A zombie counts as gone.
func StartTicks(pid int) (uint64, error) {
	s, err := sys.ReadPIDStat(pid)
	if err != nil {
		return 0, err
	}
	if s.State == 'Z' {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	return s.StartTicks, nil
}
