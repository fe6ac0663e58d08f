//go:build linux

package load

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	peer "github.com/coder/websocket"

	"ceiling/internal/condition"
	"ceiling/internal/http1"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/websocket"
)

// echoServer answers WebSocket messages with themselves, by another implementation
// than ours, and counts them.
type echoServer struct {
	*httptest.Server
	messages, bytes atomic.Int64
	normal, other   atomic.Int64 // connections that ended by CloseNormal, and otherwise
	open            sync.WaitGroup
}

func serveEcho(t *testing.T, handle func(*http.Request, *peer.Conn, peer.MessageType, []byte) error) *echoServer {
	t.Helper()
	s := &echoServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		c, err := peer.Accept(w, q, &peer.AcceptOptions{CompressionMode: peer.CompressionDisabled, Subprotocols: []string{"chat"}})
		if err != nil {
			return
		}
		s.open.Add(1)
		defer s.open.Done()
		c.SetReadLimit(1 << 24)
		for {
			kind, message, err := c.Read(q.Context())
			if err != nil {
				if peer.CloseStatus(err) == peer.StatusNormalClosure {
					s.normal.Add(1)
				} else {
					s.other.Add(1)
				}
				return
			}
			s.messages.Add(1)
			s.bytes.Add(int64(len(message)))
			if handle == nil {
				err = c.Write(q.Context(), kind, message)
			} else {
				err = handle(q, c, kind, message)
			}
			if err != nil {
				return
			}
		}
	}))
	return s
}

// messages is a config of WebSocket messages with these payloads.
func messages(t *testing.T, addr string, engine string, n uint64, payloads ...string) Config {
	t.Helper()
	c := Config{
		To: To(ring.TCPAddr(netip.MustParseAddrPort(addr))), Connections: 4, Threads: 2, Pipelining: 1, Timeout: 5 * time.Second, Requests: n,
		Engine: engine, Seed: 1,
	}
	c.Opening = &Opening{Request: []byte("GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\n")}
	for i, p := range payloads {
		c.Opening.Payloads = append(c.Opening.Payloads, []byte(p))
		mask := websocket.Mask{byte(i), 0xa5, 3, 4}
		c.Mix = append(c.Mix, Request{Bytes: websocket.AppendMessage(nil, []byte(p), mask), Weight: 1})
	}
	return c
}

// TestMessages: the server has as many messages as were sent, byte for byte, and every
// answer is an echo, whatever their size, over TLS or not.
func TestMessages(t *testing.T) {
	needs.Engine(t)
	const n = 400
	long := strings.Repeat("é€x", 50_000)
	for name, k := range map[string]struct {
		payloads []string
		change   func(*Config)
		tls      bool
	}{
		"short":           {payloads: []string{"hello"}},
		"binary, several": {payloads: []string{"\xff\x00", "text", strings.Repeat("y", 300)}},
		"pipelined":       {payloads: []string{"hello"}, change: func(c *Config) { c.Pipelining = 20 }},
		"long":            {payloads: []string{long}, change: func(c *Config) { c.Requests = 20 }},
		"open loop":       {payloads: []string{"hello"}, change: func(c *Config) { c.Rate = perS(2000) }},
		"new connections": {payloads: []string{"hello"}, change: func(c *Config) { c.NewConnections, c.Requests = 1, 100 }},
		"TLS":             {payloads: []string{"hello"}, tls: true, change: func(c *Config) { c.Pipelining = 5 }},
		"TLS, long":       {payloads: []string{long}, tls: true, change: func(c *Config) { c.Requests = 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serveEcho(t, nil)
				var config func(*Config)
				if k.tls {
					server, client := trust(t, usual(), nil)
					server.NextProtos = []string{"http/1.1"}
					s.TLS = server
					s.StartTLS()
					config = func(c *Config) { c.TLS = client }
				} else {
					s.Start()
				}
				defer s.Close()
				c := messages(t, s.Listener.Addr().String(), engine, n, k.payloads...)
				if config != nil {
					config(&c)
				}
				if k.change != nil {
					k.change(&c)
				}
				r := runs(t, c)
				s.open.Wait()
				total, want := &r.Total, c.Requests
				if total.Sent != want || total.Completed != want || total.Failed != 0 || r.Streams == nil || r.Streams.Echoed != want {
					t.Errorf("sent %d, completed %d, failed %d of %d; %+v; faults %v", total.Sent, total.Completed, total.Failed, want, r.Streams,
						total.Faults)
				}
				if got := uint64(s.messages.Load()); got != want || len(k.payloads) == 1 && s.bytes.Load() != int64(want)*int64(len(k.payloads[0])) {
					t.Errorf("the server had %d messages with %d bytes", got, s.bytes.Load())
				}
				if s.other.Load() > 0 || s.normal.Load() == 0 {
					t.Errorf("%d connections were closed normally, %d otherwise", s.normal.Load(), s.other.Load())
				}
				if opened := r.Streams.Setup.Count() + r.Streams.Window.Count(); (c.NewConnections > 0) != (opened > 4) || opened < 4 {
					t.Errorf("%d openings", opened)
				}
			})
		})
	}
}

