package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// The extensions of a record's file: while it is being written, and after compression.
const (
	plainSuffix = ".ndjson"
	gzipSuffix  = ".gz"
)

// gzipMagic begins every member of a gzip file (RFC 1952, 2.3.1).
var gzipMagic = []byte{0x1f, 0x8b} // read-only

// place is where a line begins: skip bytes into the content of the gzip member at an offset of
// the file. An uncompressed file has one member at 0.
type place struct{ member, skip int64 }

// source is the decompressed content of a record's file. Damage in the compressed form ends it;
// Damage reports it.
type source struct {
	file  io.ReadSeeker
	close func() error

	z      *gzip.Reader // nil if the file is not compressed
	packed *counter
	read   int64 // bytes handed out
	// marks are where members begin, in bytes returned.
	marks  []mark
	damage error
}

type mark struct{ read, member int64 }

// counter tracks how far a file was read. Because it has ReadByte, gzip does not read ahead.
type counter struct {
	*bufio.Reader
	n   int64
	err error // of the file, except io.EOF
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, c.keep(err)
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.n++
	}
	return b, c.keep(err)
}

func (c *counter) keep(err error) error {
	if err != nil && err != io.EOF {
		c.err = err
	}
	return err
}

// openPath opens a record's file, compressed or not, even if it was compressed, and so renamed,
// since its name was looked up; it refuses anything that could block a reader.
func openPath(path string) (*os.File, error) {
	f, err := openRegular(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	other, compressed := strings.CutSuffix(path, gzipSuffix)
	if !compressed {
		other = path + gzipSuffix
	}
	if !strings.HasSuffix(strings.TrimSuffix(path, gzipSuffix), plainSuffix) {
		return nil, err
	}
	if f, otherErr := openRegular(other); otherErr == nil {
		return f, nil
	}
	return nil, err
}

// openRegular opens a file, but refuses anything that could block a reader.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return os.Open(path)
}

// open opens the content from its beginning.
func (f *File) open() (*source, error) {
	if f.data != nil {
		return newSource(bytes.NewReader(f.data), func() error { return nil })
	}
	at, err := At(f.Path)
	if err != nil {
		return nil, err
	}
	file, err := openPath(at.Path)
	if err != nil {
		return nil, err
	}
	s, err := newSource(file, file.Close)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", f.Path, err), file.Close())
	}
	return s, nil
}

// abandoned reports whether it is known that no process writes the file any more.
func (s *source) abandoned() bool {
	f, is := s.file.(*os.File)
	return is && abandoned(f)
}

func newSource(file io.ReadSeeker, closer func() error) (*source, error) {
	s := &source{file: file, close: closer}
	magic := make([]byte, len(gzipMagic))
	n, err := io.ReadFull(file, magic)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if bytes.Equal(magic[:n], gzipMagic) {
		s.packed = &counter{Reader: bufio.NewReaderSize(nil, 64<<10)}
	}
	return s, s.seek(place{})
}

// noRecord says why the content is not a record.
func (s *source) noRecord() error {
	if s.damage != nil {
		return s.damage
	}
	return errNoRecord
}

// Close closes the file.
func (s *source) Close() error { return s.close() }

// seek moves to a place.
func (s *source) seek(to place) error {
	s.read, s.marks, s.damage = 0, nil, nil
	if s.packed == nil {
		s.marks = []mark{{0, 0}}
		_, err := s.file.Seek(to.skip, io.SeekStart)
		s.read = to.skip
		return err
	}
	if _, err := s.file.Seek(to.member, io.SeekStart); err != nil {
		return err
	}
	s.packed.Reset(s.file)
	s.packed.n, s.packed.err = to.member, nil
	s.z = nil
	_, err := io.CopyN(io.Discard, s, to.skip)
	if err == io.EOF {
		err = nil // the reader of the missing data reports it
	}
	return err
}

// place returns the place of a line before which read bytes were returned.
func (s *source) place(read int64) place {
	for i := len(s.marks) - 1; i >= 0; i-- {
		if m := s.marks[i]; m.read <= read {
			return place{m.member, read - m.read}
		}
	}
	return place{0, read}
}

// Read implements io.Reader. Its errors are the file's.
func (s *source) Read(p []byte) (int, error) {
	if s.packed == nil {
		n, err := s.file.Read(p)
		s.read += int64(n)
		return n, err
	}
	for s.damage == nil {
		if s.z == nil {
			if err := s.member(); err != nil {
				return 0, err
			}
		}
		n, err := s.z.Read(p)
		s.read += int64(n)
		if err == io.EOF { // of the member
			err = s.nextMember()
		}
		if err = s.told(err); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// told treats damage in the compressed form as the end of the content, and returns the errors of
// the file.
func (s *source) told(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case s.packed.err != nil:
		return s.packed.err
	}
	s.damage = fmt.Errorf("the compressed file is damaged, or cut off, at byte %d: %w", s.packed.n, err)
	return io.EOF
}

// member opens the first member.
func (s *source) member() (err error) {
	s.mark()
	if s.z, err = gzip.NewReader(s.packed); err != nil {
		s.z = nil
		if err == io.EOF {
			return io.EOF
		}
		return s.told(err)
	}
	s.z.Multistream(false)
	return nil
}

// nextMember opens the next member; io.EOF if there is none.
func (s *source) nextMember() error {
	s.mark()
	if err := s.z.Reset(s.packed); err != nil {
		return err
	}
	s.z.Multistream(false)
	return nil
}

// mark notes the start of a member. Of several empty ones the last counts.
func (s *source) mark() {
	m := mark{s.read, s.packed.n}
	if n := len(s.marks); n > 0 && s.marks[n-1].read == m.read {
		s.marks[n-1] = m
		return
	}
	s.marks = append(s.marks, m)
}
