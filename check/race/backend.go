package race

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"
)

// heard is one request as the recording backend got it.
type heard struct {
	Line string
	// Head is the request line and the fields, as they came.
	Head   string
	Fields textproto.MIMEHeader
	Body   []byte
}

// recording is a backend that keeps what it gets. It answers with as many bytes as
// it was made for, and a field of its own.
type recording struct {
	ln     net.Listener
	answer []byte
	body   []byte
	wait   sync.WaitGroup

	mu       sync.Mutex
	requests []heard
	opened   int
	conns    map[net.Conn]bool // nil once it is closed
}

// keepMe is a field of the answer that has to come through.
const keepMe = "a value, with \"quotes\"; and=more"

func newRecording(bytes int) (*recording, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &recording{ln: ln, body: pattern(bytes), conns: map[net.Conn]bool{}}
	r.answer = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: application/octet-stream\r\nX-Keep: %s\r\nContent-Length: %d\r\n\r\n%s",
		time.Now().UTC().Format(http.TimeFormat), keepMe, bytes, r.body)
	r.wait.Go(r.accept)
	return r, nil
}

// pattern is n bytes in which every place differs from those near it, the ends of
// lines and bytes above 127 among them.
func pattern(n int) []byte {
	b := make([]byte, 0, n+16)
	for i := 0; len(b) < n; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\r', '\n', 0, byte(i)|0x80)
	}
	return b[:n]
}

func (r *recording) address() string { return r.ln.Addr().String() }

func (r *recording) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		open := r.conns != nil
		if open {
			r.conns[c] = true
			r.opened++
		}
		r.mu.Unlock()
		if !open {
			_ = c.Close() // nothing was sent on it
			return
		}
		r.wait.Go(func() {
			r.serve(c)
			_ = c.Close() // the other end may be gone already
		})
	}
}

// serve answers requests until one cannot be read.
func (r *recording) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		h, err := hear(in)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.requests = append(r.requests, *h)
		r.mu.Unlock()
		if _, err := c.Write(r.answer); err != nil {
			return
		}
	}
}

// maxHeard bounds a head and a body, which are ours.
const maxHeard = 1 << 20

// hear reads one request. Its framing is Content-Length or chunked.
func hear(in *bufio.Reader) (*heard, error) {
	var head bytes.Buffer
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		head.Write(line)
		if len(bytes.TrimRight(line, "\r\n")) == 0 && head.Len() > 2 {
			break
		}
		if head.Len() > maxHeard {
			return nil, errors.New("a head without an end")
		}
	}
	h := &heard{Head: head.String()}
	t := textproto.NewReader(bufio.NewReader(&head))
	var err error
	if h.Line, err = t.ReadLine(); err != nil {
		return nil, err
	}
	if h.Fields, err = t.ReadMIMEHeader(); err != nil {
		return nil, err
	}
	q, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(h.Head), in)))
	if err != nil {
		return nil, err
	}
	// ReadRequest's own buffer must not swallow the next request: nothing here
	// sends one before the answer.
	h.Body, err = io.ReadAll(io.LimitReader(q.Body, maxHeard))
	return h, errors.Join(err, q.Body.Close())
}

// take answers what was heard since it was asked last, and how many connections
// were opened in all.
func (r *recording) take() (list []heard, opened int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, r.requests = r.requests, nil
	return list, r.opened
}

func (r *recording) close() {
	_ = r.ln.Close() // accept ends with it
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close() // serve ends with it
	}
	r.conns = nil
	r.mu.Unlock()
	r.wait.Wait()
}
