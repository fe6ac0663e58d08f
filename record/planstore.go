package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/durable"
	"ceiling/internal/hist"
)

// PlanWriter stores a plan while it runs, so that a killed one can be resumed. Its methods are
// safe for concurrent use; its runs are made one after another.
type PlanWriter struct {
	s        *stream
	compress bool
	head     Plan // without runs and answer
}

// CreatePlan starts a plan at a user's path, as Create does for a run.
func CreatePlan(path string, p *Plan) (*PlanWriter, error) {
	s, compress, err := create(path, p.ID)
	if err != nil {
		return nil, createFailed("plan", err)
	}
	w := &PlanWriter{s: s, compress: compress, head: planStart(p)}
	err = errors.Join(s.document(kindPlan, struct {
		*Plan
		Exit int `json:"exit,omitempty"` // instead of the plan's: it is not known yet
	}{Plan: &w.head}), durable.Dir(filepath.Dir(s.path)))
	if err != nil {
		return nil, createFailed("plan", errors.Join(err, s.close(), os.Remove(s.path)))
	}
	return w, nil
}

// planStart is what is known about a plan before its first run.
func planStart(p *Plan) Plan {
	head := *p
	head.Schema, head.Runs, head.Ending = PlanSchema, nil, Ending{}
	normalHost(&head.Environment)
	return head
}

// ResumePlan continues a plan read by OpenPlan at the end of its file. It terminates a line that
// a kill truncated, and leaves it there.
func ResumePlan(f File, p *Plan) (*PlanWriter, error) {
	f, err := At(f.Path)
	if err != nil {
		return nil, fmt.Errorf("resume plan: %w", err)
	}
	file, err := os.OpenFile(f.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("resume plan: %w", err)
	}
	// A file with the default name was meant to become a .gz.
	w := &PlanWriter{s: newStream(f.Path, file), compress: filepath.Base(f.Path) == p.ID+plainSuffix, head: planStart(p)}
	err = w.s.goOn()
	if err == nil {
		err = w.s.document(kindResumed, struct {
			At time.Time `json:"at"`
		}{time.Now()})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume plan: %w", err), file.Close())
	}
	return w, nil
}

// File returns where the plan is.
func (w *PlanWriter) File() File {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return File{Path: w.s.path}
}

// Create starts a run of the plan. Finish or close it before the next one.
func (w *PlanWriter) Create(id string) (*Writer, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !IsID(id) {
		return nil, fmt.Errorf("create run: %q is not the ID of a run", id)
	}
	if w.s.file == nil {
		return nil, errors.New("create run: the plan is closed")
	}
	run := newWriter(w.s, id, false)
	run.plan = w
	return run, nil
}

// Append stores what the plan knows about one completed run, and syncs it to disk before
// returning.
func (w *PlanWriter) Append(m *Measured) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.s.document(kindMeasured, m); err != nil {
		return fmt.Errorf("keep run %d of the plan: %w", m.Number, err)
	}
	return nil
}

// Finish writes the answer, closes the file, and compresses it if the plan needs no further run.
func (w *PlanWriter) Finish(p *Plan) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.file == nil {
		return errors.New("write the answer: the plan is closed")
	}
	err := w.s.document(kindAnswer, struct {
		Made int `json:"made"` // runs that it is based on
		Ending
	}{len(p.Runs), p.Ending})
	written := err == nil
	if err = errors.Join(err, w.s.close()); err == nil && written && w.compress && p.over() {
		w.s.path, err = compressed(w.s.path)
	}
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// Close ends a plan without an answer, so that it can be resumed.
func (w *PlanWriter) Close() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.close()
}

// WritePlanJSON writes a plan as --json prints it.
func WritePlanJSON(out io.Writer, p *Plan) error {
	q := *p
	q.Schema = PlanSchema
	notNil(&q.Runs)
	return encode(out, &q)
}

// OpenPlan reads a plan with its runs, even one that was killed. Use ReadHistograms for the
// histograms of its runs.
func OpenPlan(f File) (*Plan, error) {
	p, err := readPlan(f, nil)
	if err != nil {
		return nil, fmt.Errorf("open plan: %w", err)
	}
	return p, nil
}

