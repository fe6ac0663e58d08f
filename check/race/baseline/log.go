package baseline

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"
)

// accessLog gathers lines and writes them once there are 64 KiB, or a second has
// gone by, as the other contestants do.
type accessLog struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	line []byte
}

// openLog opens a log; nil where there is no path.
func openLog(path string) (*accessLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	return &accessLog{file: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

// entry is one line; texts are valid during the call.
type entry struct {
	client, method, target, protocol, referer, agent []byte
	status                                           int
	bytes                                            int64
}

// add appends a line in the combined format.
func (a *accessLog) add(e *entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.w.Buffered() == 0 {
		time.AfterFunc(time.Second, func() { _ = a.flush() }) // bufio keeps the error, and close tells it
	}
	b := append(append(a.line[:0], e.client...), " - - ["...)
	b = append(time.Now().AppendFormat(b, "02/Jan/2006:15:04:05 -0700"), "] \""...)
	b = append(append(b, e.method...), ' ')
	b = append(append(b, e.target...), ' ')
	b = append(append(b, e.protocol...), "\" "...)
	b = append(strconv.AppendInt(b, int64(e.status), 10), ' ')
	b = append(strconv.AppendInt(b, e.bytes, 10), ' ')
	b = append(quoted(quoted(b, e.referer), e.agent), '\n')
	a.line = b
	_, _ = a.w.Write(b) // bufio keeps the error, and close tells it
}

// quoted appends a field between quotes; "-" where there is none.
func quoted(b, field []byte) []byte {
	if len(field) == 0 {
		field = []byte{'-'}
	}
	b = append(append(b, '"'), field...)
	return append(b, `" `...)
}

func (a *accessLog) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.w.Flush()
}

func (a *accessLog) close() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.flush(), a.file.Close())
}
