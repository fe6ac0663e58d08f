package tlsconn

import "crypto/tls"

// Server makes the server ends of one thread's connections, of TLS 1.3 and 1.2.
type Server struct {
	thread
	shared, own *tls.Config
}

// Share prepares a configuration to be shared by several Servers: any of them resumes the sessions
// of the others, since the ticket keys are the configuration's. It sets the configuration's
// GetConfigForClient. Of TLS 1.2, only suites with ECDHE and authenticated encryption may be offered.
func Share(config *tls.Config) {
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return hello.Conn.(*handshake).own, nil // it logs the secrets to the thread that does the handshake
	}
}

// NewServer returns a Server for a configuration passed to Share.
func NewServer(shared *tls.Config) *Server {
	s := &Server{shared: shared, own: shared.Clone()}
	s.own.GetConfigForClient = nil
	s.own.KeyLogWriter = &s.thread
	// With TLS 1.3 a ticket follows the server's Finished and is the first record with the application
	// keys (RFC 8446, section 4.6.1): tickets must be counted. Each is one record, since without client
	// certificates it has a few hundred bytes.
	s.own.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		h := s.current
		h.tickets++
		if state.Version == tls.VersionTLS12 && h.old.master == nil {
			if err := h.old.resumed(session); err != nil {
				return nil, err
			}
		}
		return shared.EncryptTicket(state, session)
	}
	return s
}

func (s *Server) newHandshake() *handshake {
	h := &handshake{thread: &s.thread, own: s.own}
	h.begin(tls.Server(h, s.shared))
	return h
}
