package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/internal/lazy"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

const (
	// seriesMost is how large a series may be to be copied, in bytes: 10 s at ten
	// rows a second have some 250 kB. A journal lies in a repository.
	seriesMost = 512 << 10
	// leftOutFile says in a copy what the original had besides.
	leftOutFile = "left-out.json"
	// leftOutSchema names its version.
	leftOutSchema = "ceiling.left-out/1"
	// copiedMost bounds one copied file.
	copiedMost = 64 << 20
)

// LeftOut is a file of a record that is not in the journal's copy of it.
type LeftOut struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// leftOutDocument is what leftOutFile holds.
type leftOutDocument struct {
	Schema  string    `json:"schema"`
	LeftOut []LeftOut `json:"left_out"`
}

// kept are the files of a run that are always copied; environment.json and
// spec.json say nothing that a finished run's result.json does not.
var kept = []string{"result.json", "response.hdr", "service.hdr", "lag.hdr"} // read-only

// Added is a record that was put beside an entry.
type Added struct {
	ID, Dir string
	Bytes   int64
	LeftOut []LeftOut
	// As is the name of the front matter that now stands for it; "" where none
	// could be given it, and the line has to be written.
	As string
	// Named tells that its ID stands in the front matter.
	Named bool
}

// Add copies a run or a plan into an entry's folder: its results and histograms
// as they are, of a single run the series too where it is not large. A record
// with credentials in it is refused, since a journal is made to be published.
// Where the front matter has the name as, or a single name without an ID, that
// name gets the ID.
func Add(e *Entry, from, as string) (Added, error) {
	r, err := openRecord(from)
	if err != nil {
		return Added{}, fmt.Errorf("add record: %w", err)
	}
	if err := publishable(r); err != nil {
		return Added{}, fmt.Errorf("add record: %w", err)
	}
	a := Added{ID: r.ID, Dir: filepath.Join(e.Dir, recordsDir, r.ID)}
	text, line, err := e.nameRecord(as, r.ID)
	if err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	if _, err := os.Lstat(a.Dir); err == nil {
		return a, fmt.Errorf("add record: %s is there already", a.Dir)
	}
	if err := os.MkdirAll(filepath.Dir(a.Dir), 0o755); err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	part, err := os.MkdirTemp(filepath.Dir(a.Dir), ".adding-")
	if err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	defer os.RemoveAll(part) // gone after the rename
	copier := copier{from: from, to: part}
	copier.record(r)
	if err := errors.Join(copier.err, os.Chmod(part, 0o755)); err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	if err := os.Rename(part, a.Dir); err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	a.Bytes, a.LeftOut = copier.bytes, copier.left
	if line > 0 {
		a.As, a.Named = text, true
		return a, e.writeName(line, r.ID)
	}
	a.Named = text != ""
	return a, nil
}

// publishable refuses a record that lets somebody in, or that is not finished.
func publishable(r *Record) error {
	var list []string
	switch {
	case r.Plan != nil:
		list = page.CredentialsOfPlan(r.Plan)
		if r.Plan.Ended == "" || r.Plan.Ended == record.EndedInterrupted || r.Plan.Ended == record.EndedFailed {
			return fmt.Errorf("plan %s is not finished; %s", r.ID, r.Plan.Onward())
		}
	default:
		list = page.CredentialsOfRun(r.Run.Run)
		if r.Run.Unfinished {
			return fmt.Errorf("run %s was cut off before it had a result", r.ID)
		}
	}
	if len(list) > 0 {
		return fmt.Errorf("%s has %s in it, and a journal is made to be published", r.ID, strings.Join(slices.Compact(list), " and "))
	}
	return nil
}

// copier copies the files of a record.
type copier struct {
	from, to string
	bytes    int64
	left     []LeftOut
	err      error
}

func (c *copier) record(r *Record) {
	if r.Plan == nil {
		c.run("", seriesMost)
	} else {
		c.file("plan.json")
		for _, id := range slices.Sorted(slices.Values(keysOf(r.runs))) {
			c.run(filepath.Join("runs", id), 0)
		}
		c.rest("", "plan.json", "runs")
		c.left = summed(c.left)
	}
	if len(c.left) == 0 || c.err != nil {
		return
	}
	text, err := json.MarshalIndent(leftOutDocument{leftOutSchema, c.left}, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.to, leftOutFile), append(text, '\n'), 0o644)
	}
	c.err = errors.Join(c.err, err)
}

// run copies one run; its series where it has at most so many bytes.
func (c *copier) run(dir string, seriesBytes int64) {
	for _, name := range kept {
		c.file(filepath.Join(dir, name))
	}
	files := slices.Clone(kept)
	series := filepath.Join(dir, "series.ndjson")
	if info, err := os.Stat(filepath.Join(c.from, series)); err == nil && info.Size() <= seriesBytes {
		c.file(series)
		files = append(files, "series.ndjson")
	}
	c.rest(dir, files...)
}

