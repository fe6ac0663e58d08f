package load

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"

	"ceiling/internal/eventstream"
	"ceiling/internal/hist"
	"ceiling/internal/http1"
	"ceiling/internal/sys"
	"ceiling/internal/websocket"
)

// Kind of load: what the connections carry.
type Kind uint8

// Kinds.
const (
	Requests Kind = iota // HTTP requests, each with its response
	Messages             // WebSocket messages, each answered by one
	Events               // server-sent events, to which each connection subscribes
)

// Opening is the HTTP request that makes a connection one of Messages or Events.
//
// Messages are the requests of Config.Mix, as websocket.AppendMessage writes them. Events need
// no more than a Mix of one, which is not sent: nothing is asked for by number or at
// a rate. Each event counts as sent and completed; one whose number was skipped, as
// sent and failed. Its response time is that from its publication to its receipt,
// where it says when it was published.
type Opening struct {
	Kind Kind
	// Request as it goes on the wire; of Messages without the key, and without the
	// empty line that ends it.
	Request []byte
	// Subprotocol tells that Request asks for one.
	Subprotocol bool
	// Payloads of the Mix, in its order, which an echo has.
	Payloads [][]byte
}

// Streams are connections of Messages or Events. What is counted is of the window.
type Streams struct {
	Kind Kind
	// Setup are the openings before the window, Window those in it: from the
	// connection's being established (of TLS too) to the end of the answer's head.
	// Those that did not succeed are Faults of PhaseOpen.
	Setup, Window hist.Hist
	// Echoed of the completed messages were answered with their own payload.
	Echoed uint64
	// Pings that were answered.
	Pings uint64
	// Numbered of the events had a number, from FirstSeq to LastSeq.
	Numbered, FirstSeq, LastSeq uint64
	// Monotonic of the events said when they were published by CLOCK_MONOTONIC of this
	// host; Early ones of them were received before that, and count as 0 ns. Wall said
	// it by another host's clock: their time from push to receipt is not measured.
	Monotonic, Wall, Early uint64
}

// streams is what a worker has beside its connections where they are such.
type streams struct {
	*Opening
	conns   []feed
	lines   http1.Lines
	random  *rand.ChaCha8
	goodbye []byte // a close frame
	clocks
	Streams
}

// feed is one such connection.
type feed struct {
	key  string // of the opening
	head []byte // of the answer, as far as it came

	frames websocket.Reader
	echo   int    // bytes of the message at hand that equal those sent; -1: it is no echo
	pong   []byte // to be sent once what is unsent has left
	code   uint16 // to close with; 0: CloseNormal

	body   http1.Body
	events eventstream.Reader
	seq    uint64 // of the last event
}

// clocks are where the run's clock stands on others.
type clocks struct {
	boot        string
	monotonicNs int64 // CLOCK_MONOTONIC at zero of the run's clock
}

const (
	// answerMost bounds the head of the answer to an opening, in bytes.
	answerMost = 16 << 10
	// skippedMost is how many numbers a server may skip before they are taken for
	// new ones.
	skippedMost = 1 << 32
)

// Causes of the engine's own.
const (
	causeOpening  = "connection closed in the opening handshake"
	causeNoEvents = "content type is not text/event-stream"
	causeMissed   = "event missed"
	causeEnded    = "event stream ended"
	causeUnasked  = "message that no message had asked for"
	causeCutOff   = "connection closed within a message"
	causeNoClose  = "connection closed without a close frame"
)

func newStreams(o *Opening, connections int, base time.Time) *streams {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails (Go 1.24)
	s := &streams{Opening: o, conns: make([]feed, connections), random: rand.NewChaCha8(seed), Streams: Streams{Kind: o.Kind}}
	s.goodbye = websocket.AppendClose(nil, websocket.CloseNormal, s.mask())
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil && len(id) >= 8 {
		s.boot = string(id[:8])
	}
	s.monotonicNs = sys.MonotonicNs() - int64(time.Since(base))
	return s
}

func (s *streams) mask() (m websocket.Mask) {
	binary.LittleEndian.PutUint32(m[:], uint32(s.random.Uint64()))
	return m
}

// report is the worker's account; nil where connections carry requests.
func (s *streams) report() *Streams {
	if s == nil {
		return nil
	}
	return &s.Streams
}

// subscribes tells whether the connections only receive.
func (s *streams) subscribes() bool { return s != nil && s.Opening.Kind == Events }

