package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
)

// The files of a run.
const (
	specFile        = "spec.json"
	environmentFile = "environment.json"
	seriesFile      = "series.ndjson"
	resultFile      = "result.json"
	histogramSuffix = ".hdr"
)

const (
	// seriesBuffer holds a second of rows of a busy host (about 50 of some 500
	// bytes); a fuller one is written at once.
	seriesBuffer = 64 << 10
	// flushAfter is how long a row may stay in memory: half of what is
	// promised, since a timer of a busy host comes late.
	flushAfter = 500 * time.Millisecond
)

// Start is what is known of a run before its first request: the document
// spec.json.
type Start struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	// Created is when the run was begun, by the wall clock: before the
	// connections were opened and the warm-up.
	Created time.Time `json:"created"`
	// Command is the command line as it was typed.
	Command []string  `json:"command,omitempty"`
	Spec    spec.Spec `json:"spec"`
	// Agents that take part in a run of several: their names, roles, shares and
	// environments. They have no figures yet.
	Agents []Agent `json:"agents,omitempty"`
}

// target is the URL of the first target.
func (s *Start) target() string {
	if len(s.Spec.Targets) == 0 {
		return ""
	}
	return s.Spec.Targets[0].URL
}

// Writer writes one run as its facts arrive, so that a crash leaves what was
// known by then. Its methods may be called from several goroutines.
//
// An error never stops the run: the first one is kept for Err, rows after a
// failed write are dropped (a hole would look like a pause), and Finish says in
// the result that the series is not whole.
type Writer struct {
	dir, id string

	mu     sync.Mutex
	err    error
	series *os.File // nil once closed
	buf    *bufio.Writer
	rows   *json.Encoder // into buf
	lost   error         // why the series is not whole
	timer  *time.Timer   // flushes; nil before the first row
	armed  bool
}

// Create begins a run in a directory that a person gave. A directory that is
// not there or is empty becomes the run's own; one that holds nothing but runs
// gets one more, named id; any other is refused, so that nothing of somebody
// else's is mixed up or overwritten.
func Create(dir, id string) (*Writer, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = os.MkdirAll(dir, 0o700)
	case err == nil && isStore(entries):
		return Store{Dir: dir}.Create(id)
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("create run: %s is not empty and not a directory of runs; give a new or an empty one", dir)
	}
	if err != nil {
		return nil, createFailed("run", err)
	}
	return newWriter(dir, id)
}

// newWriter begins a run in an empty directory.
func newWriter(dir, id string) (*Writer, error) {
	f, err := os.OpenFile(filepath.Join(dir, seriesFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, createFailed("run", err)
	}
	w := &Writer{dir: dir, id: id}
	w.setSeries(f, f)
	return w, nil
}

// setSeries makes out the place rows go to.
func (w *Writer) setSeries(f *os.File, out io.Writer) {
	w.series = f
	w.buf = bufio.NewWriterSize(out, seriesBuffer)
	w.rows = json.NewEncoder(w.buf)
	w.rows.SetEscapeHTML(false)
}

// Dir is the run's directory.
func (w *Writer) Dir() string { return w.dir }

// ID is the run's name.
func (w *Writer) ID() string { return w.id }

// Err is the first error of all that was written; nil when nothing is missing.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// keep remembers the first error and answers err.
func (w *Writer) keep(err error) error {
	if err != nil && w.err == nil {
		w.err = err
	}
	return err
}

// Start writes spec.json and environment.json. Schema and ID of start are
// filled in. Call it before the first request.
func (w *Writer) Start(start Start, env Environment) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	start.Schema, start.ID = Schema, w.id
	return w.keep(errors.Join(
		w.write(specFile, func(out io.Writer) error { return encode(out, &start) }),
		w.write(environmentFile, func(out io.Writer) error { return encode(out, &env) }),
	))
}

// AppendLoad adds one interval of the generator to the series. The row is
// encoded before AppendLoad returns.
func (w *Writer) AppendLoad(row *LoadRow) {
	r := *row
	r.Kind = KindLoad
	w.append(&r)
}

// AppendAgent adds one interval of one agent of several, whose name is the
// row's Host; likewise.
func (w *Writer) AppendAgent(row *LoadRow) {
	r := *row
	r.Kind = KindAgent
	w.append(&r)
}

// AppendObserved adds one row of what was observed; likewise.
func (w *Writer) AppendObserved(row ObservedRow) { w.append(row) }

// AppendNotMeasured adds what could not be measured, for the reader of a run
// that does not come to its result.
func (w *Writer) AppendNotMeasured(n NotMeasured) {
	w.append(&notMeasuredRow{Kind: KindNotMeasured, NotMeasured: n})
}

func (w *Writer) append(row any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return
	}
	if w.series == nil {
		w.keep(errors.New("append to series: the run is finished"))
		return
	}
	// An encoder hands on whole rows or nothing, so that a row which JSON has no
	// form for (NaN) is missing alone. It keeps the error of a failed write.
	err := w.rows.Encode(row)
	var invalid *json.UnsupportedValueError
	if errors.As(err, &invalid) {
		w.keep(fmt.Errorf("append to series: %w", err))
		return
	}
	if err != nil {
		w.loseSeries(err)
		return
	}
	w.arm()
}

