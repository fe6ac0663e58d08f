//go:build linux

package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// overHTTP2 is a client of Go's own, by prior knowledge.
func overHTTP2(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// TestFloorHTTP2AnswersAlike: over HTTP/2 each route has the fields that it has over HTTP/1.1, and a body that it may have.
func TestFloorHTTP2AnswersAlike(t *testing.T) {
	r := start(t, "floor", Config{Workers: 1})
	two, one := overHTTP2(t), &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true}}
	defer one.CloseIdleConnections()
	paths := []string{"/bytes/0", "/bytes/1", "/bytes/16384", "/bytes/16385", "/bytes/1048576", "/nowhere", "/simple?x"}
	for _, route := range Routes() {
		paths = append(paths, route.Path)
	}
	ask := func(c *http.Client, method, path string) (*http.Response, []byte) {
		t.Helper()
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader(strings.Repeat("x", 200_000)) // more than a stream's window
		}
		q, err := http.NewRequest(method, "http://"+r.addr+path, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(q)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return resp, b
	}
	for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, path := range paths {
			got, b := ask(two, method, path)
			want, w := ask(one, method, path)
			if got.ProtoMajor != 2 || want.ProtoMajor != 1 || got.StatusCode != want.StatusCode {
				t.Fatalf("%s %s: %s %d, %s %d", method, path, got.Proto, got.StatusCode, want.Proto, want.StatusCode)
			}
			for _, field := range []string{"Content-Type", "Content-Encoding", "Allow"} {
				if got.Header.Get(field) != want.Header.Get(field) {
					t.Errorf("%s %s: %s is %q, want %q", method, path, field, got.Header.Get(field), want.Header.Get(field))
				}
			}
			if got.Header.Get("Date") == "" {
				t.Errorf("%s %s: no date", method, path)
			}
			if method != http.MethodHead && got.ContentLength != int64(len(b)) {
				t.Errorf("%s %s: %d bytes, Content-Length %d", method, path, len(b), got.ContentLength)
			}
			if strings.HasPrefix(path, "/bytes/") && !bytes.Equal(b, w) {
				t.Errorf("%s %s: %d bytes, want %d", method, path, len(b), len(w))
			}
			if path == "/simple" && method == http.MethodGet && string(b) != `{"message":"hi"}` {
				t.Errorf("%s: %q", path, b)
			}
		}
	}
}

// frames is a client that writes frames itself.
type frames struct {
	*http2.Framer
	conn net.Conn
	out  bytes.Buffer
	enc  *hpack.Encoder
	head bytes.Buffer
}

func newFrames(t *testing.T, addr string, settings ...http2.Setting) *frames {
	t.Helper()
	f := &frames{conn: dial(t, addr)}
	t.Cleanup(func() { f.conn.Close() })
	if err := f.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	f.Framer = http2.NewFramer(&f.out, f.conn)
	f.enc = hpack.NewEncoder(&f.head)
	f.out.WriteString(http2.ClientPreface)
	if err := f.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask adds a request for path. plain: its header block depends on nothing before it.
func (f *frames) ask(t *testing.T, id uint32, path string, plain bool) {
	t.Helper()
	f.head.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path}, {Name: ":authority", Value: "test"},
	} {
		field.Sensitive = plain
		if err := f.enc.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	p := http2.HeadersFrameParam{StreamID: id, BlockFragment: f.head.Bytes(), EndStream: true, EndHeaders: true}
	if err := f.WriteHeaders(p); err != nil {
		t.Fatal(err)
	}
}

func (f *frames) flush(t *testing.T) {
	t.Helper()
	if _, err := f.conn.Write(f.out.Bytes()); err != nil {
		t.Fatal(err)
	}
	f.out.Reset()
}

// data reads until n bytes of bodies have come, and returns them by stream with those that have ended.
func (f *frames) data(t *testing.T, n int) (got map[uint32]int, ended map[uint32]bool) {
	t.Helper()
	got, ended = map[uint32]int{}, map[uint32]bool{}
	for n > 0 {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("%d bytes are missing: %v", n, err)
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			got[frame.StreamID] += len(frame.Data())
			n -= len(frame.Data())
			ended[frame.StreamID] = ended[frame.StreamID] || frame.StreamEnded()
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			t.Fatalf("%v", frame)
		}
	}
	if n < 0 {
		t.Fatalf("%d bytes more than the windows allow", -n)
	}
	return got, ended
}

// quiet fails if a DATA frame comes before the answer to a PING.
func (f *frames) quiet(t *testing.T) {
	t.Helper()
	if err := f.WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	f.flush(t)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			t.Fatalf("%d bytes beyond the window", len(frame.Data()))
		case *http2.PingFrame:
			return
		}
	}
}

