package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// Record is a run or a plan that an entry refers to.
type Record struct {
	// Name is the name that the entry's text uses, Line its line in the front matter.
	Name string
	Line int
	// ID of the run or the plan; "" if the front matter names none yet.
	ID string
	// File is the source; Here is set if it is inside the journal, so that a clone has it.
	File record.File
	Here bool
	// Run or Plan is set, not both; both are nil while ID is "".
	Run  *chart.Run
	Plan *record.Plan
	// LeftOut lists what the journal's copy lacks.
	LeftOut []record.Omission

	of     *Record            // for a run of a plan: the plan
	opened map[string]*Record // for a plan: its runs that references use, by ID
}

// Pending reports whether the record is still to be measured.
func (r *Record) Pending() bool { return r.ID == "" }

// Page is the path of the record's own page, CSV that of a sweep's points; "" if it is none.
func (r *Record) Page() string { return recordPage(r.ID) }
func (r *Record) CSV() string {
	if r.Plan == nil || r.Plan.Sweep == nil {
		return ""
	}
	return csvPage(r.ID)
}

// openRecords reads the records that the front matter names.
func (e *Entry) openRecords(j *Journal, store record.Store, wrong *Mistakes) {
	for _, n := range e.Runs {
		if n.Text == "" {
			if !e.Status.open() {
				wrong.add(e.File, n.Line, "runs: %s names no record; an entry that is %s has all of them", n.Name, e.Status)
			}
			e.Records = append(e.Records, &Record{Name: n.Name, Line: n.Line})
			continue
		}
		f, here, err := e.findRecord(j, store, n.Text)
		if err != nil {
			wrong.add(e.File, n.Line, "runs: %v", err)
			continue
		}
		r, err := openRecord(f)
		if err != nil {
			wrong.add(e.File, n.Line, "runs: %s: %v", clip(n.Text), err)
			continue
		}
		r.Name, r.Line, r.Here = n.Name, n.Line, here
		if n.Name == n.Text { // in a list the ID is the name, even if a path was given
			r.Name = r.ID
		}
		if other := e.record(r.Name); other != nil && other.Name == r.Name {
			wrong.add(e.File, n.Line, "runs: %s is named twice", clip(r.Name))
			continue
		}
		e.Records = append(e.Records, r)
	}
	typed := bytes.Contains(e.body, []byte("{{typed ")) // figures of others, which have no record
	if len(e.Runs) == 0 && !typed && e.Status == Done {
		wrong.add(e.File, e.keyLine("status"), "a done entry names the runs that it is about: runs")
	}
	if e.Regime != "" && e.Status == Done {
		e.checkRegime(wrong)
	}
}

// checkRegime finds a regime that fewer of the entry's runs have as their bottleneck than another.
func (e *Entry) checkRegime(wrong *Mistakes) {
	all, counts, most := 0, map[string]int{}, e.Regime
	count := func(b record.Bottleneck) { all, counts[string(b)] = all+1, counts[string(b)]+1 }
	for _, r := range e.Records {
		if r.Run != nil {
			count(r.Run.Verdict.Bottleneck)
		}
		for i := 0; r.Plan != nil && i < len(r.Plan.Runs); i++ {
			count(r.Plan.Runs[i].Bottleneck)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > counts[most] {
			most = name
		}
	}
	if most != e.Regime {
		wrong.add(e.File, e.keyLine("regime"), "regime: most runs of this entry name %q (%d of %d)", most, counts[most], all)
	}
}

// findRecord searches the entry's own folder, then the other entries' folders, then the store.
func (e *Entry) findRecord(j *Journal, store record.Store, name string) (f record.File, here bool, err error) {
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(e.Dir, path)
		}
		if f, err = store.Find(path); err == nil {
			return f, within(j.Dir, f.Path), nil
		}
		return f, false, fmt.Errorf("no run and no plan in %s", clip(path))
	}
	for _, from := range append([]*Entry{e}, j.Entries...) {
		if f, err := (record.Store{Dir: filepath.Join(from.Dir, recordsDir)}).Find(name); err == nil && within(j.Dir, f.Path) {
			return f, true, nil
		} else if err != nil && strings.Contains(err.Error(), "could be") {
			return f, false, err
		}
	}
	if f, err = store.Find(name); err != nil {
		return f, false, fmt.Errorf("no record %q, neither in %s nor in the store %s; put it in with: ceiling journal add %s ID", clip(name),
			filepath.Join(e.Dir, recordsDir), store.Dir, e.Name)
	}
	return f, false, nil
}

