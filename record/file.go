package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ceiling/internal/sys"
)

// readMax bounds a record read from a pipe, in bytes as they arrive.
const readMax = 1 << 30

// File locates a record: the file of a run or plan, or one run within a plan's file.
type File struct {
	// Path of the file, or of a directory with no other record. While the file is being written
	// it has no .gz, afterwards it does: either name opens it.
	Path string
	// Run within a plan; "" means the whole file.
	Run string

	data []byte // instead of a file: read from a pipe
	at   *place // of the run, if already known
}

// String names the record for users, and for Store.Find.
func (f File) String() string {
	if f.Run != "" {
		return f.Path + "/" + f.Run
	}
	return f.Path
}

// Named sets the name under which the user knows a record read from a pipe.
func (f File) Named(name string) File {
	f.Path = name
	return f
}

// Of returns one run of a plan.
func (f File) Of(run string) File {
	f.Run, f.at = run, nil
	return f
}

// At returns the record at a path: that file, or the only record in that directory.
func At(path string) (File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, openErr := openPath(path)
		if openErr != nil {
			return File{}, fmt.Errorf("find record: %w", err)
		}
		return File{Path: f.Name()}, f.Close()
	case err != nil:
		return File{}, fmt.Errorf("find record: %w", err)
	case !info.IsDir():
		return File{Path: path}, nil
	}
	names, err := recordsIn(path)
	switch {
	case err != nil:
		return File{}, fmt.Errorf("find record: %w", err)
	case len(names) == 0:
		return File{}, fmt.Errorf("find record: %s holds no record (ID%s): %w", path, plainSuffix, fs.ErrNotExist)
	case len(names) > 1:
		return File{}, fmt.Errorf("find record: %s holds %d records; name one: %s", path, len(names), filepath.Join(path, names[len(names)-1]))
	}
	return File{Path: filepath.Join(path, names[0])}, nil
}

// ReadFile reads a record from a pipe.
func ReadFile(r io.Reader) (File, error) {
	data, err := io.ReadAll(io.LimitReader(r, readMax+1))
	if err == nil && len(data) > readMax {
		err = fmt.Errorf("more than %d bytes", readMax)
	}
	if err != nil {
		return File{}, fmt.Errorf("read record: %w", err)
	}
	return File{Path: "-", data: data}, nil
}

// Is reports whether head, the first few hundred bytes of a file, begins a record.
func Is(head []byte) bool {
	if bytes.HasPrefix(head, gzipMagic) {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		plain := make([]byte, 64)
		n, _ := io.ReadFull(z, plain) // the rest is truncated
		head = plain[:n]
	}
	kind := kindFirst(head)
	return kind == kindRun || kind == kindPlan
}

// IsRecord reports whether a file begins like a record.
func IsRecord(path string) bool {
	f, err := openPath(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	return Is(head[:n])
}

// IsPlan reports whether f is a plan, and not one of its runs.
func (f File) IsPlan() bool {
	if f.Run != "" {
		return false
	}
	src, err := f.open()
	if err != nil {
		return false
	}
	defer src.Close()
	first, err := newLines(src).line()
	return err == nil && first.kind == kindPlan
}

// isName reports whether name is that of a record's file in a store, and returns its ID.
func isName(name string) (id string, is bool) {
	return strings.CutSuffix(strings.TrimSuffix(name, gzipSuffix), plainSuffix)
}

// recordsIn lists the files of a directory that are named like records, oldest first. A record
// whose writer was killed while compressing it has two names and counts once.
func recordsIn(dir string) ([]string, error) {
	list, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		if _, is := isName(e.Name()); !is {
			continue
		}
		if n := len(names); n > 0 && names[n-1]+gzipSuffix == e.Name() {
			names[n-1] = e.Name()
			continue
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// runReader reads the lines of one run.
type runReader struct {
	*source
	lines *lines
	head  Start
	// inPlan: the run is in a plan's file; over: its lines have all been read.
	inPlan, over bool
}

// openRun opens a run, positioned after its head. The error is one line.
func openRun(f File) (*runReader, error) {
	src, err := f.open()
	if err != nil {
		return nil, err
	}
	r, err := beginRun(&f, src)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", f.String(), err), src.Close())
	}
	return r, nil
}

func beginRun(f *File, src *source) (*runReader, error) {
	r := &runReader{source: src, lines: newLines(src)}
	first, err := r.lines.line()
	if err == io.EOF {
		return nil, src.noRecord()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case first.kind == kindRun && f.Run == "":
		return r, readHead(first.text, Schema, &r.head)
	case first.kind == kindRun:
		return nil, errors.New("it is a single run, not a plan of several")
	case first.kind != kindPlan:
		return nil, src.noRecord()
	case f.Run == "":
		return nil, errors.New("it is a plan, not a run")
	}
	var plan Plan
	if err := readHead(first.text, PlanSchema, &plan); err != nil {
		return nil, err
	}
	r.inPlan = true
	if err := r.find(f); err != nil {
		return nil, err
	}
	if r.head.Command == nil {
		r.head.Command = plan.Command
	}
	if r.head.Environment == nil {
		r.head.Environment = &plan.Environment
	}
	return r, nil
}

// find seeks to the head of the requested run.
func (r *runReader) find(f *File) error {
	if f.at != nil {
		if err := r.seek(*f.at); err != nil {
			return err
		}
		r.lines = newLines(r.source)
	}
	for {
		l, err := r.lines.line()
		if err == io.EOF {
			return fmt.Errorf("the plan has no run %.40q", f.Run)
		}
		if err != nil {
			return err
		}
		if l.kind != kindRun {
			continue
		}
		r.head = Start{}
		if err := readHead(l.text, Schema, &r.head); err == nil && r.head.ID == f.Run {
			r.lines.Damage = Damage{}
			return nil
		} else if err != nil && f.at != nil {
			return err
		}
	}
}

// next returns the lines of the run, until io.EOF.
func (r *runReader) next() (line, error) {
	if r.over {
		return line{}, io.EOF
	}
	l, err := r.lines.line()
	if err != nil {
		r.over = true
		return line{}, err
	}
	switch l.kind {
	case kindRun, kindPlan:
		if !r.inPlan {
			r.lines.problem("line %d: another record begins; only the first is read", r.lines.n)
		}
	case kindMeasured, kindAnswer, kindResumed:
	default:
		return l, nil
	}
	r.over = true
	return line{}, io.EOF
}

// readHead reads a head with the given schema or an older version of it.
func readHead(text []byte, schema string, v any) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if err := checkVersion(head.Schema, schema); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// claim marks a file as being written with a lock that disappears with its process, however that
// ends. On a file system without locks it has no effect.
func claim(f *os.File) { _ = sys.Lock(f, false) }

// abandoned reports whether no process writes a file. It returns false on a file system without
// locks, where that is unknown.
func abandoned(f *os.File) bool {
	locked, err := sys.IsLocked(f)
	return err == nil && !locked
}
