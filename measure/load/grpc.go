package load

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// Causes of failure of a gRPC call whose response violates gRPC (PROTOCOL-HTTP2.md of its
// specification).
const (
	causeNoCode       = "no grpc-status"
	causeBadCode      = "invalid grpc-status"
	causeContentType  = "content type is not application/grpc"
	causeNoMessage    = "grpc-status 0 without a response message"
	causeCutMessage   = "response message that is shorter than its prefix says"
	causeManyMessages = "more than one response message"
	causeMessageFlag  = "response message with an unknown flag"
)

// causeHTTPStatus names a response that is not gRPC: from a proxy, or another server.
func causeHTTPStatus(status uint16) string {
	return "HTTP status " + strconv.Itoa(int(status)) + " without a grpc-status"
}

const (
	// callCodes is the number of gRPC's status codes.
	callCodes = 17
	// noCode and badCode stand for a missing grpc-status, and for an invalid one.
	noCode, badCode = -1, -2
	// prefixBytes precede each message: a flag and the length.
	prefixBytes = 5
)

// callErrors returns the codes that count as errors: all but OK.
func callErrors() *[1000]bool {
	var list [1000]bool
	for code := 1; code < callCodes; code++ {
		list[code] = true
	}
	return &list
}

// callFields are the fields of a header block that give the outcome of a call. The zero value is
// not ready: call begin.
type callFields struct {
	code    int8
	typed   bool   // the content type is gRPC's
	message []byte // start of grpc-message, still encoded
	// location of a redirect, which is none of a call's
	location []byte
	// all of them as HTTP/1.1 writes them, if the run's conditions ask for one
	all     []byte
	keepAll bool
}

// begin clears the fields of the previous block.
func (f *callFields) begin() {
	f.all = f.all[:0]
	f.code, f.typed, f.message, f.location = noCode, false, f.message[:0], f.location[:0]
}

// take handles one field.
func (f *callFields) take(field hpack.Field) {
	if f.keepAll {
		f.all = append(append(append(append(f.all, field.Name...), ": "...), field.Value...), "\r\n"...)
	}
	switch string(field.Name) {
	case "content-type":
		f.typed = isCallType(field.Value)
	case "grpc-status":
		if f.code != noCode { // twice
			f.code = badCode
			return
		}
		f.code = callCode(field.Value)
	case "grpc-message":
		f.message = append(f.message[:0], field.Value[:min(len(field.Value), 4*errorLineMax)]...)
	}
}

// isCallType reports whether value is application/grpc, alone or followed by the message format:
// +proto, ;charset.
func isCallType(value []byte) bool {
	rest, ok := bytes.CutPrefix(value, []byte("application/grpc"))
	return ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';')
}

// callCode parses a grpc-status: a decimal code without leading zeros.
func callCode(value []byte) int8 {
	if len(value) == 0 || len(value) > 2 || len(value) == 2 && value[0] == '0' {
		return badCode
	}
	n := 0
	for _, digit := range value {
		if digit-'0' > 9 {
			return badCode
		}
		n = n*10 + int(digit-'0')
	}
	if n >= callCodes {
		return badCode
	}
	return int8(n)
}

// callBody is the state of a call's response as it arrives: messages, each after its prefix. A unary
// call has one.
type callBody struct {
	typed   bool   // the head said application/grpc
	whole   bool   // one has arrived
	more    bool   // something follows it
	flagged bool   // one has an unknown flag
	have    uint8  // bytes of the prefix
	left    uint32 // of the message; while the prefix arrives, its length so far
}

// take handles a piece of the body, and counts the messages that end in it.
func (m *callBody) take(b []byte, count *arriving, now int64) {
	for len(b) > 0 {
		m.more = m.more || m.whole
		if m.have < prefixBytes {
			if m.have == 0 {
				m.flagged = m.flagged || b[0] > 1 // 1: compressed, for those who ask for that with -H
			} else {
				m.left = m.left<<8 | uint32(b[0])
			}
			m.have++
			b = b[1:]
		} else {
			n := min(len(b), int(m.left))
			m.left -= uint32(n)
			b = b[n:]
		}
		if m.have == prefixBytes && m.left == 0 {
			m.have, m.whole = 0, true
			count.event(now)
		}
	}
}

