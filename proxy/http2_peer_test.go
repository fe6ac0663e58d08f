package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ceiling/internal/needs"
)

// serveHTTP2 is a destination that speaks HTTP/2 in the clear alone, on Go's own server.
func serveHTTP2(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	keepsNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	return ln.Addr().String()
}

// toHTTP2 is a configuration of one location with one destination that speaks HTTP/2.
func toHTTP2(uri string, lines ...string) string { return to(uri, lines...) + "http = \"2\"\n" }

// TestHTTP2Destination: requests and responses of all sizes, with lengths and without, many at
// a time over one connection.
func TestHTTP2Destination(t *testing.T) {
	needs.Time(t)
	backend := serveHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		if q.ProtoMajor != 2 || q.Host != "a.example" || q.Header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("%s %q %v", q.Proto, q.Host, q.Header)
		}
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		if q.Header.Get("X-Length") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(q.URL.Path)+len(body)))
		}
		_, _ = w.Write(append([]byte(q.URL.Path), body...))
	})
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, toHTTP2("http://"+backend))
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
		defer client.CloseIdleConnections()
		var all sync.WaitGroup
		for i := range 90 {
			all.Go(func() {
				for j := range 4 {
					size := []int{0, 1, 1000, 20_000, 300_000, 2_000_000}[(i+j)%6]
					body, path := pattern(size), fmt.Sprintf("/%d/%d", i, j)
					var from io.Reader = bytes.NewReader(body)
					if i%2 == 0 {
						from = io.MultiReader(from)
					}
					q, err := http.NewRequest("POST", "http://"+r.addr+path, from)
					if err != nil {
						t.Error(err)
						return
					}
					q.Host = "a.example"
					if i%3 == 0 {
						q.Header.Set("X-Length", "1")
					}
					res, err := client.Do(q)
					if err != nil {
						t.Error(i, err)
						return
					}
					got, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || res.StatusCode != 200 || string(got) != path+string(body) {
						t.Errorf("%s: %s, %d bytes of %d, %v", path, res.Status, len(got), size, err)
					}
				}
			})
		}
		all.Wait()
		if n := r.count("upstream_connects_total"); n != 1 {
			t.Errorf("%d connections for 90 requests at a time", n)
		}
		for _, name := range []string{"upstream_http2_faults_total", "upstream_http2_resets_total", "bad_responses_total", "retries_total"} {
			if n := r.count(name); n != 0 {
				t.Errorf("%s: %d", name, n)
			}
		}
	})
}

// TestHTTP2DestinationHeads: statuses without a body, HEAD, 103, a field of each kind, and an
// upgrade that is not passed on.
func TestHTTP2DestinationHeads(t *testing.T) {
	backend := serveHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Seen", fmt.Sprintf("%q %q %q", q.Header["Cookie"], q.Header["Te"], q.Header["Upgrade"]))
		switch q.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		case "/103":
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
		case "/length":
			w.Header().Set("Content-Length", "5")
			if q.Method != "HEAD" {
				_, _ = io.WriteString(w, "hello")
			}
		}
	})
	r := run(t, "", toHTTP2("http://"+backend))
	l := dial(t, r.addr)
	ask := func(text, method string, status int, length int64, seen string) {
		t.Helper()
		l.say(text)
		res, body := l.answer(method)
		if res.StatusCode != status || res.ContentLength != length || res.Header.Get("X-Seen") != seen {
			t.Errorf("%q: %d %d %q %q", text, res.StatusCode, res.ContentLength, res.Header, body)
		}
	}
	none := `[] [] []`
	ask("GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", "GET", 204, 0, none)
	ask("GET /304 HTTP/1.1\r\nHost: a\r\n\r\n", "GET", 304, 0, none)
	ask("HEAD /length HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD", 200, 5, none)
	ask("GET /length HTTP/1.1\r\nHost: a\r\nCookie: a=1; b=2\r\n\r\n", "GET", 200, 5, `["a=1; b=2"] [] []`)
	ask("GET / HTTP/1.1\r\nHost: a\r\nTE: gzip, trailers\r\nConnection: TE\r\n\r\n", "GET", 200, 0, `[] ["trailers"] []`)
	ask("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", "GET", 200, 0, none)
	ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS", 200, 0, "")
	l.say("GET /103 HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := l.answer("GET"); res.StatusCode != 103 || res.Header.Get("Link") != "</a>" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	if res, _ := l.answer("GET"); res.StatusCode != 200 {
		t.Errorf("%s", res.Status)
	}
}

