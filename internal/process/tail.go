package process

import (
	"bytes"
	"sync"
)

// kept is how much of the output is kept at least, in bytes, and half of what is at most.
const kept = 4096

// tail keeps the end of a process's output, to explain why it exited. The zero value is ready; it
// is safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*kept {
		t.b = append(t.b[:0], t.b[len(t.b)-kept:]...)
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LastLine(t.b)
}

// LastLine returns the last non-empty line of a text, "" if there is none.
func LastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
