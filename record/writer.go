package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"ceiling/internal/durable"
)

// Writer writes one run as its facts arrive, so that a crash leaves what was known by then. It is
// safe for concurrent use.
//
// An error never stops the run: Err returns the first one, rows after a failed write are dropped
// (a hole would look like a pause), and Finish notes in the result that the series is incomplete.
type Writer struct {
	id string
	s  *stream
	// compress: closing the file makes it a .gz. plan is the plan that the run belongs to, whose
	// file stays open.
	compress bool
	plan     *PlanWriter

	// Guarded by s.mu.
	head  Start
	begin int64 // of the head in the file
	begun bool  // the head is written
	err   error
	lost  error // why the series is incomplete
	over  bool
}

// Create starts a run at a user's path. A name that ends in .ndjson or .ndjson.gz is the file,
// which must not exist yet. Any other is a directory for a file named id.ndjson.gz; Create
// refuses one that holds anything but records, so as not to mix with other files.
func Create(path, id string) (*Writer, error) {
	s, compress, err := create(path, id)
	if err != nil {
		return nil, createFailed("run", err)
	}
	return newWriter(s, id, compress), nil
}

func newWriter(s *stream, id string, compress bool) *Writer {
	w := &Writer{id: id, s: s, compress: compress}
	s.lost = w.lose
	return w
}

// create makes a record's file and its directory, accessible to the owner only.
func create(path, id string) (s *stream, compress bool, err error) {
	base, named := strings.CutSuffix(path, gzipSuffix)
	if !strings.HasSuffix(base, plainSuffix) {
		if err := mayHold(path); err != nil {
			return nil, false, err
		}
		base, named = filepath.Join(path, id+plainSuffix), true
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return nil, false, err
	}
	if _, err := os.Lstat(base + gzipSuffix); err == nil {
		return nil, false, &os.PathError{Op: "open", Path: base + gzipSuffix, Err: os.ErrExist}
	}
	f, err := os.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, false, err
	}
	return newStream(base, f), named, nil
}

// mayHold refuses a directory that holds anything but records.
func mayHold(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if _, is := isName(e.Name()); !strings.HasPrefix(e.Name(), ".") && (!is || e.IsDir()) {
			return fmt.Errorf("%s is not empty and not a directory of records; give a new or an empty one, or the name of a file: FILE%s%s", dir,
				plainSuffix, gzipSuffix)
		}
	}
	return nil
}

// File returns where the record is.
func (w *Writer) File() File {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	f := File{Path: w.s.path}
	if w.plan != nil {
		f.Run, f.at = w.id, &place{skip: w.begin}
	}
	return f
}

// ID returns the run's ID.
func (w *Writer) ID() string { return w.id }

// Err returns the first write error; nil if nothing is missing.
func (w *Writer) Err() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.err
}

// keep remembers the first error and returns err.
func (w *Writer) keep(err error) error {
	if err != nil && w.err == nil {
		w.err = err
	}
	return err
}

// Start writes the head, with its Schema and ID. Call it before the first request.
func (w *Writer) Start(start Start) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	var env Environment
	if start.Environment != nil {
		env = *start.Environment
	}
	normalHost(&env)
	start.Schema, start.ID, start.Environment = Schema, w.id, &env
	w.head = start
	err := w.writeHead()
	if err != nil {
		w.lose(err)
	}
	return w.keep(err)
}

// writeHead writes the head, which precedes everything else.
func (w *Writer) writeHead() error {
	head := w.head
	if w.plan != nil && slices.Equal(head.Command, w.plan.head.Command) {
		head.Command = nil
	}
	if w.plan != nil && reflect.DeepEqual(*head.Environment, w.plan.head.Environment) {
		head.Environment = nil
	}
	var err error
	if w.begin, err = w.s.end(); err == nil {
		err = w.s.document(kindRun, head)
	}
	if err == nil && w.plan == nil {
		err = durable.Dir(filepath.Dir(w.s.path))
	}
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	w.begun = true
	return nil
}

// document appends one line. A disk that was full when the run began may have room for its
// result.
func (w *Writer) document(kind string, v any) error {
	if w.over || w.s.file == nil {
		return fmt.Errorf("write %s: the run is finished", kind)
	}
	if !w.begun {
		if err := w.writeHead(); err != nil {
			return err
		}
	}
	if err := w.s.document(kind, v); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

// AppendLoad adds one interval of the generator to the series. It encodes the row before it
// returns.
func (w *Writer) AppendLoad(row *LoadRow) {
	r := *row
	r.Kind = KindLoad
	w.append(&r)
}

// AppendAgent does the same for one agent of several, whose name is the row's Host.
func (w *Writer) AppendAgent(row *LoadRow) {
	r := *row
	r.Kind = KindAgent
	w.append(&r)
}

// AppendObserved adds one observed row in the same way.
func (w *Writer) AppendObserved(row ObservedRow) { w.append(row) }

// AppendNotMeasured adds what could not be measured, for readers of a run without a result.
func (w *Writer) AppendNotMeasured(n NotMeasured) {
	w.append(&struct {
		Kind string `json:"kind"`
		NotMeasured
	}{KindNotMeasured, n})
}

func (w *Writer) append(row any) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	switch {
	case w.lost != nil:
		return
	case w.over || w.s.file == nil:
		w.keep(errors.New("append to series: the run is finished"))
		return
	}
	unsupported, err := w.s.row(row)
	if unsupported != nil {
		w.keep(fmt.Errorf("append to series: %w", unsupported))
	}
	if err != nil {
		w.lose(err)
	}
}