// read reads a file of the entry's folder; as is how its name is written.
func (e *Entry) read(file, as string) ([]byte, error) {
	if !filepath.IsLocal(filepath.FromSlash(file)) {
		return nil, fmt.Errorf("%s is not in the entry's folder; put it there, as in %s", clip(file), as)
	}
	data, err := readFile(e.Dir, filepath.FromSlash(file), fileMost)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, clip(file))
	}
	return data, nil
}

// within reports whether a path is inside a folder.
func within(dir, path string) bool {
	a, err1 := filepath.Abs(dir)
	b, err2 := filepath.Abs(path)
	rel, err3 := filepath.Rel(a, b)
	return errors.Join(err1, err2, err3) == nil && filepath.IsLocal(rel)
}

// openRecord reads a run or a plan and its document.
func openRecord(f record.File) (*Record, error) {
	r := &Record{File: f}
	if f.IsPlan() {
		p, err := page.OpenPlan(f)
		if err != nil {
			return nil, err
		}
		r.ID, r.Plan, r.LeftOut = p.ID, p, p.LeftOut
	} else {
		run, left, err := page.OpenCopy(f)
		if err != nil {
			return nil, err
		}
		r.ID, r.Run, r.LeftOut = run.ID, &run, left
	}
	if !record.IsID(r.ID) {
		return nil, fmt.Errorf("its ID is %q, which no run has", clip(r.ID))
	}
	return r, nil
}

// means reports whether a name is an ID, or begins or ends one.
func means(name, id string) bool {
	return id == name || strings.HasPrefix(id, name) || strings.HasSuffix(id, name)
}

// record returns the entry's record with a given name, ID, or unique prefix or suffix of an ID.
func (e *Entry) record(name string) *Record {
	var found []*Record
	for _, r := range e.Records {
		if r.Name == name || r.ID == name {
			return r
		}
		if !r.Pending() && len(name) >= 4 && means(name, r.ID) {
			found = append(found, r)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return nil
}

// resolve returns a record of the entry, or with NAME/ID a run of a plan.
func (e *Entry) resolve(name string) (*Record, error) {
	of, part, isPart := strings.Cut(name, "/")
	r := e.record(of)
	switch {
	case r == nil && len(e.Records) == 0:
		return nil, errors.New("this entry names no records; runs in its front matter does that")
	case r == nil:
		var names []string
		for _, one := range e.Records {
			names = append(names, one.Name)
		}
		return nil, fmt.Errorf("%q is not among this entry's runs%s", clip(of), nearTo(of, names))
	case !isPart || r.Pending():
		return r, nil
	case r.Plan == nil:
		return nil, fmt.Errorf("%s is a single run and has no %s", r.Name, clip(part))
	}
	all := r.Plan.Records()
	found := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !means(part, id) })
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %d runs called %q in the journal, of %d", r.Name, len(found), clip(part), len(all))
	}
	run, err := r.member(found[0])
	if err != nil {
		return nil, err
	}
	called := *run
	called.Name = name // as the entry writes it
	return &called, nil
}

// member reads a run of a plan, once for all references to it.
func (r *Record) member(id string) (*Record, error) {
	if run := r.opened[id]; run != nil {
		return run, nil
	}
	f, there := r.Plan.Record(id)
	if !there {
		return nil, fmt.Errorf("the record of run %s is not in the journal", id)
	}
	run, err := openRecord(f)
	if err != nil {
		return nil, err
	}
	if run.Run == nil || run.ID != id {
		return nil, fmt.Errorf("%s is not the run %s", f, id)
	}
	if r.opened == nil {
		r.opened = map[string]*Record{}
	}
	run.Name, run.of = r.Name+"/"+id, r
	r.opened[id] = run
	return run, nil
}

// same reports whether two records with the same ID have the same content.
func (r *Record) same(other *Record) bool {
	text := func(r *Record) string {
		var b strings.Builder
		var err error
		if r.Plan != nil {
			err = record.WritePlanJSON(&b, r.Plan)
		} else if r.Run != nil {
			err = record.WriteJSON(&b, r.Run.Run)
		}
		return fmt.Sprint(b.String(), err)
	}
	return text(r) == text(other)
}
