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
	stop chan struct{}
	done chan struct{}
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
	a := &accessLog{file: f, w: bufio.NewWriterSize(f, 64<<10), stop: make(chan struct{}), done: make(chan struct{})}
	go a.tick()
	return a, nil
}

func (a *accessLog) tick() {
	defer close(a.done)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-every.C:
		}
		a.mu.Lock()
		_ = a.w.Flush() // bufio keeps the error, and close tells it
		a.mu.Unlock()
	}
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

func (a *accessLog) close() error {
	if a == nil {
		return nil
	}
	close(a.stop)
	<-a.done
	return errors.Join(a.w.Flush(), a.file.Close())
}
