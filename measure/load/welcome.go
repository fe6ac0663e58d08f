package load

import (
	"time"

	"ceiling/internal/websocket"
)

// welcomes are the messages that a WebSocket server sends on each connection before it gets one:
// they answer nothing. Their number is that of the first connections, before anything is sent, and
// the later ones await as many before they send.
type welcomes struct {
	each    int   // on a connection, as far as known
	untilNs int64 // the end of listening for the first; 0: it has not begun
}

// listenFor is how long a worker listens for them once its connections are open.
const listenFor = int64(50 * time.Millisecond)

// listens reports whether a worker whose connections have been opened does not begin yet.
func listens(w *worker) bool {
	s := w.streams
	if s == nil || s.subscribes() {
		return false
	}
	if s.untilNs == 0 {
		s.untilNs = w.now + listenFor
	}
	if w.now < s.untilNs {
		return true
	}
	for i := range w.conns { // one may have been slower than the others
		if w.conns[i].state == open && s.conns[i].welcomed < s.each && w.now < s.untilNs+int64(w.shared.Timeout) {
			return true
		}
	}
	return false
}

// welcome counts a piece of a message that answers nothing, and reports whether it may: before the
// load any may come, then as many as did.
func (s *streams) welcome(f *feed, c *conn, early, whole bool) bool {
	if c.served > 0 || !early && f.welcomed >= s.each {
		return false
	}
	if whole {
		f.welcomed++
		s.each = max(s.each, f.welcomed)
		s.First++
	}
	return true
}

// receivedWelcome handles what a new connection receives before it may send.
func receivedWelcome(w *worker, i uint32, c *conn, b []byte) {
	s := &w.streams.conns[i]
	for s.welcomed < w.streams.each {
		if len(b) == 0 {
			return
		}
		_, n, is, err := s.frames.Next(b)
		switch {
		case err != nil:
			w.abandon(i, c, PhaseOpen, err.Error())
			return
		case is == websocket.Close:
			w.abandon(i, c, PhaseOpen, closeCause(s.frames.CloseCode()))
			return
		case is == websocket.Ping:
			s.pong = websocket.AppendPong(s.pong[:0], s.frames.Control(), w.streams.mask())
		case is != websocket.Pong:
			w.streams.welcome(s, c, false, is == websocket.Message)
		}
		b = b[n:]
	}
	s.awaits = false
	w.stands(i, c)
	w.sendPong(i, c)
	if len(b) > 0 {
		w.receivedStream(i, c, b)
	}
}
