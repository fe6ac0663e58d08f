package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// The files of a plan. plan.json is there from the start and is written again
// with the answer; measured.ndjson has one run a line, written when it is done;
// runs is a Store of the runs' own records.
const (
	planFile     = "plan.json"
	measuredFile = "measured.ndjson"
	runsDir      = "runs"
	// measuredMax bounds one line; the largest has an SLO of 64 terms.
	measuredMax = 1 << 20
)

// PlanWriter keeps a plan while it goes on, so that one that is killed can be
// resumed. Its methods may be called from several goroutines.
type PlanWriter struct {
	dir      string
	mu       sync.Mutex
	measured *os.File
}

// CreatePlan begins a plan in a directory that is not there yet or empty.
func CreatePlan(dir string, p *Plan) (*PlanWriter, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, createFailed("plan", err)
	case len(entries) > 0:
		return nil, fmt.Errorf("create plan: %s is not empty; give a new directory", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, runsDir), 0o700); err != nil {
		return nil, createFailed("plan", err)
	}
	w := &PlanWriter{dir: dir}
	if err := w.write(p); err != nil {
		return nil, createFailed("plan", err)
	}
	return w, w.open()
}

// ResumePlan goes on with a plan that OpenPlan has read.
func ResumePlan(dir string) (*PlanWriter, error) {
	w := &PlanWriter{dir: dir}
	return w, w.open()
}

// open makes measured.ndjson end with a whole line, which a kill may have
// prevented, and goes on behind it.
func (w *PlanWriter) open() error {
	path := filepath.Join(w.dir, measuredFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open plan: %w", err)
	}
	whole, err := lastNewline(f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("open plan: %w", err), f.Close())
	}
	w.measured = f
	return nil
}

// lastNewline is the offset behind the last newline.
func lastNewline(f *os.File) (int64, error) {
	data, err := io.ReadAll(f)
	return int64(bytes.LastIndexByte(data, '\n') + 1), err
}

// Dir is the plan's directory, Runs the store of its runs.
func (w *PlanWriter) Dir() string  { return w.dir }
func (w *PlanWriter) Runs() string { return filepath.Join(w.dir, runsDir) }

// Append keeps one run that was made; it is on the disk when Append returns.
func (w *PlanWriter) Append(m *Measured) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	line, err := json.Marshal(m)
	if err == nil {
		_, err = w.measured.Write(append(line, '\n'))
	}
	if err == nil {
		err = w.measured.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep run %d of the plan: %w", m.Number, err)
	}
	return nil
}

// Finish writes the plan with its runs and its answer.
func (w *PlanWriter) Finish(p *Plan) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.write(p), w.measured.Close())
}

func (w *PlanWriter) write(p *Plan) error {
	files := &Writer{dir: w.dir}
	return files.write(planFile, func(out io.Writer) error { return WritePlanJSON(out, p) })
}

// WritePlanJSON writes a plan as plan.json and --json have it.
func WritePlanJSON(out io.Writer, p *Plan) error {
	q := *p
	q.Schema = PlanSchema
	notNil(&q.Runs)
	return encode(out, &q)
}

// IsPlan tells a directory that a plan was begun in.
func IsPlan(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, planFile))
	return err == nil && info.Mode().IsRegular()
}

// OpenPlan reads a plan with the runs that it has, also one that was killed.
// The histograms of its runs are read with ReadHistograms.
func OpenPlan(dir string) (*Plan, error) {
	p := new(Plan)
	if err := readSchema(filepath.Join(dir, planFile), PlanSchema, p); err != nil {
		return nil, fmt.Errorf("open plan: %w", err)
	}
	if err := p.Experiment.Check(); err != nil {
		return nil, fmt.Errorf("open plan: %s: %w", filepath.Join(dir, planFile), err)
	}
	if p.Ended == EndedComplete || p.Ended == EndedConverged || p.Ended == EndedDoomed {
		return p, nil
	}
	data, err := readAll(filepath.Join(dir, measuredFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open plan: %w", err)
	}
	p.Runs, err = readMeasured(data)
	if err != nil {
		return nil, fmt.Errorf("open plan: %s: %w", filepath.Join(dir, measuredFile), err)
	}
	return p, nil
}

// readMeasured reads the lines that are whole.
func readMeasured(data []byte) ([]Measured, error) {
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, measuredMax)
	runs := []Measured{}
	for lines.Scan() {
		var m Measured
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(runs)+1, err)
		}
		runs = append(runs, m)
	}
	return runs, lines.Err()
}

// ReadHistograms fills in the histograms of a plan's runs from their records;
// the error names the first that cannot be read, the rest is read all the same.
func ReadHistograms(dir string, runs []Measured) error {
	var failed error
	for i := range runs {
		if runs[i].Histogram != nil || runs[i].Run == "" {
			continue
		}
		h, err := ReadHistogram(filepath.Join(dir, runsDir, runs[i].Run), "response")
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		runs[i].Histogram = h
	}
	return failed
}

// readSchema reads a JSON document whose schema is the given one or an older
// version of it.
func readSchema(path, schema string, v any) error {
	data, err := readAll(path)
	if err != nil {
		return err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := checkVersion(head.Schema, schema); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// checkVersion tells whether this program can read a document. A version is
// raised when an old reader would misread the new document; fields may be added
// without.
func checkVersion(found, known string) error {
	name, version, _ := strings.Cut(found, "/")
	ownName, ownVersion, _ := strings.Cut(known, "/")
	n, err := strconv.Atoi(version)
	own, ownErr := strconv.Atoi(ownVersion)
	switch {
	case name != ownName || err != nil || ownErr != nil || n < 1:
		return fmt.Errorf("its schema is %.40q, not %s", found, known)
	case n > own:
		return fmt.Errorf("it needs a ceiling that reads %s; this one reads up to %s", found, known)
	}
	return nil
}
