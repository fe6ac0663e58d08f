package record

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/internal/secret"
)

// candidatesMax is how many runs an ambiguous name lists.
const candidatesMax = 10

// Store is a directory with one directory per run, named by the run's ID.
type Store struct {
	Dir string
}

// DefaultStore is the person's own: $XDG_DATA_HOME/ceiling/runs, or
// ~/.local/share/ceiling/runs where that is not set (XDG Base Directory
// Specification, which also says that a relative path there counts as unset).
// getenv is os.Getenv.
func DefaultStore(getenv func(string) string) (Store, error) {
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return Store{}, errors.New("find the directory of runs: neither XDG_DATA_HOME nor HOME is set; give a directory")
		}
		data = filepath.Join(home, ".local", "share")
	}
	return Store{Dir: filepath.Join(data, "ceiling", "runs")}, nil
}

// NewID makes the name of a run: its time in UTC to the second, so that names
// sort as the runs were made, and four random characters (one of 1,048,576), as
// in 20261121-093012-x7f2.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

// IsID tells a name that NewID could have made.
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

// Create begins a run in the store, in a new directory named id. The store's
// directory is made where there is none, for its owner alone, like the run's.
func (s Store) Create(id string) (*Writer, error) {
	if !IsID(id) {
		return nil, fmt.Errorf("create run: %q is not the ID of a run", id)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, createFailed("run", err)
	}
	dir := filepath.Join(s.Dir, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, createFailed("run", err)
	}
	return newWriter(dir, id)
}

// Entry is one line of a list of runs.
type Entry struct {
	// ID of the run, or the directory's name where it could not be read.
	ID  string
	Dir string
	// Started, Target, CompletedPerS (requests per second), Outcome and Ceiling
	// are those of the Run. An unfinished run has the first two alone.
	Started       time.Time
	Target        string
	CompletedPerS float64
	Outcome       Outcome
	Ceiling       Bottleneck
	Unfinished    bool
	// Kind of a plan ("sweep", "find", …) with how many Runs it has and what
	// it Says; "" for a single run.
	Kind string
	Runs int
	Says string
	// Onward says how to go on with a plan that is unfinished.
	Onward string
	// Unreadable says why nothing more is known: a directory that is no run, or
	// a run that is damaged or newer than this program. "" for one that is fine.
	Unreadable string
}

// List is everything in the store, newest first; what is not named like a run
// comes last. Files whose names begin with a dot are passed over. A store that
// is not there yet is empty. The error is about the store's directory alone.
func (s Store) List() ([]Entry, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		entries = append(entries, readEntry(filepath.Join(s.Dir, name)))
	}
	return entries, nil
}

// names lists the store's directory: IDs first, newest first.
func (s Store) names() ([]string, error) {
	dir, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var ids, others []string
	for i := len(dir) - 1; i >= 0; i-- { // ReadDir sorts
		switch name := dir[i].Name(); {
		case IsID(name):
			ids = append(ids, name)
		case !strings.HasPrefix(name, "."):
			others = append(others, name)
		}
	}
	slices.Reverse(others)
	return append(ids, others...), nil
}

// Find answers the directory of the run that a person means: by a path to its
// directory, by its ID, or by any beginning or end of an ID that only one run
// in the store has ("x7f2", "20261121-0930").
func (s Store) Find(name string) (string, error) {
	if name == "" {
		return "", errors.New("find run: no name given; give an ID or a part of one, such as x7f2")
	}
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return s.findPath(name)
	}
	all, err := s.names()
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range all {
		if dir := filepath.Join(s.Dir, id); id == name && (isRun(dir) || IsPlan(dir)) {
			return dir, nil
		}
		if IsID(id) && (strings.HasPrefix(id, name) || strings.HasSuffix(id, name)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(s.Dir, found[0]), nil
	case 0:
		if isRun(name) || IsPlan(name) { // a directory in the working directory, given without ./
			return name, nil
		}
		return "", fmt.Errorf("find run: no run named %q in %s", name, s.Dir)
	}
	more := ""
	if len(found) > candidatesMax {
		more = fmt.Sprintf(" and %d more", len(found)-candidatesMax)
		found = found[:candidatesMax]
	}
	return "", fmt.Errorf("find run: %q could be %s%s; give more of the name", name, strings.Join(found, ", "), more)
}

