package proxy_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"ceiling/internal/needs"
)

// switched is a destination that switches to WebSocket and has f do the rest: it is given
// the connection and what came of it.
func switched(t *testing.T, f func(path string, c *net.TCPConn, r io.Reader)) string {
	return serve(t, func(w http.ResponseWriter, q *http.Request) {
		key := q.Header.Get("Sec-Websocket-Key")
		nonce, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(nonce) != 16 || len(q.Header["Sec-Websocket-Key"]) != 1 || q.Method != "GET" || q.Header.Get("Upgrade") != "websocket" ||
			!strings.EqualFold(q.Header.Get("Connection"), "upgrade") || q.Header.Get("Sec-Websocket-Version") != "13" || q.Host != "a.example" ||
			q.ContentLength != 0 || len(q.TransferEncoding) > 0 {
			http.Error(w, fmt.Sprintf("%s %v", q.Method, q.Header), http.StatusBadRequest)
			return
		}
		switch q.URL.Path {
		case "/none":
			fmt.Fprint(w, "no WebSocket")
			return
		case "/forbidden":
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		case "/wrong":
			key = "x"
		}
		sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"+
			"Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		f(q.URL.Path, c.(*net.TCPConn), rw)
	})
}

// socket asks for a WebSocket.
func (f *framer) socket(id uint32, end bool, path string, more ...string) {
	f.ask(id, end, "CONNECT", path, append([]string{":protocol", "websocket", "sec-websocket-version", "13"}, more...)...)
}

// flow is what comes on a stream until it ends: its bytes, and the code of RST_STREAM, if that
// is how. The windows are opened by what comes.
func (f *framer) flow(id uint32) (got []byte, end string) {
	f.t.Helper()
	frame := f.await(func(frame http2.Frame) bool {
		if frame.Header().StreamID != id {
			return false
		}
		switch d := frame.(type) {
		case *http2.DataFrame:
			if got = append(got, d.Data()...); len(d.Data()) > 0 {
				_ = f.WriteWindowUpdate(id, uint32(len(d.Data())))
				_ = f.WriteWindowUpdate(0, uint32(len(d.Data())))
			}
			return d.StreamEnded()
		case *http2.RSTStreamFrame:
			return true
		}
		return false
	})
	switch frame := frame.(type) {
	case *http2.DataFrame:
		return got, "END_STREAM"
	case *http2.RSTStreamFrame:
		return got, frame.ErrCode.String()
	}
	return got, "closed"
}