// readPlan reads the lines of a plan; of its runs, only where they are. It passes their response
// times to histogram, unless that is nil.
func readPlan(f File, histogram func(run, v2 string)) (*Plan, error) {
	src, err := f.open()
	if err != nil {
		return nil, err
	}
	p, err := planOf(src, histogram)
	if err = errors.Join(err, src.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	p.file = File{Path: f.Path, data: f.data}
	return p, nil
}

func planOf(src *source, histogram func(run, v2 string)) (*Plan, error) {
	in := newLines(src)
	first, err := in.line()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if first.kind != kindPlan {
		return nil, src.noRecord()
	}
	p := new(Plan)
	if err := readHead(first.text, PlanSchema, p); err != nil {
		return nil, err
	}
	if err := p.Experiment.Check(); err != nil {
		return nil, err
	}
	p.Runs, p.places = []Measured{}, map[string]place{}
	run := ""
	for {
		l, err := in.line()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := p.line(&l, src, &run, histogram); err != nil {
			in.Reject(err)
		}
	}
	p.Problems = in.Problems
	return p, nil
}

// line handles one line of a plan. run is the run that the lines belong to.
func (p *Plan) line(l *line, src *source, run *string, histogram func(run, v2 string)) error {
	switch l.kind {
	case kindRun:
		var head struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(l.text, &head)
		if err == nil && head.ID == "" {
			err = errors.New("a run without an ID")
		}
		if err != nil {
			return err
		}
		*run = head.ID
		p.places[head.ID] = src.place(l.at)
		p.goesOn()
	case kindMeasured:
		var m Measured
		if err := json.Unmarshal(l.text, &m); err != nil {
			return err
		}
		p.goesOn()
		p.Runs = append(p.Runs, m)
	case kindResumed:
		p.goesOn()
	case kindAnswer:
		var e Ending
		if err := json.Unmarshal(l.text, &e); err != nil {
			return err
		}
		p.Ending = e
	case kindHistogram:
		var h histogramLine
		if histogram == nil {
			return nil
		}
		if err := json.Unmarshal(l.text, &h); err != nil {
			return err
		}
		if h.Of == "response" {
			histogram(*run, h.HDR)
		}
	case kindLeftOut:
		var left leftOutLine
		if err := json.Unmarshal(l.text, &left); err != nil {
			return err
		}
		p.LeftOut = left.LeftOut
	}
	return nil
}

// Record returns one of the runs of a plan read by OpenPlan; false if its record is missing.
func (p *Plan) Record(run string) (File, bool) {
	at, there := p.places[run]
	f := p.file
	f.Run, f.at = run, &at
	return f, there
}

// Records returns the IDs of the runs with a record, oldest first.
func (p *Plan) Records() []string {
	ids := make([]string, 0, len(p.places))
	for id := range p.places {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// ReadHistograms fills in the histograms of a plan's runs from their records; the error names the
// first unreadable one, and the others are still read.
func ReadHistograms(f File, runs []Measured) error {
	found := map[string]string{}
	if _, err := readPlan(f, func(run, v2 string) { found[run] = v2 }); err != nil {
		return fmt.Errorf("read histograms: %w", err)
	}
	var failed error
	for i := range runs {
		if runs[i].Histogram != nil || runs[i].Run == "" {
			continue
		}
		text, there := found[runs[i].Run]
		if !there {
			failed = cmp.Or(failed, fmt.Errorf("read histogram: %s has none of run %s", f, runs[i].Run))
			continue
		}
		h, err := hist.DecodeV2(text)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("read histogram: %s: run %s: %w", f, runs[i].Run, err))
			continue
		}
		runs[i].Histogram = hist.FromHDR(h)
	}
	return failed
}

// checkVersion reports whether this program can read a document. Its version rises when an old
// reader would misread the new document; adding fields does not need that.
func checkVersion(found, known string) error {
	name, version, _ := strings.Cut(found, "/")
	ownName, ownVersion, _ := strings.Cut(known, "/")
	n, err := strconv.Atoi(version)
	own, ownErr := strconv.Atoi(ownVersion)
	switch {
	case name != ownName || err != nil || ownErr != nil || n < 1:
		return fmt.Errorf("its schema is %.40q, not %s", found, known)
	case n < own:
		return fmt.Errorf("it was written by an older ceiling as %s; this one reads %s: run it again", found, known)
	case n > own:
		return fmt.Errorf("it needs a ceiling that reads %s; this one reads up to %s", found, known)
	}
	return nil
}
