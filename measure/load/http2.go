package load

import (
	"slices"

	"ceiling/internal/condition"
	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// Protocol that a connection speaks.
type Protocol uint8

// The protocols.
const (
	HTTP1 Protocol = iota
	HTTP2
)

// alpnH2 is HTTP/2's name in TLS (RFC 9113, section 3.2).
const alpnH2 = "h2"

// h2 is a worker's HTTP/2 state, if its connections may speak it.
type h2 struct {
	conns    []h2conn
	requests []h2request // by target
	heads    []h2head    // by target
	fields   headFields  // of the last head that was decoded
	H2Report
}

// h2conn is the HTTP/2 state of one connection.
type h2conn struct {
	phase   h2phase
	reader  http2.Reader
	decoder hpack.Decoder
	peer    http2.Settings // announced by the server
	window  http2.Window   // how much may be sent on the connection
	credit  http2.Credit   // how much the server may send
	// table has the open streams by identifier: slot id/2 modulo its length, or the next free one.
	// One is always free.
	table []stream
	// displaced counts those not in their own slot. If responses come in request order it is 0, and
	// removing a stream moves no other.
	displaced int
	next      uint32     // identifier of the next stream
	fresh     uint32     // the first stream that leaves with the next Wait
	limit     int32      // limit of concurrent streams
	code      http2.Code // the reason of the server's GOAWAY
	// reset: this side has reset a stream, so frames of it may still arrive.
	reset   bool
	again   []uint32 // script positions of the requests to resend, in order
	uploads []uint32 // streams whose request body has not fully left
	stall   stall
	heardNs int64 // when the server last sent anything
	freed   int32 // slots that are free and not yet renewed
	// out has frames for the ring, which may still hold them, in round; from begin on they have not
	// been passed to it yet.
	out   []byte
	begin int
	round uint64
}

// h2phase is the state of an HTTP/2 connection.
type h2phase uint8

const (
	greeting h2phase = iota // the server's SETTINGS are pending
	serving
	leaving // no more streams are opened; the connection ends with the last one
)

// stream is one request on the wire.
type stream struct {
	due, sent int64     // run's clock; sent 0: it leaves with the next Wait
	first     int64     // when the response head came; 0: not yet
	events    *arriving // nil: the response has no server-sent events
	left      int64     // of the response body, if its length is known; else -1
	id        uint32
	at        uint32 // position in the script
	got       uint32 // of the response body, not yet returned as window
	body      uint32 // of the request body, still to be sent
	window    http2.Window
	status    uint16 // 0: the response head is pending
	interim   uint8
	again     bool
}

const (
	// earlyStreams may be opened before the server's SETTINGS limit them: one request does not wait
	// for them, several do.
	earlyStreams = 1
	// receiveWindow is announced for each stream and for the connection: the largest there is. The
	// engine counts a response and drops it, so no window needs to protect this side, and a smaller
	// one would limit the throughput itself.
	receiveWindow = http2.MaxWindow
	// interimMost is how many 1xx responses may precede the final one.
	interimMost = 16
	// outMost is the most written for one send: four TLS records.
	outMost = sealMost
	// oweMost bounds the replies buffered for a server that requires them and does not read.
	oweMost = 1 << 20
)

// newH2 allocates the HTTP/2 state of a worker's connections, if they may speak it.
func newH2(s *shared, connections int) *h2 {
	if s.script.h2 == nil {
		return nil
	}
	targets := len(s.script.noBody)
	return &h2{
		conns: make([]h2conn, connections), requests: s.script.h2, heads: make([]h2head, targets),
		fields: headFields{keepAll: slices.ContainsFunc(s.Expect.Checks, func(c condition.Condition) bool { return c.NeedsHead() })},
	}
}

// speak finds what an established connection speaks, and begins with it.
func (w *worker) speak(i uint32, c *conn) {
	c.speaks = w.shared.Protocol
	if w.tls != nil {
		switch w.tls.conns[i].conn.Agreed().Protocol {
		case alpnH2:
			c.speaks = HTTP2
		case "http/1.1":
			c.speaks = HTTP1
		}
	}
	if c.speaks == HTTP2 {
		w.greet(i)
	}
}

// greet begins HTTP/2 on a connection: the preface and our settings. Once the server has read them:
// no dynamic table, so that a response head depends on nothing before it; no push; the largest
// windows.
func (w *worker) greet(i uint32) {
	h := &w.h2.conns[i]
	table := h.table
	if table == nil {
		size := 2
		for size*4 < w.pipelining*5 {
			size *= 2
		}
		table = make([]stream, size)
	}
	*h = h2conn{
		table: table, again: h.again, uploads: h.uploads[:0], out: h.out, begin: h.begin, round: h.round,
		peer: http2.DefaultSettings(), window: http2.DefaultWindow, credit: http2.NewCredit(receiveWindow),
		next: 1, limit: int32(min(w.pipelining, earlyStreams)), heardNs: w.now,
	}
	h.decoder.SetLimit(0)
	w.room(i, h)
	h.out = append(h.out, http2.Preface...)
	h.out = http2.AppendSettings(h.out, http2.Setting{ID: http2.HeaderTableSize, Value: 0}, http2.Setting{ID: http2.EnablePush, Value: 0},
		http2.Setting{ID: http2.InitialWindowSize, Value: receiveWindow})
	h.out = http2.AppendWindowUpdate(h.out, 0, receiveWindow-http2.DefaultWindow)
	w.h2.Connections++
	w.h2.Sent[http2.SettingsFrame]++
	w.h2.Sent[http2.WindowUpdate]++
}

// find returns a stream's slot in the table, -1 if it is not open.
func (h *h2conn) find(id uint32) int {
	mask := len(h.table) - 1
	for k := int(id>>1) & mask; ; k = (k + 1) & mask {
		switch h.table[k].id {
		case id:
			return k
		case 0:
			return -1
		}
	}
}

// add adds a new stream to the table.
func (h *h2conn) add(id uint32) *stream {
	mask := len(h.table) - 1
	home := int(id>>1) & mask
	k := home
	for h.table[k].id != 0 {
		k = (k + 1) & mask
	}
	if k != home {
		h.displaced++
	}
	return &h.table[k]
}

// remove removes a stream from the table, and moves up the streams after it that would become
// unreachable (Knuth, The Art of Computer Programming, volume 3, algorithm 6.4R).
func (h *h2conn) remove(k int) {
	mask := len(h.table) - 1
	if h.displaced > 0 && int(h.table[k].id>>1)&mask != k {
		h.displaced--
	}
	h.table[k].id = 0
	for j := k; h.displaced > 0; {
		j = (j + 1) & mask
		id := h.table[j].id
		if id == 0 {
			return
		}
		home := int(id>>1) & mask
		if (j-home)&mask < (j-k)&mask {
			continue // still reachable where it is
		}
		if h.table[k] = h.table[j]; home == k {
			h.displaced--
		}
		h.table[j].id = 0
		k = j
	}
}

// oldest returns the slot of the open stream with the lowest identifier, -1: none.
func (h *h2conn) oldest() int {
	at := -1
	for k := range h.table {
		if id := h.table[k].id; id != 0 && (at < 0 || id < h.table[at].id) {
			at = k
		}
	}
	return at
}
