//go:build linux

package load

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/hpack"
	"ceiling/internal/http2"
	"ceiling/internal/needs"
)

// answerOK is a whole response of 200, and what may be wrong with one.
func answerOK(stream uint32) []byte { return answerOf(stream, http2.EndStream, ":status", "200") }

func answerOf(stream uint32, flags uint8, fields ...string) (b []byte) {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = hpack.AppendField(block, fields[i], fields[i+1], false)
	}
	return append(http2.AppendHeader(b, len(block), http2.Headers, flags|http2.EndHeaders, stream), block...)
}

func dataOf(stream uint32, flags uint8, text string) []byte {
	return append(http2.AppendHeader(nil, len(text), http2.Data, flags, stream), text...)
}

// TestH2EmptyHead: a header block without a field is no response.
func TestH2EmptyHead(t *testing.T) {
	needs.Engine(t)
	s := serve(t, faultserver.Every(faultserver.Write(string(http2.AppendSettings(nil))), faultserver.Loop(faultserver.Streams(1),
		faultserver.Frames(func(s uint32) []byte { return answerOf(s, http2.EndStream) }))))
	c := config(t, s, "", 12)
	c.Protocol, c.Timeout, c.Connections, c.Threads = HTTP2, time.Second, 2, 1
	r := runs(t, c)
	if want := (&http2.Error{Code: http2.ProtocolError, Reason: causeMalformed}).Error(); r.Total.Faults[Fault{PhaseResponse, want}] != 12 {
		t.Errorf("completed %d, %v", r.Total.Completed, r.Total.Faults)
	}
}

