package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/quic-go/quic-go/http3"

	"ceiling/internal/quicconn"
)

// withQUIC is net/http plus HTTP/3 on the UDP port of the same number, which its responses
// advertise (Alt-Svc, RFC 7838).
type withQUIC struct {
	*netHTTP
	quic   http3.Server
	socket net.PacketConn
}

func overQUIC(e engine, at net.Addr, config *tls.Config) (engine, error) {
	n, ok := e.(*netHTTP)
	if !ok {
		return nil, errors.New("HTTP/3 goes with net/http alone")
	}
	if err := quicconn.Quiet(); err != nil {
		return nil, err
	}
	socket, err := net.ListenPacket("udp", at.String())
	if err != nil {
		return nil, fmt.Errorf("HTTP/3: %w", err)
	}
	q := &withQUIC{netHTTP: n, socket: socket}
	plain := n.server.Handler
	q.quic.Handler, q.quic.TLSConfig = plain, http3.ConfigureTLSConfig(config)
	n.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = q.quic.SetQUICHeaders(w.Header()) // fails until it listens: nothing to advertise
		plain.ServeHTTP(w, r)
	})
	return q, nil
}

func (q *withQUIC) serve(ln net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- q.quic.Serve(q.socket) }()
	err := q.netHTTP.serve(ln)
	_ = q.quic.Close() // serve has already returned the error
	if over := <-done; !errors.Is(over, http.ErrServerClosed) {
		err = errors.Join(err, over)
	}
	if closed := q.socket.Close(); !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

func (q *withQUIC) stop(ctx context.Context) {
	_ = q.quic.Close() // at once: connections without a request would outlast ctx
	q.netHTTP.stop(ctx)
}
