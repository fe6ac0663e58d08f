package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// lineMax bounds one row, in bytes: one of 4096 CPUs with every category is 0.6 MB.
	lineMax = 4 << 20
	// documentMax bounds a document: a spec with spec.BodiesMax of bodies in base64, each with a
	// URL and a head, is smaller.
	documentMax = 256 << 20
	// problemsMax is how many bad lines are described.
	problemsMax = 10
)

// line is one line of a record. text, without the newline, is valid until the next read.
type line struct {
	kind string
	text []byte
	at   int64 // offset in the content
}

// Damage is what could not be read of a record.
type Damage struct {
	// Bad counts the invalid lines, except a last line that is Truncated because the writer was
	// killed.
	Bad       int
	Truncated bool
	// Problems describes what is wrong, at most ten lines.
	Problems []string
}

// lines reads a record line by line, holding one line in memory. It counts and skips invalid
// lines.
type lines struct {
	Damage

	in    *bufio.Reader
	from  *source // nil in tests
	text  []byte
	at    int64
	next  int64
	n     int  // lines so far
	ended bool // this is the last line, without a newline
}

func newLines(r io.Reader) *lines {
	l := &lines{in: bufio.NewReaderSize(r, 64<<10)}
	if from, is := r.(*source); is {
		l.from = from
	}
	return l
}

// line returns the next line, until io.EOF.
func (r *lines) line() (line, error) {
	for !r.ended {
		tooLong, err := r.readLine()
		if err != nil && err != io.EOF {
			return line{}, fmt.Errorf("read record: %w", err)
		}
		if r.ended = err == io.EOF; r.ended && r.from != nil && r.from.damage != nil {
			r.problem("%v", r.from.damage)
		}
		r.n++
		switch text := bytes.TrimSpace(r.text); {
		case tooLong:
			r.Reject(fmt.Errorf("longer than %d bytes", lineMax))
		case len(text) > 0:
			kind, err := kindOf(text)
			if err == nil && r.ended && !json.Valid(text) {
				err = errors.New("cut off")
			}
			if err == nil {
				return line{kind: kind, text: text, at: r.at}, nil
			}
			r.reject(err)
		}
	}
	return line{}, io.EOF
}

// Reject counts the last returned line as bad: it turned out to be invalid.
func (r *lines) Reject(err error) {
	r.Bad++
	r.problem("line %d: %v", r.n, err)
}

// reject is Reject for a line that may be truncated.
func (r *lines) reject(err error) {
	if !r.ended {
		r.Reject(err)
		return
	}
	r.Truncated = true
	r.problem("line %d, the last one, is cut off: the run was killed while it was written", r.n)
}

func (r *lines) problem(format string, args ...any) {
	if len(r.Problems) < problemsMax {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// readLine reads one line into r.text; it discards the content of one that is too long.
func (r *lines) readLine() (tooLong bool, err error) {
	r.text, r.at = r.text[:0], r.next
	for {
		part, err := r.in.ReadSlice('\n')
		r.next += int64(len(part))
		if n := len(r.text) + len(part); n > documentMax || n > lineMax && !isDocument(r.text) {
			tooLong, r.text = true, r.text[:0]
		}
		if !tooLong {
			r.text = append(r.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return tooLong, err
		}
	}
}

// kindOf returns the kind of a line. It does not check a line that begins with its kind: the
// decoder finds what is wrong with it.
func kindOf(text []byte) (string, error) {
	if kind := kindFirst(text); kind != "" {
		return kind, nil
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return "", err
	}
	if head.Kind == "" {
		return "", errors.New("a line without a kind")
	}
	return head.Kind, nil
}

// Rows reads the series of a run row by row, holding one row in memory. It counts and skips lines
// that are not rows.
type Rows struct {
	Damage
	run *runReader
}

// OpenRows opens the series of a run. The error is one line: the file is not a record, or comes
// from a newer version.
func OpenRows(f File) (*Rows, error) {
	run, err := openRun(f)
	if err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	return &Rows{run: run}, nil
}

// Close closes the file.
func (r *Rows) Close() error { return r.run.Close() }

// Next returns the kind of the next row and its JSON without the newline, until io.EOF. The bytes
// are valid until the next call.
func (r *Rows) Next() (kind string, text []byte, err error) {
	for {
		l, err := r.run.next()
		r.Damage = r.run.lines.Damage
		if err != nil {
			return "", nil, err
		}
		switch l.kind {
		case kindHistogram, kindAttachment, kindResult, kindLeftOut:
			continue
		}
		if !json.Valid(l.text) {
			r.Reject(errors.New("no JSON"))
			continue
		}
		return l.kind, l.text, nil
	}
}

// Reject counts the row last returned by Next as bad: it turned out to be invalid.
func (r *Rows) Reject(err error) {
	r.run.lines.Reject(err)
	r.Damage = r.run.lines.Damage
}
