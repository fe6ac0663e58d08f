package tlsconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// suites12 are those of TLS 1.2 that a Server may offer.
func suites12() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// site12 is a configuration with a certificate of each kind, and its clients'.
func site12(t testing.TB) (shared, client *tls.Config) {
	t.Helper()
	one, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test"}, NotAfter: time.Now().Add(time.Hour)}
	shared = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, CipherSuites: suites12()}
	for _, k := range []struct{ public, private any }{{&one.PublicKey, one}, {&other.PublicKey, other}} {
		der, err := x509.CreateCertificate(rand.Reader, about, about, k.public, k.private)
		if err != nil {
			t.Fatal(err)
		}
		shared.Certificates = append(shared.Certificates, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k.private})
	}
	Share(shared)
	return shared, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"}, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
}

// TestServer12: a client of crypto/tls with TLS 1.2 is answered with each suite, by a full handshake
// and resumed, also where another thread's Server began the session.
func TestServer12(t *testing.T) {
	needs.Time(t)
	for _, suite := range suites12() {
		for _, piece := range []int{1, 100, 16 << 10} {
			for _, tickets := range []bool{true, false} {
				shared, client := site12(t)
				shared.SessionTicketsDisabled = !tickets
				client.CipherSuites = []uint16{suite}
				servers := []*Server{NewServer(shared), NewServer(shared)}
				for round := range 3 {
					state, agreed, ended, err := call(t, servers[round%2], client, piece, strings.Repeat("0123456789", 5000))
					if err != nil || ended != io.EOF {
						t.Fatalf("%s, pieces of %d, round %d: %v, %v", tls.CipherSuiteName(suite), piece, round, err, ended)
					}
					want := Agreed{tls.VersionTLS12, suite, uint16(state.CurveID), "h2", round > 0 && tickets}
					if agreed != want || state.DidResume != want.Resumed {
						t.Errorf("%s, round %d: agreed on %+v, the client on %+v", tls.CipherSuiteName(suite), round, agreed, state)
					}
				}
			}
		}
	}
}

// chopped sends each byte of the first record's content, which is a ClientHello, as its own record.
type chopped struct {
	net.Conn
	began bool
}

func (c *chopped) Write(b []byte) (int, error) {
	if c.began {
		return c.Conn.Write(b)
	}
	c.began = true
	var out []byte
	for _, one := range b[headerBytes:] {
		out = append(out, b[0], b[1], b[2], 0, 1, one)
	}
	_, err := c.Conn.Write(out)
	return len(b), err
}

