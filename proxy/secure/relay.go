package secure

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/proxy"
)

// lingers is how long a client may still send after its last response, as at the loops.
const lingers = 2 * time.Second

// relay copies between an HTTP/1.1 client and a connection to the proxy until both directions
// have ended.
func (s *Server) relay(raw net.Conn, client *tls.Conn, from proxy.Origin, idle time.Duration) {
	defer s.leave(raw)
	one := &idler{raw: raw, since: new(atomic.Int64)}
	from.IdleSince = one.since // the loop knows when it waits for a request
	near, err := s.connect(from)
	if err != nil { // the proxy is ending
		return
	}
	defer near.Close()
	answered := make(chan struct{})
	s.mu.Lock()
	s.relays[raw] = answered
	// The loop answers what it has received, and then closes the connection.
	one.end = func() { _ = near.(*net.UnixConn).CloseWrite() }
	s.idlers[raw] = one
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.relays, raw)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.buffers.copy(near, &waking{client, one.since}); err != nil { // either side has ended
			if !one.ended.Load() {
				near.Close()
			}
			return
		}
		_ = near.(*net.UnixConn).CloseWrite() // it fails if the connection has ended
	}()
	err = s.buffers.copy(&patient{client, idle}, near)
	if err == nil {
		_ = client.CloseWrite() // as above
	}
	close(answered)
	if err != nil || one.ended.Load() {
		raw.Close()
	} else {
		_ = raw.SetReadDeadline(time.Now().Add(lingers))
	}
	<-done
}

// buffers for copying. io.Copy would allocate 32 KB per direction of each connection, and an
// httputil.ReverseProxy per request: clearing them alone took 6 % of a handshake and of an HTTP/2
// request.
type buffers struct{ pool sync.Pool }

// bufferBytes is the size of a TLS record (RFC 8446, section 5.1).
const bufferBytes = 16 << 10

// Get and Put implement httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferBytes]byte)(p)) }

// copy is io.Copy. It hides the sink, whose ReadFrom would allocate its own buffer.
func (b *buffers) copy(to io.Writer, from io.Reader) error {
	buffer := b.Get()
	defer b.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer)
	return err
}

// awaitRelays waits until the clients have the last responses of the loops, which have ended.
func (s *Server) awaitRelays(ctx context.Context) {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.relays))
	s.mu.Unlock()
	for _, answered := range list {
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}

// patient bounds each write. The proxy's own limits end a client that does not read, but cannot
// end a write that waits for it.
type patient struct {
	conn net.Conn
	most time.Duration
}

func (p *patient) Write(b []byte) (int, error) {
	if p.most > 0 {
		if err := p.conn.SetWriteDeadline(time.Now().Add(p.most)); err != nil {
			return 0, err
		}
	}
	return p.conn.Write(b)
}