// askStream asks for what a connection that stands is to carry.
func (w *worker) askStream(i uint32, c *conn) {
	s := &w.streams.conns[i]
	c.state, c.since = upgrading, w.clock()
	request := w.streams.Request
	if w.streams.Opening.Kind == Messages {
		var nonce [16]byte
		binary.LittleEndian.PutUint64(nonce[:], w.streams.random.Uint64())
		binary.LittleEndian.PutUint64(nonce[8:], w.streams.random.Uint64())
		s.key = websocket.Key(nonce)
		request = append(request[:len(request):len(request)], "Sec-WebSocket-Key: "+s.key+"\r\n\r\n"...)
	}
	w.send(i, c, request)
}

// receivedStream takes what came in on such a connection.
func (w *worker) receivedStream(i uint32, c *conn, b []byte) {
	switch {
	case c.state == upgrading:
		w.receivedAnswer(i, c, b)
	case w.streams.subscribes():
		w.receivedEvents(i, c, b)
	default:
		w.receivedFrames(i, c, b)
	}
}

// receivedAnswer takes the answer to an opening.
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
		s.head = s.head[n:] // an interim one
	}
	if cause := w.refused(s, &r); cause != "" {
		w.keepError(r.Status, s.head)
		w.abandon(i, c, PhaseOpen, cause)
		return
	}
	took := &w.streams.Setup
	if w.phase >= measuring {
		took = &w.streams.Window
	}
	took.Record(w.clock() - c.since)
	s.body, s.head, s.key = r.Body(), nil, ""
	w.stands(i, c)
	if len(b) > 0 {
		w.receivedStream(i, c, b)
	}
}

// refused says why an answer does not open the connection, "" where it does.
func (w *worker) refused(s *feed, r *http1.Response) string {
	list := w.streams.lines.List
	if w.streams.Opening.Kind == Messages {
		switch e := websocket.CheckAnswer(r.Status, s.head, list, s.key, w.streams.Subprotocol); e {
		case 0:
			return ""
		case websocket.ErrStatus:
			return "status " + strconv.Itoa(r.Status) + " in place of 101"
		default:
			return e.Error()
		}
	}
	if r.Status != 200 {
		return "status " + strconv.Itoa(r.Status)
	}
	for k := range list {
		if bytes.EqualFold(list[k].Name(s.head), []byte("content-type")) {
			kind, _, _ := bytes.Cut(list[k].Value(s.head), []byte(";"))
			if bytes.EqualFold(bytes.TrimSpace(kind), []byte("text/event-stream")) {
				return ""
			}
		}
	}
	return causeNoEvents
}

