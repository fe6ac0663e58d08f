package proxy_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ceiling/internal/needs"
)

// framer is a client of HTTP/2 that sends what it is told to, frame by frame.
type framer struct {
	*http2.Framer
	t     *testing.T
	conn  *tls.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

// frames opens a connection, with the client's preface and settings.
func (r *running) frames(t *testing.T, settings ...http2.Setting) *framer {
	t.Helper()
	f := &framer{t: t, conn: r.handshake(t, "a.example", "h2")}
	f.Framer = http2.NewFramer(f.conn, f.conn)
	f.enc = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(f.conn, http2.ClientPreface)
	if err := errors.Join(err, f.WriteSettings(settings...)); err != nil {
		t.Fatal(err)
	}
	return f
}

// fields is the block of a request with more fields: name, value, name, value.
func (f *framer) fields(method, path string, more ...string) []byte {
	f.block.Reset()
	all := append([]string{":method", method, ":scheme", "https", ":authority", "a.example", ":path", path}, more...)
	for i := 0; i < len(all); i += 2 {
		if err := f.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}); err != nil {
			f.t.Fatal(err)
		}
	}
	return f.block.Bytes()
}

// ask sends a request's head; a peer that has gone is found out by reading.
func (f *framer) ask(id uint32, end bool, method, path string, more ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.fields(method, path, more...), EndHeaders: true, EndStream: end})
}

// await reads until want says so, and acknowledges settings. An end of the connection is
// nil.
func (f *framer) await(want func(http2.Frame) bool) http2.Frame {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				f.t.Fatal("neither answered nor closed")
			}
			return nil
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			_ = f.WriteSettingsAck()
		}
		if want(frame) {
			return frame
		}
	}
}

// status is the answer of a stream; 0 where it was reset, with the code.
func (f *framer) status(id uint32) (status string, code http2.ErrCode) {
	f.t.Helper()
	frame := f.await(func(frame http2.Frame) bool {
		switch frame.(type) {
		case *http2.MetaHeadersFrame, *http2.RSTStreamFrame:
			return frame.Header().StreamID == id
		case *http2.GoAwayFrame:
			return true
		}
		return false
	})
	switch frame := frame.(type) {
	case *http2.MetaHeadersFrame:
		return frame.PseudoValue("status"), 0
	case *http2.RSTStreamFrame:
		return "reset", frame.ErrCode
	case *http2.GoAwayFrame:
		return "away", frame.ErrCode
	}
	return "closed", 0
}

// away is the code of the GOAWAY that ends the connection, and whether the connection
// ends behind it.
func (f *framer) away() (code http2.ErrCode, said bool) {
	f.t.Helper()
	f.await(func(frame http2.Frame) bool {
		if g, ok := frame.(*http2.GoAwayFrame); ok {
			code, said = g.ErrCode, true
		}
		return false
	})
	return code, said
}

// TestHTTP2Bodies: many requests at a time over one connection, of any size either way,
// each with its own answer.
func TestHTTP2Bodies(t *testing.T) {
	needs.Time(t)
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(append([]byte(q.URL.Path), body...))
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		client := r.client(true)
		client.Transport.(*http.Transport).MaxConnsPerHost = 1
		defer client.CloseIdleConnections()
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				path, size := fmt.Sprintf("/%d", i), []int{0, 1, 1000, 20_000, 300_000, 2_000_000}[min(i%7, 5)]
				body := bytes.Repeat([]byte{byte(i)}, size)
				var from io.Reader = bytes.NewReader(body)
				if i%2 == 0 { // its length is not known
					from = io.MultiReader(from)
				}
				res, err := client.Post("https://a.example"+path, "x/y", from)
				if err != nil {
					t.Error(i, err)
					return
				}
				defer res.Body.Close()
				if got, err := io.ReadAll(res.Body); err != nil || string(got) != path+string(body) {
					t.Errorf("%d: %d bytes of %d, %v", i, len(got), size, err)
				}
			})
		}
		all.Wait()
		if s := r.counted(t); s.HTTP2 == 0 || s.Streams != 0 || s.StreamsTotal != 300 || s.HTTP2Total == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHTTP2Windows: no more is sent than the client's windows allow, of a stream and of
