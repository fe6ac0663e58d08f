package page

import (
	"io"
	"log"
	"net/http"
	"time"

	"ceiling/internal/sys"
)

// aliveEvery is how often an idle reader gets a comment, to detect a disconnect.
const aliveEvery = 10 * time.Second

// events streams events to a reader, after its last event, until the run is over or the reader
// disconnects.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	reader := s.hub.join(r.Header.Get("Last-Event-ID"))
	if reader == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.hub.leave(reader)
	defer s.board.Look()()
	w.Header().Set("Content-Type", "text/event-stream")
	out := &stream{w: w, to: http.NewResponseController(w)}
	if out.send([]byte("retry: 1000\n\n")) != nil {
		return
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		message, beat, last := s.next(reader, out)
		if out.send(message) != nil || last {
			return
		}
		select {
		case <-beat:
		case <-alive.C:
			if out.send([]byte(": still here\n\n")) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// next builds a reader's next message and counts its cost as the view's.
func (s *Server) next(r *reader, out *stream) (message []byte, beat <-chan struct{}, last bool) {
	s.board.Spent(out.takeCost())
	message, beat, last = s.hub.message(r, out.buf[:0])
	out.buf = message
	return message, beat, last
}

// stream writes to one reader.
type stream struct {
	w      http.ResponseWriter
	to     *http.ResponseController
	buf    []byte
	costNs int64
}

// send writes and flushes within writeWithin, or fails. It records its CPU time, including the
// kernel's for the loopback.
func (s *stream) send(message []byte) error {
	if len(message) == 0 {
		return nil
	}
	release := sys.HoldThread()
	defer release()
	before := sys.ThreadCPUNs()
	defer func() { s.costNs += sys.ThreadCPUNs() - before }()
	if err := s.to.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	if _, err := s.w.Write(message); err != nil {
		return err
	}
	return s.to.Flush()
}

func (s *stream) takeCost() int64 {
	c := s.costNs
	s.costNs = 0
	return c
}

// quiet discards net/http's log of client errors.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
