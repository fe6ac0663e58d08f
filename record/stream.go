package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// rowsBuffer holds a second of rows of a busy host (about 50 of some 500
	// bytes); a fuller one is written at once.
	rowsBuffer = 64 << 10
	// flushAfter is how long a row may stay in memory: half of what is
	// promised, since a timer of a busy host comes late.
	flushAfter = 500 * time.Millisecond
)

// stream is the file of a record while it is written: lines at its end, nothing
// else. Its fields belong to whoever holds mu.
type stream struct {
	path string // as it is written: without .gz

	mu    sync.Mutex
	file  *os.File  // nil once closed
	out   io.Writer // file, but for tests
	buf   *bufio.Writer
	rows  *json.Encoder // into buf
	timer *time.Timer   // flushes; nil before the first row
	armed bool
	// lost is told why rows cannot be written, by the timer too.
	lost func(error)
	// last is the last byte of the file. torn tells that a write has failed, so that
	// the next one begins a line of its own.
	last byte
	torn bool
}

func newStream(path string, f *os.File) *stream {
	claim(f)
	s := &stream{path: path, file: f, out: f, last: '\n'}
	s.buf = bufio.NewWriterSize(raw{s}, rowsBuffer)
	s.rows = json.NewEncoder(s.buf)
	s.rows.SetEscapeHTML(false)
	return s
}

// raw is the file as the buffer sees it.
type raw struct{ s *stream }

func (r raw) Write(p []byte) (int, error) { return r.s.write(p) }

// write appends bytes. What a failed write left of a line is ended first: a
// reader counts it as a bad line.
func (s *stream) write(p []byte) (int, error) {
	if s.torn && s.last != '\n' {
		if _, err := s.out.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		s.last = '\n'
	}
	s.torn = false
	n, err := s.out.Write(p)
	if n > 0 {
		s.last = p[n-1]
	}
	s.torn = err != nil
	return n, err
}

// row adds a row, which gets to the file within a second. A row that JSON has no
// form for is missing alone, and unsupported names it.
func (s *stream) row(row any) (unsupported, err error) {
	err = s.rows.Encode(row)
	var invalid *json.UnsupportedValueError
	if errors.As(err, &invalid) {
		return err, nil
	}
	if err == nil {
		s.arm()
	}
	return nil, err
}

// arm sees to it that what is in the buffer gets to the file soon.
func (s *stream) arm() {
	switch {
	case s.armed:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(flushAfter, s.flush)
	default:
		s.timer.Reset(flushAfter)
	}
	s.armed = true
}

// flush is called by the timer.
func (s *stream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	if s.file == nil {
		return
	}
	if err := s.buf.Flush(); err != nil && s.lost != nil {
		s.lost(err)
	}
}

// forget drops the rows of a write that failed, and its error.
func (s *stream) forget() {
	s.buf.Reset(raw{s})
	s.rows = json.NewEncoder(s.buf) // it keeps the error of a failed write
	s.rows.SetEscapeHTML(false)
}

// document appends one line behind the rows; it is on the disk when document
// returns.
func (s *stream) document(v any) error {
	if s.file == nil {
		return errors.New("the record is closed")
	}
	line, err := marshalLine(v)
	if err != nil {
		return err
	}
	if err := s.buf.Flush(); err != nil {
		if s.lost != nil {
			s.lost(err)
		}
		s.forget()
	}
	if _, err := s.write(line); err != nil {
		return err
	}
	return s.file.Sync()
}

// marshalLine is a document on one line, without the escapes of < > & that are
// there for HTML.
func marshalLine(v any) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return line.Bytes(), err
}

// goOn makes the file's end the place to write.
func (s *stream) goOn() error {
	end, err := s.file.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := s.file.ReadAt(last, end-1); err != nil {
		return err
	}
	s.last, s.torn = last[0], true
	return nil
}

// end is how long the file is.
func (s *stream) end() (int64, error) {
	if s.file == nil {
		return 0, errors.New("the record is closed")
	}
	if err := s.buf.Flush(); err != nil {
		s.forget()
	}
	return s.file.Seek(0, io.SeekCurrent)
}

// close ends the writing.
func (s *stream) close() error {
	if s.file == nil {
		return nil
	}
	if s.timer != nil {
		s.timer.Stop() // one that is already waiting for the lock finds file nil
	}
	err := s.buf.Flush()
	if err != nil && s.lost != nil {
		s.lost(err)
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	return err
}