// findPath answers a directory that is a run or a plan, or a run of a plan in
// the store: "x7f2/k3pq".
func (s Store) findPath(name string) (string, error) {
	if isRun(name) || IsPlan(name) {
		return name, nil
	}
	if of, part, found := strings.Cut(name, "/"); found && of != "" && of[0] != '.' && part != "" && !strings.Contains(part, "/") {
		if dir, err := s.Find(of); err == nil && IsPlan(dir) {
			return Store{Dir: filepath.Join(dir, runsDir)}.Find(part)
		}
	}
	return "", fmt.Errorf("find run: %s holds neither %s nor %s nor %s", name, resultFile, specFile, planFile)
}

// isRun tells a directory that a run was begun in.
func isRun(dir string) bool {
	for _, name := range []string{resultFile, specFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// isStore tells a directory that holds runs and nothing else.
func isStore(entries []fs.DirEntry) bool {
	runs := 0
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir() && IsID(e.Name()):
			runs++
		default:
			return false
		}
	}
	return runs > 0
}

// planEntry reads as much of a plan as a list shows.
func planEntry(entry Entry) Entry {
	p, err := OpenPlan(entry.Dir)
	if err != nil {
		entry.Unreadable = err.Error()
		return entry
	}
	entry.ID, entry.Started, entry.Kind, entry.Runs = p.ID, p.Created, p.Experiment.Kind, len(p.Runs)
	entry.Unfinished, entry.Says, entry.Onward = p.Ended == "", p.Says(), p.Onward()
	entry.Target = secret.Plain().Shell(p.Experiment.Servers[0].Label())
	if n := len(p.Experiment.Servers); n > 1 {
		entry.Target = fmt.Sprintf("%s and %d more", entry.Target, n-1)
	}
	return entry
}

// readEntry reads as much of a run as a list shows.
func readEntry(dir string) Entry {
	entry := Entry{ID: filepath.Base(dir), Dir: dir}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		entry.Unreadable = err.Error()
		return entry
	case !info.IsDir():
		entry.Unreadable = "not a directory"
		return entry
	case IsPlan(dir):
		return planEntry(entry)
	case !isRun(dir):
		entry.Unreadable = fmt.Sprintf("not a run: it holds neither %s nor %s", resultFile, specFile)
		return entry
	}
	var result struct {
		ID      string    `json:"id"`
		Started time.Time `json:"started"`
		Target  string    `json:"target"`
		Rate    struct {
			CompletedPerS float64 `json:"completed_per_s"`
		} `json:"rate"`
		Verdict struct {
			Outcome Outcome    `json:"outcome"`
			Ceiling Bottleneck `json:"ceiling"`
		} `json:"verdict"`
	}
	err = readDocument(filepath.Join(dir, resultFile), &result)
	switch {
	case err == nil:
		entry.ID, entry.Started, entry.Target = result.ID, result.Started, secret.Plain().URL(result.Target)
		entry.CompletedPerS = result.Rate.CompletedPerS
		entry.Outcome, entry.Ceiling = result.Verdict.Outcome, result.Verdict.Ceiling
	case errors.Is(err, fs.ErrNotExist):
		var start Start
		if err := readDocument(filepath.Join(dir, specFile), &start); err != nil {
			entry.Unreadable = err.Error()
			return entry
		}
		entry.ID, entry.Started, entry.Target, entry.Unfinished = start.ID, start.Created, secret.Plain().URL(start.target()), true
	default:
		entry.Unreadable = err.Error()
	}
	return entry
}
