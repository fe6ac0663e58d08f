package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/http1"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// streams is how many concurrent requests an HTTP/2 client may have: each uses a connection to
// the proxy.
const streams = 128

// frameBytes is the largest accepted frame, the minimum that RFC 9113 (6.5.2) allows: the server
// keeps a buffer of that size per connection, and any client could fill its default, 1 MiB.
const frameBytes = 16 << 10

// handed is the listener of the HTTP/2 server: it accepts what greet hands over.
type handed struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return &net.UnixAddr{Name: "handed", Net: "unix"} }

// key is the context key of the connection's transport.
type key struct{}

// serveH2 creates the HTTP/2 server.
func (s *Server) serveH2(c *config.Config) {
	s.h2Conns = &handed{conns: make(chan net.Conn), closed: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	idle := c.Timeouts.Idle.Or(time.Minute)
	passOn := &httputil.ReverseProxy{
		Transport:     perClient{},
		Rewrite:       rewrite,
		FlushInterval: -1, // flush at once
		BufferPool:    &s.buffers,
		ErrorHandler:  failed,
		ErrorLog:      log.New(io.Discard, "", 0), // a client that left is not worth logging
	}
	s.h2 = &http.Server{
		Protocols:                    &protocols,
		TLSConfig:                    &tls.Config{NextProtos: []string{"h2"}}, // the handshake is already done
		MaxHeaderBytes:               c.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the destination, as at the loops
		IdleTimeout:                  c.Timeouts.KeepAlive.Or(75 * time.Second),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, MaxReadFrameSize: frameBytes, SendPingTimeout: idle,
			WriteByteTimeout: idle},
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			return context.WithValue(ctx, key{}, s.transports[conn])
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state {
			case http.StateClosed:
				s.leaveH2(conn)
			case http.StateActive, http.StateIdle: // idle: no open stream
				s.restH2(conn, state == http.StateIdle)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			switch {
			case q.Method == http.MethodConnect:
				http.Error(w, "this is no forward proxy", http.StatusMethodNotAllowed)
				return
			case fault(q) != "":
				http.Error(w, fault(q), http.StatusBadRequest)
				return
			}
			s.counts.streamsTotal.Add(1)
			s.counts.streams.Add(1)
			defer s.counts.streams.Add(-1)
			passOn.ServeHTTP(&bounded{ResponseWriter: w, most: idle}, q)
		}),
	}
}

// bounded gives each write of a stream its own deadline: a client that reads other streams may
// never read this one.
type bounded struct {
	http.ResponseWriter
	most time.Duration
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.most > 0 {
		if err := http.NewResponseController(b.ResponseWriter).SetWriteDeadline(time.Now().Add(b.most)); err != nil {
			return 0, err
		}
	}
	return b.ResponseWriter.Write(p)
}

func (b *bounded) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// rewrite prepares a request for the proxy. It forwards what the client says about earlier hops:
// the proxy decides whether to believe it.
func rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme, out.URL.Host = "http", "proxy"
	out.URL.RawQuery = r.In.URL.RawQuery
	if path, _, _ := strings.Cut(r.In.RequestURI, "?"); !strings.HasPrefix(path, "//") {
		out.URL.Opaque = path // unchanged: net/url might encode it differently
	}
	out.Host = r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := r.In.Header[name]; v != nil {
			out.Header[name] = v
		}
	}
	out.Header.Del("Expect") // the HTTP/2 server handles it
	out.Trailer = nil        // trailers are not forwarded, as at the loops
}

// failed answers if the proxy did not.
func failed(w http.ResponseWriter, q *http.Request, err error) {
	if q.Context().Err() != nil { // the client has left
		return
	}
	if errors.Is(err, errEnding) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusBadGateway)
}

var errEnding = errors.New("the proxy is ending")

// perClient sends a request through its client's transport.
type perClient struct{}

func (perClient) RoundTrip(q *http.Request) (*http.Response, error) {
	t, ok := q.Context().Value(key{}).(*http.Transport)
	if !ok || t == nil {
		return nil, errEnding
	}
	return t.RoundTrip(q)
}

// handOver passes a connection to the HTTP/2 server.
func (s *Server) handOver(raw net.Conn, conn *tls.Conn, from proxy.Origin) {
	transport := &http.Transport{
		DisableCompression:  true, // keep the client's Accept-Encoding
		MaxIdleConnsPerHost: streams,
		IdleConnTimeout:     4 * time.Second, // below the shortest a site would set
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			c, err := s.connect(from)
			if err != nil {
				return nil, errors.Join(errEnding, err)
			}
			return c, nil
		},
	}
	s.mu.Lock()
	atEnd := s.conns[raw]
	if atEnd == nil { // the server has ended
		s.mu.Unlock()
		return
	}
	s.transports[conn], s.raws[conn] = transport, raw
	s.idlers[raw] = &idler{raw: raw, since: new(atomic.Int64), end: func() { conn.Close(); s.leaveH2(conn) }}
	s.counts.http2Total.Add(1)
	s.counts.http2.Add(1)
	s.conns[raw] = func() {
		atEnd()
		s.counts.http2.Add(-1)
		transport.CloseIdleConnections()
	}
	s.mu.Unlock()
	select {
	case s.h2Conns.conns <- conn:
	case <-s.h2Conns.closed:
		s.leaveH2(conn)
	}
}

// leaveH2 releases a connection that the HTTP/2 server has closed.
func (s *Server) leaveH2(conn net.Conn) {
	s.mu.Lock()
	raw := s.raws[conn]
	delete(s.raws, conn)
	delete(s.transports, conn)
	s.mu.Unlock()
	if raw != nil {
		s.leave(raw)
	}
}

// fault names what makes an HTTP/2 request one that HTTP/1.1 would refuse, "" for nothing. Go's
// server accepts it, and its transport would repair it: an invalid authority becomes an empty
// Host, a target is re-encoded, of two lengths the first counts, and an invalid one is 0.
func fault(q *http.Request) string {
	head := q.Method + " " + q.RequestURI + " HTTP/1.1\r\nHost: " + q.Host + "\r\n"
	for _, v := range q.Header["Content-Length"] {
		head += "Content-Length: " + v + "\r\n"
	}
	head += "\r\n"
	hosts := q.Header["Host"]
	switch _, n, err := http1.ParseRequest([]byte(head)); {
	case err != nil || n != len(head):
		return "the method, path, authority or length is malformed"
	case q.Host == "":
		return "a request names its host"
	case q.RequestURI[0] != '/' && q.RequestURI != "*": // RFC 9113, section 8.3.1
		return "a path begins with a slash"
	case len(hosts) > 1, len(hosts) == 1 && !strings.EqualFold(hosts[0], q.Host): // the same section
		return "the authority and Host differ"
	}
	return ""
}