// TestServer12Records: a ClientHello in many records is understood, also where it resumes; warnings
// are ignored, other alerts, a second handshake, and records that were changed are not.
func TestServer12Records(t *testing.T) {
	shared, client := site12(t)
	for range 3 {
		s := NewServer(shared)
		far, near := net.Pipe()
		done := make(chan error, 1)
		go func() { _, err := echo(s, far, 1000); done <- err }()
		conn := tls.Client(&chopped{Conn: near}, client)
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, "hello") }() // the read says whether it arrived
		if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		near.Close()
		if err := <-done; err != ErrTruncated {
			t.Error(err)
		}
	}
	for _, suite := range suites12()[:3] {
		old := hellos12{master: make([]byte, masterBytes)}
		made := func() (c *Conn, theirs half) {
			s := NewServer(shared)
			c = &Conn{thread: &s.thread, server: s, agreed: Agreed{Version: tls.VersionTLS12}}
			if err := errors.Join(old.keys12(suite, &c.in, &c.out), old.keys12(suite, &theirs, new(half))); err != nil {
				t.Fatal(err)
			}
			return c, theirs
		}
		for what, k := range map[string]struct {
			kind  byte
			plain string
			spoil func([]byte)
			want  error
			alert byte
		}{
			"data":               {typeData, "hello", nil, nil, 0},
			"nothing":            {typeData, "", nil, nil, 0},
			"a warning":          {typeAlert, "\x01\x64", nil, nil, 0},
			"close_notify":       {typeAlert, "\x01\x00", nil, io.EOF, 0},
			"an alert":           {typeAlert, "\x02\x28", nil, tls.AlertError(40), 0},
			"another handshake":  {typeHandshake, "\x01\x00\x00\x00", nil, ErrUnexpected, alertUnexpected},
			"a change of cipher": {20, "\x01", nil, ErrUnexpected, alertUnexpected},
			"another tag":        {typeData, "hello", func(b []byte) { b[len(b)-1] ^= 1 }, ErrMAC, alertMAC},
			"another kind":       {typeData, "hello", func(b []byte) { b[0] = typeAlert }, ErrMAC, alertMAC},
			"another version":    {typeData, "hello", func(b []byte) { b[2] = 4 }, ErrUnexpected, alertUnexpected},
			"too short":          {typeData, "", func(b []byte) { b[4] = 3 }, ErrMAC, alertMAC},
			"too long":           {typeData, strings.Repeat("a", plainMost+1), nil, ErrOversize, alertOverflow},
		} {
			c, theirs := made()
			b := theirs.seal(nil, k.kind, []byte(k.plain))
			if k.spoil != nil {
				k.spoil(b)
			}
			plain, _, err := c.Next(b)
			if err != k.want || err == nil && k.kind == typeData && string(plain) != k.plain {
				t.Errorf("%s: %q, %v", what, plain, err)
			}
			pending := c.Pending()
			if (len(pending) > 0) != (k.alert > 0) {
				t.Fatalf("%s: %d bytes are sent", what, len(pending))
			}
			if k.alert > 0 {
				var ours half
				if err := old.keys12(suite, new(half), &ours); err != nil {
					t.Fatal(err)
				}
				if kind, plain, err := ours.open(pending); err != nil || kind != typeAlert || string(plain) != string([]byte{alertFatal, k.alert}) {
					t.Errorf("%s: alert %d %q, %v", what, kind, plain, err)
				}
			}
			if k.want == nil {
				b := theirs.seal(nil, typeData, []byte("more"))
				if plain, _, err := c.Next(b); string(plain) != "more" || err != nil {
					t.Errorf("behind %s: %q, %v", what, plain, err)
				}
			}
		}
		var ours half
		if err := old.keys12(suite, new(half), &ours); err != nil {
			t.Fatal(err)
		}
		plain, out := make([]byte, 40_000), make([]byte, 0, 50_000)
		c, _ := made()
		if allocs := testing.AllocsPerRun(20, func() { out = c.SealApart(out[:0], plain) }); allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
	}
}

// FuzzServer12: whatever records of a client hold, or are, ends in data, an error or the wish for
// more; in pieces as at once.
func FuzzServer12(f *testing.F) {
	shared, _ := site12(f)
	s, old := NewServer(shared), hellos12{master: make([]byte, masterBytes)}
	f.Add([]byte("\x17hello"), true, 1)
	f.Add([]byte("\x15\x01\x00"), true, 100)
	f.Add([]byte("\x17\x03\x03\x00\x18GET / HTTP/1.1\r\nHost: a\r\n"), false, 7)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool, piece int) {
		for _, suite := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256} {
			c, theirs := &Conn{thread: &s.thread, server: s, agreed: Agreed{Version: tls.VersionTLS12}}, half{}
			if err := errors.Join(old.keys12(suite, &c.in, &c.out), old.keys12(suite, &theirs, new(half))); err != nil {
				t.Fatal(err)
			}
			input := append([]byte(nil), b...)
			if sealed && len(b) > 0 {
				input = theirs.seal(nil, b[0], b[1:min(len(b), plainMost)])
			}
			for len(input) > 0 {
				part := input[:min(max(piece, 1), len(input))]
				input = input[len(part):]
				for len(part) > 0 {
					plain, n, err := c.Next(part)
					if n < 1 || n > len(part) || len(plain) > plainMost || len(plain) > 0 && !sealed {
						t.Fatalf("%d of %d bytes taken, %d inside", n, len(part), len(plain))
					}
					if part = part[n:]; err != nil {
						part, input = nil, nil
					}
				}
			}
			c.End()
		}
	})
}
