package record

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
)

// candidatesMax is how many runs the error for an ambiguous name lists.
const candidatesMax = 10

// Store is a directory with one file per run or plan, named by its ID.
type Store struct {
	Dir string
}

// DefaultStore is the user's store: $XDG_DATA_HOME/ceiling/runs, or ~/.local/share/ceiling/runs
// if that is unset (XDG Base Directory Specification, which also treats a relative path as
// unset); %LocalAppData%\ceiling\runs on Windows. getenv is os.Getenv.
func DefaultStore(getenv func(string) string) (Store, error) {
	dir, err := ownData(getenv)
	if err != nil {
		return Store{}, fmt.Errorf("find the directory of runs: %w; give a directory", err)
	}
	return Store{Dir: filepath.Join(dir, "runs")}, nil
}

// ownData is the directory of the user's data of this program.
func ownData(getenv func(string) string) (string, error) {
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) && runtime.GOOS == "windows" {
		data = getenv("LocalAppData")
	}
	if !filepath.IsAbs(data) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_DATA_HOME nor HOME is set")
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "ceiling"), nil
}

// NewID makes a run's ID: its UTC time to the second, so that names sort by time, and four random
// characters (one of 1,048,576), as in 20261121-093012-x7f2.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

// IsID reports whether NewID could have made name.
func IsID(name string) bool {
	if len(name) != len("20261121-093012-x7f2") || name[8] != '-' || name[15] != '-' {
		return false
	}
	for i, c := range []byte(name) {
		digit, letter := '0' <= c && c <= '9', 'a' <= c && c <= 'z'
		if i != 8 && i != 15 && !digit && !(letter && i > 15) {
			return false
		}
	}
	return true
}

// Create starts a run in the store. It creates the store's directory if needed, accessible to its
// owner only.
func (s Store) Create(id string) (*Writer, error) {
	if !IsID(id) {
		return nil, fmt.Errorf("create run: %q is not the ID of a run", id)
	}
	return Create(s.file(id), id)
}

// CreatePlan starts a plan in the store in the same way.
func (s Store) CreatePlan(p *Plan) (*PlanWriter, error) { return CreatePlan(s.file(p.ID), p) }

func (s Store) file(id string) string { return filepath.Join(s.Dir, id+plainSuffix+gzipSuffix) }

// Progress says how far a record has come.
type Progress string

// The stages of a record.
const (
	Ended     Progress = ""             // it has a result
	Running   Progress = "running"      // a process is writing it, or the file system has no locks to tell (flock(2))
	Abandoned          = Progress(Lost) // the process that wrote it was killed
)

// progressOf returns the progress of a record without a result.
func progressOf(f File) Progress {
	s, err := f.open()
	if err != nil {
		return Abandoned // removed in the meantime
	}
	defer s.Close()
	if s.abandoned() {
		return Abandoned
	}
	return Running
}

// Entry is one line of a list of runs.
type Entry struct {
	// ID of the run, or the file's name if it is unreadable; Short is a unique suffix of it.
	ID    string `json:"id"`
	Short string `json:"short"`
	// Kind of a plan ("sweep", "find", …) with its number of Runs, its one-word Result (of a
	// proof or a comparison) and what it Says; "" for a single run.
	Kind string `json:"kind"`
	// Started, Target, the load (TargetPerS of an open loop), the completed requests per second,
	// the p99 of the response time, Outcome and Bottleneck are those of the Run. A run without a
	// result has only the first two.
	//
	// For a plan they are its answer's: the rate that a search found, the highest of a sweep.
	// Missing ones are 0 or "".
	Started time.Time `json:"started,omitzero"`
	Target  string    `json:"target,omitempty"`
	spec.Condition
	TargetPerS    float64    `json:"target_per_s,omitempty"`
	Runs          int        `json:"runs,omitempty"`
	CompletedPerS float64    `json:"completed_per_s,omitempty"`
	P99Ns         int64      `json:"p99_ns,omitempty"`
	P99AtLeast    bool       `json:"p99_at_least,omitempty"` // it is a lower bound
	Outcome       Outcome    `json:"outcome,omitempty"`
	Result        string     `json:"result,omitempty"`
	Bottleneck    Bottleneck `json:"bottleneck,omitempty"`
	Progress      Progress   `json:"state,omitempty"`
	// Unreadable says why nothing more is known: the file is not a record, damaged, or newer than
	// this program; "" for a good one.
	Unreadable string    `json:"unreadable,omitempty"`
	Says       Statement `json:"-"`
	// Onward says how to continue a plan that was lost.
	Onward Statement `json:"-"`
}