// the connection, and all of it once they do.
func TestHTTP2Windows(t *testing.T) {
	dir := t.TempDir()
	want := make([]byte, 3_000_000) // mapped
	for i := range want {
		want[i] = byte(i>>8) ^ byte(i*7)
	}
	for name, b := range map[string][]byte{"large": want, "middle": want[:40_000], "none": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location("files://"+dir, ""))
		for _, window := range []uint32{1, 1000, 65535, 1 << 20} {
			f := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
			paths := map[uint32][]byte{1: want, 3: want[:40_000], 5: nil, 7: want}
			got := map[uint32][]byte{}
			left, whole := map[uint32]int{}, 65535
			for i, path := range []string{"/large", "/middle", "/none", "/large"} {
				id := uint32(2*i + 1)
				left[id] = int(window)
				f.ask(id, true, "GET", path)
			}
			ended := 0
			f.await(func(frame http2.Frame) bool {
				id := frame.Header().StreamID
				d, ok := frame.(*http2.DataFrame)
				switch {
				case ok:
					n := len(d.Data())
					got[id] = append(got[id], d.Data()...)
					if left[id], whole = left[id]-n, whole-n; left[id] < 0 || whole < 0 {
						t.Errorf("stream %d: %d, connection: %d below the window", id, left[id], whole)
					}
					if left[id] == 0 && !d.StreamEnded() { // it goes on in larger steps
						left[id] += 50_000
						_ = f.WriteWindowUpdate(id, 50_000)
					}
					if whole < 1000 {
						_ = f.WriteWindowUpdate(0, uint32(65535-whole))
						whole = 65535
					}
					if d.StreamEnded() {
						ended++
					}
				case frame.Header().Type == http2.FrameHeaders && frame.(*http2.MetaHeadersFrame).StreamEnded():
					ended++
				}
				return ended == len(paths)
			})
			for id, b := range paths {
				if !bytes.Equal(got[id], b) {
					t.Errorf("window %d, stream %d: %d bytes of %d", window, id, len(got[id]), len(b))
				}
			}
			f.conn.Close()
		}
		until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 })
	})
}

// TestHTTP2PingForData: a client that sends a PING for each DATA frame that it gets, as gRPC's
// do to measure the connection, gets a long answer whole.
func TestHTTP2PingForData(t *testing.T) {
	const step, size = 200, 400_000 // 2,000 frames
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	r := runOn(t, "uring", begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: step})
	f.ask(1, true, "GET", "/")
	got := 0
	end := f.await(func(frame http2.Frame) bool {
		d, ok := frame.(*http2.DataFrame)
		if !ok {
			return false
		}
		got += len(d.Data())
		_ = errors.Join(f.WritePing(false, [8]byte{}), f.WriteWindowUpdate(0, step), f.WriteWindowUpdate(1, step))
		return d.StreamEnded()
	})
	if end == nil || got != size {
		t.Errorf("%d of %d bytes came", got, size)
	}
}

// TestHTTP2WindowBelowZero: a window that the client makes smaller than what it has taken
// is filled up before anything more is sent (RFC 9113, section 6.9.2).
func TestHTTP2WindowBelowZero(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 40_000)) })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10_000})
	f.ask(1, true, "GET", "/")
	got := 0
	count := func(most int) func(http2.Frame) bool {
		return func(frame http2.Frame) bool {
			if d, ok := frame.(*http2.DataFrame); ok {
				got += len(d.Data())
			}
			if got > most {
				t.Errorf("%d bytes, %d are allowed", got, most)
			}
			return got >= most || frame.Header().Type == http2.FramePing
		}
	}
	f.await(count(10_000))
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	_ = f.WriteWindowUpdate(1, 9000) // 0 now
	_ = f.WritePing(false, [8]byte{1})
	f.await(count(10_000 + 1)) // the PING is answered, and nothing else came
	_ = f.WriteWindowUpdate(1, 5)
	f.await(count(10_005))
}

