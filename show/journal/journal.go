// Package journal publishes a folder of entries about measurements: Markdown with a front matter,
// whose tables, figures and numbers are references to records, never typed. Read validates a
// folder, Build renders the pages, Write saves them and Handler serves them; Create starts an
// entry, and Add copies a record into its folder, so that a clone builds the same pages.
package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/internal/lazy"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

const (
	// entryFile is the text of an entry, recordsDir holds the records that it refers to.
	entryFile  = "entry.md"
	recordsDir = "records"
	// entryMost limits an entry's text, in bytes; a long one has 30 kB.
	entryMost = 1 << 20
	// entriesMost limits the entries of a journal: their numbers have four digits.
	entriesMost = 10_000
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

// means describes a status for readers.
func (s Status) means() string {
	return map[Status]string{Planned: "asked, and not measured yet", InProgress: "being measured: figures may change",
		Done: "measured; every figure comes from a record", Retracted: "wrong: kept, struck through, with the reason"}[s]
}

// Journal is a folder of entries that Read accepted.
type Journal struct {
	Dir string
	About
	// Entries are ordered by date, and by number within a day.
	Entries []*Entry
	// Warnings are not mistakes but deserve a look.
	Warnings []Mistake
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
	// Unsound lists the retracted entries that it builds on, directly or through others; nil if
	// there are none.
	Unsound []RetractedBase

	ladder *Record               // ladder of regimes; nil if the front matter names none
	opened map[string]*chart.Run // runs of plans that references use, by ID

	body []byte // the whole file with the front matter blanked out, so that offsets are the file's
}

// RetractedBase is a retracted entry that another entry builds on.
type RetractedBase struct {
	Entry *Entry
	// By is the chain of entries in between, starting with one in builds_on; nil if builds_on
	// names the retracted entry itself.
	By []*Entry
}

// Mistake is a mistake in a journal, with its position.
type Mistake struct {
	File string
	Line int // 0: the file as a whole
	Says string
}

// Error returns FILE:LINE: and the mistake.
func (m Mistake) Error() string {
	if m.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Says)
	}
	return m.File + ": " + m.Says
}

// Mistakes are all mistakes found, by file and line.
type Mistakes []Mistake

// Error returns one line per mistake.
func (m Mistakes) Error() string {
	var lines []string
	for _, one := range m {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// add records a mistake; its arguments may come from a record.
func (m *Mistakes) add(file string, line int, format string, args ...any) {
	*m = append(*m, Mistake{file, line, page.Text(fmt.Sprintf(format, args...))})
}

// sorted returns the mistakes as an error, without duplicates; nil if there are none.
func (m Mistakes) sorted() error {
	if len(m) == 0 {
		return nil
	}
	byPlace(m)
	return slices.Compact(m)
}

func byPlace(list []Mistake) {
	slices.SortStableFunc(list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Says, b.Says))
	})
}

// Read reads all entries of a folder and their records, from the entry's own folder or else from
// the user's store. It reports all mistakes together (type Mistakes).
func Read(dir string, store record.Store) (*Journal, error) {
	names, err := folders(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{Dir: dir}
	var wrong Mistakes
	j.About, wrong = readAbout(dir)
	for _, name := range names {
		e, mistakes := readEntry(dir, name)
		wrong = append(wrong, mistakes...)
		if e != nil {
			j.Entries = append(j.Entries, e)
		}
	}
	wrong = append(wrong, j.numbers()...)
	wrong = append(wrong, j.grounds()...)
	wrong = append(wrong, j.corrections()...)
	for _, e := range j.Entries {
		wrong = append(wrong, e.openRecords(j, store)...)
	}
	slices.SortStableFunc(j.Entries, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Name, b.Name))
	})
	return j, wrong.sorted()
}

