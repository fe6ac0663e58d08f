// Package lastline keeps the end of what a process says, for the error that tells
// why it ended.
package lastline

import (
	"strings"
	"sync"
)

// kept is how much of the output is kept, in bytes.
const kept = 4096

// Writer takes what a process writes and keeps the end. The zero value is ready;
// several goroutines may use it.
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

// Text is the last line that is not empty, "" where there is none.
func (w *Writer) Text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.b))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
