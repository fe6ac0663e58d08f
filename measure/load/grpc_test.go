//go:build linux

package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ceiling/internal/faultserver"
	"ceiling/internal/hpack"
	"ceiling/internal/http2"
	"ceiling/internal/needs"
	"ceiling/internal/tlsconn"
	"ceiling/server/rpc"
)

// grpcServer is google.golang.org/grpc with what its interceptor has counted, by code.
type grpcServer struct {
	address string
	answers [codes.Unauthenticated + 1]atomic.Uint64
	client  *tlsconn.Config
}

func newGRPCServer(t testing.TB, secure bool, options ...grpc.ServerOption) *grpcServer {
	t.Helper()
	s := &grpcServer{}
	options = append(options, grpc.UnaryInterceptor(
		func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, answer grpc.UnaryHandler) (any, error) {
			out, err := answer(ctx, in)
			s.answers[status.Code(err)].Add(1)
			return out, err
		}))
	if secure {
		server, client := trust(t, usual(), nil)
		client.Protocols = []string{alpnH2}
		s.client = client
		options = append(options, grpc.Creds(credentials.NewTLS(server)))
	}
	server, err := rpc.New(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = on.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(on) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// config of calls to it.
func (s *grpcServer) config(t testing.TB, engine string, n uint64, depth int, mix ...Request) Config {
	return Config{
		To: addressOf(t, s.address), Mix: mix, Connections: 4, Threads: 2, Pipelining: depth, Requests: n,
		Timeout: 10 * time.Second, Engine: engine, Seed: 1, Sockets: Sockets{TLS: s.client, Protocol: HTTP2, GRPC: true},
	}
}

// framed is a message behind its prefix.
func framed(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// say is a call of ceiling.Echo/Say that is to be answered with a code.
func say(weight int, code codes.Code, text string) Request {
	message := append([]byte{1<<3 | 2, byte(len(text))}, text...)
	if code != codes.OK {
		message = append(message, 2<<3, byte(code))
	}
	body := framed(string(message))
	return Request{Weight: weight, Bytes: fmt.Appendf(nil,
		"POST /ceiling.Echo/Say HTTP/1.1\r\nHost: x\r\ncontent-type: application/grpc\r\nte: trailers\r\ngrpc-timeout: 9S\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)}
}

// TestGRPCCounts: the server's own interceptor has as many calls of each status as are
// counted here, over TLS and without, with one stream and with sixteen, with errors at
// chosen rates, closed and open loop.
func TestGRPCCounts(t *testing.T) {
	needs.Engine(t)
	const n = 6000
	for name, k := range map[string]struct {
		mix    []Request
		change func(*Config)
		want   map[codes.Code]uint64 // in a thousandth of all; nil: not fixed
	}{
		"good":         {mix: []Request{say(1, codes.OK, "hello")}, want: map[codes.Code]uint64{codes.OK: 1000}},
		"bad":          {mix: []Request{say(1, codes.Unavailable, "gone")}, want: map[codes.Code]uint64{codes.Unavailable: 1000}},
		"one in ten":   {mix: []Request{say(9, codes.OK, "hello"), say(1, codes.Unavailable, "gone")}},
		"a third each": {mix: []Request{say(1, codes.OK, "x"), say(1, codes.NotFound, "no"), say(1, codes.Internal, "")}},
		"open loop": {mix: []Request{say(3, codes.OK, "hello"), say(1, codes.Aborted, "x")},
			change: func(c *Config) { c.Rate = perS(20_000) }},
		"new connections": {mix: []Request{say(1, codes.OK, "hello")}, change: func(c *Config) { c.Requests, c.NewConnections = 100, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			for transport, secure := range map[string]bool{"TLS": true, "h2c": false} {
				for _, depth := range []int{1, 16} {
					t.Run(fmt.Sprint(transport, depth), func(t *testing.T) {
						eachAtOnce(t, func(t *testing.T, engine string) {
							s := newGRPCServer(t, secure)
							c := s.config(t, engine, n, depth, k.mix...)
							if k.change != nil {
								k.change(&c)
							}
							if c.NewConnections > 0 {
								c.Pipelining = 1
							}
							r := runs(t, c)
							s.agrees(t, r, c.Requests)
							for code, share := range k.want {
								if got := r.Total.Statuses[code]; got*1000 != share*c.Requests {
									t.Errorf("%d of %v, want %d in a thousand", got, code, share)
								}
							}
						})
					})
				}
			}
		})
	}
}

// agrees holds the counts against the server's.
func (s *grpcServer) agrees(t *testing.T, r *Result, n uint64) {
	t.Helper()
	k := &r.Total
	if k.Completed != n || k.Failed != 0 || k.Sent != n || len(k.Faults) > 0 {
		t.Errorf("sent %d, completed %d, failed %d of %d: %v", k.Sent, k.Completed, k.Failed, n, k.Faults)
	}
	bad := uint64(0)
	for code := range s.answers {
		if got := s.answers[code].Load(); got != k.Statuses[code] {
			t.Errorf("%v: the server answered %d, %d are counted", codes.Code(code), got, k.Statuses[code])
		}
		if code > 0 {
			bad += k.Statuses[code]
		}
	}
	if k.Bad != bad {
		t.Errorf("%d bad, %d statuses other than OK", k.Bad, bad)
	}
}

// TestGRPCFirstError: the server's message of each status is kept, as a person may read it.
func TestGRPCFirstError(t *testing.T) {
	s := newGRPCServer(t, false)
	r := runs(t, s.config(t, "", 200, 4, say(1, codes.OK, "x"), say(1, codes.NotFound, "no größe 100%\nsecond\x1b[31m"), say(1, codes.Internal, "")))
	want := []ErrorResponse{{Status: int(codes.NotFound), Line: "no größe 100%%0Asecond%1B[31m"}, {Status: int(codes.Internal)}}
	if len(r.Errors) != 2 || r.Errors[0] != want[0] || r.Errors[1] != want[1] {
		t.Errorf("kept %+v, want %+v", r.Errors, want)
	}
}

// TestGRPCDeadline: a server that takes longer than grpc-timeout ends the call itself, or
// this side does; either is one failed call.
func TestGRPCDeadline(t *testing.T) {
	slow := grpc.ChainUnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		if _, has := ctx.Deadline(); !has {
			return nil, status.Error(codes.FailedPrecondition, "no deadline")
		}
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	})
	s := newGRPCServer(t, false, slow)
	call := say(1, codes.OK, "x")
	call.Bytes = bytes.Replace(call.Bytes, []byte("9S"), []byte("50m"), 1)
	c := s.config(t, "", 8, 2, call)
	r := runs(t, c)
	told, cut := r.Total.Statuses[codes.DeadlineExceeded], r.Total.Faults[Fault{PhaseResponse, resetCause(http2.Cancel)}]
	if told+cut != 8 || r.Total.Bad != told || r.Total.Failed != cut { // grpc-go does either
		t.Errorf("%d of 8 DEADLINE_EXCEEDED, %d bad, %v", told, r.Total.Bad, r.Total.Faults)
	}
}

// TestGRPCHostile: whatever comes in place of a gRPC response is one failed call by its
// name, or one with its status.
func TestGRPCHostile(t *testing.T) {
	needs.Engine(t)
	type fields = []string
	head := fields{":status", "200", "content-type", "application/grpc"}
	ok := fields{"grpc-status", "0"}
	whole := func(head fields, body string, trailers fields) func(uint32) []byte {
		return func(s uint32) []byte {
			b := answerOf(s, 0, head...)
			b = append(b, dataOf(s, 0, body)...)
			return append(b, answerOf(s, http2.EndStream, trailers...)...)
		}
	}
	alone := func(f ...string) func(uint32) []byte {
		return func(s uint32) []byte { return answerOf(s, http2.EndStream, f...) }
	}
	malformed := (&http2.Error{Code: http2.ProtocolError, Reason: causeMalformed}).Error()
	for name, k := range map[string]struct {
		answer func(uint32) []byte
		want   string // "": the status
		status int
	}{
		"good":              {answer: whole(head, framed("x"), ok)},
		"an empty message":  {answer: whole(head, framed(""), ok)},
		"a content subtype": {answer: whole(fields{":status", "200", "content-type", "application/grpc+proto"}, framed("x"), ok)},
		"no fields after":   {answer: whole(head, framed("x"), nil), want: causeNoCode},
		"no status":         {answer: whole(head, framed("x"), fields{"x", "y"}), want: causeNoCode},
		"no trailers": {answer: func(s uint32) []byte {
			return append(answerOf(s, 0, head...), dataOf(s, http2.EndStream, framed("x"))...)
		}, want: causeNoCode},
		"a head alone":         {answer: alone(head...), want: causeNoCode},
		"two statuses":         {answer: whole(head, framed("x"), fields{"grpc-status", "0", "grpc-status", "0"}), want: causeBadCode},
		"an empty status":      {answer: whole(head, framed("x"), fields{"grpc-status", ""}), want: causeBadCode},
		"a word":               {answer: whole(head, framed("x"), fields{"grpc-status", "OK"}), want: causeBadCode},
		"below zero":           {answer: whole(head, framed("x"), fields{"grpc-status", "-1"}), want: causeBadCode},
		"a zero before":        {answer: whole(head, framed("x"), fields{"grpc-status", "00"}), want: causeBadCode},
		"code 17":              {answer: whole(head, framed("x"), fields{"grpc-status", "17"}), want: causeBadCode},
		"a long number":        {answer: whole(head, framed("x"), fields{"grpc-status", strings.Repeat("1", 10_000)}), want: causeBadCode},
		"trailers alone":       {answer: alone(append(head, "grpc-status", "14", "grpc-message", "busy")...), status: 14},
		"OK in trailers alone": {answer: alone(append(head, "grpc-status", "0")...), want: causeNoMessage},
		"HTTP status":          {answer: alone(":status", "503"), want: causeHTTPStatus(503)},
		"HTTP status, body": {answer: func(s uint32) []byte {
			return append(answerOf(s, 0, ":status", "404", "content-type", "text/plain"), dataOf(s, http2.EndStream, "404 page not found")...)
		}, want: causeHTTPStatus(404)},
		"HTTP status with a code":  {answer: alone(":status", "503", "grpc-status", "14"), status: 14},
		"content type":             {answer: whole(fields{":status", "200", "content-type", "text/html"}, "<p>", nil), want: causeContentType},
		"content type, near":       {answer: whole(fields{":status", "200", "content-type", "application/grpcx"}, framed("x"), ok), want: causeContentType},
		"no content type":          {answer: whole(fields{":status", "200"}, framed("x"), ok), want: causeContentType},
		"no message":               {answer: whole(head, "", ok), want: causeNoMessage},
		"half a prefix":            {answer: whole(head, "\x00\x00", ok), want: causeCutMessage},
		"a message cut short":      {answer: whole(head, framed("hello")[:7], ok), want: causeCutMessage},
		"a message of 4 GiB":       {answer: whole(head, "\x00\xff\xff\xff\xff", ok), want: causeCutMessage},
		"two messages":             {answer: whole(head, framed("a")+framed("b"), ok), want: causeManyMessages},
		"a flag":                   {answer: whole(head, "\x02\x00\x00\x00\x00", ok), want: causeMessageFlag},
		"an error after a message": {answer: whole(head, framed("hello")[:7], fields{"grpc-status", "13"}), status: 13},
		"a pseudo field after":     {answer: whole(head, framed("x"), fields{":status", "200"}), want: malformed},
		"in capitals":              {answer: whole(head, framed("x"), fields{"Grpc-Status", "0"}), want: malformed},
		"a block that is none": {answer: func(s uint32) []byte {
			return append(append(answerOf(s, 0, head...), http2.AppendHeader(nil, 1, http2.Headers, http2.EndHeaders|http2.EndStream, s)...), 0xbe)
		}, want: (&http2.Error{Code: http2.CompressionError, Reason: hpack.ErrIndex.Error()}).Error()},
	} {
		t.Run(name, func(t *testing.T) {
			settings := faultserver.Write(string(http2.AppendSettings(nil)))
			s := serve(t, faultserver.Every(settings, faultserver.Loop(faultserver.Streams(1), faultserver.Frames(k.answer))))
			c := config(t, s, "", 12)
			c.Mix = []Request{say(1, codes.OK, "x")}
			c.Protocol, c.GRPC, c.Timeout, c.Connections, c.Threads = HTTP2, true, time.Second, 2, 1
			r := runs(t, c)
			n := &r.Total
			if k.want != "" && (n.Failed != 12 || n.Faults[Fault{PhaseResponse, k.want}] == 0) {
				t.Errorf("completed %d, failed %d, %v; want %q", n.Completed, n.Failed, n.Faults, k.want)
			}
			if k.want == "" && (n.Completed != 12 || n.Statuses[k.status] != 12 || (n.Bad == 12) != (k.status > 0)) {
				t.Errorf("completed %d, failed %d, %v, bad %d; want status %d", n.Completed, n.Failed, n.Faults, n.Bad, k.status)
			}
			if got := s.Requests(); got != n.Sent+n.Resent {
				t.Errorf("the server had %d calls, sent %d", got, n.Sent)
			}
		})
	}
}

// TestGRPCNeedsHTTP2: nothing is sent over another version.
func TestGRPCNeedsHTTP2(t *testing.T) {
	c := (&grpcServer{address: "127.0.0.1:1"}).config(t, "", 1, 1, say(1, codes.OK, "x"))
	c.Protocol = HTTP1
	if _, err := Run(t.Context(), c, &watcher{}); err == nil {
		t.Error("ran")
	}
}

// TestH2EmptyHead: a header block without a field is no response.
func TestH2EmptyHead(t *testing.T) {
	s := serve(t, faultserver.Every(faultserver.Write(string(http2.AppendSettings(nil))), faultserver.Loop(faultserver.Streams(1),
		faultserver.Frames(func(s uint32) []byte { return answerOf(s, http2.EndStream) }))))
	c := config(t, s, "", 12)
	c.Protocol, c.Timeout, c.Connections, c.Threads = HTTP2, time.Second, 2, 1
	r := runs(t, c)
	if want := (&http2.Error{Code: http2.ProtocolError, Reason: causeMalformed}).Error(); r.Total.Faults[Fault{PhaseResponse, want}] != 12 {
		t.Errorf("completed %d, %v", r.Total.Completed, r.Total.Faults)
	}
}

// TestNoAllocationPerCall: nor does a call allocate, with one stream and with sixteen. The
// server is another process.
func TestNoAllocationPerCall(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		address := addressOf(t, child(t, childGRPC))
		for _, depth := range []int{1, 16} {
			c := Config{
				To: address, Mix: []Request{say(1, codes.OK, "hello")}, Connections: 4, Threads: 1, Pipelining: depth, Requests: 10_000,
				Warmup: 100 * time.Millisecond, Timeout: 10 * time.Second, Engine: engine, Sockets: Sockets{Protocol: HTTP2, GRPC: true},
			}
			least := ^uint64(0)
			for range 3 {
				r := runs(t, c)
				clean(t, r, c.Requests)
				if least = min(least, r.AllocatedBytes); least <= 32<<10 {
					break
				}
			}
			if least > 32<<10 {
				t.Errorf("%d streams: %d bytes for 10,000 calls", depth, least)
			}
		}
	})
}

