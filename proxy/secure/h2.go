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

// streams is how many requests a client of HTTP/2 may have under way: each takes a
// connection to the proxy.
const streams = 128

// frameBytes is the largest frame that is taken, the least that RFC 9113 (6.5.2)
// allows: the server keeps a buffer of that size for each connection, and its own
// default, 1 MiB, would be any client's to fill.
const frameBytes = 16 << 10

// handed is the listener of the HTTP/2 server: it accepts what greet has made.
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

// key of the connection's transport in a request's context.
type key struct{}

// serveH2 makes the server of HTTP/2.
func (s *Server) serveH2(c *config.Config) {
	s.h2Conns = &handed{conns: make(chan net.Conn), closed: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	idle := c.Timeouts.Idle.Or(time.Minute)
	passOn := &httputil.ReverseProxy{
		Transport:     perClient{},
		Rewrite:       rewrite,
		FlushInterval: -1, // nothing is held back
		BufferPool:    &s.buffers,
		ErrorHandler:  failed,
		ErrorLog:      log.New(io.Discard, "", 0), // a client that went is no news
	}
	s.h2 = &http.Server{
		Protocols:                    &protocols,
		TLSConfig:                    &tls.Config{NextProtos: []string{"h2"}}, // the handshake is made by then
		MaxHeaderBytes:               c.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * is the destination's, as at the loops
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
			case http.StateActive, http.StateIdle: // idle: no stream is open
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

// bounded gives each write of a stream its own time: a client that reads other
// streams may leave this one for ever.
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

// rewrite prepares a request for the proxy. What the client says of who came before
// is passed on: the proxy decides whether to believe it.
func rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme, out.URL.Host = "http", "proxy"
	out.URL.RawQuery = r.In.URL.RawQuery
	if path, _, _ := strings.Cut(r.In.RequestURI, "?"); !strings.HasPrefix(path, "//") {
		out.URL.Opaque = path // as it came: what net/url makes of it may differ in its encoding
	}
	out.Host = r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := r.In.Header[name]; v != nil {
			out.Header[name] = v
		}
	}
	out.Header.Del("Expect") // the server of HTTP/2 answers it
	out.Trailer = nil        // trailers are not passed on, as at the loops
}

// failed answers where the proxy did not.
func failed(w http.ResponseWriter, q *http.Request, err error) {
	if q.Context().Err() != nil { // the client has gone
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

// perClient sends a request by the transport of its client.
type perClient struct{}

func (perClient) RoundTrip(q *http.Request) (*http.Response, error) {
	t, ok := q.Context().Value(key{}).(*http.Transport)
	if !ok || t == nil {
		return nil, errEnding
	}
	return t.RoundTrip(q)
}

// handOver gives a connection to the server of HTTP/2.
func (s *Server) handOver(raw net.Conn, conn *tls.Conn, from proxy.Origin) {
	transport := &http.Transport{
		DisableCompression:  true, // the client's Accept-Encoding stands
		MaxIdleConnsPerHost: streams,
		IdleConnTimeout:     4 * time.Second, // below the shortest that a site would set
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

// leaveH2 lets go of a connection that the server of HTTP/2 has closed.
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

// fault says what a request of HTTP/2 has for which one of HTTP/1.1 is refused, ""
// for nothing. Go's server takes it, and its transport would repair it: an
// authority that is none becomes an empty Host, a target is encoded anew, of two
// lengths the first holds, one that is no number is 0.
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
