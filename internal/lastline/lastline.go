// Package lastline keeps the end of a process's output, to explain why it exited.
package lastline

import (
	"strings"
	"sync"
)

// kept is the size of the output kept, in bytes.
const kept = 4096

// Writer keeps the end of a process's output. The zero value is ready; it is safe for concurrent
// use.
type Writer struct {
	mu sync.Mutex
	b  []byte
}

// Write never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	if extra := len(w.b) - kept; extra > 0 {
		w.b = append(w.b[:0], w.b[extra:]...)
	}
	return len(p), nil
}

// Text returns the last non-empty line, "" if there is none.
func (w *Writer) Text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.b))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
