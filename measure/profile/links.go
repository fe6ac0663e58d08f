package profile

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
)

// LinksPprof tells whether a process of this host runs a Go program that
// net/http/pprof is linked into, so that asking it for its profiles may be
// worth a request. It reads the program's file, not the process.
func LinksPprof(pid int) (bool, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := buildinfo.Read(f); err != nil {
		return false, nil // no Go program
	}
	return contains(io.NewSectionReader(f, 0, 1<<40), []byte("net/http/pprof.Index"))
}

// contains looks for a word in a stream, piece by piece.
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