// TestHTTP2Hostile: what a client can do to cost more than it pays, or to break the rules,
// ends its stream or its connection with the code that says why; others are served.
func TestHTTP2Hostile(t *testing.T) {
	needs.Time(t)
	release := make(chan struct{})
	defer close(release)
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			select {
			case <-release:
			case <-q.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "ok")
	})
	field := func(n int) string { return strings.Repeat("x", n) }
	reset := func(want http2.ErrCode) func(f *framer) string {
		return func(f *framer) string {
			if status, code := f.status(1); status != "reset" || code != want {
				return fmt.Sprint(status, code)
			}
			f.ask(101, true, "GET", "/") // the connection lives
			status, _ := f.status(101)
			return strings.TrimPrefix(status, "200")
		}
	}
	away := func(want http2.ErrCode) func(f *framer) string {
		return func(f *framer) string {
			if code, said := f.away(); !said || code != want {
				return fmt.Sprint(said, code)
			}
			return ""
		}
	}
	answers := func(want string) func(f *framer) string {
		return func(f *framer) string {
			status, _ := f.status(1)
			return strings.TrimPrefix(status, want)
		}
	}
	for name, c := range map[string]struct {
		do   func(f *framer)
		want func(f *framer) string
	}{
		"rapid reset": {func(f *framer) {
			for id := uint32(1); id < 2000; id += 2 {
				f.ask(id, true, "GET", "/wait")
				_ = f.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"resets that it makes the proxy send": {func(f *framer) {
			for id := uint32(1); id < 2000; id += 2 {
				f.ask(id, true, "GET", "/wait")
				_ = f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0})
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"pings": {func(f *framer) {
			for range 2000 {
				_ = f.WritePing(false, [8]byte{})
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"settings": {func(f *framer) {
			for range 2000 {
				_ = f.WriteSettings()
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"continuations without end": {func(f *framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.fields("GET", "/")})
			for range 2000 {
				_ = f.WriteContinuation(1, false, []byte{0x40, 1, 'a', 1, 'b'})
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"a block without end": {func(f *framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.fields("GET", "/")})
			for range 8 {
				_ = f.WriteContinuation(1, false, make([]byte, 16<<10))
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"a block of references to a large entry": {func(f *framer) {
			block := append(f.fields("GET", "/", "a", field(4000)), bytes.Repeat([]byte{0x80 | 62}, 16000)...)
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16000], EndStream: true})
			_ = f.WriteContinuation(1, true, block[16000:])
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"a head that is too large": {func(f *framer) {
			f.ask(1, true, "GET", "/", "a", field(9000)) // 14,000 bytes on the wire
			f.ask(3, true, "GET", "/")
		}, answers("200")},
		"a head beyond the limit": {func(f *framer) {
			block := f.fields("GET", "/", "a", field(17_000))
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true, EndHeaders: true})
		}, answers("431")},
		"data without data": {func(f *framer) {
			f.ask(1, false, "POST", "/")
			for range 2000 {
				_ = f.WriteData(1, false, nil)
			}
		}, away(http2.ErrCodeEnhanceYourCalm)},
		"more data than the windows": {func(f *framer) {
			f.ask(1, false, "POST", "/wait")
			for range 20 {
				_ = f.WriteData(1, false, make([]byte, 16<<10))
			}
		}, func(f *framer) string { // the destination takes some, so that a window may be opened again
			f.ask(101, true, "GET", "/")
			status, _ := f.status(101)
			return strings.TrimPrefix(status, "200")
		}},
		"a window of the connection that overflows": {func(f *framer) { _ = f.WriteWindowUpdate(0, 1<<31-1) },
			away(http2.ErrCodeFlowControl)},
		"a window of a stream that overflows": {func(f *framer) {
			f.ask(1, true, "GET", "/wait")
			_ = f.WriteWindowUpdate(1, 1<<31-1)
		}, reset(http2.ErrCodeFlowControl)},
		"windows that settings make overflow": {func(f *framer) {
			f.ask(1, true, "GET", "/wait")
			_ = f.WriteWindowUpdate(1, 1<<30)
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		}, away(http2.ErrCodeFlowControl)},
		"an integer without end": {func(f *framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bytes.Repeat([]byte{0xff}, 100), EndHeaders: true})
		}, away(http2.ErrCodeCompression)},
		"a stream of the server": {func(f *framer) { f.ask(2, true, "GET", "/") }, away(http2.ErrCodeProtocol)},
		"a frame that is too long": {func(f *framer) {
			_ = f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 16<<10+1))
		}, away(http2.ErrCodeFrameSize)},
		"no end": {func(f *framer) {
			f.ask(1, false, "POST", "/", "content-length", "10")
			_ = f.WriteData(1, true, []byte("12345"))
		}, reset(http2.ErrCodeProtocol)},
		"too much": {func(f *framer) {
			f.ask(1, false, "POST", "/wait", "content-length", "3")
			_ = f.WriteData(1, true, []byte("12345"))
		}, reset(http2.ErrCodeProtocol)},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
			f := r.frames(t)
			sent := make(chan struct{})
			go func() { // the peer may stop to read
				defer close(sent)
				c.do(f)
			}()
			<-sent
			if wrong := c.want(f); wrong != "" {
				t.Error(wrong)
			}
			other := r.frames(t)
			other.ask(1, true, "GET", "/")
			if status, code := other.status(1); status != "200" {
				t.Errorf("another client: %s %s", status, code)
			}
			f.conn.Close()
			other.conn.Close()
			until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 })
		})
	}
}

