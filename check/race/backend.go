package race

import (
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
)

// heard is one request as the recording backend got it.
type heard struct {
	// From is the connection's other end, Head the request line and the fields.
	From, Head string
	Fields     http.Header // Host among them
	Body       []byte
}

// recording is a backend that keeps what it gets. It answers with as many bytes as
// it was made for, and a field of its own.
type recording struct {
	*mortal
	body []byte

	mu       sync.Mutex
	requests []heard
}

// keepMe is a field of the answer that has to come through.
const keepMe = "a value, with \"quotes\"; and=more"

func newRecording(bytes int) (r *recording, err error) {
	r = &recording{body: pattern(bytes)}
	r.mortal, err = newMortal(r.hear)
	return r, err
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

// maxHeard bounds a body, which is ours.
const maxHeard = 1 << 20

// hear keeps one request, and answers it.
func (r *recording) hear(w http.ResponseWriter, q *http.Request) {
	head, err := httputil.DumpRequest(q, false)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is told by the end of its connection
	}
	h := heard{From: q.RemoteAddr, Head: string(head), Fields: q.Header.Clone()}
	h.Fields.Set("Host", q.Host)
	if h.Body, err = io.ReadAll(io.LimitReader(q.Body, maxHeard)); err != nil {
		panic(http.ErrAbortHandler)
	}
	r.mu.Lock()
	r.requests = append(r.requests, h)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Keep", keepMe)
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	_, _ = w.Write(r.body) // a client that is gone is told of by its own error
}

// take answers what was heard since it was asked last.
func (r *recording) take() (list []heard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, r.requests = r.requests, nil
	return list
}
