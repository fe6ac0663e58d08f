//go:build linux

package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/durable"
	"ceiling/internal/sys"
)

// The journal is a file of JSON lines in the state directory: a header, then each change before it
// is made, then a line that all are made. It is undone from the end to the beginning, and removed
// when everything is undone. An incomplete line was being written when its writer was killed, or
// when the disk was full: its change was not made.

const journalSchema = "ceiling.tuning/2"

// entry is one line: a header, a change that is about to be made, or that all were.
type entry struct {
	Head    *head   `json:"head,omitempty"`
	Change  *Change `json:"change,omitempty"`
	Applied bool    `json:"applied,omitempty"`
}

// head says whose changes follow, and where and when they apply.
type head struct {
	Schema  string    `json:"schema"` // journalSchema
	Profile string    `json:"profile"`
	Who     string    `json:"who"`
	When    time.Time `json:"when"`
	// Owner is the process that applied them, OwnerTicks its start time (proc_pid_stat(5)): its PID
	// may be reused.
	Owner      int    `json:"owner"`
	OwnerTicks uint64 `json:"owner_start_ticks"`
	// Stays keeps the tuning after its owner has ended.
	Stays bool `json:"stays"`
	// BootID is the boot whose kernel has the values: a reboot undoes them.
	BootID string `json:"boot_id"`
	// Namespace is the changed network namespace, by inode.
	Namespace uint64 `json:"netns,omitempty"`
}

// Tuning is what a journal has of the tuning in force.
type Tuning struct {
	head
	// Complete is false if the process was killed before all changes were made.
	Complete bool     `json:"complete"`
	Changes  []Change `json:"changes"`
}

const journalName = "journal.ndjson"

func (h *Host) journal() string { return filepath.Join(h.state(), journalName) }

// lock locks the state directory, or says who may have it.
func (h *Host) lock() (unlock func(), err error) {
	var dir *os.File
	if err = os.MkdirAll(h.state(), 0o755); err == nil {
		dir, err = os.Open(h.state())
	}
	if err != nil {
		return nil, fmt.Errorf("keep the journal of changes: %w", reason(err))
	}
	if err := sys.Lock(dir, false); err != nil {
		_ = dir.Close() // nothing was written
		return nil, fmt.Errorf("%w: another process is applying or reverting one; wait for its end", ErrTuned)
	}
	return func() {
		// A child that another goroutine starts at this moment has the file until it execs: closing
		// alone would leave it the lock.
		_ = syscall.Flock(int(dir.Fd()), syscall.LOCK_UN)
		_ = dir.Close()
	}, nil
}