// TestHTTP2StreamsMost: beyond the limit of streams a request is refused, not lost, and
// served when there is room.
func TestHTTP2StreamsMost(t *testing.T) {
	release := make(chan struct{})
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { <-release })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t)
	const most = 128
	for i := range uint32(most + 1) {
		f.ask(2*i+1, true, "GET", "/")
	}
	if status, code := f.status(2*most + 1); status != "reset" || code != http2.ErrCodeRefusedStream {
		t.Error(status, code)
	}
	close(release)
	answered := 0
	f.await(func(frame http2.Frame) bool {
		if frame.Header().Type == http2.FrameHeaders {
			answered++
		}
		return answered == most
	})
	f.ask(2*most+3, true, "GET", "/")
	if status, code := f.status(2*most + 3); status != "200" {
		t.Error(status, code)
	}
}

// TestHTTP2Times: a connection without requests, an unfinished head, a client that says
// nothing and one that opens no window all end.
func TestHTTP2Times(t *testing.T) {
	needs.Time(t)
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+
		"[timeouts]\nheader = \"300ms\"\nkeep_alive = \"300ms\"\nidle = \"300ms\"\n"+location(to, ""))
	f := r.frames(t)
	f.ask(1, true, "GET", "/")
	if status, _ := f.status(1); status != "200" {
		t.Fatal(status)
	}
	_ = f.WriteWindowUpdate(1, 1<<20)
	_ = f.WriteWindowUpdate(0, 1<<20)
	if code, said := f.away(); !said || code != http2.ErrCodeNo {
		t.Errorf("without requests: %v %s", said, code)
	}
	f = r.frames(t)
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.fields("GET", "/")})
	f.away()
	conn := r.handshake(t, "a.example", "h2")
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a client that says nothing stays")
	}
	f = r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	f.ask(1, true, "GET", "/")
	f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameRSTStream })
	until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 && s.Clients == 0 })
}

