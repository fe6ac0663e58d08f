package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/durable"
	"ceiling/internal/lazy"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// beginning is the template of a new entry.
const beginning = `---
title: %s
date: %s
status: planned
question: %s
hypothesis:
finding:
regime:
tags: []
runs:
  main:
next:
---

## Results

{{table "main"}}

## Conclusion
`

// Create creates an entry: a folder with the next number and a text to fill in. It returns the
// folder. today is in the form 2026-11-21.
func Create(dir, title, today string) (string, error) {
	title = strings.Join(strings.Fields(title), " ")
	slug := slugOf(title)
	if slug == "" {
		return "", fmt.Errorf("begin entry: the title %q has no letters to name a folder by", title)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	names, err := folders(dir)
	if err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	last := "0000"
	for _, name := range names {
		switch e := entryIn(dir, name); {
		case e == nil: // no entry: the build says so
		case e.Slug == slug:
			return "", fmt.Errorf("begin entry: there is %s already; give it another title", name)
		default:
			last = max(last, e.Number)
		}
	}
	number, err := strconv.Atoi(last)
	if err != nil || number+1 >= 10_000 {
		return "", errors.New("begin entry: the numbers of this journal are used up")
	}
	folder := filepath.Join(dir, fmt.Sprintf("%04d-%s", number+1, slug))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	text := fmt.Sprintf(beginning, quoted(title), today, quoted(title))
	if err := os.WriteFile(filepath.Join(folder, entryFile), []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	return folder, nil
}

// quoted returns a single-quoted YAML string, in which only the quote is special.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// slugMost limits the length of a folder's name.
const slugMost = 50

// otherLetters are what a folder's name has dashes for.
var otherLetters = lazy.Regexp(`[^a-z0-9]+`)

// slugOf converts a title to small letters, digits and dashes.
func slugOf(title string) string {
	slug := strings.Trim(otherLetters().ReplaceAllString(strings.ToLower(title), "-"), "-")
	if len(slug) > slugMost {
		slug = slug[:slugMost]
		if i := strings.LastIndexByte(slug, '-'); i > 0 {
			slug = slug[:i]
		}
	}
	return slug
}

// seriesMost is the largest series to copy, in bytes: 10 s at ten rows a second take about 250
// kB. A journal lives in a repository.
const seriesMost = 512 << 10

// series is the name in LeftOut for a copy without rows.
const series = "series"

// Added is a record copied into an entry's folder.
type Added struct {
	ID, File string
	Bytes    int64
	LeftOut  []record.Omission
	// As is the front matter name that refers to the record; "" if no name could, and the user
	// must write the line.
	As string
	// Named is set if the front matter has the record's ID.
	Named bool
}

// Add copies a run or a plan into an entry's folder, as one compressed file: its results and
// histograms, and for a single run also the series if it is small enough. It rejects a record
// with credentials, because journals are published. If the front matter has the name as, or a
// single name without an ID, Add writes the ID there.
func Add(e *Entry, from record.File, as string) (Added, error) {
	r, err := openRecord(from)
	if err != nil {
		return Added{}, fmt.Errorf("add record: %w", err)
	}
	if err := publishable(r); err != nil {
		return Added{}, fmt.Errorf("add record: %w", err)
	}
	a := Added{ID: r.ID, File: filepath.Join(e.Dir, recordsDir, r.ID+".ndjson.gz")}
	text, line, err := e.nameRecord(as, r.ID)
	if err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	if _, err := os.Lstat(a.File); err == nil {
		return a, fmt.Errorf("add record: %s is there already", a.File)
	}
	if err := os.MkdirAll(filepath.Dir(a.File), 0o755); err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	part := filepath.Join(filepath.Dir(a.File), ".adding-"+r.ID)
	a.LeftOut, a.Bytes, err = record.Copy(part, from, record.CopyOptions{
		SeriesMost:    seriesMost,
		SeriesWhy:     fmt.Sprintf("a journal's copy has the series of single runs of at most %s", unit.FormatBytesIEC(seriesMost)),
		AttachmentWhy: "the journal's pages do not use it",
	})
	if err == nil {
		defer os.Remove(part) // no-op after the rename
		err = os.Rename(part, a.File)
	}
	if err != nil {
		return a, fmt.Errorf("add record: %w", err)
	}
	if line > 0 {
		a.As, a.Named = text, true
		return a, e.writeName(line, r.ID)
	}
	a.Named = text != ""
	return a, nil
}

// publishable rejects a record that contains credentials or is not finished.
func publishable(r *Record) error {
	var list []string
	switch {
	case r.Plan != nil:
		list = page.CredentialsOfPlan(r.Plan)
		if r.Plan.Ended == "" || r.Plan.Ended == record.EndedInterrupted || r.Plan.Ended == record.EndedFailed {
			return fmt.Errorf("plan %s is not finished; %s", r.ID, prose.Text(r.Plan.Onward()))
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

// shown is the run as its page shows it: series missing from the copy were measured, but are not
// available here.
func (r *Record) shown() chart.Run {
	run := *r.Run
	for _, l := range r.LeftOut {
		if l.What != series {
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

// nameRecord chooses the front matter line for an ID: the line of the name, or the only line
// without an ID. line is 0 if there is no such line.
func (e *Entry) nameRecord(as, id string) (name string, line int, err error) {
	var open []Named
	for _, n := range e.Runs {
		switch {
		case n.Text == id:
			return n.Name, 0, nil // already there
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

// writeName writes an ID after a name of the front matter.
func (e *Entry) writeName(line int, id string) error {
	text, err := readFile(e.Dir, entryFile, entryMost)
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
	return durable.Replace(e.File, bytes.Join(lines, []byte("\n")), func(f *os.File) error { return f.Chmod(info.Mode().Perm()) })
}
