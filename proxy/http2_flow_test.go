package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"ceiling/internal/needs"
)

// TestTrailers: which trailers go on, by the protocol of the destination and by what
// the client takes.
func TestTrailers(t *testing.T) {
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-In, X-Gone\r\nTransfer-Encoding: chunked\r\n"
	handler := func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.Header().Set("X-Seen", fmt.Sprint(q.Trailer))
		w.WriteHeader(200)
		_, _ = io.WriteString(w, "body")
		_ = http.NewResponseController(w).Flush()
		for _, name := range []string{"X-Sum", "Set-Cookie", "Content_Length", "Secret", "X-Forwarded-For"} {
			w.Header().Set(http.TrailerPrefix+name, "1")
		}
	}
	first, second := serveHTTP(t, handler), serveHTTP2(t, handler)
	edits := "response_headers = { remove = [\"secret\"] }\nrequest_headers = { remove = [\"x-gone\"] }"
	for name, c := range map[string]struct{ text, seen string }{
		"1.1": {to("http://"+first.addr, edits), "map[]"}, // which is not told of them
		"2":   {toHTTP2("http://"+second, edits), "map[X-Gone:[] X-In:[2]]"},
	} {
		r := run(t, "", c.text)
		for _, te := range []string{"", "TE: trailers\r\n", "TE: gzip, trailers\r\nConnection: TE\r\n"} {
			l := dial(t, r.addr)
			for range 2 {
				l.say(chunked + te + "\r\n2\r\nhi\r\n0\r\nX-In: 2\r\nHost: b\r\nContent-Length: 3\r\nX-Gone: 1\r\nIf-Match: x\r\n\r\n")
				res, err := http.ReadResponse(l.r, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				want := "map[]"
				if te != "" {
					want = "map[X-Sum:[1]]"
				}
				if err != nil || string(body) != "body" || fmt.Sprint(res.Trailer) != want || res.Header.Get("X-Seen") != c.seen {
					t.Errorf("%s %q: %q %v, trailers %v, want %s; the destination saw %s", name, te, body, err, res.Trailer, want,
						res.Header.Get("X-Seen"))
				}
			}
		}
	}
}

// TestHTTP2DestinationWindows: of a body no more is sent than the destination's windows
// allow, whichever way it moves them, and all of it once they do.
func TestHTTP2DestinationWindows(t *testing.T) {
	body := pattern(200_000)
	done := make(chan []byte, 1)
	uri := scripted(t, func(s *script) {
		id := s.request()
		got := []byte(nil)
		take := func(most int) { // no more than that may come
			for most > 0 {
				d, _ := s.next(http2.FrameData).(*http2.DataFrame)
				if d == nil {
					return
				}
				got = append(got, d.Data()...)
				if most -= len(d.Data()); most < 0 {
					t.Errorf("%d bytes over the window", -most)
				}
			}
		}
		ping := func() { // what came before its answer was sent before it
			_ = s.WritePing(false, [8]byte{1})
			if f := s.next(http2.FramePing, http2.FrameData); f != nil && f.Header().Type == http2.FrameData {
				t.Error("a body without a window")
			}
		}
		ping()
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		take(1000)
		ping()
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}) // 990 below 0
		_ = s.WriteWindowUpdate(id, 990)
		ping()
		_ = s.WriteWindowUpdate(id, 1)
		take(1)
		_ = s.WriteWindowUpdate(id, 1<<20)
		take(65535 - 1001) // the connection's
		ping()
		_ = s.WriteWindowUpdate(0, 1<<20)
		take(len(body) - 65535)
		s.answer(id, true, ":status", "204")
		done <- got
		s.next()
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	r := run(t, "", toHTTP2(uri))
	l := dial(t, r.addr)
	l.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if res, _ := l.answer("POST"); res.StatusCode != 204 {
		t.Fatal(res.Status)
	}
	same(t, "the body", <-done, body)
	l.Close()
}