// TestHTTP2Drain: a client is told of the end before the last request is taken: one that
// was on its way is answered, and the connection ends behind the last answer.
func TestHTTP2Drain(t *testing.T) {
	begun, release := make(chan struct{}, 2), make(chan struct{})
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { begun <- struct{}{}; <-release })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t)
	f.ask(1, true, "GET", "/")
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	var ping [8]byte
	last := uint32(0)
	f.await(func(frame http2.Frame) bool {
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			last = frame.LastStreamID
		case *http2.PingFrame:
			ping = frame.Data
			return last != 0
		}
		return false
	})
	if last != 1<<31-1 {
		t.Errorf("the first GOAWAY names stream %d", last)
	}
	f.ask(3, true, "GET", "/") // it was on its way
	<-begun
	_ = f.WritePing(true, ping)
	f.await(func(frame http2.Frame) bool {
		g, ok := frame.(*http2.GoAwayFrame)
		return ok && g.LastStreamID == 3
	})
	f.ask(5, false, "POST", "/") // it comes too late, which is no fault
	_ = f.WriteData(5, true, make([]byte, 1000))
	_ = f.WriteWindowUpdate(5, 1000)
	_ = f.WriteRSTStream(5, http2.ErrCodeCancel)
	_ = f.WritePing(false, [8]byte{1})
	f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FramePing })
	close(release)
	answered := 0
	f.await(func(frame http2.Frame) bool {
		if frame.Header().Type == http2.FrameHeaders {
			answered++
		}
		return false
	})
	f.conn.Close()
	if <-stopped; answered != 2 {
		t.Errorf("%d answers, not 2", answered)
	}
}

// TestHTTP2NoDynamicTable: a client that wants none is told that there is none, once
// (RFC 7541, section 4.2).
func TestHTTP2NoDynamicTable(t *testing.T) {
	to := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	f.ReadMetaHeaders = nil
	for i, want := range []bool{true, false} {
		f.ask(uint32(2*i+1), true, "GET", "/")
		h := f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameHeaders }).(*http2.HeadersFrame)
		if got := h.HeaderBlockFragment()[0] == 0x20; got != want {
			t.Errorf("answer %d begins with %#x", i, h.HeaderBlockFragment()[0])
		}
	}
}

// TestHTTP2EarlyAnswer: an answer that does not wait for the request's end is whole, and
// the client is told that the rest is not wanted.
func TestHTTP2EarlyAnswer(t *testing.T) {
	to := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, "body_bytes = 10"))
	f := r.frames(t)
	f.ask(1, false, "POST", "/", "content-length", "100000")
	if status, _ := f.status(1); status != "413" {
		t.Error(status)
	}
	if status, code := f.status(1); status != "reset" || code != http2.ErrCodeNo {
		t.Error(status, code)
	}
	for range 6 { // on their way
		_ = f.WriteData(1, false, make([]byte, 16<<10))
	}
	f.ask(3, true, "GET", "/")
	if status, code := f.status(3); status != "200" {
		t.Error(status, code)
	}
}

// TestHTTP2Interim: what a destination says before its answer comes before it.
func TestHTTP2Interim(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		b, err := io.ReadAll(q.Body) // the server says 100 with the first read
		_, _ = fmt.Fprint(w, len(b), err)
	})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t)
	f.ask(1, false, "POST", "/", "expect", "100-continue", "content-length", "3")
	for _, want := range []string{"103", "100"} {
		if status, code := f.status(1); status != want {
			t.Fatal(status, code)
		}
	}
	_ = f.WriteData(1, true, []byte("abc"))
	if status, code := f.status(1); status != "200" {
		t.Error(status, code)
	}
	d := f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameData }).(*http2.DataFrame)
	if got := string(d.Data()); got != "3 <nil>" {
		t.Error(got)
	}
}

// frame is the header of one.
func frame(b []byte, length int, kind http2.FrameType, flags byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags), id)
}

