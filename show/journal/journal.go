// Package journal is a folder of entries about what was measured: Markdown with
// a front matter, in which tables, figures and numbers are taken from records
// by reference and never typed. Read checks a folder, Build makes the pages,
// Write keeps them and Handler serves them; Create begins an entry, and Add puts
// a record beside it, so that a clone builds the same pages.
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
	// entryFile is the text of an entry, recordsDir has what it refers to.
	entryFile  = "entry.md"
	recordsDir = "records"
	// entryMost bounds an entry's text, in bytes; a long one has 30 kB.
	entryMost = 1 << 20
	// entriesMost bounds how many entries one journal has: their numbers have
	// four digits.
	entriesMost = 10_000
)

// folderName is what the folder of an entry is called: 0007-what-it-asks.
var folderName = lazy.Regexp(`^(\d{4})-([a-z0-9]+(?:-[a-z0-9]+)*)$`)

// Status of an entry.
type Status string

// The statuses, in the order in which an entry goes through them.
const (
	Planned    Status = "planned"
	InProgress Status = "in progress"
	Done       Status = "done"
	Retracted  Status = "retracted"
)

// Statuses are all that an entry can have.
func Statuses() []Status { return []Status{Planned, InProgress, Done, Retracted} }

// Class is the status as a name in a style sheet.
func (s Status) Class() string { return strings.ReplaceAll(string(s), " ", "-") }

// open tells that records may still be missing.
func (s Status) open() bool { return s == Planned || s == InProgress }

// means says what a status promises a reader.
func (s Status) means() string {
	return map[Status]string{Planned: "asked, and not measured yet", InProgress: "being measured: figures may change",
		Done: "measured; every figure comes from a record", Retracted: "wrong: kept, struck through, with the reason"}[s]
}

// Journal is a folder of entries that was read without a mistake.
type Journal struct {
	Dir string
	About
	// Entries by date, and by number within a day.
	Entries []*Entry
	// Warnings are what is no mistake and should be looked at.
	Warnings []Mistake
}

// Entry is one page of a journal.
type Entry struct {
	// Name is that of its folder, Number and Slug its two parts.
	Name, Number, Slug string
	// Dir is its folder, File its text.
	Dir, File string
	Front
	// Records in the order of the front matter.
	Records []*Record
	// Unsound says what retracted entries it builds on, directly or by way of
	// others; nil for one that stands.
	Unsound []Ground

	ladder *Record               // of regimes; nil where the front matter names none
	opened map[string]*chart.Run // runs of plans that references asked for, by ID

	body []byte // the whole file with the front matter blanked out, so that offsets are the file's
}

// Ground is a retracted entry that another builds on.
type Ground struct {
	Entry *Entry
	// By is the way there, beginning with an entry that builds_on names; nil
	// where the retracted one is named itself.
	By []*Entry
}

// Mistake is something wrong with a journal, and where.
type Mistake struct {
	File string
	Line int // 0: the file as a whole
	Says string
}

// Error is FILE:LINE: what is wrong.
func (m Mistake) Error() string {
	if m.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Says)
	}
	return m.File + ": " + m.Says
}

// Mistakes are all that were found, by file and line.
type Mistakes []Mistake

// Error has a line for each.
func (m Mistakes) Error() string {
	var lines []string
	for _, one := range m {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// add notes a mistake; what it quotes may be from a record.
func (m *Mistakes) add(file string, line int, format string, args ...any) {
	*m = append(*m, Mistake{file, line, page.Text(fmt.Sprintf(format, args...))})
}

// sorted answers the mistakes as an error, each once; nil where there is none.
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

// Read reads all entries of a folder with the records that they name: from the
// entry's own folder, or else from the person's store. Mistakes are told all at
// once (type Mistakes).
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

// FindEntry reads one entry's text, without the records and whatever is wrong
// with other entries.
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

// folders lists what has to be an entry: folders named like one, or that hold
// the file of one. Other files, such as a ledger, are not the journal's matter.
func folders(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read journal: there is no %s; begin one with: ceiling journal new \"a title\"", dir)
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

// readEntry reads the text of one entry; nil where not even that can be done.
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

// readText reads a text that a person wrote, and nothing that is none.
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

// numbers finds entries that cannot be told apart.
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

// Find answers the entry that a person means: by its folder's name or path, its
// number, or its slug.
func (j *Journal) Find(name string) (*Entry, error) {
	last := filepath.Base(filepath.Clean(name))
	var names []string
	for _, e := range j.Entries {
		if e.Name == last || e.Number == last || e.Slug == last {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("there is no entry %q%s", name, nearTo(last, names))
}

// grounds finds what each entry builds on, and marks those whose ground was
// retracted, also by way of others.
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
					e.Unsound = append(e.Unsound, Ground{ground, by})
				}
				walk(ground, append(slices.Clone(by), ground))
			}
		}
		walk(e, nil)
	}
	return wrong
}