// TestFloorHTTP2KeepsToWindows: of the stream, of the connection, and to one that changes while an answer waits for it.
func TestFloorHTTP2KeepsToWindows(t *testing.T) {
	r := start(t, "floor", Config{Workers: 1})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFrames(t, r.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	for k := range 3 { // the second and the third are known by their bytes
		f.ask(t, uint32(2*k+1), "/bytes/1000", true)
	}
	f.flush(t)
	if got, ended := f.data(t, 300); got[1] != 100 || got[3] != 100 || got[5] != 100 || ended[1] {
		t.Errorf("%v, %v", got, ended)
	}
	f.quiet(t)
	check(f.WriteWindowUpdate(3, 900))
	f.flush(t)
	if got, ended := f.data(t, 900); got[3] != 900 || !ended[3] {
		t.Errorf("%v, %v", got, ended)
	}
	check(f.WriteRSTStream(1, http2.ErrCodeCancel))
	check(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}))
	f.flush(t)
	if got, ended := f.data(t, 900); got[5] != 900 || !ended[5] {
		t.Errorf("%v, %v", got, ended)
	}
	check(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	f.ask(t, 7, "/bytes/100000", true)
	f.flush(t)
	left := 65535 - 300 - 900 - 900
	if got, _ := f.data(t, left); got[7] != left {
		t.Errorf("%v", got)
	}
	f.quiet(t)
	check(f.WriteWindowUpdate(0, 1<<20))
	f.flush(t)
	if got, ended := f.data(t, 100_000-left); !ended[7] {
		t.Errorf("%v, %v", got, ended)
	}
}

// TestFloorHTTP2Splits: frames may come in pieces that end anywhere, with a dynamic table and without.
func TestFloorHTTP2Splits(t *testing.T) {
	r := start(t, "floor", Config{Workers: 1})
	for _, plain := range []bool{true, false} {
		f := newFrames(t, r.addr)
		for k := range 4 {
			f.ask(t, uint32(2*k+1), "/bytes/10", plain)
		}
		all := bytes.Clone(f.out.Bytes())
		f.out.Reset()
		for k := range all {
			if _, err := f.conn.Write(all[k : k+1]); err != nil {
				t.Fatal(err)
			}
		}
		if got, ended := f.data(t, 40); len(got) != 4 || len(ended) != 4 {
			t.Errorf("%v, %v", got, ended)
		}
	}
}

// TestFloorHTTP2Refuses: what a client may not do ends with a GOAWAY that says why, and the connection ends.
func TestFloorHTTP2Refuses(t *testing.T) {
	r := start(t, "floor", Config{Workers: 1})
	for name, k := range map[string]struct {
		do   func(f *frames) error
		want http2.ErrCode
	}{
		"even stream": {func(f *frames) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, EndHeaders: true, EndStream: true})
		}, http2.ErrCodeProtocol},
		"header block": {func(f *frames) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff}, EndHeaders: true, EndStream: true})
		}, http2.ErrCodeCompression},
		"idle stream":       {func(f *frames) error { return f.WriteData(9, true, nil) }, http2.ErrCodeProtocol},
		"connection window": {func(f *frames) error { return f.WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrames(t, r.addr)
			if err := k.do(f); err != nil {
				t.Fatal(err)
			}
			f.flush(t)
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					t.Fatalf("ended with %v and without a GOAWAY", err)
				}
				if away, ok := frame.(*http2.GoAwayFrame); ok {
					if away.ErrCode != k.want {
						t.Errorf("%v, want %v", away.ErrCode, k.want)
					}
					break
				}
			}
			if _, err := f.ReadFrame(); err == nil {
				t.Error("the connection goes on")
			}
		})
	}
}

// Over HTTP/2 too, answering allocates nothing but what carries the new date once a second.
func TestFloorHTTP2DoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	r := start(t, "floor", Config{Workers: 1})
	const streams, turns = 50, 60
	for path, bodies := range map[string]int{"/simple": 2, "/read": productCount, "/list": listCount} {
		f := newFrames(t, r.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		if err := f.WriteWindowUpdate(0, 1<<31-1-65535); err != nil {
			t.Fatal(err)
		}
		for k := range turns * streams {
			f.ask(t, uint32(2*k+1), path, true)
		}
		whole := f.out.Bytes()
		head := len(whole) - turns*streams*(len(f.head.Bytes())+9)
		per := (len(whole) - head) / turns
		b := make([]byte, 256<<10)
		turn := func(from, to int) {
			if _, err := f.conn.Write(whole[from:to]); err != nil {
				t.Fatal(err)
			}
			for ends := 0; ends < streams; {
				ends += f.ends(t, b)
			}
		}
		turn(0, head+per)
		var from, to runtime.MemStats
		begin := time.Now()
		for k := 1; k < turns; k++ {
			if k == turns/2 {
				runtime.ReadMemStats(&from)
			}
			turn(head+k*per, head+(k+1)*per)
		}
		runtime.ReadMemStats(&to)
		seconds := uint64(time.Since(begin)/time.Second) + 1
		if n, allowed := to.Mallocs-from.Mallocs, seconds*uint64(2*bodies+4)+100; n > allowed {
			t.Errorf("%s: %d allocations in %d requests, %d are allowed", path, n, turns*streams/2, allowed)
		}
	}
}

// ends reads one frame without allocating and tells whether it ends a stream.
func (f *frames) ends(t *testing.T, b []byte) int {
	if _, err := io.ReadFull(f.conn, b[:9]); err != nil {
		t.Fatal(err)
	}
	n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	kind, flags := http2.FrameType(b[3]), http2.Flags(b[4])
	if _, err := io.ReadFull(f.conn, b[:n]); err != nil {
		t.Fatal(err)
	}
	if kind == http2.FrameData && flags.Has(http2.FlagDataEndStream) {
		return 1
	}
	if kind == http2.FrameGoAway || kind == http2.FrameRSTStream {
		t.Fatal(fmt.Sprint(kind, b[:n]))
	}
	return 0
}
