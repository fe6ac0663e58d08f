package record

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ceiling/internal/durable"
)

// The last member of a compressed record is empty, and its extra field (RFC 1952, 2.3.1.1) has
// the offset of the member with the result or the answer, so that a list of runs need not read
// all of each.
const (
	extraID1, extraID2 = 'c', 'e'
	extraLen           = 12 // two letters, a length of two bytes, an offset of eight
	// emptyMost bounds an empty member: a head of 10 bytes, the length of the extra field, the
	// field, an empty block, and a trailer of 8.
	emptyMost = 64
)

// compressed makes a .gz of a finished record and removes the original; open readers of it are
// not disturbed. It returns the record's new path.
func compressed(plain string) (string, error) {
	packed := plain + gzipSuffix
	temp := filepath.Join(filepath.Dir(plain), "."+filepath.Base(packed)+".part")
	if err := compressTo(temp, plain); err != nil {
		os.Remove(temp) // best effort: a leftover begins with a dot and is never read
		return plain, fmt.Errorf("compress %s, which stays as it is: %w", plain, err)
	}
	if err := os.Rename(temp, packed); err != nil {
		os.Remove(temp)
		return plain, fmt.Errorf("compress %s, which stays as it is: %w", plain, err)
	}
	// The record must be on disk under its new name before the old one is removed.
	if err := errors.Join(durable.Dir(filepath.Dir(plain)), os.Remove(plain)); err != nil {
		return packed, fmt.Errorf("compress %s: %w", plain, err)
	}
	return packed, nil
}

func compressTo(path, plain string) (err error) {
	in, err := openRegular(plain)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pack(out, in); err != nil {
		return err
	}
	return out.Sync()
}

// written counts the bytes written through it.
type written struct {
	io.Writer
	n int64
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n += int64(n)
	return n, err
}

// pack compresses a record. Every run of a plan begins a member, and so does the result or the
// answer: a reader can seek to one of them without decompressing what precedes it. The same
// record yields the same bytes.
func pack(to io.Writer, from io.Reader) error {
	buf := bufio.NewWriterSize(to, 64<<10)
	out := &written{Writer: buf}
	in := bufio.NewReaderSize(from, 64<<10)
	z := gzip.NewWriter(out)
	plan, begin, last := false, true, int64(0)
	for lines := 0; ; {
		part, err := in.ReadSlice('\n')
		if begin && len(part) > 0 {
			kind := kindFirst(part)
			plan = plan || kind == kindPlan
			if lines > 0 && (kind == kindRun || kind == kindAnswer || kind == kindResult && !plan) {
				if err := z.Close(); err != nil {
					return err
				}
				z.Reset(out)
				if kind != kindRun {
					last = out.n
				}
			}
			lines++
		}
		if _, err := z.Write(part); err != nil {
			return err
		}
		begin = err == nil
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	z.Reset(out)
	z.Extra = binary.LittleEndian.AppendUint64([]byte{extraID1, extraID2, 8, 0}, uint64(last))
	if err := z.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// lastMember seeks to the result or the answer of a compressed record; false if the record does
// not say where it is, like one that another program has compressed.
func (s *source) lastMember() (bool, error) {
	if s.packed == nil {
		return false, nil
	}
	size, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if _, err := s.file.Seek(max(0, size-emptyMost), io.SeekStart); err != nil {
		return false, err
	}
	end, err := io.ReadAll(s.file)
	if err != nil {
		return false, err
	}
	// The head has 10 bytes, of which 4 are known, then the length of the extra field and the
	// field.
	for i := len(end) - 12 - extraLen; i >= 0; i-- {
		h := end[i:]
		if h[0] == gzipMagic[0] && h[1] == gzipMagic[1] && h[2] == 8 && h[3] == 4 && h[10] == extraLen && h[11] == 0 && h[12] == extraID1 &&
			h[13] == extraID2 {
			at := binary.LittleEndian.Uint64(h[16:])
			if at == 0 || at >= uint64(size) {
				return false, nil
			}
			return true, s.seek(place{member: int64(at)})
		}
	}
	return false, nil
}
