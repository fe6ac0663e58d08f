//go:build linux

package load

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/http2"
	"ceiling/internal/needs"
	"ceiling/internal/tlsconn"
)

// goServer is Go's own HTTP/2, over TLS or by prior knowledge, and what it has counted.
type goServer struct {
	address  string
	requests atomic.Uint64
	bytes    atomic.Uint64 // of request bodies
	client   *tlsconn.Config
}

func newGoServer(t testing.TB, secure bool, settings *http.HTTP2Config, handler http.HandlerFunc) *goServer {
	t.Helper()
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &goServer{address: on.Addr().String()}
	server := &http.Server{HTTP2: settings, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		n, _ := io.Copy(io.Discard, in.Body)
		s.bytes.Add(uint64(n))
		if in.ProtoMajor != 2 {
			out.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		s.requests.Add(1)
		handler(out, in)
	})
	ended := make(chan struct{})
	if secure {
		server.Protocols.SetHTTP2(true)
		server.Protocols.SetHTTP1(true)
		server.TLSConfig, s.client = trust(t, usual(), nil)
		s.client.Protocols = []string{alpnH2, "http/1.1"}
		go func() { defer close(ended); _ = server.ServeTLS(on, "", "") }()
	} else {
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { defer close(ended); _ = server.Serve(on) }()
	}
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return s
}

// config of a run against it.
func (s *goServer) config(t testing.TB, engine string, n uint64, depth int) Config {
	c := Config{
		To: addressOf(t, s.address), Mix: get(), Connections: 4, Threads: 2, Pipelining: depth, Requests: n,
		Timeout: 10 * time.Second, Engine: engine, Seed: 1, Sockets: Sockets{TLS: s.client},
	}
	if s.client == nil {
		c.Protocol = HTTP2
	}
	return c
}

func hello(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "hello") }

// put is a request with a body.
func put(body int) []byte {
	return fmt.Appendf(nil, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", body, strings.Repeat("b", body))
}

// TestH2Counts: the server has as many requests as were sent, over TLS and without,
// whatever the number of streams, the size of requests and answers.
func TestH2Counts(t *testing.T) {
	needs.Engine(t)
	const n = 3000
	long := strings.Repeat("x", 100_000)
	for name, k := range map[string]struct {
		depth   int
		n       uint64
		handler http.HandlerFunc
		body    int
		change  func(*Config)
	}{
		"one":     {depth: 1, n: n, handler: hello},
		"16":      {depth: 16, n: n, handler: hello},
		"100":     {depth: 100, n: 10 * n, handler: hello},
		"long":    {depth: 7, n: 300, handler: func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, long) }},
		"no body": {depth: 7, n: n, handler: func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(204) }},
		"trailers": {depth: 7, n: n, handler: func(out http.ResponseWriter, in *http.Request) {
			out.Header().Set("Trailer", "X-After")
			hello(out, in)
			out.Header().Set("X-After", "1")
		}},
		"interim": {depth: 3, n: n, handler: func(out http.ResponseWriter, in *http.Request) {
			out.WriteHeader(http.StatusEarlyHints)
			hello(out, in)
		}},
		"uploads":      {depth: 3, n: 300, handler: hello, body: 300_000},
		"long uploads": {depth: 2, n: 20, handler: hello, body: 3 << 20},
		"in chunks over HTTP/1.1": {depth: 3, n: 300, handler: hello, body: 20, change: func(c *Config) {
			c.Mix[0].Bytes = []byte("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n0123456789abcde\r\n5\r\n01234\r\n0\r\n\r\n")
		}},
		"HEAD": {depth: 5, n: n, handler: hello, change: func(c *Config) {
			c.Mix = []Request{{Bytes: []byte("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), NoBody: true, Weight: 1}}
		}},
		"mix":             {depth: 9, n: n, handler: hello, change: func(c *Config) { c.Mix = mixOfTwo() }},
		"new connections": {depth: 1, n: 100, handler: hello, change: func(c *Config) { c.NewConnections = 1 }},
		"7 a connection":  {depth: 3, n: 300, handler: hello, change: func(c *Config) { c.NewConnections = 7 }},
		"open loop":       {depth: 10, n: n, handler: hello, change: func(c *Config) { c.Rate = perS(20_000) }},
		"a long head": {depth: 3, n: 300, handler: func(out http.ResponseWriter, in *http.Request) {
			out.Header().Set("X-Long", long)
			hello(out, in)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for transport, secure := range map[string]bool{"TLS": true, "h2c": false} {
				t.Run(transport, func(t *testing.T) {
					eachAtOnce(t, func(t *testing.T, engine string) {
						s := newGoServer(t, secure, nil, k.handler)
						c := s.config(t, engine, k.n, k.depth)
						if k.body > 0 {
							c.Mix[0].Bytes = put(k.body)
						}
						if k.change != nil {
							k.change(&c)
						}
						r := runs(t, c)
						clean(t, r, k.n)
						if got := s.requests.Load(); got != r.Total.Sent || r.Total.InFlight != 0 {
							t.Errorf("the server had %d requests, sent %d, in flight %d", got, r.Total.Sent, r.Total.InFlight)
						}
						if got := s.bytes.Load(); got != k.n*uint64(k.body) {
							t.Errorf("the server had %d bytes of request bodies, sent %d", got, k.n*uint64(k.body))
						}
						if r.H2 == nil || r.H2.Connections == 0 || r.H2.Streams != 250 {
							t.Errorf("the account of HTTP/2 is %+v", r.H2)
						}
						if secure && r.Handshakes.Agreed.Protocol != alpnH2 {
							t.Errorf("agreed on %q", r.Handshakes.Agreed.Protocol)
						}
					})
				})
			}
		})
	}
}

// TestH2Frames: the frames that were counted are those of the requests and answers.
func TestH2Frames(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		const n = 500
		s := newGoServer(t, true, nil, hello)
		c := s.config(t, engine, n, 4)
		c.Mix[0].Bytes = []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
		r := runs(t, c)
		clean(t, r, n)
		out, in := &r.H2.Sent, &r.H2.Received
		if out[http2.Headers] != n || out[http2.Data] != n || in[http2.Headers] != n || in[http2.Data] < n {
			t.Errorf("frames: sent %v, received %v", out, in)
		}
	})
}

