package load

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"syscall"

	"ceiling/internal/hist"
	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/websocket"
)

// Opening is the HTTP request that makes a connection a WebSocket. The messages are the requests of
// Config.Mix, as websocket.AppendMessage writes them, each answered by one.
type Opening struct {
	// Request as it goes on the wire, without the key and without the empty line that ends it.
	Request []byte
	// Subprotocol reports whether Request asks for one.
	Subprotocol bool
	// Payloads of the Mix, in its order, to recognize echoes.
	Payloads [][]byte
}

// Streams has the counts of WebSockets, in the window unless noted.
type Streams struct {
	// Setup has the openings before the window, Window those in it: from the connection being
	// established (including TLS) to the end of the response head. Failed ones are Faults of
	// PhaseOpen.
	Setup, Window hist.Hist
	// Echoed counts the completed messages that were answered with their own payload.
	Echoed uint64
	// Pings counts those answered.
	Pings uint64
}

// streams is a worker's state for such connections.
type streams struct {
	*Opening
	conns   []feed
	lines   http1.Lines
	random  *rand.ChaCha8
	goodbye []byte // a close frame
	Streams
}

// feed is the state of one such connection.
type feed struct {
	key  string // of the opening
	head []byte // of the response, as far as received

	frames websocket.Reader
	echo   int    // bytes of the current message that equal those sent; -1: not an echo
	pong   []byte // to be sent once the unsent bytes have left
	code   uint16 // close code; 0: CloseNormal
}

// answerMost bounds the head of the response to an opening, in bytes.
const answerMost = 16 << 10

// Causes that the engine itself names.
const (
	causeOpening = "connection closed in the opening handshake"
	causeUnasked = "unsolicited message"
	causeCutOff  = "connection closed within a message"
	causeNoClose = "connection closed without a close frame"
)

func newStreams(o *Opening, connections int) *streams {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails (Go 1.24)
	s := &streams{Opening: o, conns: make([]feed, connections), random: rand.NewChaCha8(seed)}
	s.goodbye = websocket.AppendClose(nil, websocket.CloseNormal, s.mask())
	return s
}

func (s *streams) mask() (m websocket.Mask) {
	binary.LittleEndian.PutUint32(m[:], uint32(s.random.Uint64()))
	return m
}

// report returns the worker's counts; nil if connections carry requests.
func (s *streams) report() *Streams {
	if s == nil {
		return nil
	}
	return &s.Streams
}

// askStream sends the opening request on an established connection.
func (w *worker) askStream(i uint32, c *conn) {
	s := &w.streams.conns[i]
	c.state, c.since = upgrading, w.clock()
	var nonce [16]byte
	binary.LittleEndian.PutUint64(nonce[:], w.streams.random.Uint64())
	binary.LittleEndian.PutUint64(nonce[8:], w.streams.random.Uint64())
	s.key = websocket.Key(nonce)
	request := w.streams.Request
	request = append(request[:len(request):len(request)], "Sec-WebSocket-Key: "+s.key+"\r\n\r\n"...)
	w.send(i, c, request)
}

// receivedStream handles the bytes received on such a connection.
func (w *worker) receivedStream(i uint32, c *conn, b []byte) {
	if c.state == upgrading {
		w.receivedAnswer(i, c, b)
		return
	}
	w.receivedFrames(i, c, b)
}

// receivedAnswer handles the response to an opening.
func (w *worker) receivedAnswer(i uint32, c *conn, b []byte) {
	s := &w.streams.conns[i]
	s.head = append(s.head, b...)
	var r http1.Response
	for {
		var n int
		var err error
		if r, n, err = w.streams.lines.ParseResponse(s.head, false); err == nil && n == 0 && len(s.head) > answerMost {
			err = http1.ErrHeaderTooLarge
		}
		if err != nil {
			w.abandon(i, c, PhaseOpen, err.Error())
			return
		}
		if n == 0 {
			return
		}
		if r.Status >= 200 || r.Status == 101 {
			b = s.head[n:]
			break
		}
		s.head = s.head[n:] // an interim response
	}
	if cause := w.refused(s, &r); cause != "" {
		w.seen.readPage(pageOf{tag: c.tag(i)}, r.Status, s.head, true)
		w.abandon(i, c, PhaseOpen, cause)
		return
	}
	took := &w.streams.Setup
	if w.phase >= measuring {
		took = &w.streams.Window
	}
	took.Record(w.clock() - c.since)
	s.head, s.key = nil, ""
	w.stands(i, c)
	if len(b) > 0 {
		w.receivedStream(i, c, b)
	}
}

