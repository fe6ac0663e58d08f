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
)

// The last member of a compressed record is empty, and its extra field (RFC 1952,
// 2.3.1.1) has the offset of the member with the result or the answer: so a list
// of runs needs not read all of each.
const (
	extraID1, extraID2 = 'c', 'e'
	extraLen           = 12 // two letters, a length of two bytes, an offset of eight
	// emptyMost bounds an empty member: a head of 10 bytes, the length of the extra
	// field and the field, an empty block, and a tail of 8.
	emptyMost = 64
)

// compressed makes a .gz of a record that is finished, and removes what it was made
// of. Whoever reads that goes on reading it. It answers the path that the record
// has then.
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
	// The record has to be on the disk under its new name before the old one goes.
	if err := errors.Join(syncDir(filepath.Dir(plain)), os.Remove(plain)); err != nil {
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

// written counts what goes through it.
type written struct {
	io.Writer
	n int64
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n += int64(n)
	return n, err
}

// pack compresses a record. Every run of a plan begins a member, and so does the
// result or the answer: a reader goes to one of them without decompressing what is
// before it. The same record gives the same bytes.
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

// lastMember goes to the result or the answer of a compressed record; false where
// the record does not say where it is, as one that another program has compressed.
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
	// The head is 10 bytes of which 4 are told, the length of the extra field, the field.
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
