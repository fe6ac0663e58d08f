package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/proxy/config"
)

// A destination with TLS is reached over a bridge: the loop has one end of a socket pair, and
// goroutines copy between the other end and a crypto/tls connection. The loop sees a connection
// that is open at once; if it cannot be established, it ends before its response.

// bridge tells a loop about its bridge's far side once the near side has ended.
type bridge struct {
	// torn: the destination did not announce this end. Without close_notify, an attacker on the
	// path may have cut it (RFC 8446, section 6.1).
	torn atomic.Bool
	// failed is why the connection could not be established.
	failed atomic.Pointer[string]
}

// bridge opens a connection for the loop to a destination with TLS.
func (p *Proxy) bridge(u *upstream, within time.Duration) (fd int, far *bridge, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	b := new(bridge)
	file := os.NewFile(uintptr(pair[1]), "bridge")
	p.tasks.Go(func() {
		near, err := net.FileConn(file) // duplicates
		file.Close()
		if err != nil {
			p.fail("bridge: " + err.Error())
			return
		}
		defer near.Close()
		ctx, cancel := p.over, context.CancelFunc(func() {})
		if within > 0 {
			ctx, cancel = context.WithTimeout(ctx, within)
		}
		raw, far, err := u.dialTLS(ctx)
		cancel()
		if err != nil {
			p.fail(fmt.Sprintf("destination %s: %v", u.key, err))
			u.resolveSoon()
			why := unbridged(err)
			b.failed.Store(&why)
			return
		}
		defer far.Close()
		stop := context.AfterFunc(p.over, func() { raw.Close(); near.Close() })
		defer stop()
		span(near.(*net.UnixConn), far, raw, &b.torn)
	})
	return pair[0], b, nil
}

// unbridged returns the cause as clients may see it: without names and addresses.
func unbridged(err error) string {
	var name *net.DNSError
	var call *net.OpError
	var untrusted *tls.CertificateVerificationError
	var late net.Error
	switch {
	case errors.Is(err, errNoHTTP2):
		return "TLS: " + errNoHTTP2.Error()
	case errors.As(err, &late) && late.Timeout():
		return "connect: timeout"
	case errors.As(err, &name):
		return "connect: " + name.Err
	case errors.As(err, &untrusted):
		return "TLS: the destination's certificate is not accepted"
	case errors.As(err, &call) && call.Op == "dial":
		var code syscall.Errno
		if errors.As(err, &code) {
			return "connect: " + code.Error()
		}
		return "connect: " + call.Err.Error()
	}
	return "TLS: the handshake failed"
}

// rawConn records whether the peer has ended the connection below TLS. crypto/tls takes that for
// an orderly end if it falls between two records.
type rawConn struct {
	net.Conn
	ended bool
}

func (w *rawConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.ended = w.ended || errors.Is(err, io.EOF)
	return n, err
}

func (u *upstream) dialTLS(ctx context.Context) (*rawConn, *tls.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", dialed(u))
	if err != nil {
		return nil, nil, err
	}
	raw := &rawConn{Conn: conn}
	far, protocol := tls.Client(raw, u.tls), u.tls.NextProtos[0]
	err = far.HandshakeContext(ctx)
	switch {
	case !u.http2:
	case err == nil && far.ConnectionState().NegotiatedProtocol != protocol, err != nil && strings.HasSuffix(err.Error(), noProtocol):
		err = errNoHTTP2
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return raw, far, nil
}

// noProtocol is the alert of a server that accepts none of the offered protocols (RFC 7301,
// section 3.2); crypto/tls identifies it only by its text.
const noProtocol = "tls: no application protocol"

// errNoHTTP2: ALPN did not select h2, which the configuration requires.
var errNoHTTP2 = errors.New("the destination does not take HTTP/2 by ALPN")

// span copies in both directions until both have ended.
func span(near *net.UnixConn, far *tls.Conn, raw *rawConn, torn *atomic.Bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(far, near); err != nil { // either side has ended
			near.Close()
			far.Close()
			return
		}
		_ = far.CloseWrite() // it fails if the connection has ended
	}()
	_, err := io.Copy(near, far)
	if err != nil || raw.ended {
		torn.Store(true)
		near.Close()
	} else {
		_ = near.CloseWrite() // as above
		_ = near.SetReadDeadline(time.Now().Add(lingerNs))
	}
	<-done
}

func (u *upstream) secure() bool { return u.target.Scheme == config.HTTPS }

// dialed returns the host:port for what connects by itself: of a service, one of those that its records
// name.
func dialed(u *upstream) string {
	host, _, err := net.SplitHostPort(u.target.Address)
	if known := u.naming.addresses.Load(); err == nil && config.IsService(host) && known != nil {
		if at, err := (*known)[rand.IntN(len(*known))].AddrPort(); err == nil {
			return at.String()
		}
	}
	return u.target.Address
}