// TestHTTP2DestinationStreams: as many requests go over a connection as the destination
// allows, the others over more of them, or they wait where there may be no more.
func TestHTTP2DestinationStreams(t *testing.T) {
	var connections, most atomic.Int32
	uri := scripted(t, func(s *script) {
		connections.Add(1)
		var open []uint32
		for { // two at a time are answered, or one that comes alone
			f := s.next(http2.FrameHeaders, http2.FramePing)
			if f == nil {
				return
			}
			if f.Header().Type == http2.FrameHeaders {
				open = append(open, f.Header().StreamID)
				most.Store(max(most.Load(), int32(len(open))))
				_ = s.WritePing(false, [8]byte{})
				continue
			}
			for _, id := range open {
				s.body(id, []string{":status", "200"}, "ok")
			}
			open = nil
		}
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	for _, limit := range []string{"", "max_connections = 1\n"} {
		connections.Store(0)
		r := run(t, "", toHTTP2(uri)+limit)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				l := dial(t, r.addr)
				for range 20 {
					if res, body := l.get("/"); res.StatusCode != 200 || body != "ok" {
						t.Errorf("%s %q", res.Status, body)
					}
				}
				l.Close()
			})
		}
		all.Wait()
		if n := most.Load(); n > 2 {
			t.Errorf("%d streams at a time", n)
		}
		if n := connections.Load(); limit != "" && n != 1 || limit == "" && n < 2 {
			t.Errorf("%q: %d connections", limit, n)
		}
		r.stop()
	}
}

// TestHTTP2DestinationTakesNone: SETTINGS_MAX_CONCURRENT_STREAMS of 0.
func TestHTTP2DestinationTakesNone(t *testing.T) {
	uri := scripted(t, func(s *script) { s.next() }, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	r := run(t, "", toHTTP2(uri))
	if body := dial(t, r.addr).status("/", 502); !strings.Contains(body, "takes no request") {
		t.Errorf("%q", body)
	}
}

// TestHTTP2DestinationGoAway: requests that the destination has not looked at are sent again,
// of any method and without a retry; the others are finished.
func TestHTTP2DestinationGoAway(t *testing.T) {
	for name, end := range map[string]func(s *script, id uint32){
		"GOAWAY":         func(s *script, _ uint32) { _ = s.WriteGoAway(1, http2.ErrCodeNo, nil) },
		"REFUSED_STREAM": func(s *script, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
	} {
		var attempts atomic.Int32
		finish := make(chan bool)
		uri := scripted(t, func(s *script) {
			for id := s.request(); id != 0; id = s.request() {
				switch n := attempts.Add(1); {
				case n == 1: // begun, and finished behind the end
					s.answer(id, false, ":status", "200")
				case n == 2:
					s.next(http2.FrameData)
					end(s, id)
					<-finish
					_ = s.WriteData(1, true, []byte("whole"))
				default:
					s.body(id, []string{":status", "200"}, "again")
				}
			}
		})
		r := run(t, "", toHTTP2(uri, "retry = { attempts = 0 }"))
		long, short := dial(t, r.addr), dial(t, r.addr)
		long.say("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(long.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		short.say("POST /short HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
		if name == "REFUSED_STREAM" { // the second attempt is on the same connection
			finish <- true
		}
		if res, body := short.answer("POST"); res.StatusCode != 200 || body != "again" {
			t.Errorf("%s: %s %q", name, res.Status, body)
		}
		if name == "GOAWAY" {
			finish <- true
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "whole" {
			t.Errorf("%s: %q %v", name, body, err)
		}
		if n := r.count("upstream_http2_refused_total"); n != 1 {
			t.Errorf("%s: %d were refused", name, n)
		}
		r.stop()
	}
}

// TestHTTP2DestinationDies: of the requests on a connection that ends, those that may be sent
// again are, and each of the others fails by itself.
func TestHTTP2DestinationDies(t *testing.T) {
	var connections atomic.Int32
	uri := scripted(t, func(s *script) {
		if connections.Add(1) > 1 {
			for id := s.request(); id != 0; id = s.request() {
				s.body(id, []string{":status", "200"}, "again")
			}
			return
		}
		s.answer(s.request(), true, ":status", "204")
		for range 10 {
			s.request()
		}
	})
	r := run(t, "", toHTTP2(uri, "retry = { attempts = 1, budget = 1.0 }"))
	dial(t, r.addr).status("/", 204)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			l := dial(t, r.addr)
			method, want := "GET", 200
			if i%2 == 0 {
				method, want = "POST", 502
			}
			l.say(method + " / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
			if res, body := l.answer(method); res.StatusCode != want {
				t.Errorf("%s: %s %q", method, res.Status, body)
			}
		})
	}
	all.Wait()
}

// TestHTTP2DestinationFrames: padding, CONTINUATION, PING, unknown frames, fields of a
// dynamic table, and a response before the request's end.
func TestHTTP2DestinationFrames(t *testing.T) {
	uri := scripted(t, func(s *script) {
		for id := s.request(); id != 0; id = s.request() {
			block := s.fields(":status", "200", "x-y", "z", "content-length", "6")
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:2], PadLength: 7})
			for i := range block[2:] {
				_ = s.WriteContinuation(id, i == len(block)-3, block[2+i:][:1])
			}
			_ = s.WriteRawFrame(0xbe, 0xff, id, []byte("unknown"))
			_ = s.WritePriority(id, http2.PriorityParam{StreamDep: 0, Weight: 3})
			_ = s.WriteDataPadded(id, false, []byte("abc"), make([]byte, 200))
			_ = s.WriteDataPadded(id, false, nil, make([]byte, 200))
			_ = s.WritePing(false, [8]byte{1, 2, 3})
			if f, ok := s.next(http2.FramePing).(*http2.PingFrame); ok && (!f.IsAck() || f.Data != [8]byte{1, 2, 3}) {
				t.Error("PING is not answered")
			}
			_ = s.WriteDataPadded(id, false, []byte("def"), nil)
			_ = s.WriteData(id, true, nil)
		}
	})
	r := run(t, "", toHTTP2(uri))
	l := dial(t, r.addr)
	for range 600 { // the padding alone is more than the connection's window
		if res, body := l.get("/"); res.StatusCode != 200 || body != "abcdef" || res.Header.Get("X-Y") != "z" || res.ContentLength != 6 {
			t.Fatalf("%s %q %v", res.Status, body, res.Header)
		}
	}
	l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
	if res, body := l.answer("POST"); res.StatusCode != 200 || body != "abcdef" {
		t.Errorf("%s %q", res.Status, body)
	}
	l.over()
}