// serveGRPCAsChild answers calls until its standard input ends.
func serveGRPCAsChild() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- rpc.Serve(ctx, rpc.Config{Addr: "127.0.0.1:0", Ready: func(addr string) { fmt.Println(addr) }})
	}()
	_, err := io.Copy(io.Discard, os.Stdin)
	stop()
	if served := <-ended; err != nil || served != nil {
		panic(fmt.Sprint(err, served))
	}
}

// FuzzUnary: in whatever pieces a body comes, it is one message or is told not to be.
func FuzzUnary(f *testing.F) {
	f.Add([]byte(framed("hello")), uint8(1))
	f.Add([]byte(framed("a")+framed("b")), uint8(3))
	f.Add([]byte("\x01\x00\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, piece uint8) {
		want := ""
		switch n := len(body); {
		case n == 0:
			want = causeNoMessage
		case n < prefixBytes || uint64(binary.BigEndian.Uint32(body[1:])) > uint64(n-prefixBytes):
			want = causeCutMessage
		case uint64(binary.BigEndian.Uint32(body[1:])) < uint64(n-prefixBytes):
			want = causeManyMessages
		case body[0] > 1:
			want = causeMessageFlag
		}
		var u callBody
		for rest := body; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			u.take(rest[:n], nil, 1)
			rest = rest[n:]
		}
		if got := u.wrong(false); got != want {
			t.Errorf("%q in pieces of %d: %q, want %q", body, int(piece)+1, got, want)
		}
	})
}

