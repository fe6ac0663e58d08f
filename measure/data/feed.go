package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// keptMost is how large a file may be to be kept in memory, and to be checked to its end before
	// anything is sent, in bytes. A larger one is read while the run lasts.
	keptMost = 64 << 20
	// parsedMost is how large a file may be to be kept as rows, which take several times as much: a file
	// that is read again after every few rows costs 3 µs a request.
	parsedMost = 8 << 20
	// lineMost limits a line of NDJSON, and of a list.
	lineMost = 1 << 20
)

// Feed is a file of rows: CSV or TSV with a header, NDJSON, or a list with one value a line.
type Feed struct {
	Name    string
	Columns []string
	// Rows of the file; 0 if it is too large to be read before the run.
	Rows uint64
	// SHA256 of the file, in hex; "" if it is too large.
	SHA256 string

	// table has the rows of a small file; nil: they are read while the run lasts.
	table  [][]string
	format func(io.Reader, *Feed) rows
	open   func() (io.ReadCloser, error)
}

// rows reads one row after the other; io.EOF after the last.
type rows func() ([]string, error)

// Open reads a file's columns, and checks its rows. "-" is in.
func Open(name string, in io.Reader) (*Feed, error) {
	f := &Feed{Name: name}
	var kept []byte
	switch info, err := os.Stat(name); {
	case name == "-":
		f.Name = "standard input"
		if kept, err = io.ReadAll(io.LimitReader(in, keptMost+1)); err != nil {
			return nil, err
		}
		if len(kept) > keptMost {
			return nil, fmt.Errorf("standard input: more than %d MB; give a file, which is read while the run lasts", keptMost>>20)
		}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() <= keptMost:
		if kept, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if kept != nil {
		f.open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(kept)), nil }
		sum := sha256.Sum256(kept)
		f.SHA256 = hex.EncodeToString(sum[:])
	} else {
		f.open = func() (io.ReadCloser, error) { return os.Open(name) }
	}
	return f, f.look(kept != nil, len(kept) <= parsedMost)
}

// look finds out the format and the columns; whole counts and checks all rows, otherwise the first ones;
// keep keeps those of a whole file.
func (f *Feed) look(whole, keep bool) error {
	if err := f.recognise(); err != nil {
		return err
	}
	in, next, err := f.read()
	if err != nil {
		return err
	}
	defer in.Close()
	n := uint64(0)
	for ; whole || n < 1000; n++ {
		values, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if whole && keep {
			f.table = append(f.table, slices.Clone(values))
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: no row in it", f.Name)
	}
	if whole {
		f.Rows = n
	}
	return nil
}

// recognise reads the beginning of the file.
func (f *Feed) recognise() error {
	in, err := f.open()
	if err != nil {
		return err
	}
	defer in.Close()
	b := bufio.NewReaderSize(in, lineMost)
	start, err := b.Peek(lineMost)
	if err != nil && err != io.EOF {
		return err
	}
	first, _, _ := bytes.Cut(bytes.TrimPrefix(start, []byte("\ufeff")), []byte("\n"))
	first = bytes.TrimSpace(first)
	switch ext := strings.ToLower(filepath.Ext(f.Name)); {
	case len(first) == 0:
		return fmt.Errorf("%s: its first line is empty; give CSV with a header, NDJSON, or a list as .txt", f.Name)
	case first[0] == '{':
		f.format = ndjson
		return f.keys(first)
	case ext == ".txt":
		f.Columns, f.format = []string{"line"}, list
		return nil
	}
	comma := ','
	switch {
	case bytes.ContainsRune(first, '\t'):
		comma = '\t'
	case bytes.ContainsRune(first, ';') && !bytes.ContainsRune(first, ','):
		comma = ';'
	}
	f.format = func(in io.Reader, f *Feed) rows { return separated(in, f, comma) }
	header := csv.NewReader(bytes.NewReader(append(bytes.Clone(first), '\n')))
	header.Comma = comma
	f.Columns, err = header.Read()
	if err != nil {
		return fmt.Errorf("%s:1: %w", f.Name, err)
	}
	for i, name := range f.Columns {
		if f.Columns[i] = strings.TrimSpace(name); slices.Contains(f.Columns[:i], f.Columns[i]) {
			return fmt.Errorf("%s:1: two columns are called %q", f.Name, f.Columns[i])
		}
	}
	return nil
}

// keys takes the columns from the first object, in their order.
func (f *Feed) keys(first []byte) error {
	d := json.NewDecoder(bytes.NewReader(first))
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s:1: %w", f.Name, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("%s:1: %w", f.Name, err)
		}
		name, ok := key.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil || !ok {
			return fmt.Errorf("%s:1: not an object with names and values", f.Name)
		}
		f.Columns = append(f.Columns, name)
	}
	return nil
}

// read opens the file again, after its header.
func (f *Feed) read() (io.Closer, rows, error) {
	in, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	b := bufio.NewReaderSize(in, 64<<10)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // they are in the buffer
	}
	return in, f.format(b, f), nil
}

func separated(in io.Reader, f *Feed, comma rune) rows {
	r := csv.NewReader(in)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, len(f.Columns), true
	_, err := r.Read()
	return func() ([]string, error) {
		if err != nil {
			return nil, err
		}
		values, err := r.Read()
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			err = fmt.Errorf("line %d: %w", parse.Line, parse.Err)
			if errors.Is(parse.Err, csv.ErrFieldCount) {
				err = fmt.Errorf("line %d: %d values, and the header has %d columns", parse.Line, len(values), len(f.Columns))
			}
		}
		return values, err
	}
}

func ndjson(in io.Reader, f *Feed) rows {
	lines := lines(in)
	values := make([]string, len(f.Columns))
	return func() ([]string, error) {
		line, number, err := lines()
		if err != nil {
			return nil, err
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for i, name := range f.Columns {
			raw, there := object[name]
			if !there {
				return nil, fmt.Errorf("line %d: no value of %q, which the first line has", number, name)
			}
			values[i] = string(raw)
			if raw[0] == '"' {
				if err := json.Unmarshal(raw, &values[i]); err != nil {
					return nil, fmt.Errorf("line %d: %w", number, err)
				}
			}
		}
		return values, nil
	}
}

func list(in io.Reader, _ *Feed) rows {
	lines := lines(in)
	values := make([]string, 1)
	return func() ([]string, error) {
		line, _, err := lines()
		values[0] = string(line)
		return values, err
	}
}

// lines reads those that are not empty.
func lines(in io.Reader) func() ([]byte, int, error) {
	s := bufio.NewScanner(in)
	s.Buffer(nil, lineMost)
	number := 0
	return func() ([]byte, int, error) {
		for s.Scan() {
			number++
			if line := bytes.TrimRight(s.Bytes(), "\r"); len(bytes.TrimSpace(line)) > 0 {
				return line, number, nil
			}
		}
		if errors.Is(s.Err(), bufio.ErrTooLong) {
			return nil, number, fmt.Errorf("line %d: longer than %d bytes", number+1, lineMost)
		}
		if s.Err() != nil {
			return nil, number, s.Err()
		}
		return nil, number, io.EOF
	}
}