// TestHTTP2NoAllocation: a request over HTTP/2 costs none, with all that the proxy does
// for it.
func TestHTTP2NoAllocation(t *testing.T) {
	needs.Time(t)
	to := plainBackend(t)
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		c := r.strict(t, "h2")
		const streams = 10
		block := []byte{0x82, 0x87, 0x84, 0x41, 9, 'a', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e'}
		request, b, sealed := make([]byte, 0, 4096), make([]byte, 64<<10), make([]byte, 0, 4096)
		id := uint32(1)
		ask := func() {
			request = request[:0]
			if id == 1 {
				request = frame(append(request, http2.ClientPreface...), 0, http2.FrameSettings, 0, 0)
			}
			for range streams {
				request = append(frame(request, len(block), http2.FrameHeaders, 5, id), block...)
				id += 2
			}
			request = binary.BigEndian.AppendUint32(frame(request, 4, http2.FrameWindowUpdate, 0, 0), streams*5000)
			if _, err := c.raw.Write(c.conn.Seal(sealed, request)); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < streams*5000; {
				n, err := c.raw.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				for rest := b[:n]; len(rest) > 0; {
					plain, took, err := c.conn.Next(rest)
					if err != nil {
						t.Fatal(err)
					}
					got, rest = got+bytes.Count(plain, []byte{'~'}), rest[took:]
				}
			}
		}
		countAllocations(t, ask, streams)
	})
}

// TestHTTP2Chance: frames of chance in any order end nobody but their own connection, and
// leave nothing behind.
func TestHTTP2Chance(t *testing.T) {
	needs.Time(t)
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		_, _ = w.Write(make([]byte, 30_000+n))
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		for seed := range uint64(150) {
			chance := rand.New(rand.NewPCG(seed, 1))
			f := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: chance.Uint32N(100_000)})
			go func() { _, _ = io.Copy(io.Discard, f.conn) }()
			for id := uint32(1); id < 60; {
				stream := 1 + 2*chance.Uint32N(id)
				switch chance.IntN(12) {
				case 0, 1, 2, 3:
					f.ask(id, chance.IntN(3) > 0, []string{"GET", "POST", "HEAD"}[chance.IntN(3)], "/", "cookie", "a", "cookie", "b")
					id += 2
				case 4, 5:
					_ = f.WriteData(stream, chance.IntN(2) == 0, make([]byte, chance.IntN(5000)))
				case 6:
					_ = f.WriteRSTStream(stream, http2.ErrCodeCancel)
				case 7:
					_ = f.WriteWindowUpdate(stream, 1+chance.Uint32N(100_000))
				case 8:
					_ = f.WriteWindowUpdate(0, 1+chance.Uint32N(100_000))
				case 9:
					_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: chance.Uint32N(100_000)})
				case 10: // trailers
					f.block.Reset()
					_ = f.enc.WriteField(hpack.HeaderField{Name: "x", Value: "y"})
					_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndHeaders: true, EndStream: true})
				case 11:
					if chance.IntN(10) == 0 {
						b := make([]byte, chance.IntN(50))
						for i := range b {
							b[i] = byte(chance.Uint32())
						}
						_ = f.WriteRawFrame(http2.FrameType(chance.IntN(12)), http2.Flags(chance.Uint32()), stream, b)
					}
				}
			}
			if chance.IntN(2) == 0 {
				f.conn.NetConn().Close()
			}
			f.conn.Close()
		}
		f := r.frames(t)
		f.ask(1, true, "GET", "/")
		if status, code := f.status(1); status != "200" {
			t.Error(status, code)
		}
		f.conn.Close()
		until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 && s.Clients == 0 })
	})
}

// TestHTTP2Cut: of a file that is cut on the disk meanwhile the stream alone is reset.
func TestHTTP2Cut(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cut")
	if err := os.WriteFile(name, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	versions(t, func(t *testing.T, engine string, version uint16) {
		if err := os.WriteFile(name, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location("files://"+dir, ""))
		r.tls = version
		f := r.frames(t)
		f.ask(1, true, "GET", "/cut")
		f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameData })
		if err := os.Truncate(name, 100); err != nil {
			t.Fatal(err)
		}
		_ = f.WriteWindowUpdate(1, 1<<30)
		_ = f.WriteWindowUpdate(0, 1<<30)
		f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameRSTStream })
		f.ask(3, true, "GET", "/none")
		if status, code := f.status(3); status != "404" {
			t.Error(status, code)
		}
	})
}
