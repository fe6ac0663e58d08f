// Package journal publishes a folder of entries about measurements: Markdown with a front matter,
// whose tables, figures and numbers are references to records, never typed. Read validates a
// folder, Build renders the pages, Write saves them and Handler serves them; Create starts an
// entry, and Add copies a record into its folder, so that a clone builds the same pages.
package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/internal/lazy"
	"ceiling/record"
)

const (
	// entryFile is the text of an entry, recordsDir holds the records that it refers to.
	entryFile  = "entry.md"
	recordsDir = "records"
	// entryMost limits an entry's text, in bytes, and fileMost a file that it shows or links to.
	entryMost, fileMost = 1 << 20, 10 << 20
)

// folderName matches the name of an entry's folder: 0007-what-it-asks.
var folderName = lazy.Regexp(`^(\d{4})-([a-z0-9]+(?:-[a-z0-9]+)*)$`)

// Status of an entry.
type Status string

// The statuses, in the order of an entry's life.
const (
	Planned    Status = "planned"
	InProgress Status = "in progress"
	Done       Status = "done"
	Retracted  Status = "retracted"
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Planned, InProgress, Done, Retracted} }

// Class returns the status as a CSS class.
func (s Status) Class() string { return strings.ReplaceAll(string(s), " ", "-") }

// open reports whether records may still be missing.
func (s Status) open() bool { return s == Planned || s == InProgress }

// Means describes a status for readers.
func (s Status) Means() string {
	return map[Status]string{Planned: "asked, and not measured yet", InProgress: "being measured: figures may change",
		Done: "measured; every figure comes from a record", Retracted: "wrong: kept, struck through, with the reason"}[s]
}

// Journal is a folder of entries that Read accepted.
type Journal struct {
	Dir string
	About
	// Entries are ordered by date, and by number within a day.
	Entries []*Entry
}

// Entry is one page of a journal.
type Entry struct {
	// Name is the name of its folder, Number and Slug are its two parts.
	Name, Number, Slug string
	// Dir is its folder, File its text.
	Dir, File string
	Front
	// Records are in the order of the front matter.
	Records []*Record

	// On are the entries that it builds on, By those that build on it; Corrected are those that it
	// corrects, CorrectedBy those that correct it. All are in the journal's order.
	On, By, Corrected, CorrectedBy []*Entry
	// Unsound are the retracted entries that it builds on, each followed by those by way of which it does.
	Unsound [][]*Entry

	body []byte // the whole file with the front matter blanked out, so that offsets are the file's
}

// Read reads all entries of a folder and their records, from the entry's own folder or else from
// the user's store. It reports all mistakes together (type Mistakes).
func Read(dir string, store record.Store) (*Journal, error) {
	names, err := folders(dir)
	if err != nil {
		return nil, err
	}
	var wrong Mistakes
	j := &Journal{Dir: dir, About: readAbout(dir, &wrong)}
	for _, name := range names {
		if e := readEntry(dir, name, &wrong); e != nil {
			j.Entries = append(j.Entries, e)
		}
	}
	slices.SortStableFunc(j.Entries, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Name, b.Name))
	})
	j.checkNames(&wrong)
	for _, e := range j.Entries {
		e.On = j.entriesNamed(e, "builds_on", e.BuildsOn, &wrong)
		e.Corrected = j.entriesNamed(e, "corrects", e.Corrects, &wrong)
		for _, other := range e.On {
			other.By = append(other.By, e)
		}
		for _, other := range e.Corrected {
			other.CorrectedBy = append(other.CorrectedBy, e)
		}
		e.openRecords(j, store, &wrong)
	}
	for _, e := range j.Entries {
		e.checkGrounds(&wrong)
	}
	return j, wrong.sorted()
}

// FindEntry reads one entry's text, without its records or the other entries.
func FindEntry(dir, name string) (*Entry, error) {
	names, err := folders(dir)
	if err != nil {
		return nil, err
	}
	for _, folder := range names {
		if e := entryIn(dir, folder); e != nil && e.is(name) || folder == name {
			var wrong Mistakes
			e := readEntry(dir, folder, &wrong)
			return e, wrong.sorted()
		}
	}
	return nil, unknownEntry(name, names)
}

// folders lists the folders that must be entries: those named like one or that contain an entry
// file. It ignores other files, such as a ledger.
func folders(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read journal: no %s; begin one with: ceiling journal new \"a title\"", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var names []string
	for _, d := range list {
		info, err := os.Stat(filepath.Join(dir, d.Name()))
		if err != nil || !info.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		_, err = os.Stat(filepath.Join(dir, d.Name(), entryFile))
		if folderName().MatchString(d.Name()) || err == nil {
			names = append(names, d.Name())
		}
	}
	return names, nil
}