func (w *Writer) loseSeries(err error) {
	if w.lost == nil {
		w.lost = fmt.Errorf("write %s: %w", seriesFile, err)
		w.keep(w.lost)
	}
}

// arm sees to it that what is in the buffer gets to the file soon.
func (w *Writer) arm() {
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(flushAfter, w.flush)
	default:
		w.timer.Reset(flushAfter)
	}
	w.armed = true
}

// flush is called by the timer.
func (w *Writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if w.series == nil || w.lost != nil {
		return
	}
	if err := w.buf.Flush(); err != nil {
		w.loseSeries(err)
	}
}

// Histogram writes the whole run's histogram of a latency, "response",
// "service" or "lag", given as HdrHistogram V2 in base64.
func (w *Writer) Histogram(name, v2 string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains([]string{"response", "service", "lag"}, name) {
		return w.keep(fmt.Errorf("write histogram: there is no latency %q", name))
	}
	return w.keep(w.writeBytes(name+histogramSuffix, []byte(v2+"\n")))
}

// Extra writes another file into the run's directory: a profile, a log. name is
// a plain file name, none of the run's own and not beginning with a dot.
func (w *Writer) Extra(name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := []string{specFile, environmentFile, seriesFile, resultFile}
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\\x00") || strings.HasSuffix(name, histogramSuffix) || slices.Contains(own, name) {
		return w.keep(fmt.Errorf("write file of run: %q cannot be its name", name))
	}
	return w.keep(w.writeBytes(name, data))
}

// Finish closes the series and writes result.json, which makes the run a
// finished one. Schema and ID of what is written are filled in; run itself is
// not changed. It answers the error of its own work or, where that went well,
// the first of all that was written before.
func (w *Writer) Finish(run *Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := w.closeSeries()
	out := *run
	out.ID = w.id
	if w.lost != nil {
		out.NotMeasured = append(slices.Clone(out.NotMeasured), NotMeasured{What: "series", Why: w.lost.Error(), Part: true})
	}
	err := errors.Join(closed, w.write(resultFile, func(to io.Writer) error { return WriteJSON(to, &out) }))
	if err == nil {
		return w.err
	}
	return w.keep(err)
}

// Close ends a run that comes to no result. After Finish it does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keep(w.closeSeries())
}

func (w *Writer) closeSeries() error {
	if w.series == nil {
		return nil
	}
	if w.timer != nil {
		w.timer.Stop() // one that is already waiting for the lock finds series nil
	}
	had := w.lost
	if had == nil {
		if err := errors.Join(w.buf.Flush(), w.series.Sync()); err != nil {
			w.loseSeries(err)
		}
	}
	if err := w.series.Close(); err != nil {
		w.loseSeries(err)
	}
	w.series = nil
	if had != nil {
		return nil // told already
	}
	return w.lost
}

func (w *Writer) writeBytes(name string, data []byte) error {
	return w.write(name, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
}

// write makes a file whole or not at all: it is written under another name,
// synced, and renamed; the directory is synced after that, because a rename is
// only in memory until then.
func (w *Writer) write(name string, content func(io.Writer) error) error {
	temp := filepath.Join(w.dir, "."+name+".part")
	if err := writeSynced(temp, content); err != nil {
		os.Remove(temp) // best effort: a leftover begins with a dot and is never read
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(temp, filepath.Join(w.dir, name)); err != nil {
		os.Remove(temp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := syncDir(w.dir); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeSynced(path string, content func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := bufio.NewWriter(f)
	if err := content(buf); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// WriteJSON writes a Run as result.json and --json have it: indented, in this
// program's schema, with empty lists and tables as [] and {} and not as null,
// and without the escapes of < > & that are there for HTML.
func WriteJSON(out io.Writer, run *Run) error {
	r := *run
	r.Schema = Schema
	notNil(&r.Errors)
	notNil(&r.NotMeasured)
	notNil(&r.Generator.Workers)
	notNil(&r.Verdict.Evidence)
	notNil(&r.Verdict.Doubts)
	notNilMap(&r.Statuses)
	notNilMap(&r.Environment.Sysctls)
	notNilMap(&r.Environment.Limits)
	r.ByTarget = slices.Clone(r.ByTarget)
	for i := range r.ByTarget {
		notNilMap(&r.ByTarget[i].Statuses)
	}
	r.Agents = slices.Clone(r.Agents)
	for i := range r.Agents {
		a := &r.Agents[i]
		notNil(&a.Errors)
		notNil(&a.Generator.Workers)
		notNilMap(&a.Statuses)
		notNilMap(&a.Environment.Sysctls)
		notNilMap(&a.Environment.Limits)
	}
	if r.Subject != nil {
		subject := *r.Subject
		notNil(&subject.Processes)
		r.Subject = &subject
	}
	return encode(out, &r)
}

func notNil[T any](list *[]T) {
	if *list == nil {
		*list = []T{}
	}
}

func notNilMap[V any](table *map[string]V) {
	if *table == nil {
		*table = map[string]V{}
	}
}

func encode(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Series reads back what was written until now, for a verdict while the run is
// still open.
func (w *Writer) Series() (Series, error) {
	w.flush()
	s, err := openSeries(filepath.Join(w.dir, seriesFile))
	if err != nil {
		return Series{}, fmt.Errorf("read the series back: %w", err)
	}
	return s, w.Err()
}
