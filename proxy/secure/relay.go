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

// lingers is how long a client may still send when its last answer is out, as at
// the loops.
const lingers = 2 * time.Second

// relay copies between a client of HTTP/1.1 and a connection to the proxy, until
// both directions have ended.
func (s *Server) relay(raw net.Conn, client *tls.Conn, from proxy.Origin, idle time.Duration) {
	defer s.leave(raw)
	one := &idler{raw: raw, since: new(atomic.Int64)}
	from.IdleSince = one.since // the loop knows when it waits for a request
	near, err := s.connect(from)
	if err != nil { // the proxy ends
		return
	}
	defer near.Close()
	answered := make(chan struct{})
	s.mu.Lock()
	s.relays[raw] = answered
	// The loop answers what it has received, and then ends the connection.
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
		if err := s.buffers.copy(near, &waking{client, one.since}); err != nil { // an end, whichever side's
			if !one.ended.Load() {
				near.Close()
			}
			return
		}
		_ = near.(*net.UnixConn).CloseWrite() // it fails when the connection has ended
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

// buffers for copying. io.Copy would make one of 32 KB for each direction of each
// connection, and a httputil.ReverseProxy for each request: to clear them alone was
// 6 % of a handshake and of a request of HTTP/2.
type buffers struct{ pool sync.Pool }

// bufferBytes is a record of TLS (RFC 8446, section 5.1).
const bufferBytes = 16 << 10

// Get and Put make it a httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferBytes]byte)(p)) }

// copy is io.Copy. The sink is hidden: its ReadFrom would make a buffer of its own.
func (b *buffers) copy(to io.Writer, from io.Reader) error {
	buffer := b.Get()
	defer b.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer)
	return err
}

// awaitRelays waits until the last answers of the loops, which have ended, are with
// the clients.
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

// patient bounds each write. The proxy's own limits end a client that does not
// read, but cannot end a write that waits for it.
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
