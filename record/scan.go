package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// lineMax bounds one row: one of 4096 CPUs with every category is 0.6 MB.
	lineMax = 4 << 20
	// problemsMax is how many bad lines are described.
	problemsMax = 10
)

// Rows reads the series of a run one row after another, in the memory of one
// row. Lines that are no row are counted and left out.
type Rows struct {
	// Read counts the rows, Bad the lines that are none; the last one is not
	// among them when it is Truncated, which it is when the writer was killed.
	Read, Bad int
	Truncated bool
	// Problems says in words what is wrong, at most ten lines of it.
	Problems []string

	file  io.Closer
	in    *bufio.Reader
	line  []byte
	n     int  // lines so far
	ended bool // the line is the last one, and has no newline
	// whole tells that the last line was not cut off by a limit on reading.
	whole func() bool
}

// newRows reads lines from a reader.
func newRows(r io.Reader) *Rows {
	return &Rows{in: bufio.NewReaderSize(r, 64<<10), whole: func() bool { return true }}
}

// OpenRows opens the series of a run. One without it has no rows. The error is
// of one line: the directory is no run, or a newer program's.
func OpenRows(dir string) (*Rows, error) {
	if err := checkSchema(dir); err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	f, err := openRegular(filepath.Join(dir, seriesFile))
	if errors.Is(err, fs.ErrNotExist) {
		r := newRows(bytes.NewReader(nil))
		r.Problems = []string{"the record has no series"}
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	r := newRows(f)
	r.file = f
	return r, nil
}

// Close closes the file.
func (r *Rows) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Next answers the kind of the next row and its JSON without the newline,
// until io.EOF. The bytes are good until the next call.
func (r *Rows) Next() (kind string, line []byte, err error) {
	for !r.ended {
		tooLong, err := r.readLine()
		if err != nil && err != io.EOF {
			return "", nil, fmt.Errorf("read series: %w", err)
		}
		r.ended = err == io.EOF
		r.n++
		switch line := bytes.TrimSpace(r.line); {
		case tooLong:
			r.Reject(fmt.Errorf("longer than %d bytes", lineMax))
		case len(line) > 0:
			kind, err := kindOf(line)
			if err == nil {
				r.Read++
				return kind, line, nil
			}
			r.reject(err)
		}
	}
	return "", nil, io.EOF
}

// Reject counts the row that Next gave last among the bad ones: it turned out
// to be none.
func (r *Rows) Reject(err error) {
	r.Bad++
	r.problem("line %d: %v", r.n, err)
}

// reject is Reject of a line that may be cut off.
func (r *Rows) reject(err error) {
	switch {
	case !r.ended:
		r.Reject(err)
	case r.whole():
		r.Truncated = true
		r.problem("line %d, the last one, is cut off: the run was killed while it was written", r.n)
	}
}

func (r *Rows) problem(format string, args ...any) {
	if len(r.Problems) < problemsMax {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// readLine reads one line into r.line; of one that is longer than lineMax it
// keeps nothing.
func (r *Rows) readLine() (tooLong bool, err error) {
	r.line = r.line[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.line)+len(part) > lineMax {
			tooLong, r.line = true, r.line[:0]
		}
		if !tooLong {
			r.line = append(r.line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return tooLong, err
		}
	}
}

func kindOf(line []byte) (string, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return "", err
	}
	if head.Kind == "" {
		return "", errors.New("a row without a kind")
	}
	return head.Kind, nil
}

// checkSchema refuses the series of a run that a newer program has written,
// without reading the rest of it.
func checkSchema(dir string) error {
	for _, name := range []string{resultFile, specFile} {
		path := filepath.Join(dir, name)
		f, err := openRegular(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		schema, err := schemaOf(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if schema != Schema {
			return fmt.Errorf("read %s: its schema is %.40q; this ceiling reads %s", path, schema, Schema)
		}
		return nil
	}
	return fmt.Errorf("%s is no record: it holds neither %s nor %s", dir, resultFile, specFile)
}

// schemaOf finds the schema, which the writer puts first, so that a document
// of any size costs its first bytes.
func schemaOf(f *os.File) (string, error) {
	d := json.NewDecoder(io.LimitReader(f, documentMax))
	if t, err := d.Token(); err != nil {
		return "", err
	} else if t != json.Delim('{') {
		return "", errors.New("it is no JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		if key == "schema" {
			var schema string
			err := d.Decode(&schema)
			return schema, err
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return "", err
		}
	}
	return "", errors.New("it names no schema")
}