// TestWebSocketOverHTTP2 (RFC 8441): the handshake is HTTP/1.1's behind the proxy, and bytes go
// both ways as they come, each direction until its own end.
func TestWebSocketOverHTTP2(t *testing.T) {
	to := switched(t, func(_ string, c *net.TCPConn, r io.Reader) {
		_, _ = io.WriteString(c, "pushed")
		_, _ = io.Copy(c, r)
		_, _ = io.WriteString(c, "behind the end")
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		f := r.frames(t)
		announced := false
		f.await(func(frame http2.Frame) bool {
			s, ok := frame.(*http2.SettingsFrame)
			if ok {
				v, _ := s.Value(http2.SettingEnableConnectProtocol)
				announced = v == 1
			}
			return ok
		})
		if !announced {
			t.Error("SETTINGS_ENABLE_CONNECT_PROTOCOL is not announced")
		}
		f.socket(1, false, "/", "sec-websocket-protocol", "chat", "sec-websocket-key", "the client's own")
		_ = f.WriteData(1, false, []byte(" early")) // before the answer
		head := f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameHeaders }).(*http2.MetaHeadersFrame)
		said := map[string]string{}
		for _, field := range head.Fields {
			said[field.Name] = field.Value
		}
		if said[":status"] != "200" || said["sec-websocket-protocol"] != "chat" || said["sec-websocket-extensions"] != "permessage-deflate" ||
			head.StreamEnded() {
			t.Errorf("%v", head.Fields)
		}
		for _, name := range []string{"upgrade", "connection", "sec-websocket-accept", "transfer-encoding", "content-length"} {
			if v, ok := said[name]; ok {
				t.Errorf("%s: %s", name, v)
			}
		}
		large := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 320 KB: beyond the windows of both
		room, at := 256<<10-len(" early"), 0
		want := "pushed early" + string(large) + "behind the end"
		var got []byte
		ended := false
		for !ended {
			for at < len(large) && room >= 16_000 {
				n := min(16_000, len(large)-at)
				_ = f.WriteData(1, at+n == len(large), large[at:at+n])
				at, room = at+n, room-n
			}
			f.await(func(frame http2.Frame) bool {
				switch frame := frame.(type) {
				case *http2.WindowUpdateFrame:
					if frame.StreamID == 1 {
						room += int(frame.Increment)
						return true
					}
				case *http2.SettingsFrame:
					return false
				case *http2.RSTStreamFrame, *http2.GoAwayFrame:
					t.Errorf("%v behind %d bytes", frame, len(got))
					ended = true
				case *http2.DataFrame:
					got = append(got, frame.Data()...)
					ended = frame.StreamEnded()
					if !ended {
						_ = f.WriteWindowUpdate(1, uint32(len(frame.Data())))
						_ = f.WriteWindowUpdate(0, uint32(len(frame.Data())))
					}
				}
				return ended
			})
		}
		if string(got) != want {
			t.Errorf("%d bytes of %d", len(got), len(want))
		}
		_ = f.WritePing(false, [8]byte{7}) // no RST_STREAM follows an end that both have said
		f.await(func(frame http2.Frame) bool {
			if frame.Header().Type == http2.FrameRSTStream {
				t.Error(frame)
			}
			return frame.Header().Type == http2.FramePing
		})
		f.conn.Close()
		until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 && s.Clients == 0 })
	})
}

// TestWebSocketOverHTTP2Refused: who gets no WebSocket is not told 2xx, and what is none is
// not asked for.
func TestWebSocketOverHTTP2Refused(t *testing.T) {
	to := switched(t, func(string, *net.TCPConn, io.Reader) {})
	dir := t.TempDir()
	text := begin("", certify(t, t.TempDir(), "a.example")) + location("files://"+dir, `paths = ["/files"]`) +
		"[[locations]]\npaths = [\"/away\"]\nredirect = { to = \"https://b.example/\" }\n" + location(to, "")
	r := run(t, text)
	f := r.frames(t)
	id := uint32(1)
	for _, c := range []struct {
		name, want string
		ask        func()
	}{
		{"a destination that answers 200", "502", func() { f.socket(id, false, "/none") }},
		{"an accept for another key", "502", func() { f.socket(id, false, "/wrong") }},
		{"a destination that forbids it", "403", func() { f.socket(id, false, "/forbidden") }},
		{"a file", "405", func() { f.socket(id, false, "/files/x") }},
		{"a redirect", "308", func() { f.socket(id, false, "/away") }},
		{"another protocol", "501", func() { f.ask(id, false, "CONNECT", "/", ":protocol", "connect-udp") }},
		{"another method", "reset", func() { f.ask(id, false, "GET", "/", ":protocol", "websocket") }},
		{"a length", "reset", func() { f.socket(id, false, "/", "content-length", "5") }},
		{"an upgrade field", "reset", func() { f.socket(id, false, "/", "upgrade", "websocket") }},
		{"a line in the protocol", "501", func() { f.ask(id, false, "CONNECT", "/", ":protocol", "websocket\r\nx: y") }},
		{"a WebSocket after all", "200", func() { f.socket(id, false, "/") }},
	} {
		c.ask()
		if status, code := f.status(id); status != c.want {
			t.Errorf("%s: %s %s", c.name, status, code)
		}
		id += 2
	}
	for range 10 { // more failures in a row than a destination may have
		for _, path := range []string{"/none", "/wrong"} {
			f.socket(id, false, path)
			if status, code := f.status(id); status != "502" {
				t.Fatalf("%s: %s %s: a client has shut the destination out", path, status, code)
			}
			id += 2
		}
	}
	s, err := r.Snapshot()
	if err != nil || s.Upstreams[0].Ejections != 0 {
		t.Errorf("%+v %v", s.Upstreams, err)
	}
}