// TestOtherAnswersAreNoEchoes, and pings are answered.
func TestOtherAnswersAreNoEchoes(t *testing.T) {
	needs.Engine(t)
	s := serveEcho(t, func(q *http.Request, c *peer.Conn, kind peer.MessageType, message []byte) error {
		return c.Write(q.Context(), kind, append(message, '!'))
	})
	s.Start()
	defer s.Close()
	r := runs(t, messages(t, s.Listener.Addr().String(), "", 50, "hello"))
	s.open.Wait()
	if r.Total.Completed != 50 || r.Streams.Echoed != 0 {
		t.Errorf("completed %d, %d echoes", r.Total.Completed, r.Streams.Echoed)
	}
}

// rawServer answers each connection by a function, after an opening that is answered
// with head.
func rawServer(t *testing.T, serve func(c net.Conn, r *bufio.Reader, key string)) string {
	t.Helper()
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
				r := bufio.NewReader(c)
				q, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				serve(c, r, q.Header.Get("Sec-WebSocket-Key"))
				_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
				_, _ = io.Copy(io.Discard, r)
			})
		}
	})
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	return ln.Addr().String()
}

func switching(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
}

// until runs until the fault wanted was seen, and checks that it was.
func until(t *testing.T, c Config, want Fault) *Result {
	t.Helper()
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	w := &watcher{}
	w.onRow = func(*Tally) {
		if w.sum.Faults[want] > 0 {
			enough()
		}
	}
	c.Requests, c.Duration, c.Timeout, c.Interval = 0, 3*time.Second, 200*time.Millisecond, 20*time.Millisecond
	r := start(ctx, t, c, w)
	if r.Total.Faults[want] == 0 && r.Setup[want] == 0 {
		t.Errorf("faults %v, before the window %v, want %v", r.Total.Faults, r.Setup, want)
	}
	if n := r.Total.Sent + r.Carried; n != r.Total.Completed+r.Total.Failed+r.Total.InFlight {
		t.Errorf("sent %d, completed %d, failed %d, in flight %d", n, r.Total.Completed, r.Total.Failed, r.Total.InFlight)
	}
	return r
}

// TestHostileWebSocketServers: each ends in a counted error with its name.
func TestHostileWebSocketServers(t *testing.T) {
	needs.Engine(t)
	in := func(cause string) Fault { return Fault{PhaseResponse, cause} }
	opening := func(cause string) Fault { return Fault{PhaseOpen, cause} }
	for name, k := range map[string]struct {
		head  func(key string) string // nil: a right one
		after string                  // a message was received
		drip  bool
		ends  bool
		want  Fault
	}{
		"wrong accept":      {head: func(string) string { return switching("another") }, want: opening(websocket.ErrAccept.Error())},
		"no upgrade":        {head: func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }, want: opening("status 200 in place of 101")},
		"no HTTP":           {head: func(string) string { return "SSH-2.0-x\r\n" }, want: opening(http1.ErrStatusLine.Error())},
		"endless head":      {head: func(string) string { return "HTTP/1.1 101 x\r\n" + strings.Repeat("A: b\r\n", 4000) }, want: opening(http1.ErrHeaderTooLarge.Error())},
		"silence":           {head: func(string) string { return "" }, want: opening(CauseTimeout)},
		"masked":            {after: "\x81\x85abcdhello", want: in(websocket.ErrMasked.Error())},
		"masked, dripping":  {after: "\x81\x85abcdhello", drip: true, want: in(websocket.ErrMasked.Error())},
		"64-bit length":     {after: "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", want: in(websocket.ErrTooLarge.Error())},
		"unknown opcode":    {after: "\x83\x00", want: in(websocket.ErrOpcode.Error())},
		"not UTF-8":         {after: "\x81\x01\xff", want: in(websocket.ErrText.Error())},
		"two for one":       {after: "\x81\x01a\x81\x01b", want: Fault{PhaseIdle, causeUnasked}},
		"close in message":  {after: "\x01\x01a\x88\x02\x03\xe9", want: in("closed by the server: 1001, going away")},
		"close, code later": {after: "\x88\x02\x0f\xa0", drip: true, want: in("closed by the server: a private code, 4000 to 4999")},
		"truncated":         {after: "\x81\x05he", ends: true, want: in(causeCutOff)},
		"no close frame":    {ends: true, want: in(causeNoClose)},
		"no answer":         {want: in(CauseTimeout)},
		"endless pings":     {after: strings.Repeat("\x89\x01p", 100_000), want: in(CauseTimeout)},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				addr := rawServer(t, func(c net.Conn, r *bufio.Reader, key string) {
					head := switching(key)
					if k.head != nil {
						head = k.head(key)
					}
					if _, err := io.WriteString(c, head); err != nil || k.head != nil {
						return
					}
					if _, err := r.Discard(6 + len("hello")); err != nil {
						return
					}
					for rest := k.after; rest != ""; {
						n := len(rest)
						if k.drip {
							n = 1
							time.Sleep(time.Millisecond)
						}
						if _, err := io.WriteString(c, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
					if k.ends {
						_ = c.(*net.TCPConn).CloseWrite()
					}
				})
				c := messages(t, addr, engine, 0, "hello")
				r := until(t, c, k.want)
				if r.Total.Completed > 0 && k.want.Cause != causeUnasked {
					t.Errorf("%d completed", r.Total.Completed)
				}
			})
		})
	}
}