// TestHTTP2DestinationTLS: HTTP/2 is agreed on by ALPN, and one that does not take it is an
// error that says so.
func TestHTTP2DestinationTLS(t *testing.T) {
	keepsNothing(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %d", q.Proto, len(body))
	})
	for name, c := range map[string]struct {
		protocols []string
		want      string
	}{
		"h2":           {[]string{"h2"}, "HTTP/2.0 100000"},
		"without ALPN": {nil, "does not take HTTP/2 by ALPN"},
		"http/1.1":     {[]string{"http/1.1"}, "does not take HTTP/2 by ALPN"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(handler)
			s.EnableHTTP2 = c.protocols != nil && c.protocols[0] == "h2"
			s.TLS = &tls.Config{NextProtos: c.protocols}
			s.Config.ErrorLog = quiet()
			if c.protocols == nil {
				s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
					return &tls.Config{Certificates: s.TLS.Certificates}, nil
				}
			}
			s.StartTLS()
			defer s.Close()
			roots := x509.NewCertPool()
			roots.AddCert(s.Certificate())
			r := runWith(t, toHTTP2(s.URL), Options{Roots: roots})
			l := dial(t, r.addr)
			for range 3 {
				l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + string(pattern(100000)))
				res, body := l.answer("POST")
				if (res.StatusCode == 200) != s.EnableHTTP2 || !strings.Contains(body, c.want) {
					t.Fatalf("%s %q", res.Status, body)
				}
				if res.StatusCode != 200 {
					break
				}
			}
		})
	}
}

// TestHTTP2DestinationHealth: health checks speak HTTP/2 too.
func TestHTTP2DestinationHealth(t *testing.T) {
	var asked atomic.Int32
	backend := serveHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/health" && q.ProtoMajor == 2 {
			asked.Add(1)
		}
	})
	r := run(t, "", toHTTP2("http://"+backend)+"health = { path = \"/health\", interval = \"10ms\", timeout = \"10s\" }\n")
	until(t, "it was asked", func() bool { return asked.Load() > 3 })
	s := r.snapshot()
	if u := s.Upstreams[0]; u.FailedChecks > 0 || u.State != "ok" {
		t.Errorf("%+v", u)
	}
}

// TestHTTP2DestinationOfHTTP1: a destination that does not speak HTTP/2 in the clear.
func TestHTTP2DestinationOfHTTP1(t *testing.T) {
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, "", toHTTP2("http://"+backend.addr, `retry = { attempts = 0 }`))
	if body := dial(t, r.addr).status("/", 502); !strings.Contains(body, "does not speak HTTP/2") {
		t.Errorf("%q", body)
	}
}

// script is a destination that does with each connection what a test says, frame by frame.
type script struct {
	*http2.Framer
	t     *testing.T
	conn  net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

// scripted serves each connection by play, behind both sides' SETTINGS.
func scripted(t *testing.T, play func(*script), settings ...http2.Setting) string {
	t.Helper()
	keepsNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				s := &script{Framer: http2.NewFramer(c, c), t: t, conn: c}
				s.enc = hpack.NewEncoder(&s.block)
				s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
				s.AllowIllegalWrites = true
				preface := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
					return
				}
				if s.WriteSettings(settings...) == nil {
					play(s)
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return "http://" + ln.Addr().String()
}

// next is the next frame of a type that is asked for, nil at the connection's end.
func (s *script) next(kinds ...http2.FrameType) http2.Frame {
	for {
		f, err := s.ReadFrame()
		if err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				s.t.Error("the proxy neither sends what is waited for nor closes")
			}
			return nil
		}
		if set, ok := f.(*http2.SettingsFrame); ok && !set.IsAck() {
			_ = s.WriteSettingsAck()
		}
		for _, k := range kinds {
			if f.Header().Type == k {
				return f
			}
		}
	}
}

