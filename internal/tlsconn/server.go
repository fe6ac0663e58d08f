package tlsconn

import (
	"crypto/tls"
	"errors"
)

// Server makes the server's ends of the connections of one thread, TLS 1.3 alone.
type Server struct {
	thread
	shared, own *tls.Config
	serves      func(*tls.ClientHelloInfo) bool
}

// ErrElsewhere is a client whose ClientHello is not for this Server. Nothing was sent to
// it: whoever has its bytes from the first can begin the handshake anew.
var ErrElsewhere = errors.New("the client is served elsewhere")

// Share makes a configuration fit to be shared by several Servers, and by others who
// call crypto/tls with it: sessions that one has begun are resumed by any, since the
// keys of tickets are the configuration's. It takes the configuration's
// GetConfigForClient for that.
func Share(config *tls.Config) {
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		h, ours := hello.Conn.(*handshake)
		switch {
		case !ours || h.server == nil:
			return nil, nil
		case !h.server.serves(hello):
			return nil, ErrElsewhere
		}
		return h.server.own, nil // it logs the secrets to the thread that makes the handshake
	}
}

// NewServer makes one of a configuration that is Shared. Clients for which serves says
// no, and those without TLS 1.3, end with ErrElsewhere.
func NewServer(shared *tls.Config, serves func(*tls.ClientHelloInfo) bool) *Server {
	s := &Server{shared: shared, own: shared.Clone()}
	s.serves = func(hello *tls.ClientHelloInfo) bool {
		for _, v := range hello.SupportedVersions {
			if v == tls.VersionTLS13 {
				return serves(hello)
			}
		}
		return false
	}
	s.own.GetConfigForClient = nil
	s.own.KeyLogWriter = &s.thread
	// A ticket goes out behind the server's Finished and is the first record of the
	// application's keys (RFC 8446, section 4.6.1): they have to be counted. Each is one
	// record, since without certificates of clients it has a few hundred bytes.
	s.own.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		if s.current != nil {
			s.current.tickets++
		}
		return shared.EncryptTicket(state, session)
	}
	return s
}

// Accept makes c the server's end of a connection that has begun.
func (c *Conn) Accept(s *Server) { *c = Conn{thread: &s.thread, server: s} }

func (s *Server) newHandshake() *handshake {
	h := newHandshake(&s.thread)
	h.server = s
	h.begin(tls.Server(h, s.shared))
	return h
}