// refused returns why a response does not open the connection, "" if it does.
func (w *worker) refused(s *feed, r *http1.Response) string {
	switch e := websocket.CheckAnswer(r.Status, s.head, w.streams.lines.List, s.key, w.streams.Subprotocol); e {
	case 0:
		return ""
	case websocket.ErrStatus:
		return "status " + strconv.Itoa(r.Status) + " in place of 101"
	default:
		return e.Error()
	}
}

// receivedFrames handles WebSocket frames.
func (w *worker) receivedFrames(i uint32, c *conn, b []byte) {
	s := &w.streams.conns[i]
	var freed int32
	for len(b) > 0 {
		piece, n, is, err := s.frames.Next(b)
		if err != nil {
			s.code = err.(websocket.ProtocolError).CloseCode()
			w.renew(i, c, freed)
			w.fail(i, c, PhaseResponse, err.Error(), causeDropped)
			return
		}
		b = b[n:]
		switch is {
		case websocket.Ping:
			// Of several pings in one piece only the latest is answered (RFC 6455, section 5.5.3):
			// a flood of them costs one send per piece.
			s.pong = websocket.AppendPong(s.pong[:0], s.frames.Control(), w.streams.mask())
			continue
		case websocket.Close:
			w.renew(i, c, freed)
			w.closedByServer(i, c, s)
			return
		case websocket.Pong:
			continue
		}
		if c.onWire == c.stamped { // what is stamped has not left yet
			w.renew(i, c, freed)
			w.fail(i, c, PhaseResponse, causeUnasked, causeDropped)
			return
		}
		if w.seen.checks != nil {
			w.examine(messageOf(c.tag(i)), 0, piece, is == websocket.Message)
		}
		want := w.streams.Payloads[w.shared.script.target[c.oldest]]
		if s.echo >= 0 {
			if bytes.HasPrefix(want[s.echo:], piece) {
				s.echo += len(piece)
			} else {
				s.echo = -1
			}
		}
		if is != websocket.Message {
			continue
		}
		if s.echo == len(want) && w.phase >= measuring {
			w.streams.Echoed++
		}
		s.echo = 0
		w.complete(i, c, 1, 0)
		freed++
		if c.full(w.shared.NewConnections) {
			w.lost(i, c)
			w.renew(i, c, freed)
			return
		}
	}
	if s.pong != nil {
		w.sendPong(i, c)
	}
	if freed > 0 {
		w.renew(i, c, freed)
		w.transmit(i, c)
	}
}

// messageOf identifies the message that a connection receives; unlike a response it has no head.
func messageOf(t ring.Tag) pageOf { return pageOf{tag: t, stream: 1} }

// closedByServer handles a close frame: unanswered messages will get no answer.
func (w *worker) closedByServer(i uint32, c *conn, s *feed) {
	code := s.frames.CloseCode()
	if s.code = code; code == 1005 {
		s.code = websocket.CloseNormal
	}
	if normalClose(code) && c.served > 0 && s.echo == 0 {
		w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
		w.tally.Closes.Code = uint64(code)
		w.lost(i, c)
		return
	}
	cause := closeCause(code)
	w.tally.Reconnects++
	w.fail(i, c, PhaseResponse, cause, cause)
}

// normalClose reports whether a server closes with a code because it is done with the connection,
// not because something failed. Messages without an answer are sent again on the next one, as
// requests are at a keep-alive limit.
func normalClose(code uint16) bool {
	switch code {
	case 1000, 1001, 1005, 1012: // normal, going away, no code, restart
		return true
	}
	return false
}