// List returns everything in the store, newest first; files not named like a record come last. It
// skips dot files. A missing store is empty. The error is about the store's directory only.
func (s Store) List() ([]Entry, error) {
	names, others, err := s.names()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names)+len(others))
	for _, name := range names {
		entries = append(entries, readEntry(File{Path: filepath.Join(s.Dir, name)}))
	}
	for i := range entries {
		entries[i].Short = entries[i].ID
		if IsID(entries[i].ID) {
			entries[i].Short = short(entries[i].ID, names)
		}
	}
	for _, name := range others {
		entries = append(entries, Entry{ID: name, Unreadable: "not a record by its name: ID" + plainSuffix + gzipSuffix})
	}
	return entries, nil
}

// names lists the files of the store's directory: records, newest first, and other files.
func (s Store) names() (records, others []string, err error) {
	all, err := recordsIn(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	for _, name := range slices.Backward(all) {
		if id, _ := isName(name); IsID(id) {
			records = append(records, name)
		}
	}
	for _, e := range list {
		id, is := isName(e.Name())
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || !is || !IsID(id)) {
			others = append(others, e.Name())
		}
	}
	return records, others, nil
}

// Find returns the record that a name means: a path to its file or to a directory that holds only
// that record, its ID, or any prefix or suffix of an ID that is unique in the store ("x7f2",
// "20261121-0930"). PLAN/RUN names a run of a plan.
func (s Store) Find(name string) (File, error) {
	if name == "" {
		return File{}, errors.New("find run: no name given; give an ID or a part of one, such as x7f2")
	}
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return s.findPath(name)
	}
	all, _, err := s.names()
	if err != nil {
		return File{}, err
	}
	var found, ids []string
	for _, file := range all {
		id, _ := isName(file)
		if id == name || file == name {
			return File{Path: filepath.Join(s.Dir, file)}, nil
		}
		if strings.HasPrefix(id, name) || strings.HasSuffix(id, name) {
			found, ids = append(found, file), append(ids, id)
		}
	}
	switch len(found) {
	case 1:
		return File{Path: filepath.Join(s.Dir, found[0])}, nil
	case 0:
		if f, err := At(name); err == nil { // in the working directory, given without ./
			return f, nil
		}
		return File{}, fmt.Errorf("find run: no run named %q in %s", name, s.Dir)
	}
	return File{}, ambiguous(name, ids)
}

// Short returns a suffix of an ID that is unique in the store: four characters, or as many more
// as that takes.
func (s Store) Short(id string) string {
	all, _, err := s.names()
	if err != nil {
		return id
	}
	return short(id, all)
}

// short is Short for a given list of files.
func short(id string, files []string) string {
	for n := shortLeast; n < len(id); n++ {
		end := id[len(id)-n:]
		same := slices.ContainsFunc(files, func(file string) bool {
			other, _ := isName(file)
			return other != id && (strings.HasSuffix(other, end) || strings.HasPrefix(other, end))
		})
		if !same {
			return end
		}
	}
	return id
}

// shortLeast is the length of an ID's random part.
const shortLeast = 4

func ambiguous(name string, ids []string) error {
	more := ""
	if len(ids) > candidatesMax {
		more = fmt.Sprintf(" and %d more", len(ids)-candidatesMax)
		ids = ids[:candidatesMax]
	}
	return fmt.Errorf("find run: %q could be %s%s; give more of the name", name, strings.Join(ids, ", "), more)
}

// findPath returns the record at a path, or a run of a plan: "x7f2/k3pq".
func (s Store) findPath(name string) (File, error) {
	f, err := At(name)
	if err == nil {
		return f, nil
	}
	i := strings.LastIndexByte(name, '/')
	if i <= 0 || i == len(name)-1 {
		return File{}, err
	}
	plan, findErr := s.Find(name[:i])
	if findErr != nil || !plan.IsPlan() {
		return File{}, err
	}
	p, err := OpenPlan(plan)
	if err != nil {
		return File{}, err
	}
	part := name[i+1:]
	var found []string
	for _, id := range p.Records() {
		if id == part || strings.HasPrefix(id, part) || strings.HasSuffix(id, part) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return File{}, fmt.Errorf("find run: %s has no run named %q", plan, part)
	case 1:
		f, _ := p.Record(found[0])
		return f, nil
	}
	return File{}, ambiguous(part, found)
}

