package profile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
)

// LinksPprof reports whether a process of this host runs a Go program with net/http/pprof linked
// in, so that asking it for profiles may be worth a request. It reads the program's file, not the
// process.
func LinksPprof(pid int) (bool, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false, err
	}
	defer f.Close()
	names := functionNames(f)
	if names == nil {
		return false, nil // not a Go program
	}
	// Without "net/", because n begins so many words that the search takes twice as long.
	return contains(names, []byte("http/pprof.Index"))
}

// functionNames returns the part of a Go program with the names of its functions: its line table, a
// quarter of the file, or the whole file if it has no such section; nil for any other program.
func functionNames(f io.ReaderAt) io.Reader {
	program, err := elf.NewFile(f)
	if err != nil || program.Section(".go.buildinfo") == nil {
		return nil
	}
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := program.Section(name); s != nil && s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_COMPRESSED == 0 {
			return io.NewSectionReader(f, int64(s.Offset), int64(s.FileSize))
		}
	}
	return io.NewSectionReader(f, 0, 1<<40)
}

// contains searches a stream for a word, piece by piece.
func contains(r io.Reader, word []byte) (bool, error) {
	buf := make([]byte, 1<<20)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], word) {
			return true, nil
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, err
		}
		end := kept + n
		kept = min(len(word)-1, end)
		copy(buf, buf[end-kept:end])
	}
}
