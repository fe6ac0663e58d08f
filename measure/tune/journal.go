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

const journalSchema = "ceiling.tuning/1"

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

// journal is an open journal, with the lock on the state directory.
type journal struct {
	head    head
	changes []Change
	applied bool

	path string
	file *os.File // nil once all is undone
	lock *os.File
	back backend
}

const (
	journalName = "journal.ndjson"
	lockName    = "lock"
)

// locked takes the lock on the state directory, or says who may have it.
func (h *Host) locked() (*os.File, error) {
	if err := os.MkdirAll(h.state(), 0o755); err != nil {
		return nil, fmt.Errorf("keep the journal of changes: %w", reason(err))
	}
	f, err := os.OpenFile(filepath.Join(h.state(), lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keep the journal of changes: %w", reason(err))
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%w: another process is applying or reverting one; wait for its end", ErrTuned)
	}
	return f, nil
}

// begin opens a journal for a plan. It first undoes what a killed process left.
func (h *Host) begin(p *Plan, by Owner) (*journal, error) {
	lock, err := h.locked()
	if err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(h.state(), journalName), lock: lock, back: h.backend()}
	if err = h.clear(j); err == nil {
		*j = journal{path: j.path, lock: j.lock, back: j.back}
		if err = h.create(j, p, by); err != nil {
			err = fmt.Errorf("keep the journal of changes: %w; nothing was changed", reason(err))
		}
	}
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// clear undoes a journal that a killed process left, and fails if one is in force.
func (h *Host) clear(j *journal) error {
	switch err := j.read(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !j.stale():
		return fmt.Errorf("%w: profile %s, by %s at %s; revert it first: ceiling tune revert", ErrTuned, j.head.Profile, j.head.Who,
			j.head.When.Format(time.DateTime))
	}
	if _, err := h.undoThere(j); err != nil {
		return fmt.Errorf("undo what a killed process left: %w", err)
	}
	return nil
}

// create writes the header. On failure it removes the journal.
func (h *Host) create(j *journal, p *Plan, by Owner) (err error) {
	if j.head, err = h.headOf(p, by); err != nil {
		return err
	}
	if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	if err = j.note(entry{Head: &j.head}); err == nil {
		err = durable.Dir(h.state())
	}
	if err != nil {
		err = errors.Join(err, os.Remove(j.path))
	}
	return err
}

func (h *Host) headOf(p *Plan, by Owner) (head, error) {
	own := head{Schema: journalSchema, Profile: p.Profile, Who: by.Who, When: time.Now().UTC().Truncate(time.Second), Owner: os.Getpid(),
		Stays: by.Stays, BootID: h.bootID(), Namespace: namespaceHere()}
	stat, err := sys.ReadPIDStat(os.Getpid())
	if err != nil {
		return own, err
	}
	own.OwnerTicks = stat.StartTicks
	return own, nil
}

func (h *Host) bootID() string { return sys.FileText(h.tree(), "proc/sys/kernel/random/boot_id") }

// namespaceHere returns the inode of the calling thread's network namespace, 0 if unknown.
func namespaceHere() uint64 {
	inode, err := inodeOf("/proc/thread-self/ns/net")
	if err != nil {
		return 0
	}
	return inode
}

func inodeOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0, errors.New("no inode")
	}
	return stat.Ino, nil
}

// note appends a line; it is on disk when note returns.
func (j *journal) note(e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		err = j.back.note(j.file, line)
	}
	if err != nil {
		return fmt.Errorf("write the journal %s: %w", j.path, reason(err))
	}
	if e.Change != nil {
		j.changes = append(j.changes, *e.Change)
	}
	j.applied = j.applied || e.Applied
	return nil
}

// open reads the existing journal and takes the lock. Without one it returns fs.ErrNotExist, and
// does not create a state directory.
func (h *Host) open() (*journal, error) {
	path := filepath.Join(h.state(), journalName)
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	lock, err := h.locked()
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, lock: lock, back: h.backend()}
	if err := j.read(); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *journal) read() error {
	data, err := os.ReadFile(j.path)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		n++
		var e entry
		if err := json.Unmarshal(line, &e); err != nil || n == 1 && (e.Head == nil || e.Head.Schema != journalSchema) {
			return fmt.Errorf("%s:%d: not a line of a journal of changes (%v); undo by hand what it says, and remove it", j.path, n, err)
		}
		switch {
		case e.Head != nil:
			j.head = *e.Head
		case e.Change != nil:
			j.changes = append(j.changes, *e.Change)
		}
		j.applied = j.applied || e.Applied
	}
	return nil
}

// stale reports whether these changes are abandoned: their process was killed before it had made
// all, or has ended and they were not to stay.
func (j *journal) stale() bool {
	stat, err := sys.ReadPIDStat(j.head.Owner)
	gone := err != nil || stat.State == 'Z' || stat.StartTicks != j.head.OwnerTicks
	return gone && !(j.applied && j.head.Stays)
}

// close releases the lock.
func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close() // every line was synced
	}
	// A child that another goroutine starts at this moment has the file until it execs: closing
	// alone would leave it the lock.
	_ = syscall.Flock(int(j.lock.Fd()), syscall.LOCK_UN)
	_ = j.lock.Close()
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
	return h.revert(func(*journal) bool { return true })
}

