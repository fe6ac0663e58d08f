package apps

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// recentBytes is how much of an application's output Output returns.
const recentBytes = 64 << 10

// recent is the end of what an application has printed.
type recent struct {
	mu sync.Mutex
	b  []byte
}

func (r *recent) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = append(r.b, b...)
	if len(r.b) > 2*recentBytes {
		r.b = append(r.b[:0], r.b[len(r.b)-recentBytes:]...)
	}
	return len(b), nil
}

func (r *recent) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.b[max(0, len(r.b)-recentBytes):])
}

// Output returns the end of what an application has printed: to its file, or since its last
// start by an operator.
func (s *Supervisor) Output(id string) (string, error) {
	s.mu.Lock()
	a := s.apps[id]
	s.mu.Unlock()
	switch {
	case a == nil:
		return "", fmt.Errorf("unknown application %q", id)
	case a.config.Log == "":
		return a.recent.text(), nil
	}
	return end(a.config.Log)
}

// end reads the end of a file.
func end(name string) (text string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-recentBytes), recentBytes))
	return string(b), err
}