// call is one of a streaming method of ceiling.Echo, of messages with a text and a number of times.
func call(method, text string, times byte, messages int) Request {
	message := string(append(append([]byte{1<<3 | 2, byte(len(text))}, text...), 3<<3, times))
	body := strings.Repeat(framed(message), messages)
	return Request{Weight: 1, Streams: method != "Collect", Bytes: fmt.Appendf(nil,
		"POST /ceiling.Echo/%s HTTP/1.1\r\nHost: x\r\ncontent-type: application/grpc\r\nte: trailers\r\nContent-Length: %d\r\n\r\n%s",
		method, len(body), body)}
}

// TestStreamingCalls: a call ends with its status, and its messages are counted, however many there
// are.
func TestStreamingCalls(t *testing.T) {
	eachAtOnce(t, func(t *testing.T, engine string) {
		for _, k := range []struct {
			call   Request
			events uint64 // of a call
		}{
			{call("Repeat", "a", 7, 1), 7}, {call("Repeat", "none", 0, 1), 0}, {call("Chat", "long "+strings.Repeat("x", 100), 0, 60), 60},
			{call("Collect", "b", 0, 5), 0}, {call("Chat", "", 0, 0), 0},
		} {
			s := newGRPCServer(t, false)
			const n = 300
			r := runs(t, s.config(t, engine, n, 4, k.call))
			clean(t, r, n)
			e := &r.Total.Early
			if r.Total.Statuses[codes.OK] != n || e.Events != n*k.events || k.events > 0 && (e.Responses != n || e.FirstEvent.Count() != n) {
				t.Errorf("%s: %d OK; %d messages in %d responses", k.call.Bytes[:40], r.Total.Statuses[codes.OK], e.Events, e.Responses)
			}
			if e.FirstEvent.Max() > r.Total.Service.Max() {
				t.Errorf("the first message came after %d ns, the last after %d", e.FirstEvent.Max(), r.Total.Service.Max())
			}
		}
	})
}