// planEntry reads as much of a plan as a list shows.
func planEntry(f File, entry Entry) Entry {
	p, made, err := planAnswer(f)
	if err != nil {
		entry.Unreadable = err.Error()
		return entry
	}
	entry.ID, entry.Started, entry.Kind, entry.Runs = p.ID, p.Created, p.Experiment.Kind, made
	entry.Says, entry.Onward = p.Says(), p.Onward()
	if p.Ended == "" {
		entry.Progress = progressOf(f)
	}
	answer := p.Answer().Summary()
	entry.CompletedPerS, entry.P99Ns, entry.P99AtLeast = answer.CompletedPerS, answer.P99Ns, answer.P99AtLeast
	entry.Outcome, entry.Bottleneck, entry.Result = answer.Outcome, answer.Bottleneck, answer.Result
	if entry.Outcome == "" && entry.Result == "" {
		entry.Result = p.Ended
	}
	entry.Target = p.Experiment.Servers[0].Label()
	if len(p.Experiment.Requests) == 1 {
		entry.Target = spec.Loaded(entry.Target, p.Experiment.Requests[0].Label())
	}
	entry.Target = secret.Plain().Shell(entry.Target)
	switch n := len(p.Experiment.Servers); {
	case n == 2 && p.Experiment.HasSides():
		entry.Target = p.versus()
	case n > 1:
		entry.Target = fmt.Sprintf("%s and %d more", entry.Target, n-1)
	}
	return entry
}

// versus names the two servers of a comparison by how they differ.
func (p *Plan) versus() string {
	label := func(i int) string { return secret.Plain().Shell(p.Experiment.Servers[i].Label()) }
	a, b := Apart(label(0), label(1))
	if a == "" || b == "" {
		a, b = label(0), label(1)
	}
	text := a + " vs " + b
	if len(p.Experiment.Requests) == 1 && !strings.Contains(a, "://") {
		text += " " + secret.Plain().Shell(p.Experiment.Requests[0].Label())
	}
	return text
}

// planAnswer reads a plan's head and answer, and its number of runs. It reads the whole file only
// if the file does not say where the answer is.
func planAnswer(f File) (p *Plan, made int, err error) {
	src, err := f.open()
	if err != nil {
		return nil, 0, err
	}
	defer src.Close()
	first, err := newLines(src).line()
	if err == nil && first.kind == kindPlan {
		p = new(Plan)
		if err := readHead(first.text, PlanSchema, p); err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", f, err)
		}
		if err := p.Experiment.Check(); err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", f, err)
		}
		var of struct {
			Made int `json:"made"`
		}
		if last, err := lastLine(src, kindAnswer); err == nil && last != nil &&
			json.Unmarshal(last, &of) == nil && json.Unmarshal(last, &p.Ending) == nil {
			return p, of.Made, nil
		}
	}
	if p, err = OpenPlan(f); err != nil {
		return nil, 0, err
	}
	return p, len(p.Runs), nil
}

// lastLine returns the last document of a compressed record; nil if the file does not say where
// it is.
func lastLine(src *source, kind string) ([]byte, error) {
	there, err := src.lastMember()
	if err != nil || !there {
		return nil, err
	}
	l, err := newLines(src).line()
	if err != nil || l.kind != kind {
		return nil, err
	}
	return l.text, nil
}

// readEntry reads as much of a record as a list shows.
func readEntry(f File) Entry {
	id, _ := isName(filepath.Base(f.Path))
	entry := Entry{ID: id}
	if f.IsPlan() {
		return planEntry(f, entry)
	}
	run, err := runAnswer(f)
	if err != nil {
		entry.Unreadable = err.Error()
		return entry
	}
	entry.ID, entry.Started, entry.Target = run.ID, run.Started, secret.Plain().URL(run.Target)
	if run.Unfinished {
		entry.Progress = progressOf(f)
	} else {
		entry.CompletedPerS, entry.Outcome, entry.Bottleneck = run.Rate.CompletedPerS, run.Verdict.Outcome, run.Verdict.Bottleneck
		entry.P99Ns, entry.P99AtLeast = run.Latency.Response.P99Ns, run.Latency.Response.IsBound(.99)
	}
	entry.Connections, entry.Pipelining, entry.TargetPerS = run.Load.Connections, run.Load.Pipelining, run.Load.TargetPerS
	return entry
}

// runAnswer does the same for a run.
func runAnswer(f File) (*Run, error) {
	r, err := openRun(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if last, err := lastLine(r.source, kindResult); err == nil && last != nil {
		if run, err := finished(&r.head, last); err == nil {
			return run, nil
		}
	}
	run, _, err := Open(f)
	return run, err
}
