// Package quicconn opens a client's QUIC connections for HTTP/3, using quic-go, and describes
// their errors briefly.
package quicconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
)

// Protocol is HTTP/3's name in TLS (ALPN, RFC 9114 section 3.1).
const Protocol = http3.NextProtoH3

// Conn is one connection with its own UDP socket.
type Conn struct {
	HTTP *http3.ClientConn
	QUIC *quic.Conn

	transport *quic.Transport
	socket    *net.UDPConn
}

// Dial connects to an address, from a given one if valid, and completes the handshake before ctx
// ends. If the host reports a closed port, the error is ECONNREFUSED.
func Dial(ctx context.Context, to netip.AddrPort, from netip.Addr, config *tls.Config) (*Conn, error) {
	network := "udp6"
	if to.Addr().Is4() {
		network = "udp4"
	}
	local := ":0"
	if from.IsValid() {
		local = netip.AddrPortFrom(from, 0).String()
	}
	listen := net.ListenConfig{Control: reportRefusals}
	socket, err := listen.ListenPacket(ctx, network, local)
	if err != nil {
		return nil, err
	}
	c := &Conn{socket: socket.(*net.UDPConn)}
	c.transport = &quic.Transport{Conn: c.socket}
	c.QUIC, err = c.transport.Dial(ctx, net.UDPAddrFromAddrPort(to), config, &quic.Config{
		MaxIncomingStreams: -1, // an HTTP/3 client accepts none from the server
		// We enforce these limits ourselves: ctx the first, load the second.
		HandshakeIdleTimeout: time.Minute, MaxIdleTimeout: 10 * time.Minute,
		// The smallest maximum packet that all paths support (RFC 9000, section 14) suffices for
		// requests, and avoids socket errors about oversized packets.
		DisablePathMTUDiscovery: true,
	})
	if err != nil {
		return nil, errors.Join(err, c.free())
	}
	c.HTTP = (&http3.Transport{DisableCompression: true}).NewClientConn(c.QUIC)
	return c, nil
}

// Close closes the connection and notifies the server.
func (c *Conn) Close() error {
	err := c.QUIC.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	return errors.Join(err, c.free())
}

func (c *Conn) free() error {
	err := c.transport.Close()
	if closing := c.socket.Close(); !errors.Is(closing, net.ErrClosed) {
		err = errors.Join(err, closing)
	}
	return err
}

// Quiet keeps quic-go from printing to standard error when the kernel grants smaller buffers than
// requested: see BufferWanted.
func Quiet() error { return os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") }

// BufferWanted is the receive buffer that quic-go requests, in bytes.
const BufferWanted = 7 << 20

// ClientConfig converts a TLS configuration for quic-go.
func ClientConfig(c *tlsconn.Config) *tls.Config {
	return &tls.Config{
		ServerName: c.ServerName, RootCAs: c.Roots, InsecureSkipVerify: c.Insecure, Certificates: c.Certificates,
		NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS13, CurvePreferences: c.Offered.Groups,
	}
}

// Agreed returns the negotiated parameters of the handshake.
func (c *Conn) Agreed() tlsconn.Agreed {
	s := c.QUIC.ConnectionState().TLS
	return tlsconn.Agreed{
		Version: s.Version, Suite: s.CipherSuite, Group: uint16(s.CurveID), Protocol: s.NegotiatedProtocol, Resumed: s.DidResume,
	}
}

// Causes in our own words.
const (
	CauseTimeout = "timeout"
	CauseIdle    = "QUIC idle timeout"
	CauseReset   = "stateless reset"
	CauseVersion = "no QUIC version in common"
	CauseGoAway  = "the server is shutting down (GOAWAY)"
)

// Explain describes what ended a connection or a request, in constant words, because causes are
// counted by them.
func Explain(err error) string {
	var (
		idle      *quic.IdleTimeoutError
		slow      *quic.HandshakeTimeoutError
		reset     *quic.StatelessResetError
		version   *quic.VersionNegotiationError
		transport *quic.TransportError
		code      *http3.Error
		app       *quic.ApplicationError
		stream    *quic.StreamError
		errno     syscall.Errno
	)
	switch {
	case errors.As(err, &reset):
		return CauseReset
	case errors.As(err, &idle):
		return CauseIdle
	case errors.As(err, &slow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return CauseTimeout
	case errors.As(err, &version):
		return CauseVersion
	case errors.As(err, &errno): // of this side's socket; the library wraps it in an internal error
		return sys.ErrnoName(errno)
	case errors.As(err, &transport):
		return explainTransport(transport)
	case errors.As(err, &code):
		return "HTTP/3 " + side(code.Remote) + ": " + code.ErrorCode.String()
	case errors.As(err, &app):
		return "HTTP/3 " + side(app.Remote) + ": " + http3.ErrCode(app.ErrorCode).String()
	case errors.As(err, &stream):
		return "HTTP/3 " + side(stream.Remote) + ": " + http3.ErrCode(stream.ErrorCode).String()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "short body"
	}
	return err.Error()
}

func side(remote bool) string {
	if remote {
		return "error from the server"
	}
	return "error"
}

// explainTransport names a QUIC transport error; those from 0x100 on are TLS alerts (RFC 9001,
// section 4.8).
func explainTransport(e *quic.TransportError) string {
	const firstAlert = 0x100
	switch {
	case e.ErrorCode >= firstAlert && e.Remote:
		return "TLS alert from the server: " + alert(e.ErrorCode)
	case e.ErrorCode >= firstAlert:
		for _, inner := range e.Unwrap() {
			if inner != nil && inner != net.ErrClosed {
				return tlsconn.Explain(inner)
			}
		}
		return "TLS: " + alert(e.ErrorCode)
	case e.ErrorCode == quic.InternalError && !e.Remote:
		if name := socketError(e.ErrorMessage); name != "" {
			return name
		}
	}
	return fmt.Sprintf("QUIC %s: %s", side(e.Remote), e.ErrorCode)
}

// socketError returns the name of the errno that a message ends with; "" if there is none. The library
// keeps only the text of what its socket's calls returned.
func socketError(message string) string {
	const last = 133 // EHWPOISON
	for no := syscall.Errno(1); no <= last; no++ {
		if strings.HasSuffix(message, ": "+no.Error()) {
			return sys.ErrnoName(no)
		}
	}
	return ""
}

func alert(code quic.TransportErrorCode) string {
	text := tls.AlertError(uint8(code & 0xff)).Error()
	const prefix = "tls: "
	if len(text) > len(prefix) && text[:len(prefix)] == prefix {
		text = text[len(prefix):]
	}
	return text
}

// Rejected reports whether the server states that it has not processed a request, so that it may
// be retried (RFC 9114, section 4.1.1).
func Rejected(err error) bool {
	var code *http3.Error
	return errors.As(err, &code) && code.Remote && code.ErrorCode == http3.ErrCodeRequestRejected
}
