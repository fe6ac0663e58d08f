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

// note is a file that says what a process has changed on this host and how to
// undo it. One note is about one change: threads that were pinned, or a link
// that was made slower.
type note struct {
	Schema string `json:"schema"` // noteSchema
	// Owner is the process that made the change; the note is stale once it is
	// gone. OwnerTicks is when it began: another may have its number later.
	Owner      int          `json:"owner"`
	OwnerTicks uint64       `json:"owner_start_ticks"`
	Processes  []pinnedTask `json:"processes,omitempty"`
	Link       *heldLink    `json:"link,omitempty"`

	path string
}

const noteSchema = "ceiling.taken/1"

// notesDir holds the notes: $XDG_STATE_HOME/ceiling/taken, or
// ~/.local/state/ceiling/taken.
func notesDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set: there is no place for the note by which a change is undone")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "ceiling", "taken"), nil
}

// newNote is a note of this process.
func newNote() (*note, error) {
	ticks, err := StartTicks(os.Getpid())
	return &note{Schema: noteSchema, Owner: os.Getpid(), OwnerTicks: ticks}, err
}

// write puts the note where the next start looks. It is there whole or not at
// all. Its name ends in the time, so that what was changed last is undone
// first.
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

// undo gives back what the note says and removes it. Where that fails the note
// stays.
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

// Restore undoes what processes have changed that were killed before they
// could. It is called at the start of every run; its error names what could not
// be undone and need not stop the run.
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

// notePaths are the files of all notes, the last first.
func notePaths() []string {
	dir, err := notesDir(os.Getenv)
	if err != nil {
		return nil // without a place for notes there are none
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing was ever noted
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

// notes are those that can be read.
func notes() []*note {
	var all []*note
	for _, path := range notePaths() {
		if n, err := readNote(path); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// writtenAt is the time in a note's name, 0 where there is none.
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

// stale tells that the process that wrote the note is gone.
func (n *note) stale() bool {
	ticks, err := StartTicks(n.Owner)
	return err != nil || ticks != n.OwnerTicks
}

// StartTicks tells when a process began, in ticks since boot: with its number
// its identity (proc_pid_stat(5), field 22). Of one that has ended and was not
// waited for it says that it is not there.
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