// receivedFrames takes frames of a WebSocket.
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
			// Of several in one piece the latest is answered (RFC 6455, section 5.5.3): a
			// flood of them costs one send for each piece.
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
		want := w.streams.Payloads[w.script.target[c.oldest]]
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
		if w.NewConnections {
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

// closedByServer handles a close frame: what has no answer gets none anymore.
func (w *worker) closedByServer(i uint32, c *conn, s *feed) {
	code := s.frames.CloseCode()
	if s.code = code; code == 1005 {
		s.code = websocket.CloseNormal
	}
	cause := closeCause(code)
	w.tally.Reconnects++
	w.fail(i, c, PhaseResponse, cause, cause)
}

// closeCause names a code of RFC 6455, section 7.4.1; others by their class, so that
// a server that makes codes up does not make causes up.
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

// sendPong answers the latest ping, or waits until what is unsent has left: a server
// that does not read cannot make us hold answers for it.
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

// receivedEvents takes a piece of an event stream.
func (w *worker) receivedEvents(i uint32, c *conn, b []byte) {
	s := &w.streams.conns[i]
	for len(b) > 0 {
		data, n, done, err := s.body.Next(b)
		for len(data) > 0 && err == nil {
			var used int
			var event bool
			if used, event, err = s.events.Next(data); event {
				w.gotEvent(c, s)
			}
			data = data[used:]
		}
		if err != nil {
			w.fail(i, c, PhaseResponse, err.Error(), causeDropped)
			return
		}
		if b = b[n:]; done {
			w.streamEnded(i, c, s.events.EOF())
			return
		}
	}
}

// gotEvent counts an event that is whole.
func (w *worker) gotEvent(c *conn, s *feed) {
	t, m, in := w.tally, s.events.Mark(), w.phase >= measuring
	t.Sent++
	t.Completed++
	t.Statuses[0]++ // as of messages
	c.served++
	w.doneNs = w.now
	if m.Seq > 0 {
		if skipped := m.Seq - s.seq - 1; s.seq > 0 && m.Seq > s.seq && skipped > 0 && skipped < skippedMost {
			t.Sent += skipped
			t.Failed += skipped
			t.Faults[Fault{PhaseResponse, causeMissed}] += skipped
		}
		if s.seq = m.Seq; in {
			w.streams.number(m.Seq)
		}
	}
	if m.UnixNs == 0 {
		return
	}
	at, same := w.streams.published(m)
	if !same { // there is no time to record
		if in {
			w.streams.Wall++
		}
		return
	}
	took := w.now - at
	if in {
		w.streams.Monotonic++
		if took < 0 {
			w.streams.Early++
		}
	}
	t.Response.Record(max(took, 0))
}

func (s *Streams) number(seq uint64) {
	if s.Numbered++; s.FirstSeq == 0 || seq < s.FirstSeq {
		s.FirstSeq = seq
	}
	s.LastSeq = max(s.LastSeq, seq)
}

// published is when an event was, on the run's clock, where it is dated by a clock that both sides read. CLOCK_REALTIME of another
// host may be milliseconds off, which is more than most events take.
func (k *clocks) published(m *eventstream.Mark) (at int64, same bool) {
	if m.MonotonicNs > 0 && string(m.Boot) == k.boot {
		return m.MonotonicNs - k.monotonicNs, true
	}
	return 0, false
}

// streamEnded handles the end of an event stream that the server has ended.
func (w *worker) streamEnded(i uint32, c *conn, err error) {
	cause := causeEnded
	if err != nil {
		cause = err.Error()
	}
	w.tally.Reconnects++
	w.fail(i, c, PhaseResponse, cause, causeDropped)
}

// streamOver handles the end of what the peer sends, in order where no is 0.
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
	case w.streams.subscribes() && !s.body.UntilClose():
		w.fail(i, c, PhaseResponse, http1.ErrShortBody.Error(), causeDropped)
	case w.streams.subscribes():
		w.streamEnded(i, c, s.events.EOF())
	case !s.frames.Idle():
		w.fail(i, c, PhaseResponse, causeCutOff, causeDropped)
	default:
		w.fail(i, c, PhaseResponse, causeNoClose, causeDropped)
	}
}

// endStream ends what a connection carries that is about to be closed, with a close
// frame where nothing else waits to be sent. The numbers of events go on with the
// next connection: what was published meanwhile, it has missed.
func (w *worker) endStream(i uint32, c *conn) {
	s := &w.streams.conns[i]
	if w.streams.Opening.Kind == Messages && c.state == open && !c.sending {
		b := w.streams.goodbye
		if s.code != 0 {
			b = websocket.AppendClose(nil, s.code, w.streams.mask())
		}
		w.send(i, c, b)
	}
	s.frames.Reset()
	s.events.Reset()
	s.body, s.head, s.pong, s.echo, s.code = http1.Body{}, nil, nil, 0, 0
}

// add adds those of another worker.
func (s *Streams) add(one *Streams) {
	s.Setup.Merge(&one.Setup)
	s.Window.Merge(&one.Window)
	for i, n := range one.counts() {
		*s.counts()[i] += *n
	}
	if one.FirstSeq > 0 && (s.FirstSeq == 0 || one.FirstSeq < s.FirstSeq) {
		s.FirstSeq = one.FirstSeq
	}
	s.LastSeq = max(s.LastSeq, one.LastSeq)
}

// counts are the plain numbers, in the order of the wire.
func (s *Streams) counts() []*uint64 {
	return []*uint64{&s.Echoed, &s.Pings, &s.Numbered, &s.Monotonic, &s.Wall, &s.Early}
}

// append adds the streams, or that there are none, to the binary form of a result.
func (s *Streams) append(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = sized(sized(append(b, 1, byte(s.Kind)), s.Setup.AppendBinary), s.Window.AppendBinary)
	for _, n := range append(s.counts(), &s.FirstSeq, &s.LastSeq) {
		b = binary.AppendUvarint(b, *n)
	}
	return b
}

// streams reads what append wrote.
func (r *reader) streams() *Streams {
	if !r.bool() {
		return nil
	}
	s := &Streams{}
	if b := r.take(1); b != nil {
		s.Kind = Kind(b[0])
	}
	r.refuse(s.Kind != Messages && s.Kind != Events)
	r.sized(s.Setup.UnmarshalBinary)
	r.sized(s.Window.UnmarshalBinary)
	for _, n := range append(s.counts(), &s.FirstSeq, &s.LastSeq) {
		*n = r.uint()
	}
	if r.err != nil {
		return nil
	}
	return s
}