// request is the stream of the next request; 0 at the connection's end.
func (s *script) request() uint32 {
	if f := s.next(http2.FrameHeaders); f != nil {
		return f.Header().StreamID
	}
	return 0
}

// fields is a header block.
func (s *script) fields(list ...string) []byte {
	s.block.Reset()
	for i := 0; i < len(list); i += 2 {
		_ = s.enc.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return bytes.Clone(s.block.Bytes())
}

// answer sends a head; a proxy that has gone is found out by reading.
func (s *script) answer(id uint32, end bool, list ...string) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.fields(list...), EndHeaders: true, EndStream: end})
}

// TestHTTP2DestinationBreaks: what a destination does wrong is an error with a name, of the
// stream or of the connection, is counted, and the next request is served.
func TestHTTP2DestinationBreaks(t *testing.T) {
	together(t)
	ok := []string{":status", "200"}
	with := func(more ...string) []string { return append(ok[:1:1], append([]string{"200"}, more...)...) }
	answered := func(end bool, list ...string) func(*script, uint32) {
		return func(s *script, id uint32) { s.answer(id, end, list...) }
	}
	const bad, faults, resets = "bad_responses_total", "upstream_http2_faults_total", "upstream_http2_resets_total"
	const refused, cut = "upstream_http2_refused_total", "upstream_cut_responses_total"
	for name, c := range map[string]struct {
		play    func(s *script, id uint32)
		status  int    // 0: the response is cut
		counter string // that counts it
		why     string
	}{
		"CR in a value":         {answered(true, with("x", "a\rb")...), 502, bad, "malformed value"},
		"LF in a value":         {answered(true, with("x", "a\nb: c")...), 502, bad, "malformed value"},
		"CR LF in a value":      {answered(true, with("x", "a\r\nset-cookie: b")...), 502, bad, "malformed value"},
		"NUL in a value":        {answered(true, with("x", "a\x00b")...), 502, bad, "malformed value"},
		"a blank before":        {answered(true, with("x", " a")...), 502, bad, "malformed value"},
		"LF in a name":          {answered(true, with("x\ny", "a")...), 502, bad, "malformed name"},
		"a colon in a name":     {answered(true, with("x: y", "a")...), 502, bad, "malformed name"},
		"a capital":             {answered(true, with("X", "a")...), 502, bad, "malformed name"},
		"no name":               {answered(true, with("", "a")...), 502, bad, "malformed name"},
		"connection":            {answered(true, with("connection", "close")...), 502, bad, "HTTP/1.1's connections"},
		"transfer-encoding":     {answered(false, with("transfer-encoding", "chunked")...), 502, bad, "HTTP/1.1's connections"},
		"keep-alive":            {answered(true, with("keep-alive", "timeout=5")...), 502, bad, "HTTP/1.1's connections"},
		"upgrade":               {answered(true, with("upgrade", "h2c")...), 502, bad, "HTTP/1.1's connections"},
		"no status":             {answered(true, "x", "y"), 502, bad, "before the status"},
		"nothing":               {answered(true), 502, bad, "without a status"},
		"two statuses":          {answered(true, ":status", "200", ":status", "204"), 502, bad, "pseudo-field out of place"},
		"the status late":       {answered(true, "x", "y", ":status", "200"), 502, bad, "before the status"},
		"a request's field":     {answered(true, with(":path", "/")...), 502, bad, "pseudo-field out of place"},
		"a pseudo-field late":   {answered(true, with("x", "y", ":path", "/")...), 502, bad, "pseudo-field out of place"},
		"a status of letters":   {answered(true, ":status", "2oo"), 502, bad, "malformed status"},
		"a status of a line":    {answered(true, ":status", "200 OK\r\nx: y"), 502, bad, "malformed status"},
		"a status of 2 digits":  {answered(true, ":status", "20"), 502, bad, "malformed status"},
		"101":                   {answered(false, ":status", "101"), 502, bad, "status 101"},
		"103 that ends":         {answered(true, ":status", "103"), 502, bad, "interim"},
		"two lengths":           {answered(false, with("content-length", "1", "content-length", "2")...), 502, bad, "malformed Content-Length"},
		"a list of lengths":     {answered(false, with("content-length", "1, 1")...), 502, bad, "malformed Content-Length"},
		"a negative length":     {answered(false, with("content-length", "-1")...), 502, bad, "malformed Content-Length"},
		"a length and no body":  {answered(true, with("content-length", "5")...), 502, bad, "not as long"},
		"a large head":          {answered(true, with("x", strings.Repeat("y", 66<<10))...), 502, faults, "FRAME_SIZE_ERROR"},
		"17 interim responses":  {func(s *script, id uint32) { interims(s, id, 17) }, 502, bad, "too many"},
		"a body before a head":  {func(s *script, id uint32) { _ = s.WriteData(id, true, []byte("x")) }, 502, bad, "without a head"},
		"RST_STREAM":            {func(s *script, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeInternal) }, 502, resets, "INTERNAL_ERROR"},
		"an unknown code":       {func(s *script, id uint32) { _ = s.WriteRSTStream(id, 99) }, 502, resets, "unknown HTTP/2 error"},
		"REFUSED_STREAM":        {func(s *script, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, 502, refused, "refused"},
		"the connection ends":   {func(s *script, _ uint32) { s.conn.Close() }, 502, "upstream_connects_total", "closed the connection"},
		"GOAWAY with an error":  {func(s *script, _ uint32) { _ = s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, 502, refused, "ENHANCE_YOUR_CALM"},
		"PUSH_PROMISE":          {func(s *script, id uint32) { push(s, id) }, 502, faults, "PUSH_PROMISE"},
		"WINDOW_UPDATE of 0":    {func(s *script, id uint32) { _ = s.WriteWindowUpdate(id, 0) }, 502, bad, "WINDOW_UPDATE of 0"},
		"a window too large":    {func(s *script, id uint32) { _ = s.WriteWindowUpdate(id, 1<<31-1) }, 502, bad, "window over"},
		"all windows too large": {func(s *script, _ uint32) { _ = s.WriteWindowUpdate(0, 1<<31-1) }, 502, faults, "window over"},
		"a stream not begun":    {func(s *script, id uint32) { s.answer(id+2, true, ok...) }, 502, faults, "not begun"},
		"a stream of even id":   {func(s *script, _ uint32) { _ = s.WriteData(2, true, nil) }, 502, faults, "not begun"},
		"RST of no stream":      {func(s *script, id uint32) { _ = s.WriteRSTStream(id+2, 0) }, 502, faults, "not begun"},
		"a bad block":           {func(s *script, id uint32) { block(s, id, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}) }, 502, faults, "COMPRESSION_ERROR"},
		"an index of no table":  {func(s *script, id uint32) { block(s, id, []byte{0x80 | 100}) }, 502, faults, "COMPRESSION_ERROR"},
		"CONTINUATION alone":    {func(s *script, id uint32) { _ = s.WriteContinuation(id, true, nil) }, 502, faults, "CONTINUATION"},
		"a long block":          {func(s *script, id uint32) { continued(s, id, 300) }, 502, faults, "too long"},
		"padding over":          {func(s *script, id uint32) { _ = s.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, id, []byte{9}) }, 502, faults, "padding"},
		"a long frame":          {func(s *script, id uint32) { _ = s.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 1<<14+1)) }, 502, faults, "FRAME_SIZE"},
		"SETTINGS of 5 bytes":   {func(s *script, _ uint32) { _ = s.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 5)) }, 502, faults, "FRAME_SIZE"},
		"a flood of PING": {func(s *script, _ uint32) {
			for range 2000 {
				_ = s.WritePing(false, [8]byte{})
			}
		}, 502, faults, "carry nothing"},
		"a body too long":       {func(s *script, id uint32) { s.body(id, with("content-length", "3"), "hello") }, 0, bad, "not as long"},
		"a body too short":      {func(s *script, id uint32) { s.body(id, with("content-length", "9"), "hello") }, 0, bad, "not as long"},
		"a reset in the body":   {func(s *script, id uint32) { s.cutBody(id, http2.ErrCodeInternal) }, 0, resets, "reset the stream"},
		"a refusal in the body": {func(s *script, id uint32) { s.cutBody(id, http2.ErrCodeRefusedStream) }, 0, resets, "reset the stream"},
		"an end in the body":    {func(s *script, id uint32) { s.answer(id, false, ok...); s.conn.Close() }, 0, cut, "closed the connection"},
		"trailers that go on":   {func(s *script, id uint32) { s.answer(id, false, ok...); s.answer(id, false, "x", "y") }, 0, bad, "trailers"},
		"a status in trailers":  {func(s *script, id uint32) { s.answer(id, false, ok...); s.answer(id, true, ok...) }, 0, bad, "trailers"},
		"LF in a trailer":       {func(s *script, id uint32) { s.answer(id, false, ok...); s.answer(id, true, "x", "a\nb") }, 0, bad, "trailers"},
		"more than the window":  {flood, 0, bad, "window"},
		"trailers, body too soon": {func(s *script, id uint32) {
			s.answer(id, false, with("content-length", "3")...)
			s.answer(id, true, "x", "y")
		}, 0, bad, "not as long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := scripted(t, func(s *script) {
				for id := s.request(); id != 0; id = s.request() {
					s.answer(id, true, ":status", "204")
				}
			})
			uri := scripted(t, func(s *script) {
				for id := s.request(); id != 0; id = s.request() {
					c.play(s, id)
				}
			})
			text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n"
			for path, to := range map[string]string{"/good": good, "/": uri} {
				text += "[[locations]]\npaths = [\"" + path + "\"]\nretry = { attempts = 0 }\n[[locations.destinations]]\nuri = \"" + to +
					"\"\nhttp = \"2\"\neject = { failures = -1 }\n"
			}
			r := run(t, "", text+"[log]\ntraces = 16\n")
			l := dial(t, r.addr)
			l.say("POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
			res, err := http.ReadResponse(l.r, nil)
			for err == nil && res.StatusCode == 103 {
				res, err = http.ReadResponse(l.r, nil)
			}
			until(t, c.counter, func() bool { return r.count(c.counter) > 0 })
			if c.status != 0 {
				if err != nil || res.StatusCode != c.status {
					t.Fatalf("%v %v, want %d", res, err, c.status)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil || !strings.Contains(string(body), strings.ReplaceAll(c.why, "'", "&#39;")) && !strings.Contains(string(body), c.why) {
					t.Errorf("%.500s %v, want %q", body, err, c.why)
				}
			} else if err == nil {
				if body, err := io.ReadAll(res.Body); err == nil {
					t.Errorf("the response is whole: %d bytes", len(body))
				}
			}
			dial(t, r.addr).status("/good", 204)
			s := r.snapshot()
			for _, u := range s.Upstreams {
				if u.Busy != 0 || u.Queued != 0 {
					t.Errorf("%+v", u)
				}
			}
		})
	}
}

func interims(s *script, id uint32, n int) {
	for range n {
		s.answer(id, false, ":status", "103")
	}
}

func push(s *script, id uint32) {
	_ = s.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: s.fields(":path", "/"), EndHeaders: true})
}

func block(s *script, id uint32, b []byte) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b, EndHeaders: true, EndStream: true})
}

// continued sends a block of n kilobytes.
func continued(s *script, id uint32, n int) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.fields(":status", "200")})
	for range n {
		_ = s.WriteContinuation(id, false, make([]byte, 1024))
	}
}

func (s *script) body(id uint32, head []string, text string) {
	s.answer(id, false, head...)
	_ = s.WriteData(id, true, []byte(text))
}

func (s *script) cutBody(id uint32, code http2.ErrCode) {
	s.answer(id, false, ":status", "200")
	_ = s.WriteData(id, false, []byte("half"))
	_ = s.WriteRSTStream(id, code)
}

// flood sends what the windows do not allow.
func flood(s *script, id uint32) {
	s.answer(id, false, ":status", "200")
	for range 4096 { // 64 MiB, which no socket holds
		if s.WriteData(id, false, make([]byte, 16<<10)) != nil {
			return
		}
	}
}