// closeCause names a code of RFC 6455, section 7.4.1; others by their class, so that a server that
// invents codes does not add causes.
func closeCause(code uint16) string {
	name := ""
	switch code {
	case 1000:
		name = "normal"
	case 1001:
		name = "going away"
	case 1002:
		name = "protocol error"
	case 1003:
		name = "unacceptable data"
	case 1005:
		return "closed by the server without a code"
	case 1007:
		name = "invalid data"
	case 1008:
		name = "policy"
	case 1009:
		name = "message too big"
	case 1010:
		name = "extension missing"
	case 1011:
		name = "internal error"
	case 1012:
		name = "restart"
	case 1013:
		name = "try again later"
	case 1014:
		name = "bad gateway"
	default:
		if code < 4000 {
			return "closed by the server: a registered code, 3000 to 3999"
		}
		return "closed by the server: a private code, 4000 to 4999"
	}
	return "closed by the server: " + strconv.Itoa(int(code)) + ", " + name
}

// sendPong answers the latest ping, or waits until the unsent bytes have left: a server that does
// not read cannot make us buffer pongs.
func (w *worker) sendPong(i uint32, c *conn) {
	s := &w.streams.conns[i]
	if s.pong == nil || c.sending || c.state != open {
		return
	}
	b := s.pong
	s.pong = nil
	if w.phase >= measuring {
		w.streams.Pings++
	}
	w.send(i, c, b)
}

// streamOver handles the end of the peer's data, orderly if no is 0.
func (w *worker) streamOver(i uint32, c *conn, no syscall.Errno) {
	s := &w.streams.conns[i]
	if no == 0 {
		no = c.sendErr
	}
	switch {
	case c.state == upgrading && no == 0:
		w.abandon(i, c, PhaseOpen, causeOpening)
	case c.state == upgrading:
		w.abandon(i, c, PhaseOpen, sys.ErrnoName(no))
	case no != 0:
		w.fail(i, c, PhaseResponse, sys.ErrnoName(no), causeDropped)
	case !s.frames.Idle():
		w.fail(i, c, PhaseResponse, causeCutOff, causeDropped)
	case c.onWire == 0 && c.served > 0:
		w.endedIdle(c)
		w.lost(i, c)
	default:
		w.fail(i, c, PhaseResponse, causeNoClose, causeDropped)
	}
}

// endStream ends the stream of a connection that is about to be closed, with a close frame if
// nothing else waits to be sent.
func (w *worker) endStream(i uint32, c *conn) {
	s := &w.streams.conns[i]
	if c.state == open && !c.sending {
		b := w.streams.goodbye
		if s.code != 0 {
			b = websocket.AppendClose(nil, s.code, w.streams.mask())
		}
		w.send(i, c, b)
	}
	w.seen.checks.forgetStream(messageOf(c.tag(i)))
	s.frames.Reset()
	s.head, s.pong, s.echo, s.code = nil, nil, 0, 0
}

// add adds another worker's counts.
func (s *Streams) add(one *Streams) {
	s.Setup.Merge(&one.Setup)
	s.Window.Merge(&one.Window)
	s.Echoed += one.Echoed
	s.Pings += one.Pings
}

// append adds the streams, or their absence, to the binary form of a result.
func (s *Streams) append(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = sized(sized(append(b, 1), s.Setup.AppendBinary), s.Window.AppendBinary)
	return binary.AppendUvarint(binary.AppendUvarint(b, s.Echoed), s.Pings)
}

// readStreams reads what append wrote.
func (r *reader) readStreams() *Streams {
	if !r.bool() {
		return nil
	}
	s := &Streams{}
	r.sized(s.Setup.UnmarshalBinary)
	r.sized(s.Window.UnmarshalBinary)
	s.Echoed, s.Pings = r.uint(), r.uint()
	if r.err != nil {
		return nil
	}
	return s
}