// TestH2Hostile: whatever a server does, each request is completed or failed once, with
// an error by its name, the server has as many as were sent, and nothing is left.
func TestH2Hostile(t *testing.T) {
	needs.Engine(t)
	type frames = func(uint32) []byte
	settings := faultserver.Write(string(http2.AppendSettings(nil)))
	// wrong sends frames in answer to each request.
	wrong := func(list ...frames) []faultserver.Step {
		return []faultserver.Step{settings, faultserver.Loop(faultserver.Streams(1), faultserver.Frames(func(stream uint32) (b []byte) {
			for _, f := range list {
				b = append(b, f(stream)...)
			}
			return b
		}))}
	}
	fixed := func(b []byte) frames { return func(uint32) []byte { return b } }
	connection := func(kind http2.Type, text string) frames {
		return fixed(append(http2.AppendHeader(nil, len(text), kind, 0, 0), text...))
	}
	by := func(code http2.Code, reason string) string { return (&http2.Error{Code: code, Reason: reason}).Error() }
	cases := map[string]struct {
		script []faultserver.Step
		want   string // "": all are completed
	}{
		"RST_STREAM": {wrong(func(s uint32) []byte { return http2.AppendReset(nil, s, http2.EnhanceYourCalm) }),
			resetCause(http2.EnhanceYourCalm)},
		"REFUSED": {wrong(func(s uint32) []byte { return http2.AppendReset(nil, s, http2.RefusedStream) }),
			resetCause(http2.RefusedStream)},
		"GOAWAY of all": {[]faultserver.Step{settings, faultserver.Streams(1),
			faultserver.Frames(fixed(http2.AppendGoAway(nil, 0, http2.NoError))),
			faultserver.Stall()}, goAwayCause(http2.NoError)},
		"GOAWAY and close": {[]faultserver.Step{settings, faultserver.Streams(1),
			faultserver.Frames(func(s uint32) []byte { return http2.AppendGoAway(nil, s, http2.InternalError) }), faultserver.Close()},
			goAwayCause(http2.InternalError)},
		"GOAWAY after an answer": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Frames(func(s uint32) []byte {
			return http2.AppendGoAway(answerOK(s), s, http2.NoError)
		}), faultserver.Stall()}, ""},
		"GOAWAY before an answer": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Frames(func(s uint32) []byte {
			return append(http2.AppendGoAway(nil, s, http2.NoError), answerOK(s)...)
		}), faultserver.Stall()}, ""},
		"close": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Close()}, causeClosed},
		"reset": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Reset()}, "ECONNRESET"},
		"cut inside a frame": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Write("\x00\x00\x09\x01"),
			faultserver.Close()}, causeCut},
		"silence": {[]faultserver.Step{settings, faultserver.Streams(1), faultserver.Stall()}, CauseTimeout},
		"no SETTINGS": {[]faultserver.Step{faultserver.Streams(1), faultserver.Frames(answerOK), faultserver.Stall()},
			by(http2.ProtocolError, causeGreeting)},
		"HTTP/1.1": {[]faultserver.Step{faultserver.Streams(1), faultserver.Write("HTTP/1.1 400 Bad Request\r\n\r\n"),
			faultserver.Stall()}, causeNotH2},
		"pushed stream": {wrong(func(s uint32) []byte {
			return append(http2.AppendHeader(nil, 5, http2.PushPromise, http2.EndHeaders, s), 0, 0, 0, 2, 0x82)
		}), by(http2.ProtocolError, causePushed)},
		"a frame too long": {wrong(fixed(http2.AppendHeader(nil, http2.DefaultFrame+1, http2.Data, 0, 1))),
			by(http2.FrameSizeError, "frame longer than announced")},
		"PING too short": {wrong(connection(http2.Ping, "1234567")), by(http2.FrameSizeError, "PING of a wrong length")},
		"PING flood": {wrong(fixed(bytes.Repeat(http2.AppendPing(nil, make([]byte, 8), false), 2000))),
			by(http2.EnhanceYourCalm, "too many frames that carry nothing")},
		"SETTINGS flood": {wrong(fixed(bytes.Repeat(http2.AppendSettings(nil), 2000))),
			by(http2.EnhanceYourCalm, "too many frames that carry nothing")},
		"window over 2^31": {wrong(fixed(http2.AppendWindowUpdate(nil, 0, http2.MaxWindow))), by(http2.FlowControlError, causeWindow)},
		"an idle stream":   {wrong(func(s uint32) []byte { return answerOK(s + 2) }), by(http2.ProtocolError, causeIdleStream)},
		"an even stream":   {wrong(fixed(answerOK(2))), by(http2.ProtocolError, causeIdleStream)},
		"a closed stream":  {wrong(answerOK, answerOK), by(http2.StreamClosed, causeClosedStream)},
		"data before a head": {wrong(func(s uint32) []byte { return dataOf(s, http2.EndStream, "x") }),
			by(http2.ProtocolError, causeNoHead)},
		"a dynamic index": {wrong(func(s uint32) []byte {
			return append(http2.AppendHeader(nil, 1, http2.Headers, http2.EndHeaders, s), 0xbe)
		}), by(http2.CompressionError, hpack.ErrIndex.Error())},
		"an empty head": {wrong(func(s uint32) []byte {
			return http2.AppendHeader(nil, 0, http2.Headers, http2.EndHeaders|http2.EndStream, s)
		}),
			by(http2.ProtocolError, causeMalformed)},
		// As h2o 2.2 does, which never reads how large a table may be.
		"the table of 4,096 bytes": {wrong(func(s uint32) []byte {
			first := hpack.AppendField(nil, ":status", "103", false)
			first = append(first, "\x40\x01x\x01y"...) // added to the table
			b := append(http2.AppendHeader(nil, len(first), http2.Headers, http2.EndHeaders, s), first...)
			return append(http2.AppendHeader(b, 2, http2.Headers, http2.EndHeaders|http2.EndStream, s), 0x88, 0xbe)
		}), ""},
		"no status": {wrong(func(s uint32) []byte { return answerOf(s, http2.EndStream, "x", "y") }),
			by(http2.ProtocolError, causeMalformed)},
		"a name in capitals": {wrong(func(s uint32) []byte { return answerOf(s, http2.EndStream, ":status", "200", "X-Upper", "y") }),
			by(http2.ProtocolError, causeMalformed)},
		"a body too short": {wrong(func(s uint32) []byte {
			return append(answerOf(s, 0, ":status", "200", "content-length", "9"), dataOf(s, http2.EndStream, "x")...)
		}), by(http2.ProtocolError, causeLength)},
		"a body too long": {wrong(func(s uint32) []byte {
			return append(answerOf(s, 0, ":status", "200", "content-length", "1"), dataOf(s, http2.EndStream, "xx")...)
		}), by(http2.ProtocolError, causeLength)},
		"endless interim": {wrong(func(s uint32) []byte { return bytes.Repeat(answerOf(s, 0, ":status", "103"), 100) }),
			by(http2.ProtocolError, causeInterim)},
		"trailers in between": {wrong(func(s uint32) []byte {
			return append(answerOf(s, 0, ":status", "200"), answerOf(s, 0, "x", "y")...)
		}), by(http2.ProtocolError, causeMalformed)},
		"CONTINUATION flood": {wrong(func(s uint32) []byte {
			more := bytes.Repeat(http2.AppendHeader(nil, 0, http2.Continuation, 0, s), 2000)
			return append(http2.AppendHeader(nil, 0, http2.Headers, 0, s), more...)
		}), by(http2.EnhanceYourCalm, "too many frames that carry nothing")},
		"padding, interim, a long head, trailers": {wrong(func(s uint32) []byte {
			b := answerOf(s, 0, ":status", "103", "link", "x")
			block := hpack.AppendField(hpack.AppendField(nil, ":status", "200", false), "x-long", strings.Repeat("\x7f", 64<<10), false)
			b = http2.AppendBlock(b, s, block, false, http2.DefaultFrame)
			b = append(append(http2.AppendHeader(b, 8, http2.Data, http2.Padded, s), 3), "body\x00\x00\x00"...)
			return append(b, answerOf(s, http2.EndStream, "x-after", "y")...)
		}), ""},
	}
	defer nothingLeft(t)()
	t.Run("servers", func(t *testing.T) {
		for name, k := range cases {
			t.Run(name, func(t *testing.T) {
				eachAtOnce(t, func(t *testing.T, engine string) {
					s := serve(t, faultserver.Every(k.script...))
					c := config(t, s, engine, 12)
					c.Protocol, c.Timeout, c.Connections, c.Threads = HTTP2, 400*time.Millisecond, 2, 1
					r := runs(t, c)
					f, idle := r.Total.Faults[Fault{PhaseResponse, k.want}], r.Total.Faults[Fault{PhaseIdle, k.want}]
					if k.want == "ECONNRESET" { // a send that fails first takes the socket's error, and the next read meets the end
						f += r.Total.Faults[Fault{PhaseResponse, causeClosed}]
					}
					n := &r.Total
					if n.Completed+n.Failed != 12 || (k.want == "" || idle > 0) != (n.Failed == 0) || k.want != "" && f+idle == 0 {
						t.Errorf("completed %d, failed %d, %v, before the window %v; want %q", n.Completed, n.Failed, n.Faults, r.Setup, k.want)
					}
					// Of a request that was given up a server may not have read the bytes.
					if got := s.Requests(); got > r.Total.Sent+r.Total.Resent || k.want != CauseTimeout && got != r.Total.Sent+r.Total.Resent {
						t.Errorf("the server had %d requests, sent %d and %d again", got, r.Total.Sent, r.Total.Resent)
					}
				})
			})
		}
	})
}

// TestH2Windows: a server whose window is 0 at first, 1 then, and changes in mid-flight
// gets each body whole, and as many bytes at a time as it allows.
func TestH2Windows(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		window := func(n uint32) []byte {
			return http2.AppendSettings(nil, http2.Setting{ID: http2.InitialWindowSize, Value: n})
		}
		s := serve(t, faultserver.Every(
			faultserver.Write(string(window(0))), faultserver.Times(5, // one request each
				faultserver.Write(string(window(1))), faultserver.Write(string(window(0))), faultserver.Write(string(window(3))),
				faultserver.Write(string(window(100))), faultserver.Streams(1), faultserver.Frames(answerOK)),
			faultserver.Stall()))
		c := config(t, s, engine, 5)
		c.Connections, c.Threads, c.Protocol = 1, 1, HTTP2
		c.Mix[0].Bytes = []byte("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nnine byte")
		r := runs(t, c)
		clean(t, r, 5)
		if s.Requests() != 5 || r.H2.Sent[http2.Data] < 5 {
			t.Errorf("the server had %d requests in %d frames of data", s.Requests(), r.H2.Sent[http2.Data])
		}
	})
}