// FuzzStreamedMessages: as many are counted as there are, in whatever pieces they arrive, and a
// cut one is told.
func FuzzStreamedMessages(f *testing.F) {
	f.Add([]byte(framed("a")+framed("")+framed("bc")), uint8(1))
	f.Add([]byte("\x00\x00\x00\x00\x05a"), uint8(3))
	f.Add([]byte("\x02\x00\x00\x00\x00"), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, piece uint8) {
		want, whole := "", uint64(0)
		for rest := body; len(rest) > 0; {
			n := uint64(len(rest))
			if n < prefixBytes || uint64(binary.BigEndian.Uint32(rest[1:])) > n-prefixBytes {
				want = causeCutMessage
				break
			}
			if rest[0] > 1 {
				want = causeMessageFlag
			}
			rest, whole = rest[prefixBytes+binary.BigEndian.Uint32(rest[1:]):], whole+1
		}
		var m callBody
		var count arriving
		for rest := body; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			m.take(rest[:n], &count, 1)
			rest = rest[n:]
		}
		if got := m.wrong(true); got != want || count.count != whole {
			t.Errorf("%q in pieces of %d: %q and %d, want %q and %d", body, int(piece)+1, got, count.count, want, whole)
		}
	})
}

// FuzzCallMessage: a server's message is a short line of printable text, and the same that
// was meant where that is such a line.
func FuzzCallMessage(f *testing.F) {
	for _, text := range []string{"no such user", "100%25", "%zz%0a%", "gr%C3%B6%C3%9Fe", "%ff", strings.Repeat("%41", 500)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		printable := func(s string) bool {
			return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
		}
		if got := callMessage([]byte(text)); !printable(got) || len(got) > errorLineMax {
			t.Errorf("%q is %q", text, got)
		}
		if meant := strings.TrimSpace(text); printable(meant) && len(meant) <= errorLineMax {
			if got := callMessage([]byte(url.PathEscape(meant))); got != meant {
				t.Errorf("%q came as %q", meant, got)
			}
		}
	})
}

// FuzzCallFields: a grpc-status is a code, or is told to be none.
func FuzzCallFields(f *testing.F) {
	f.Add([]byte("0"), []byte("application/grpc"))
	f.Add([]byte("16"), []byte("application/grpc+proto"))
	f.Add([]byte("017"), []byte("application/grpc-web"))
	f.Fuzz(func(t *testing.T, value, kind []byte) {
		want := int8(badCode)
		for code := range int(codes.Unauthenticated) + 1 {
			if string(value) == fmt.Sprint(code) {
				want = int8(code)
			}
		}
		var c callFields
		c.begin()
		c.take(hpack.Field{Name: []byte("grpc-status"), Value: value})
		c.take(hpack.Field{Name: []byte("content-type"), Value: kind})
		if c.code != want {
			t.Errorf("%q is %d, want %d", value, c.code, want)
		}
		rest, ours := strings.CutPrefix(string(kind), "application/grpc")
		if ours = ours && (rest == "" || strings.ContainsAny(rest[:1], "+;")); c.typed != ours {
			t.Errorf("%q: %v", kind, c.typed)
		}
	})
}
