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
	// rowsBuffer holds one second of rows of a busy host (about 50 of some 500 bytes); it is
	// flushed earlier when full.
	rowsBuffer = 64 << 10
	// flushAfter is how long a row may stay in memory: half of the documented bound, because
	// timers fire late on a busy host.
	flushAfter = 500 * time.Millisecond
)

// stream is the file of a record being written: it only appends lines. mu guards its fields.
type stream struct {
	path string // the name while writing: without .gz

	mu    sync.Mutex
	file  *os.File  // nil once closed
	out   io.Writer // file, except in tests
	buf   *bufio.Writer
	rows  *json.Encoder // into buf
	timer *time.Timer   // flushes; nil before the first row
	armed bool
	// lost receives the reason why rows cannot be written, also from the timer.
	lost func(error)
	// last is the last byte of the file. torn: a write has failed, so the next one must start a
	// new line.
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

// write appends bytes. It first terminates the partial line that a failed write left, which a
// reader counts as a bad line.
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

// row adds a row, which reaches the file within a second. A row that JSON cannot represent is
// dropped alone, and unsupported says why.
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

// arm makes sure that the buffer is flushed soon.
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

// flush runs on the timer.
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

// forget drops the rows of a failed write, and its error.
func (s *stream) forget() {
	s.buf.Reset(raw{s})
	s.rows = json.NewEncoder(s.buf) // it keeps the error of a failed write
	s.rows.SetEscapeHTML(false)
}

// document appends one line after the rows and syncs it to disk before returning, except for those that the
// result follows at once: its sync has them too.
func (s *stream) document(kind string, v any) error {
	if s.file == nil {
		return errors.New("the record is closed")
	}
	line, err := marshalLine(kind, v)
	if err != nil {
		return err
	}
	if err := s.buf.Flush(); err != nil {
		if s.lost != nil {
			s.lost(err)
		}
		s.forget()
	}
	if _, err = s.write(line); err != nil || kind == kindHistogram || kind == kindAttachment {
		return err
	}
	return s.file.Sync()
}

// marshalLine encodes a struct that always has a field on one line, its kind before it, without HTML escapes of < > &.
func marshalLine(kind string, v any) ([]byte, error) {
	begin := `{"kind":"` + kind + `"`
	line := bytes.NewBufferString(begin)
	enc := json.NewEncoder(line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		line.Bytes()[len(begin)] = ',' // instead of {
	}
	return line.Bytes(), err
}

// goOn moves to the end of the file to continue writing.
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

// end returns the length of the file.
func (s *stream) end() (int64, error) {
	if s.file == nil {
		return 0, errors.New("the record is closed")
	}
	if err := s.buf.Flush(); err != nil {
		s.forget()
	}
	return s.file.Seek(0, io.SeekCurrent)
}

// close flushes and closes the file.
func (s *stream) close() error {
	if s.file == nil {
		return nil
	}
	if s.timer != nil {
		s.timer.Stop() // a timer already waiting for the lock finds file nil
	}
	err := s.buf.Flush()
	if err != nil && s.lost != nil {
		s.lost(err)
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	return err
}
