package tlsconn

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"io"
	"iter"
	"net"
	"time"
)

// handshake runs crypto/tls for one connection, as a coroutine: it runs while a record is fed to
// it, on the caller's thread, and is suspended when it wants to read more. It is a net.Conn to
// crypto/tls, and hands out one record at a time, so that crypto/tls reads none ahead that others
// must decrypt.
//
// With TLS 1.3 it ends with the handshake, or with the first ticket if sessions are kept; with 1.2
// crypto/tls keeps the connection.
type handshake struct {
	thread  *thread
	server  *Server // nil at a client's end
	conn    *tls.Conn
	in, out []byte // received from the peer, and to be sent
	eof     bool   // the peer has closed
	over    bool   // the handshake has succeeded
	ended   bool   // and it has nothing more to do
	keeps   bool   // sessions
	kept    bool   // a ticket that followed it
	relay   half   // the keys to reseal it for crypto/tls
	err     error  // the failure, or with TLS 1.2 the end of the connection
	tickets uint64 // that a server has sent
	secrets struct{ client, server []byte }
	yield   func([]byte) bool
	resume  func() ([]byte, bool)
	stop    func()
}

func newHandshake(t *thread) *handshake { return &handshake{thread: t} }

// begin creates the coroutine, which does not run yet.
func (h *handshake) begin(conn *tls.Conn) {
	h.conn = conn
	h.resume, h.stop = iter.Pull(h.run)
}

// step runs until crypto/tls wants to read more, or has read something.
func (h *handshake) step(record []byte) (plain []byte) {
	h.thread.current, h.in = h, record
	plain, _ = h.resume()
	h.thread.current, h.in = nil, nil
	return plain
}

// run is the body of the coroutine.
func (h *handshake) run(yield func([]byte) bool) {
	h.yield = yield
	if h.err = h.conn.Handshake(); h.err != nil {
		return
	}
	h.over = true
	if h.conn.ConnectionState().Version >= tls.VersionTLS13 && !h.keeps {
		h.ended = true
		return
	}
	buffer := make([]byte, plainMost)
	for h.err == nil {
		var n int
		n, h.err = h.conn.Read(buffer)
		if n > 0 && !yield(buffer[:n]) {
			return
		}
	}
}

// Read implements net.Conn.
func (h *handshake) Read(p []byte) (int, error) {
	for len(h.in) == 0 {
		if h.eof {
			return 0, io.EOF
		}
		if !h.yield(nil) {
			return 0, net.ErrClosed
		}
	}
	n := copy(p, h.in)
	h.in = h.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (h *handshake) Write(p []byte) (int, error) {
	h.out = append(h.out, p...)
	return len(p), nil
}

// Close and the rest implement net.Conn.
func (h *handshake) Close() error                     { return nil }
func (h *handshake) LocalAddr() net.Addr              { return nil }
func (h *handshake) RemoteAddr() net.Addr             { return &net.UnixAddr{} } // the name of its session, if there is no other
func (h *handshake) SetDeadline(time.Time) error      { return nil }
func (h *handshake) SetReadDeadline(time.Time) error  { return nil }
func (h *handshake) SetWriteDeadline(time.Time) error { return nil }

// Write takes a line of the key log: a label, the client's random, a secret
// (draft-ietf-tls-keylogfile). It belongs to the running handshake: there is only one.
func (t *thread) Write(line []byte) (int, error) {
	fields := bytes.Fields(line)
	if t.current == nil || len(fields) != 3 {
		return len(line), nil
	}
	secret := make([]byte, hex.DecodedLen(len(fields[2])))
	if _, err := hex.Decode(secret, fields[2]); err != nil {
		return 0, err
	}
	switch string(fields[0]) {
	case "CLIENT_TRAFFIC_SECRET_0":
		t.current.secrets.client = secret
	case "SERVER_TRAFFIC_SECRET_0":
		t.current.secrets.server = secret
	}
	return len(line), nil
}