// FindEntry reads one entry's text, without its records, and ignores mistakes in other entries.
func FindEntry(dir, name string) (*Entry, error) {
	names, err := folders(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{Dir: dir}
	wrong := map[*Entry]Mistakes{}
	for _, folder := range names {
		if e, mistakes := readEntry(dir, folder); e != nil {
			j.Entries = append(j.Entries, e)
			wrong[e] = mistakes
		} else if folder == filepath.Base(filepath.Clean(name)) {
			return nil, mistakes.sorted()
		}
	}
	e, err := j.Find(name)
	if err != nil {
		return nil, err
	}
	return e, wrong[e].sorted()
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
	if len(names) > entriesMost {
		return nil, fmt.Errorf("read journal: %s has %d entries; %d are the most", dir, len(names), entriesMost)
	}
	return names, nil
}

// readEntry reads the text of one entry; nil if even that fails.
func readEntry(dir, name string) (*Entry, Mistakes) {
	e := &Entry{Name: name, Dir: filepath.Join(dir, name), File: filepath.Join(dir, name, entryFile)}
	var wrong Mistakes
	parts := folderName().FindStringSubmatch(name)
	if parts == nil {
		wrong.add(e.Dir, 0, "the folder of an entry has a number of four digits and small letters, as in 0001-a-short-title")
		return nil, wrong
	}
	e.Number, e.Slug = parts[1], parts[2]
	text, err := readText(e.File)
	if err != nil {
		wrong.add(e.File, 0, "%v", err)
		return nil, wrong
	}
	front, body, err := splitFront(text)
	if err != nil {
		wrong.add(e.File, 1, "%v", err)
		return nil, wrong
	}
	e.body = body
	var mistakes Mistakes
	e.Front, mistakes = parseFront(e.File, front)
	return e, append(wrong, mistakes...)
}

// readText reads a regular file of at most entryMost bytes.
func readText(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the entry has no text; ceiling journal new makes one to begin with")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, entryMost+1))
	if err == nil && len(text) > entryMost {
		err = fmt.Errorf("it has more than %d bytes", entryMost)
	}
	return text, err
}

// numbers finds entries with the same number or slug.
func (j *Journal) numbers() Mistakes {
	var wrong Mistakes
	byNumber, bySlug := map[string]*Entry{}, map[string]*Entry{}
	for _, e := range j.Entries {
		if other := byNumber[e.Number]; other != nil {
			wrong.add(e.Dir, 0, "the number %s is taken by %s; give the newer one the next number", e.Number, other.Name)
		}
		if other := bySlug[e.Slug]; other != nil {
			wrong.add(e.Dir, 0, "the name %q is taken by %s; names tell entries apart", e.Slug, other.Name)
		}
		byNumber[e.Number], bySlug[e.Slug] = e, e
	}
	return wrong
}

// Find returns the entry with a given folder name or path, number, or slug.
func (j *Journal) Find(name string) (*Entry, error) {
	last := filepath.Base(filepath.Clean(name))
	var names []string
	for _, e := range j.Entries {
		if e.Name == last || e.Number == last || e.Slug == last {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("unknown entry %q%s", name, nearTo(last, names))
}

// grounds resolves what each entry builds on, and marks those that build on a retracted entry,
// directly or through others.
func (j *Journal) grounds() Mistakes {
	var wrong Mistakes
	on := map[*Entry][]*Entry{}
	for _, e := range j.Entries {
		for _, b := range e.BuildsOn {
			ground, err := j.Find(b.Text)
			switch {
			case err != nil:
				wrong.add(e.File, b.Line, "builds_on: %v", err)
			case ground == e:
				wrong.add(e.File, b.Line, "builds_on: an entry cannot build on itself")
			default:
				on[e] = append(on[e], ground)
			}
		}
	}
	for _, e := range j.Entries {
		seen := map[*Entry]bool{e: true}
		var walk func(from *Entry, by []*Entry)
		walk = func(from *Entry, by []*Entry) {
			for _, ground := range on[from] {
				if ground == e && from != e {
					wrong.add(e.File, e.Line("builds_on"), "builds_on: %s builds on this entry in turn", from.Name)
				}
				if seen[ground] {
					continue
				}
				seen[ground] = true
				if ground.Status == Retracted {
					e.Unsound = append(e.Unsound, RetractedBase{ground, by})
				}
				walk(ground, append(slices.Clone(by), ground))
			}
		}
		walk(e, nil)
	}
	return wrong
}
