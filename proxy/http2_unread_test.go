package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ceiling/internal/needs"
)

// pings are n PING frames.
func pings(n int) []byte {
	return bytes.Repeat(append(frame(nil, 8, http2.FramePing, 0, 0), make([]byte, 8)...), n)
}

// TestHTTP2UnreadControl: a client that reads nothing, and sends what is answered a little
// at a time, is not received from for long.
func TestHTTP2UnreadControl(t *testing.T) {
	needs.Time(t)
	large := make([]byte, 16<<20)
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, q.Body)
			return
		}
		_, _ = w.Write(large)
	})
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+
			"[timeouts]\nheader = \"300ms\"\nkeep_alive = \"300ms\"\nidle = \"300ms\"\n"+location(to, ""))
		f, other := r.frames(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}), r.frames(t)
		_ = f.WriteWindowUpdate(0, 1<<30)
		f.ask(1, true, "GET", "/")
		f.ask(3, false, "POST", "/")
		piece := append(frame(pings(100), 1, http2.FrameData, 0, 3), 'x')
		const most = 16 << 20 // more than the sockets hold
		for sent, id := 0, uint32(1); sent < most; sent, id = sent+len(piece), id+2 {
			if _, err := f.conn.Write(piece); err != nil {
				var late net.Error
				if errors.As(err, &late) && late.Timeout() {
					t.Error("neither received from nor closed")
				}
				return
			}
			other.ask(id, true, "HEAD", "/") // the loop has its turns in between
			if status, code := other.status(id); status != "200" {
				t.Fatal(status, code)
			}
		}
		t.Errorf("a client that reads nothing was received %d bytes from", most)
	})
}

// TestHTTP2DrainGoAway: a client that answers the end with its own GOAWAY, and not the
// PING, gets the answers that are under way.
func TestHTTP2DrainGoAway(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	to := serve(t, func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t)
	f.ask(1, true, "GET", "/")
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	goAway := func(last uint32) {
		t.Helper()
		if f.await(func(frame http2.Frame) bool {
			g, ok := frame.(*http2.GoAwayFrame)
			return ok && g.LastStreamID == last
		}) == nil {
			t.Errorf("the connection ended before a GOAWAY that names stream %d", last)
		}
	}
	goAway(1<<31 - 1)
	_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
	goAway(1)
	close(release)
	if status, _ := f.status(1); status != "200" {
		t.Error(status)
	}
	f.conn.Close()
	<-stopped
}

// TestHTTP2SplitFrameInTheEnd: a frame that comes in two pieces while the last answers are
// under way starts no timeout that outlives it.
func TestHTTP2SplitFrameInTheEnd(t *testing.T) {
	needs.Time(t)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	to := serve(t, func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+"[timeouts]\nheader = \"300ms\"\n"+location(to, ""))
	f, other := r.frames(t), r.frames(t)
	f.ask(1, true, "GET", "/")
	<-begun
	_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
	split := func(f *framer, piece []byte) {
		t.Helper()
		if _, err := f.conn.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	ping := pings(1)
	split(f, ping[:5])
	split(f, ping[5:])
	if f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FramePing }) == nil {
		t.Fatal("no answer to a PING")
	}
	split(other, ping[:5])
	other.away() // its time is over, which began later
	close(release)
	if status, _ := f.status(1); status != "200" {
		t.Error(status)
	}
}

// TestHTTP2RefusedHead: what is wrong with a HEAD request is said without a body.
func TestHTTP2RefusedHead(t *testing.T) {
	to := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	f := r.frames(t)
	block := f.fields("HEAD", "/", "a", strings.Repeat("x", 17_000))
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true, EndHeaders: true})
	h, ok := f.await(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameHeaders }).(*http2.MetaHeadersFrame)
	if !ok || h.PseudoValue("status") != "431" || !h.StreamEnded() {
		t.Error(h)
	}
}

// TestHTTP2Packing: of the answers to one client that are compressed at a time there are 16
// at most, and the others go out as they are.
func TestHTTP2Packing(t *testing.T) {
	const asked, most = 20, 16
	release := make(chan struct{})
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("begun, "))
		w.(http.Flusher).Flush()
		<-release
		_, _ = w.Write([]byte("ended"))
	})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, "compress = true"))
	f := r.frames(t)
	packed := 0
	ask := func(id uint32, count int) {
		t.Helper()
		for end := id + 2*uint32(count); id < end; id += 2 {
			f.ask(id, true, "GET", "/", "accept-encoding", "gzip")
			frame := f.await(func(frame http2.Frame) bool {
				return frame.Header().Type == http2.FrameHeaders && frame.Header().StreamID == id
			})
			h, ok := frame.(*http2.MetaHeadersFrame)
			if !ok || h.PseudoValue("status") != "200" {
				t.Fatal(frame)
			}
			for _, field := range h.Fields {
				if field.Name == "content-encoding" {
					packed++
				}
			}
		}
	}
	if ask(1, asked); packed != most {
		t.Errorf("%d of %d answers are compressed, not %d", packed, asked, most)
	}
	close(release)
	ended := 0
	f.await(func(frame http2.Frame) bool {
		if d, ok := frame.(*http2.DataFrame); ok && d.StreamEnded() {
			ended++
		}
		return ended == asked
	})
	if ask(101, 1); packed != most+1 {
		t.Error("the encoders of answers that have ended count")
	}
}

// TestHTTP2LateFrames: frames of a stream that the proxy has reset are no fault, however many
// streams have begun since.
func TestHTTP2LateFrames(t *testing.T) {
	to := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, "body_bytes = 10"))
	f := r.frames(t)
	f.ask(1, false, "POST", "/", "content-length", "100000")
	if status, code := f.status(1); status != "413" {
		t.Fatal(status, code)
	}
	last := uint32(1)
	for range 100 {
		last += 2
		f.ask(last, true, "GET", "/")
		if status, code := f.status(last); status != "200" {
			t.Fatal(status, code)
		}
	}
	f.block.Reset()
	if err := f.enc.WriteField(hpack.HeaderField{Name: "x", Value: "y"}); err != nil {
		t.Fatal(err)
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block.Bytes(), EndHeaders: true, EndStream: true})
	f.ask(last+2, true, "GET", "/")
	if status, code := f.status(last + 2); status != "200" {
		t.Error(status, code)
	}
}