// TestH2Limit: a server that allows fewer streams than were asked for gets no more, and
// the run ends with all requests done.
func TestH2Limit(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		const n, allowed = 2000, 5
		var now, most atomic.Int64
		s := newGoServer(t, true, &http.HTTP2Config{MaxConcurrentStreams: allowed}, func(out http.ResponseWriter, in *http.Request) {
			k := now.Add(1)
			for m := most.Load(); k > m && !most.CompareAndSwap(m, k); m = most.Load() {
			}
			hello(out, in)
			now.Add(-1)
		})
		c := s.config(t, engine, n, 20)
		c.Connections, c.Threads = 1, 1
		r := runs(t, c)
		clean(t, r, n)
		if r.H2.Streams != allowed || most.Load() > allowed || r.Edges != nil {
			t.Errorf("%d streams allowed, %d at once, edges %v", r.H2.Streams, most.Load(), r.Edges)
		}
	})
}

// TestH2Stalls: a server with small windows holds uploads back, and that is counted: at
// least once for each window of a body.
func TestH2Stalls(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		const n, body = 20, 1 << 20
		run := func(settings *http.HTTP2Config) *Result {
			s := newGoServer(t, true, settings, hello)
			c := s.config(t, engine, n, 1)
			c.Mix[0].Bytes = put(body)
			r := runs(t, c)
			clean(t, r, n)
			return r
		}
		r := run(&http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16, MaxReceiveBufferPerConnection: 1 << 16})
		if h := r.H2; h.Stalls < n*body>>16/2 || h.StalledNs <= 0 || h.StalledNs > 4*r.WindowNs {
			t.Errorf("%d stalls, %d ns of %d", h.Stalls, h.StalledNs, 4*r.WindowNs)
		}
		r = run(&http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 20, MaxReceiveBufferPerConnection: 64 << 20})
		if r.H2.Stalls > 2*n {
			t.Errorf("%d stalls with windows larger than a body", r.H2.Stalls)
		}
	})
}