// TestWebSocketOverHTTP2Ends: each way in which one side ends is told to the other.
func TestWebSocketOverHTTP2Ends(t *testing.T) {
	needs.Time(t)
	ended := make(chan error, 1)
	to := switched(t, func(path string, c *net.TCPConn, r io.Reader) {
		switch path {
		case "/bye":
			_, _ = io.WriteString(c, "bye")
		case "/reset":
			_, _ = io.ReadFull(r, make([]byte, 5))
			_ = c.SetLinger(0)
		default:
			_, err := io.Copy(io.Discard, r)
			ended <- err
		}
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+"[timeouts]\ntunnel = \"500ms\"\n"+location(to, ""))
		r.tls = version
		f := r.frames(t)
		open := func(id uint32, end bool, path string) {
			t.Helper()
			f.socket(id, end, path)
			if status, code := f.status(id); status != "200" {
				t.Fatal(path, status, code)
			}
		}
		open(1, false, "/bye")
		if got, end := f.flow(1); string(got) != "bye" || end != "END_STREAM" {
			t.Errorf("%q %s", got, end)
		}
		_ = f.WriteData(1, true, []byte("bye too"))
		open(3, false, "/reset")
		_ = f.WriteData(3, false, []byte("hello"))
		if got, end := f.flow(3); len(got) != 0 || end != "CANCEL" {
			t.Errorf("%q %s", got, end)
		}
		open(5, false, "/middle")
		_ = f.WriteData(5, false, []byte{0x82, 0x85, 0, 0})
		_ = f.WriteRSTStream(5, http2.ErrCodeCancel)
		<-ended
		open(7, true, "/head")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got, end := f.flow(7); len(got) != 0 || end != "END_STREAM" {
			t.Errorf("%q %s", got, end)
		}
		open(9, false, "/silent")
		if got, end := f.flow(9); len(got) != 0 || end != "CANCEL" { // timeouts.tunnel
			t.Errorf("%q %s", got, end)
		}
		<-ended
		open(11, false, "/gone")
		f.conn.NetConn().Close()
		<-ended
		until(t, "all are gone", func() bool { s := r.counted(t); return s.HTTP2 == 0 && s.Streams == 0 && s.Clients == 0 })
	})
}

// heap is what is in use of the memory of this process, the proxy's among it.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestWebSocketOverHTTP2Unread: a client that opens no window holds up its own WebSockets
// alone, and little of what they are sent.
func TestWebSocketOverHTTP2Unread(t *testing.T) {
	needs.Time(t)
	const streams, each = 50, 8 << 20
	var sent atomic.Int64
	to := switched(t, func(path string, c *net.TCPConn, _ io.Reader) {
		_ = c.SetWriteBuffer(4 << 10)
		piece := bytes.Repeat([]byte("x"), 4<<10)
		for range each / len(piece) {
			n, err := c.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(other, `paths = ["=/plain"]`)+location(to, ""))
	f := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	empty := heap()
	for id := uint32(1); id < 2*streams; id += 2 {
		f.socket(id, false, "/")
		if status, code := f.status(id); status != "200" {
			t.Fatal(status, code)
		}
	}
	before := int64(-1)
	until(t, "the destination is held up", func() bool {
		now := sent.Load()
		same := now == before
		before = now
		if !same {
			time.Sleep(200 * time.Millisecond)
		}
		return same
	})
	f.ask(2*streams+1, true, "GET", "/plain")
	if status, code := f.status(2*streams + 1); status != "200" {
		t.Error(status, code)
	}
	held := int64(heap()) - int64(empty)
	if most := int64(streams * (128 << 10)); held > most {
		t.Errorf("%d streams hold %d bytes, at most %d are to be", streams, held, most)
	}
	t.Logf("%d bytes held of %d that were sent", held, before)
	_ = f.WriteWindowUpdate(1, each)
	_ = f.WriteWindowUpdate(0, 1<<30)
	if got, end := f.flow(1); len(got) != each || end != "END_STREAM" {
		t.Errorf("%d bytes, %s", len(got), end)
	}
}