// begin opens a journal for a plan, with the lock. It first undoes what a killed process left.
func (h *Host) begin(p *Plan, by Owner) (file *os.File, t *Tuning, err error) {
	old, err := h.InForce()
	switch {
	case err != nil:
		return nil, nil, err
	case old != nil && !old.stale():
		return nil, nil, fmt.Errorf("%w: profile %s, by %s at %s; revert it first: ceiling tune revert", ErrTuned, old.Profile, old.Who,
			old.When.Format(time.DateTime))
	case old != nil:
		if _, err := h.undoThere(old); err != nil {
			return nil, nil, fmt.Errorf("undo what a killed process left: %w", err)
		}
	}
	t = &Tuning{head: head{Schema: journalSchema, Profile: p.Profile, Who: by.Who, When: time.Now().UTC().Truncate(time.Second),
		Owner: os.Getpid(), Stays: by.Stays, BootID: h.bootID(), Namespace: namespaceOf(ownNamespace)}}
	stat, err := sys.ReadPIDStat(t.Owner)
	if err == nil {
		t.OwnerTicks = stat.StartTicks
		file, err = os.OpenFile(h.journal(), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	if err == nil {
		if err = errors.Join(h.note(file, entry{Head: &t.head}), durable.Dir(h.state())); err != nil {
			err = errors.Join(err, file.Close(), os.Remove(h.journal()))
		}
	}
	if err != nil {
		err = fmt.Errorf("keep the journal of changes: %w; nothing was changed", reason(err))
	}
	return file, t, err
}

func (h *Host) bootID() string { return sys.FileText(h.tree(), "proc/sys/kernel/random/boot_id") }

// note appends a line to the journal; it is on disk when note returns.
func (h *Host) note(journal *os.File, e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		err = h.backend().note(journal, line)
	}
	if err != nil {
		return fmt.Errorf("write the journal %s: %w", journal.Name(), reason(err))
	}
	return nil
}

// InForce returns the tuning in force; nil: none.
func (h *Host) InForce() (*Tuning, error) {
	data, err := os.ReadFile(h.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &Tuning{}
	n := 0
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		n++
		var e entry
		if err := json.Unmarshal(line, &e); err != nil || n == 1 && (e.Head == nil || e.Head.Schema != journalSchema) {
			return nil, fmt.Errorf("%s:%d: not a line of a journal of changes (%v); undo by hand what it says, and remove it", h.journal(), n, err)
		}
		switch {
		case e.Head != nil:
			t.head = *e.Head
		case e.Change != nil:
			t.Changes = append(t.Changes, *e.Change)
		}
		t.Complete = t.Complete || e.Applied
	}
	return t, nil
}

// stale reports whether these changes are abandoned: their process was killed before it had made
// all, or has ended and they were not to stay.
func (t *Tuning) stale() bool {
	stat, err := sys.ReadPIDStat(t.Owner)
	gone := err != nil || stat.State == 'Z' || stat.StartTicks != t.OwnerTicks
	return gone && !(t.Complete && t.Stays)
}

// Reverted is the outcome of undoing one change.
type Reverted struct {
	Change
	// Found is the value found, if it was neither the one before nor the one set: another program
	// has changed it.
	Found string `json:"found,omitempty"`
	// Gone says why there was nothing to undo: a reboot, an interface that no longer exists.
	Gone string `json:"gone,omitempty"`
}

// ErrNotTuned means that there is nothing to revert.
var ErrNotTuned = errors.New("nothing to revert: no tuning is in force here")

// Revert undoes the tuning in force, the last change first. Calling it again retries what failed.
func (h *Host) Revert() ([]Reverted, error) {
	return h.revert(func(*Tuning) bool { return true })
}

// Restore undoes what a killed process left. Every run calls it at its start; it does nothing if
// there is no tuning, or if its owner still wants it.
func (h *Host) Restore() error {
	_, err := h.revert((*Tuning).stale)
	if errors.Is(err, ErrNotTuned) || errors.Is(err, ErrTuned) {
		return nil
	}
	return err
}

func (h *Host) revert(wanted func(*Tuning) bool) ([]Reverted, error) {
	find := func() (*Tuning, error) {
		t, err := h.InForce()
		if err == nil && (t == nil || !wanted(t)) {
			err = ErrNotTuned
		}
		return t, err
	}
	if _, err := find(); err != nil {
		return nil, err // a caller that must leave it alone may not have the right to lock it
	}
	unlock, err := h.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := find() // another process may have been faster
	if err != nil {
		return nil, err
	}
	return h.undoThere(t)
}

// undoThere undoes a tuning in its network namespace, if that still exists.
func (h *Host) undoThere(t *Tuning) (done []Reverted, err error) {
	there := namespaceFile(t.Namespace)
	if there == "" || t.Namespace == namespaceOf(ownNamespace) {
		return h.undo(t)
	}
	err = sys.InNetworkNamespaceAt(there, func() (err error) {
		done, err = h.undo(t)
		return err
	})
	return done, err
}

const ownNamespace = "/proc/thread-self/ns/net"

// namespaceOf returns the inode of a network namespace's file, 0 if unknown.
func namespaceOf(path string) uint64 {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return 0
	}
	return stat.Ino
}

// namespaceFile returns a file of a network namespace, "" if there is none any more.
func namespaceFile(inode uint64) string {
	for _, pattern := range []string{netnsDir + "/*", "/proc/[0-9]*/ns/net"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "" // the patterns are constants
		}
		for _, file := range files {
			if inode != 0 && namespaceOf(file) == inode {
				return file
			}
		}
	}
	return ""
}

// undo restores every change's former value, the last first, and removes the journal. A
// change that cannot be undone does not stop the others; then the journal stays.
func (h *Host) undo(t *Tuning) (done []Reverted, err error) {
	rebooted, away := t.BootID != h.bootID(), t.Namespace != 0 && t.Namespace != namespaceOf(ownNamespace)
	for _, c := range slices.Backward(t.Changes) {
		r := Reverted{Change: c}
		var failed error
		switch {
		case rebooted:
			r.Gone = "the machine was started again since: the kernel has its own values"
		case away && c.ofNamespace():
			r.Gone = "its network namespace no longer exists"
		default:
			failed = h.undoOne(&r)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		done = append(done, r)
	}
	if err != nil {
		return done, err
	}
	if err := os.Remove(h.journal()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("remove the journal: %w", err)
	}
	return done, durable.Dir(h.state())
}

// ofNamespace reports whether a change is in a network namespace, and goes with it.
func (c *Change) ofNamespace() bool {
	return c.Kind == KindNIC || strings.HasPrefix(c.Path, "proc/sys/net/") || strings.HasPrefix(c.Path, "sys/class/net/")
}

// undoOne restores one value. Something that is gone needs no restoring.
func (h *Host) undoOne(r *Reverted) error {
	c := &r.Change
	now, err := h.read(c)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
		r.Gone = "it no longer exists"
		return nil
	case err != nil || same(c.Knob, now, c.Before):
		return err
	case !same(c.Knob, now, c.After):
		r.Found = now
	}
	if err := h.write(c, c.Before); err != nil {
		return err
	}
	if now, err = h.read(c); err == nil && !same(c.Knob, now, c.Before) {
		return fmt.Errorf("%s: it was %s before, and is %s after it was set back", c, shown(c.Before), shown(now))
	}
	return err
}