// file copies one file, which may be missing, byte by byte.
func (c *copier) file(name string) {
	if c.err != nil {
		return
	}
	from := filepath.Join(c.from, name)
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > copiedMost) {
		err = fmt.Errorf("%s is no file of at most %d bytes", from, copiedMost)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(c.to, name)), 0o755)
	}
	if err == nil {
		err = copyFile(from, filepath.Join(c.to, name))
	}
	if err != nil {
		c.err = err
		return
	}
	c.bytes += info.Size()
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// rest notes the files of a directory that were not copied.
func (c *copier) rest(dir string, copied ...string) {
	list, err := os.ReadDir(filepath.Join(c.from, dir))
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	for _, d := range list {
		info, err := d.Info()
		if slices.Contains(copied, d.Name()) || d.Name() == leftOutFile || strings.HasPrefix(d.Name(), ".") || err != nil || info.IsDir() {
			continue
		}
		c.left = append(c.left, LeftOut{filepath.ToSlash(filepath.Join(dir, d.Name())), info.Size(), whyLeft(d.Name())})
	}
}

func whyLeft(name string) string {
	switch name {
	case "series.ndjson":
		return fmt.Sprintf("a journal's copy has the series of single runs of at most %s", unit.FormatBytesIEC(seriesMost))
	case "environment.json", "spec.json", "measured.ndjson":
		return "all of it is in the result too"
	}
	return "the journal's pages do not use it"
}

// summed makes one line of the same file of many runs.
func summed(list []LeftOut) []LeftOut {
	var out []LeftOut
	at := map[string]int{}
	for _, l := range list {
		name := l.File
		if parts := strings.Split(name, "/"); len(parts) == 3 && parts[0] == "runs" {
			name = "runs/*/" + parts[2]
		}
		if i, there := at[name]; there {
			out[i].Bytes += l.Bytes
			continue
		}
		at[name] = len(out)
		l.File = name
		out = append(out, l)
	}
	return out
}

// readLeftOut reads what a copy says it lacks.
func (r *Record) readLeftOut() error {
	text, err := os.ReadFile(filepath.Join(r.Dir, leftOutFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var d leftOutDocument
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != leftOutSchema {
		return fmt.Errorf("%s is damaged: it is no %s", filepath.Join(r.Dir, leftOutFile), leftOutSchema)
	}
	r.LeftOut = d.LeftOut
	return nil
}

// shown is the run as its page has it: what the copy lacks was measured, and is
// not to be found here.
func (r *Record) shown() chart.Run {
	run := *r.Run
	for _, l := range r.LeftOut {
		if l.File != "series.ndjson" {
			continue
		}
		copied := *run.Run
		why := fmt.Sprintf("the series, of %s, was left out of the journal's copy", unit.FormatBytesSI(l.Bytes))
		for _, what := range []string{"load", "cpu", "process", "sockets", "netdev"} {
			copied.NotMeasured = append(slices.Clone(copied.NotMeasured), record.NotMeasured{What: what, Why: why})
		}
		run.Run = &copied
	}
	return run
}

// nameRecord chooses the line of the front matter that takes an ID: that of the
// name, or the only one that has none. line is 0 where there is no such line.
func (e *Entry) nameRecord(as, id string) (name string, line int, err error) {
	var open []Named
	for _, n := range e.Runs {
		switch {
		case n.Text == id:
			return n.Name, 0, nil // it stands there
		case n.Name == as && n.Text != "":
			return "", 0, fmt.Errorf("runs: %s is %s already", as, n.Text)
		case n.Name == as:
			return n.Name, n.Line, nil
		case n.Text == "":
			open = append(open, n)
		}
	}
	if as != "" {
		return "", 0, fmt.Errorf("the front matter of %s has no %q among its runs", e.File, as)
	}
	if len(open) == 1 {
		return open[0].Name, open[0].Line, nil
	}
	return "", 0, nil
}

var nameLine = lazy.Regexp(`^(\s+[^\s:#]+\s*:)[ \t]*(#.*)?$`)

// writeName puts an ID behind a name of the front matter.
func (e *Entry) writeName(line int, id string) error {
	text, err := readText(e.File)
	if err != nil {
		return err
	}
	lines := bytes.Split(text, []byte("\n"))
	if line > len(lines) {
		return fmt.Errorf("%s has changed; write the ID into its runs: %s", e.File, id)
	}
	old := strings.TrimSuffix(string(lines[line-1]), "\r")
	m := nameLine().FindStringSubmatch(old)
	if m == nil {
		return fmt.Errorf("%s:%d: the record is in its place; write its ID here: %s", e.File, line, id)
	}
	lines[line-1] = []byte(strings.TrimRight(m[1]+" "+id+" "+m[2], " ") + old[len(strings.TrimRight(old, "\r")):])
	info, err := os.Stat(e.File)
	if err != nil {
		return err
	}
	return replaceFile(e.File, bytes.Join(lines, []byte("\n")), info.Mode().Perm())
}

// replaceFile writes a file so that it is all there or as it was.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".entry-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