// entryIn returns an entry of which only the folder is known; nil if that is not named like one.
func entryIn(dir, name string) *Entry {
	parts := folderName().FindStringSubmatch(name)
	if parts == nil {
		return nil
	}
	return &Entry{Name: name, Number: parts[1], Slug: parts[2], Dir: filepath.Join(dir, name), File: filepath.Join(dir, name, entryFile)}
}

// readEntry reads the text of one entry; nil if even that fails.
func readEntry(dir, name string, wrong *Mistakes) *Entry {
	e := entryIn(dir, name)
	if e == nil {
		wrong.add(filepath.Join(dir, name), 0, "the folder of an entry has a number of four digits and small letters, as in 0001-a-short-title")
		return nil
	}
	front, body, ok := readText(e.Dir, entryFile, wrong)
	if !ok {
		return nil
	}
	e.body, e.Front = body, parseFront(e.File, front, wrong)
	return e
}

// readText reads the front matter and the body of a file of the journal.
func readText(dir, name string, wrong *Mistakes) (front, body []byte, ok bool) {
	file := filepath.Join(dir, name)
	text, err := readFile(dir, name, entryMost)
	switch {
	case errors.Is(err, errNoFile):
		wrong.add(file, 0, "the entry has no text; ceiling journal new makes one to begin with")
	case err != nil:
		wrong.add(file, 0, "%v", err)
	default:
		if front, body, err = splitFront(text); err != nil {
			wrong.add(file, 1, "%v", err)
		}
	}
	return front, body, err == nil
}

var errNoFile = errors.New("no such file in the entry's folder") // read-only

// readFile reads a regular file in a folder, which no symbolic link leaves, of at most so many bytes.
func readFile(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	if info.Size() > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return root.ReadFile(name)
}

// checkNames finds entries with the same number or slug.
func (j *Journal) checkNames(wrong *Mistakes) {
	for i, e := range j.Entries {
		for _, other := range j.Entries[:i] {
			if e.Number == other.Number {
				wrong.add(e.Dir, 0, "the number %s is taken by %s; give the newer one the next number", e.Number, other.Name)
			}
			if e.Slug == other.Slug {
				wrong.add(e.Dir, 0, "the name %q is taken by %s; names tell entries apart", e.Slug, other.Name)
			}
		}
	}
}

// is reports whether a folder's name or path, a number, or a name means this entry.
func (e *Entry) is(name string) bool {
	last := filepath.Base(filepath.Clean(name))
	return e.Name == last || e.Number == last || e.Slug == last
}

// find returns the entry that a name means.
func (j *Journal) find(name string) (*Entry, error) {
	var names []string
	for _, e := range j.Entries {
		if e.is(name) {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, unknownEntry(name, names)
}

func unknownEntry(name string, names []string) error {
	return fmt.Errorf("unknown entry %q%s", name, nearTo(filepath.Base(filepath.Clean(name)), names))
}

// entriesNamed returns the entries that one names under a key, in the journal's order.
func (j *Journal) entriesNamed(e *Entry, key string, list mentions, wrong *Mistakes) []*Entry {
	var found []*Entry
	for _, n := range list {
		other, err := j.find(n.Text)
		switch {
		case err != nil:
			wrong.add(e.File, n.Line, "%s: %v", key, err)
		case other == e:
			wrong.add(e.File, n.Line, "%s: an entry cannot name itself", key)
		default:
			found = append(found, other)
		}
	}
	return slices.DeleteFunc(slices.Clone(j.Entries), func(other *Entry) bool { return !slices.Contains(found, other) })
}

// checkGrounds finds the retracted entries that one builds on, directly or through others.
func (e *Entry) checkGrounds(wrong *Mistakes) {
	seen := map[*Entry]bool{e: true}
	for todo := [][]*Entry{{e}}; len(todo) > 0; todo = todo[1:] {
		from, by := todo[0][0], todo[0][1:]
		if from != e {
			by = append(slices.Clone(by), from)
		}
		for _, on := range from.On {
			if on == e {
				wrong.add(e.File, e.keyLine("builds_on"), "builds_on: %s builds on this entry in turn", from.Name)
			}
			if seen[on] {
				continue
			}
			seen[on] = true
			todo = append(todo, append([]*Entry{on}, by...))
			if on.Status == Retracted {
				e.Unsound = append(e.Unsound, todo[len(todo)-1])
			}
		}
	}
}
