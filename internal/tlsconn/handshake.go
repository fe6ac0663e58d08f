package tlsconn

import (
	"bytes"
	"crypto/hmac"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"net"
	"time"
)

// thread is what the connections of one thread share.
type thread struct {
	current *handshake // the one that is running
	spare   [][]byte   // buffers for records that arrive in pieces
}

// buffer returns a buffer for a record that arrives in pieces.
func (t *thread) buffer() []byte {
	if last := len(t.spare) - 1; last >= 0 {
		b := t.spare[last]
		t.spare = t.spare[:last]
		return b[:0]
	}
	return make([]byte, 0, headerBytes+sealedMost12)
}

// handshake runs crypto/tls for one connection, as a coroutine: it runs while a record is fed to
// it, on the caller's thread, and is suspended when it wants to read more. It is a net.Conn to
// crypto/tls, and hands out one record at a time, so that crypto/tls reads none ahead that others
// must decrypt.
//
// It ends with the handshake, or with the first ticket if sessions are kept; with TLS 1.2 a client's
// crypto/tls keeps the connection.
type handshake struct {
	thread  *thread
	own     *tls.Config // of a server's thread; nil at a client's end
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
	old     hellos12 // of a server
	yield   func([]byte) bool
	resume  func() ([]byte, bool)
	stop    func()
}

// begin creates the coroutine, which does not run yet.
func (h *handshake) begin(conn *tls.Conn) {
	h.conn = conn
	h.resume, h.stop = iter.Pull(h.run)
}

// step runs until crypto/tls wants to read more, or has read something.
func (h *handshake) step(record []byte) (plain []byte) {
	h.thread.current, h.in = h, record
	if h.own != nil {
		h.old.received(record)
	}
	plain, _ = h.resume()
	h.thread.current, h.in = nil, nil
	return plain
}

// run is the body of the coroutine.
func (h *handshake) run(yield func([]byte) bool) {
	h.yield = yield
	growStack(0)
	if h.err = h.conn.Handshake(); h.err != nil {
		return
	}
	h.over = true
	if h.own != nil || h.conn.ConnectionState().Version >= tls.VersionTLS13 && !h.keeps {
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

// growStack has a new stack grow at once: within crypto/tls it grows in steps, and frames are moved.
//
//go:noinline
func growStack(i int) byte {
	var frame [12 << 10]byte
	return frame[i]
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
	if h.own != nil {
		h.old.sent(p)
	}
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
	case "CLIENT_RANDOM":
		t.current.old.master = secret
	case "SERVER_TRAFFIC_SECRET_0":
		t.current.secrets.server = secret
	}
	return len(line), nil
}

const (
	randomBytes = 32
	masterBytes = 48
	// randomAt is where a hello has its random: after its type, length and version.
	randomAt = messageHeader + 2
)

// hellos12 is what the keys of TLS 1.2 come from, besides the suite.
type hellos12 struct {
	hello          []byte // the beginning of the ClientHello
	client, server [randomBytes]byte
	answered       bool
	master         []byte
}

// received collects the client's random, which may come in several records.
func (k *hellos12) received(record []byte) {
	if n := randomAt + randomBytes - len(k.hello); n > 0 && record[0] == typeHandshake {
		b := record[headerBytes:]
		if k.hello = append(k.hello, b[:min(n, len(b))]...); len(k.hello) == randomAt+randomBytes {
			copy(k.client[:], k.hello[randomAt:])
		}
	}
}

// sent finds the server's random: crypto/tls's first record begins with the ServerHello.
func (k *hellos12) sent(b []byte) {
	if !k.answered && len(b) >= headerBytes+randomAt+randomBytes && b[0] == typeHandshake {
		k.answered = true
		copy(k.server[:], b[headerBytes+randomAt:])
	}
}

// resumed takes the master secret of a session: the key log has that of a full handshake alone, but
// a resumed one always wraps its session again. tls.SessionState documents the form.
func (k *hellos12) resumed(session *tls.SessionState) error {
	const lengthAt = 2 + 1 + 2 + 8 // behind the version, the side, the suite and the time
	b, err := session.Bytes()
	if err != nil {
		return err
	}
	if len(b) < lengthAt+1+masterBytes || b[lengthAt] != masterBytes {
		return errors.New("tlsconn: the session has no master secret")
	}
	k.master = bytes.Clone(b[lengthAt+1:][:masterBytes])
	return nil
}

// keys12 derives the keys of a server's directions (RFC 5246, section 6.3).
func (k *hellos12) keys12(suite uint16, in, out *half) error {
	if len(k.master) != masterBytes {
		return errors.New("tlsconn: the handshake has no master secret")
	}
	keyBytes, ivBytes := 32, len(in.nonce)-explicitBytes
	switch suite {
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
		keyBytes = 16
	case tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
	case tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		ivBytes = len(in.nonce)
	default:
		return fmt.Errorf("tlsconn: cipher suite %#04x is not served", suite)
	}
	block := prf(hashOf(suite), k.master, "key expansion", append(k.server[:], k.client[:]...), 2*(keyBytes+ivBytes))
	keys, ivs := block[:2*keyBytes], block[2*keyBytes:]
	return errors.Join(in.begin12(keys[:keyBytes], ivs[:ivBytes]), out.begin12(keys[keyBytes:], ivs[ivBytes:]))
}

// prf is the pseudorandom function (RFC 5246, section 5).
func prf(digest func() hash.Hash, secret []byte, label string, seed []byte, n int) (out []byte) {
	mac := hmac.New(digest, secret)
	sum := func(parts ...[]byte) []byte {
		mac.Reset()
		for _, p := range parts {
			mac.Write(p)
		}
		return mac.Sum(nil)
	}
	seed = append([]byte(label), seed...)
	for a := sum(seed); len(out) < n; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:n]
}
