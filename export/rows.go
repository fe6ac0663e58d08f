package export

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

// Rows reads the series of a record one row after another, in the memory of
// one row. Lines that are no row are counted and left out.
type Rows struct {
	// Read counts the rows, Bad the lines that are none.
	Read, Bad int
	// Problems says in words what is wrong, at most ten lines of it.
	Problems []string

	file *os.File
	in   *bufio.Reader
	line []byte
	n    int // lines so far
}

// OpenRows opens the series of a record. A record without one has no rows. The
// error is of one line: the directory is no record, or a newer program's.
func OpenRows(dir string) (*Rows, error) {
	if err := checkSchema(dir); err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	path := filepath.Join(dir, "series.ndjson")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Rows{in: bufio.NewReader(bytes.NewReader(nil)), Problems: []string{"the record has no series"}}, nil
	case err != nil:
		return nil, fmt.Errorf("open series: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open series: %s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	return &Rows{file: f, in: bufio.NewReaderSize(f, 64<<10)}, nil
}

// Close closes the file.
func (r *Rows) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Next answers the kind of the next row and its JSON, in valid UTF-8 and
// without the newline, until io.EOF. The bytes are good until the next call.
func (r *Rows) Next() (kind string, line []byte, err error) {
	for {
		tooLong, err := r.readLine()
		if err != nil && err != io.EOF {
			return "", nil, fmt.Errorf("read series: %w", err)
		}
		ended := err == io.EOF
		r.n++
		switch line := bytes.TrimSpace(r.line); {
		case tooLong:
			r.bad("line %d is longer than %d bytes", r.n, lineMax)
		case len(line) > 0:
			kind, err := kindOf(line)
			if err == nil {
				r.Read++
				return kind, bytes.ToValidUTF8(line, []byte("\uFFFD")), nil
			}
			if ended {
				r.bad("line %d, the last one, is cut off: the run was killed while it was written", r.n)
			} else {
				r.bad("line %d: %v", r.n, err)
			}
		}
		if ended {
			return "", nil, io.EOF
		}
	}
}

// readLine reads one line into r.line; of one that is too long it keeps
// nothing.
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

func (r *Rows) bad(format string, args ...any) {
	r.Bad++
	if len(r.Problems) < problemsMax {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}