// lose notes that no further row can be written.
func (w *Writer) lose(err error) {
	if w.lost == nil && !w.over {
		w.lost = fmt.Errorf("write series: %w", err)
		w.keep(w.lost)
	}
}

// Histogram writes the whole run's histogram of a latency, "response",
// "service" or "lag", given as HdrHistogram V2 in base64.
func (w *Writer) Histogram(name, v2 string) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := histogramName(name); err != nil {
		return w.keep(fmt.Errorf("write histogram: %w", err))
	}
	return w.keep(w.document(kindHistogram, &histogramLine{Of: name, HDR: v2}))
}

// Attach stores something else with the run: a profile, stacks. name is a plain file name that
// does not begin with a dot.
func (w *Writer) Attach(name string, data []byte) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\\x00") {
		return w.keep(fmt.Errorf("attach to run: %q cannot be its name", name))
	}
	a := Attachment{Name: name}
	if utf8.Valid(data) {
		a.Text = string(data)
	} else {
		a.Data = data
	}
	return w.keep(w.document(kindAttachment, &a))
}

// Finish writes the result, which completes the run, and closes the file. It does not modify run. It
// returns its own error or, failing that, the first error of the earlier writes.
func (w *Writer) Finish(run *Run) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.file == nil || w.over {
		return errors.New("write result: the run is finished")
	}
	if w.lost == nil { // so that the result says which rows are missing
		if err := w.s.buf.Flush(); err != nil {
			w.lose(err)
		}
	}
	if w.lost != nil {
		w.s.forget()
	}
	out := normal(run)
	if w.lost != nil {
		out.NotMeasured = append(out.NotMeasured, NotMeasured{What: "series", Why: w.lost.Error(), Part: true})
	}
	omit(&out, &w.head)
	err := w.document(kindResult, &out)
	return w.keepFirst(errors.Join(err, w.end(err == nil)))
}

// keepFirst keeps an error, or returns the first one.
func (w *Writer) keepFirst(err error) error {
	if err == nil {
		return w.err
	}
	return w.keep(err)
}

// Close ends a run without a result. After Finish it does nothing.
func (w *Writer) Close() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.over || w.s.file == nil {
		return nil
	}
	return w.keep(w.end(false))
}

// end closes the file, and compresses a finished one; a plan's file stays open.
func (w *Writer) end(finished bool) error {
	if w.lost == nil {
		if err := w.s.buf.Flush(); err != nil {
			w.lose(err)
		}
	}
	if w.lost != nil {
		w.s.forget()
	}
	var err error
	if !finished && w.lost == nil { // a document is already synced
		err = w.s.file.Sync()
	}
	w.over, w.s.lost = true, nil
	if w.plan != nil {
		return err
	}
	err = errors.Join(err, w.s.close())
	if finished && err == nil && w.compress {
		w.s.path, err = compressed(w.s.path)
	}
	return err
}

// normal returns a run as readers expect it, with empty lists and maps instead of nil.
func normal(run *Run) Run {
	r := *run
	r.Schema = Schema
	r.Errors, r.NotMeasured = slices.Clone(r.Errors), slices.Clone(r.NotMeasured)
	notNil(&r.Errors)
	notNil(&r.NotMeasured)
	notNil(&r.Generator.Workers)
	notNil(&r.Verdict.Evidence)
	notNil(&r.Verdict.Caveats)
	notNil(&r.Verdict.Because)
	notNil(&r.Verdict.Next)
	notNilMap(&r.Statuses)
	normalHost(&r.Environment)
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
		normalHost(&a.Environment)
	}
	if r.Subject != nil {
		subject := *r.Subject
		notNil(&subject.Processes)
		r.Subject = &subject
	}
	return r
}

func normalHost(e *Environment) {
	notNilMap(&e.Sysctls)
	notNilMap(&e.Limits)
}

// WriteJSON writes a Run as --json prints it: indented, in the current schema, with empty lists
// and maps as [] and {} instead of null, and without HTML escapes of < > &.
func WriteJSON(out io.Writer, run *Run) error {
	r := normal(run)
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