// TestHTTP2DestinationSlowClient: of a response whose client takes nothing no more comes than
// the stream's window, while others on the connection go on; and all of it once it is read.
func TestHTTP2DestinationSlowClient(t *testing.T) {
	needs.Time(t)
	const size = 64 << 20
	var sent atomic.Int64
	backend := serveHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/large" {
			_, _ = w.Write(pattern(300_000))
			return
		}
		for piece := pattern(1 << 16); sent.Load() < size; sent.Add(int64(len(piece))) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	engines(t, func(t *testing.T, engine string) {
		sent.Store(0)
		r := run(t, engine, toHTTP2("http://"+backend))
		slow := dial(t, r.addr)
		slow.say("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		other := dial(t, r.addr)
		before := int64(-1)
		until(t, "the response stands still", func() bool {
			other.status("/", 200)
			stands := before == sent.Load() && before > 0
			before = sent.Load()
			return stands
		})
		for range 20 {
			if body := other.status("/", 200); len(body) != 300_000 {
				t.Errorf("%d bytes", len(body))
			}
		}
		if n := sent.Load(); n >= size {
			t.Errorf("all was sent to a client that reads nothing")
		}
		res, err := http.ReadResponse(slow.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || n < size {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n := r.count("upstream_connects_total"); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestHTTP2DestinationClientLeaves: the stream of a client that goes away is reset, and the
// connection serves others.
func TestHTTP2DestinationClientLeaves(t *testing.T) {
	codes := make(chan http2.ErrCode, 3)
	asked := make(chan bool, 3)
	uri := scripted(t, func(s *script) {
		for {
			f := s.next(http2.FrameHeaders, http2.FrameRSTStream)
			switch f := f.(type) {
			case nil:
				return
			case *http2.RSTStreamFrame:
				codes <- f.ErrCode
				s.answer(f.StreamID, true, ":status", "200") // which was on its way
			case *http2.MetaHeadersFrame:
				switch f.PseudoValue("path") {
				case "/head":
					s.answer(f.StreamID, false, ":status", "200")
				case "/ok":
					s.answer(f.StreamID, true, ":status", "204")
				}
				asked <- true
			}
		}
	})
	r := run(t, "", toHTTP2(uri))
	for _, path := range []string{"/none", "/head"} {
		l := dial(t, r.addr)
		l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		l.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
		l.Close()
		if code := <-codes; code != http2.ErrCodeCancel {
			t.Errorf("%s: %v", path, code)
		}
		dial(t, r.addr).status("/ok", 204)
		<-asked
	}
	if n := r.count("upstream_connects_total"); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestHTTP2DestinationIdle: an idle connection ends after its time, with a GOAWAY, and the
// next request opens another.
func TestHTTP2DestinationIdle(t *testing.T) {
	away := make(chan *http2.GoAwayFrame, 2)
	uri := scripted(t, func(s *script) {
		id := s.request()
		s.answer(id, true, ":status", "204")
		f, _ := s.next(http2.FrameGoAway).(*http2.GoAwayFrame)
		away <- f
	})
	r := run(t, "", strings.Replace(toHTTP2(uri), "[timeouts]\n", "[timeouts]\nupstream_idle = \"100ms\"\n", 1))
	for range 2 {
		dial(t, r.addr).status("/", 204)
		if f := <-away; f == nil || f.ErrCode != http2.ErrCodeNo {
			t.Errorf("%v", f)
		}
	}
}

// TestHTTP2DestinationRepeats: the same head again, and another in between, are not mixed up,
// with a dynamic table at the destination that it was told not to have and without.
func TestHTTP2DestinationRepeats(t *testing.T) {
	for _, table := range []uint32{0, 4096} {
		uri := scripted(t, func(s *script) {
			s.enc.SetMaxDynamicTableSizeLimit(table)
			s.enc.SetMaxDynamicTableSize(table)
			for i := 0; ; i++ {
				f, ok := s.next(http2.FrameHeaders).(*http2.MetaHeadersFrame)
				if !ok {
					return
				}
				s.body(f.StreamID, []string{":status", "200", "x-n", fmt.Sprint(i / 3 % 2), "x-path", f.PseudoValue("path")}, f.PseudoValue("path"))
			}
		})
		r := run(t, "", toHTTP2(uri))
		l := dial(t, r.addr)
		for i := range 60 {
			path := fmt.Sprint("/", i/5%3)
			if res, body := l.get(path); body != path || res.Header.Get("X-N") != fmt.Sprint(i/3%2) || res.Header.Get("X-Path") != path {
				t.Fatalf("%d: %q %v", i, body, res.Header)
			}
		}
		r.stop()
	}
}

// TestHTTP2DestinationEnds: of requests of any method none fails when one of two destinations
// ends in order.
func TestHTTP2DestinationEnds(t *testing.T) {
	keepsNothing(t)
	answer := func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		_, _ = io.WriteString(w, "ok")
	}
	other := serveHTTP2(t, answer)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(answer), Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(ln) }()
	r := run(t, "", toHTTP2("http://"+ln.Addr().String())+"[[locations.destinations]]\nuri = \"http://"+other+"\"\nhttp = \"2\"\n")
	var all sync.WaitGroup
	var count atomic.Int32
	over := make(chan struct{})
	for range 8 {
		all.Go(func() {
			l := dial(t, r.addr)
			defer l.Close()
			for after := 0; after < 50; count.Add(1) {
				l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
				if res, body := l.answer("POST"); res.StatusCode != 200 || body != "ok" {
					t.Errorf("%s %q", res.Status, body)
					return
				}
				select {
				case <-over:
					after++
				default:
				}
			}
		})
	}
	until(t, "requests are served", func() bool { return count.Load() > 200 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-served
	close(over)
	all.Wait()
}
