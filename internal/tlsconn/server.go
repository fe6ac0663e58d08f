package tlsconn

import (
	"crypto/tls"
	"errors"
)

// Server makes the server ends of one thread's connections, TLS 1.3 only.
type Server struct {
	thread
	shared, own *tls.Config
	serves      func(*tls.ClientHelloInfo) bool
}

// ErrElsewhere is returned for a client whose ClientHello is not for this Server. Nothing was sent
// to it: a caller that has its bytes from the start can begin the handshake again.
var ErrElsewhere = errors.New("the client is served elsewhere")

// Share prepares a configuration to be shared by several Servers, and by other users of crypto/tls:
// any of them resumes the sessions of the others, since the ticket keys are the configuration's. It
// sets the configuration's GetConfigForClient.
func Share(config *tls.Config) {
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		h, ours := hello.Conn.(*handshake)
		switch {
		case !ours || h.server == nil:
			return nil, nil
		case !h.server.serves(hello):
			return nil, ErrElsewhere
		}
		return h.server.own, nil // it logs the secrets to the thread that does the handshake
	}
}

// NewServer returns a Server for a configuration passed to Share. Clients that serves rejects, and
// those without TLS 1.3, end with ErrElsewhere.
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
	// A ticket follows the server's Finished and is the first record with the application keys (RFC
	// 8446, section 4.6.1): tickets must be counted. Each is one record, since without client
	// certificates it has a few hundred bytes.
	s.own.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		if s.current != nil {
			s.current.tickets++
		}
		return shared.EncryptTicket(state, session)
	}
	return s
}

// Accept makes c the server end of a new connection.
func (c *Conn) Accept(s *Server) { *c = Conn{thread: &s.thread, server: s} }

func (s *Server) newHandshake() *handshake {
	h := newHandshake(&s.thread)
	h.server = s
	h.begin(tls.Server(h, s.shared))
	return h
}