// TestNormalClose: a server that closes its WebSockets in order after a few messages costs
// reconnects and no message.
func TestNormalClose(t *testing.T) {
	needs.Engine(t)
	for name, k := range map[string]struct {
		frame string
		code  uint64
	}{
		"normal":     {"\x88\x02\x03\xe8", 1000},
		"going away": {"\x88\x02\x03\xe9", 1001},
		"no code":    {"\x88\x00", 1005},
		"restart":    {"\x88\x02\x03\xf4", 1012},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				addr := rawServer(t, func(c net.Conn, r *bufio.Reader, key string) {
					_, err := io.WriteString(c, switching(key))
					for n := 0; n < 5 && err == nil; n++ {
						if _, err = r.Discard(6 + len("hello")); err == nil {
							_, err = io.WriteString(c, "\x81\x05hello")
						}
					}
					if err == nil {
						_, _ = io.WriteString(c, k.frame)
					}
				})
				r := runs(t, messages(t, addr, engine, 100, "hello"))
				n := &r.Total
				if n.Completed != 100 || n.Failed != 0 || len(n.Faults) != 0 || n.Reconnects == 0 || n.Closes.Announced == 0 ||
					n.Closes.Most != 5 || n.Closes.AtMost != n.Closes.Announced || n.Closes.Code != k.code {
					t.Errorf("%d completed, %d failed, %v, %d reconnects, closes %+v", n.Completed, n.Failed, n.Faults, n.Reconnects, n.Closes)
				}
			})
		})
	}
}

// TestMessageChecks: a reply that does not satisfy a condition counts as wrong, with what it was.
func TestMessageChecks(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		var wrong atomic.Uint64
		s := serveEcho(t, func(q *http.Request, c *peer.Conn, kind peer.MessageType, message []byte) error {
			reply := `{"ok":true}`
			if string(message) == "b" {
				reply = `{"ok":false}`
				wrong.Add(1)
			}
			return c.Write(q.Context(), kind, []byte(reply))
		})
		s.Start()
		defer s.Close()
		c := messages(t, s.Listener.Addr().String(), engine, 60, "a", "b", "c")
		ok, err := condition.Parse("json $.ok == true")
		if err != nil {
			t.Fatal(err)
		}
		c.Expect.Checks = []condition.Condition{ok}
		r := runs(t, c)
		s.open.Wait()
		n := &r.Total
		if n.Completed != 60 || n.Failed != 0 || n.Bad == 0 || n.Bad != wrong.Load() ||
			n.Faults[Fault{PhaseCheck, "json $.ok == true"}] != n.Bad || len(r.Errors) != 1 ||
			!strings.Contains(r.Errors[0].Line, "false") {
			t.Errorf("completed %d, failed %d, wrong %d, %v, %v", n.Completed, n.Failed, n.Bad, n.Faults, r.Errors)
		}
	})
}