// Restore undoes what a killed process left. Every run calls it at its start; it does nothing if
// there is no tuning, or if its owner still wants it.
func (h *Host) Restore() error {
	_, err := h.revert((*journal).stale)
	if errors.Is(err, ErrNotTuned) || errors.Is(err, ErrTuned) {
		return nil
	}
	return err
}

func (h *Host) revert(wanted func(*journal) bool) ([]Reverted, error) {
	// A caller that must leave it alone may not have the right to lock it.
	seen := &journal{path: filepath.Join(h.state(), journalName)}
	err := seen.read()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !wanted(seen) {
		return nil, ErrNotTuned
	}
	if err != nil {
		return nil, err
	}
	j, err := h.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotTuned // another process was faster
	}
	if err != nil {
		return nil, err
	}
	defer j.close()
	if !wanted(j) {
		return nil, ErrNotTuned
	}
	return h.undoThere(j)
}

// undoThere undoes a journal in its network namespace.
func (h *Host) undoThere(j *journal) (done []Reverted, err error) {
	err = j.inside(func() (err error) {
		done, err = h.undo(j)
		return err
	})
	return done, err
}

// inside runs f in a journal's network namespace.
func (j *journal) inside(f func() error) error {
	there, err := j.where()
	if err != nil {
		return err
	}
	if there == "" {
		return f()
	}
	return sys.InNetworkNamespaceAt(there, f)
}

// Tuning is the tuning in force.
type Tuning struct {
	Profile string    `json:"profile"`
	Who     string    `json:"who"`
	When    time.Time `json:"when"`
	// Complete is false if the process was killed before all changes were made.
	Complete bool     `json:"complete"`
	Changes  []Change `json:"changes"`
}

// InForce returns the tuning in force; nil: none.
func (h *Host) InForce() (*Tuning, error) {
	j := &journal{path: filepath.Join(h.state(), journalName)}
	err := j.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return j.tuning(), nil
}

func (j *journal) tuning() *Tuning {
	return &Tuning{j.head.Profile, j.head.Who, j.head.When, j.applied, j.changes}
}

// where returns the file of the journal's network namespace: "" for the caller's own, or for one
// that no longer exists.
func (j *journal) where() (string, error) {
	if j.head.Namespace == 0 || j.head.Namespace == namespaceHere() {
		return "", nil
	}
	for _, pattern := range []string{netnsDir + "/*", "/proc/[0-9]*/ns/net"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if inode, err := inodeOf(file); err == nil && inode == j.head.Namespace {
				return file, nil
			}
		}
	}
	return "", nil
}

// undo restores every change's former value, the last first, and removes the journal. A
// change that cannot be undone does not stop the others; then the journal stays.
func (h *Host) undo(j *journal) ([]Reverted, error) {
	gone := func(*Change) string { return "" }
	switch {
	case j.head.BootID != h.bootID():
		gone = func(c *Change) string { return afterReboot(c) }
	case j.head.Namespace != 0 && j.head.Namespace != namespaceHere():
		gone = func(c *Change) string { return afterNamespace(c) }
	}
	var failed error
	var done []Reverted
	for _, c := range reversed(j.changes) {
		r := Reverted{Change: c, Gone: gone(&c)}
		if r.Gone == "" {
			if err := h.undoOne(&r); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		done = append(done, r)
	}
	if failed != nil {
		return done, failed
	}
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("remove the journal: %w", err)
	}
	return done, durable.Dir(h.state())
}

func afterReboot(c *Change) string {
	if c.Kind == KindFile {
		return ""
	}
	return "the machine was started again since: the kernel has its own values"
}

func afterNamespace(c *Change) string {
	if c.Kind == KindNIC || strings.HasPrefix(c.Path, "proc/sys/net/") || strings.HasPrefix(c.Path, "sys/class/net/") {
		return "its network namespace no longer exists"
	}
	return ""
}

// undoOne restores one value. Something that is gone needs no restoring.
func (h *Host) undoOne(r *Reverted) error {
	c := &r.Change
	now, err := h.read(c)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
	switch {
	case absent && c.Kind != KindFile:
		r.Gone = "it no longer exists"
		return nil
	case err != nil && !absent:
		return err
	case same(c.Knob, now, c.Before) && c.Kind != KindFile: // part of a file may be there
		return nil
	case !absent && !same(c.Knob, now, c.After) && !same(c.Knob, now, c.Before):
		r.Found = now
	}
	if err := h.write(c, c.Before); err != nil {
		return err
	}
	if c.Absent {
		return h.removeDirs(c)
	}
	if now, err = h.read(c); err == nil && !same(c.Knob, now, c.Before) {
		return fmt.Errorf("%s: it was %s before, and is %s after it was set back", c, shown(c.Before), shown(now))
	}
	return err
}

// removeDirs removes the directories that were created for a file. One with another file in it
// stays.
func (h *Host) removeDirs(c *Change) error {
	dir := filepath.Dir(filepath.Join(h.root(), c.Path))
	for range c.NewDirs {
		switch err := os.Remove(dir); {
		case errors.Is(err, syscall.ENOTEMPTY):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}