// wrong returns what is wrong with a body that ended, of a streaming call or a unary one; "":
// nothing.
func (m *callBody) wrong(streaming bool) string {
	switch {
	case m.more && !streaming:
		return causeManyMessages
	case m.have > 0:
		return causeCutMessage
	case !m.whole && !streaming:
		return causeNoMessage
	case m.flagged:
		return causeMessageFlag
	}
	return ""
}

// callBegins handles the head of a call's response, and ends the call if the head is all of it.
func (w *worker) callBegins(i uint32, c *conn, h *h2conn, k int, head *h2head, end bool, message []byte) {
	s := &h.table[k]
	s.left = -1 // the message says how long it is
	s.call = callBody{typed: head.typed}
	if w.shared.script.streams[w.shared.script.target[s.at]] {
		s.events = &arriving{firstNs: w.now}
	}
	if end {
		w.callEnds(i, c, h, k, head.code, message)
	}
}

// callEnds handles the end of a call: its status code counts as the status of a response, and a
// call without a code has failed.
func (w *worker) callEnds(i uint32, c *conn, h *h2conn, k int, code int8, message []byte) {
	s := &h.table[k]
	cause := ""
	switch {
	case code == noCode && s.status != 200:
		cause = causeHTTPStatus(s.status)
	case s.status == 200 && !s.call.typed:
		cause = causeContentType
	case code == noCode:
		cause = causeNoCode
	case code == badCode:
		cause = causeBadCode
	case code == 0:
		cause = s.call.wrong(s.events != nil)
	}
	if cause == "" {
		if w.shared.Expect.Unexpected[code] && w.seen.lacksError(int(code), "") {
			w.seen.first.Errors = append(w.seen.first.Errors, ErrorResponse{Status: int(code), Line: callMessage(message)})
		}
		w.countDone(i, c, h, k, int(code))
		return
	}
	if s.body > 0 {
		w.resetStream(i, h, s.id, http2.Cancel)
	}
	c.served++ // a response all the same
	w.failStream(i, c, h, k, cause)
}

// callTrailers handles the trailers of a call. Those of a success are the same bytes each time.
func (w *worker) callTrailers(i uint32, c *conn, h *h2conn, k int, ev *http2.Event) *http2.Error {
	known := &w.h2.trailers[w.shared.script.target[h.table[k].at]]
	if known.means(ev.Payload, &h.decoder) {
		w.callEnds(i, c, h, k, known.code, nil)
		return nil
	}
	f := &w.h2.call
	f.begin()
	h.decoder.Begin(ev.Payload)
	for {
		field, ok, err := h.decoder.Next()
		if err != nil {
			return &http2.Error{Code: http2.CompressionError, Reason: err.Error()}
		}
		if !ok {
			break
		}
		if !fieldAllowed(field.Name) {
			return &http2.Error{Code: http2.ProtocolError, Stream: ev.Stream, Reason: causeMalformed}
		}
		f.take(field)
	}
	if f.code == 0 {
		known.learn(ev.Payload, h.decoder.Effect())
		known.code = f.code
	}
	w.callEnds(i, c, h, k, f.code, f.message)
	return nil
}

// callMessage makes a grpc-message readable: it decodes the percent-encoding except for unprintable
// characters, and keeps at most 200 bytes.
func callMessage(encoded []byte) string {
	plain := make([]byte, 0, len(encoded))
	for len(encoded) > 0 {
		b, n := encoded[0], 1
		if b == '%' && len(encoded) > 2 {
			if v, err := strconv.ParseUint(string(encoded[1:3]), 16, 8); err == nil {
				b, n = byte(v), 3
			}
		}
		plain, encoded = append(plain, b), encoded[n:]
	}
	var text strings.Builder
	for len(plain) > 0 {
		r, n := utf8.DecodeRune(plain)
		shown := string(plain[:n])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			shown = ""
			for _, b := range plain[:n] {
				const digits = "0123456789ABCDEF"
				shown += string([]byte{'%', digits[b>>4], digits[b&15]})
			}
		}
		if text.Len()+len(shown) > errorLineMax {
			break
		}
		text.WriteString(shown)
		plain = plain[n:]
	}
	return strings.TrimSpace(text.String())
}