// TestH2Shutdown: a server that says GOAWAY and goes loses no request that it had not
// begun; all others are counted.
func TestH2Shutdown(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		var s *goServer
		var served atomic.Uint64
		s = newGoServer(t, true, nil, func(out http.ResponseWriter, in *http.Request) {
			if served.Add(1)%100 == 0 {
				out.Header().Set("Connection", "close") // GOAWAY in HTTP/2
			}
			hello(out, in)
		})
		c := s.config(t, engine, 5000, 10)
		r := runs(t, c)
		clean(t, r, 5000)
		if s.requests.Load() != r.Total.Sent || r.Total.Reconnects == 0 || r.H2.Received[http2.GoAway] == 0 {
			t.Errorf("the server had %d requests, sent %d; %d reconnects, %d GOAWAY", s.requests.Load(), r.Total.Sent, r.Total.Reconnects,
				r.H2.Received[http2.GoAway])
		}
	})
}

// TestH2OfNginx: nginx has logged as many requests as were sent, though it ends a
// connection after a hundred.
func TestH2OfNginx(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		listen string
		depth  int
	}{"one": {"ssl http2", 1}, "16": {"ssl http2", 16}, "200": {"ssl http2", 200}, "h2c": {"http2", 16}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, engine string) {
				const n = 3000
				address, log := nginxWith(t, k.listen, "")
				c := Config{
					To: addressOf(t, address), Mix: get(), Connections: 4, Threads: 2, Pipelining: k.depth, Requests: n,
					Timeout: 10 * time.Second, Engine: engine, Seed: 1,
				}
				if c.Protocol = HTTP2; k.listen != "http2" {
					c.Protocol = HTTP1
					c.TLS = &tlsconn.Config{Insecure: true, Protocols: []string{alpnH2, "http/1.1"}}
				}
				r := runs(t, c)
				clean(t, r, n)
				if r.H2 == nil || r.H2.Streams != 128 || r.Total.Reconnects < n/100-8 {
					t.Errorf("account %+v, %d reconnects", r.H2, r.Total.Reconnects)
				}
				logged(t, log, r)
			})
		})
	}
}

// logged waits until nginx has logged all requests: it does once one is answered.
func logged(t *testing.T, log string, r *Result) {
	t.Helper()
	var lines uint64
	for end := time.Now().Add(5 * time.Second); lines != r.Total.Sent && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		lines = uint64(bytes.Count(text, []byte("\n")))
	}
	if lines != r.Total.Sent {
		t.Errorf("nginx has logged %d requests, sent %d", lines, r.Total.Sent)
	}
}

// TestStreamTable: streams are found until they are removed, in any order, by a map's
// account.
func TestStreamTable(t *testing.T) {
	for seed := range uint64(50) {
		h := h2conn{table: make([]stream, 16), next: 1}
		open := map[uint32]bool{}
		for n := range uint64(2000) {
			if k := mix(seed<<32 + n); k%2 == 0 && len(open) < 15 || len(open) == 0 {
				h.add(h.next).id = h.next
				open[h.next] = true
				h.next += 2
			} else {
				at := h.find(someOf(open, k>>8))
				delete(open, h.table[at].id)
				h.remove(at)
			}
			for id := uint32(1); id < h.next; id += 2 {
				if k := h.find(id); (k >= 0) != open[id] || k >= 0 && h.table[k].id != id {
					t.Fatalf("seed %d: stream %d is at %d", seed, id, k)
				}
			}
			displaced := 0
			for k := range h.table {
				if id := h.table[k].id; id != 0 && int(id>>1)%len(h.table) != k {
					displaced++
				}
			}
			if h.displaced != displaced {
				t.Fatalf("seed %d: %d streams are displaced, counted %d", seed, displaced, h.displaced)
			}
			if h.next > 200 {
				h.next = 1
				for len(open) > 0 {
					id := someOf(open, 0)
					h.remove(h.find(id))
					delete(open, id)
				}
			}
		}
	}
}

func someOf(open map[uint32]bool, k uint64) (id uint32) {
	least := uint64(1 << 63)
	for i := range open {
		if m := mix(uint64(i)+k) >> 1; m < least {
			least, id = m, i
		}
	}
	return id
}
