package tlsconn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"ceiling/internal/authority"
)

// site is a configuration that servers share, and what a client needs for it.
func site(t testing.TB, change func(*tls.Config)) (shared, client *tls.Config) {
	t.Helper()
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	shared = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if change != nil {
		change(shared)
	}
	Share(shared)
	client = &tls.Config{ServerName: "a.test", RootCAs: x509.NewCertPool(), ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	client.RootCAs.AppendCertsFromPEM(ca.PEM())
	return shared, client
}

// echo answers a crypto/tls client with what it sends, through a Conn that is given its
// bytes in pieces, until either ends. It answers what the Conn agreed on, and how it ended.
func echo(s *Server, wire net.Conn, piece int) (agreed Agreed, err error) {
	defer wire.Close()
	c := new(Conn)
	c.Accept(s)
	defer c.Stop()
	buffer := make([]byte, piece)
	for {
		n, end := wire.Read(buffer)
		for b := buffer[:n]; len(b) > 0; {
			plain, took, err := c.Next(b)
			b = b[took:]
			agreed = c.Agreed()
			var out []byte
			if len(plain) > 0 {
				// Now with a byte behind, now without.
				out = c.SealApart(nil, append(make([]byte, 0, len(plain)+len(plain)%2), plain...))
			}
			if out = append(c.Pending(), out...); len(out) > 0 {
				if _, err := wire.Write(out); err != nil {
					return agreed, err
				}
			}
			if err == io.EOF {
				_, _ = wire.Write(c.CloseNotify(nil)) // the client may have gone
			}
			if err != nil {
				return agreed, err
			}
		}
		if end != nil {
			return agreed, c.EOF()
		}
	}
}

// call has a client send a text and read it back.
func call(t *testing.T, s *Server, client *tls.Config, piece int, text string) (
	state tls.ConnectionState, agreed Agreed, ended, err error,
) {
	t.Helper()
	far, near := net.Pipe()
	defer near.Close()
	done := make(chan struct{})
	go func() { defer close(done); agreed, ended = echo(s, far, piece) }()
	conn := tls.Client(near, client)
	err = func() error {
		if err := conn.Handshake(); err != nil {
			return err
		}
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(conn, text)
			wrote <- err
		}()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if err := <-wrote; err != nil {
			return err
		}
		if string(got) != text {
			t.Errorf("%d bytes came back changed", len(got))
		}
		go func() { _ = conn.CloseWrite() }() // a pipe has no room: the answer may come first
		if n, err := conn.Read(got); n > 0 || err != io.EOF {
			t.Errorf("%d bytes behind the end, %v", n, err)
		}
		return nil
	}()
	state = conn.ConnectionState()
	near.Close()
	<-done
	return state, agreed, ended, err
}

// TestServer: a client of crypto/tls is answered, by a full handshake and resumed, also
// where another thread's Server began the session; by each cipher and curve.
func TestServer(t *testing.T) {
	for name, change := range map[string]func(*tls.Config){
		"as it comes": nil,
		"retry":       func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, // no client guesses that
		"no tickets":  func(c *tls.Config) { c.SessionTicketsDisabled = true },
	} {
		for _, piece := range []int{1, 100, 16 << 10} {
			shared, client := site(t, change)
			client.NextProtos = []string{"http/1.1"}
			servers := []*Server{NewServer(shared), NewServer(shared)}
			for round := range 3 {
				state, agreed, ended, err := call(t, servers[round%2], client, piece, strings.Repeat("0123456789", 5000))
				if err != nil || ended != io.EOF {
					t.Fatalf("%s, pieces of %d, round %d: %v, %v", name, piece, round, err, ended)
				}
				want := Agreed{tls.VersionTLS13, state.CipherSuite, uint16(state.CurveID), "http/1.1", round > 0 && name != "no tickets"}
				if agreed != want || state.DidResume != want.Resumed {
					t.Errorf("%s, round %d: agreed on %+v, the client on %+v", name, round, agreed, want)
				}
			}
		}
	}
}

// TestRefusedClients: what is no client of TLS fails by crypto/tls's own words, and is
// told where there is somebody to tell.
func TestRefusedClients(t *testing.T) {
	shared, client := site(t, nil)
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":    "first record does not look like a TLS handshake",
		"\x16\x03\x01\x00\x04\x01\x00\x00\x00": "decoding",
		"\x15\x03\x01\x00\x02\x02\x28":         "handshake failure",
	} {
		c := new(Conn)
		c.Accept(NewServer(shared))
		_, _, err := c.Next([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		c.Stop()
	}
	client.NextProtos = []string{"spdy/1"}
	if _, _, ended, err := call(t, NewServer(shared), client, 1<<14, "x"); err == nil || ended == nil {
		t.Errorf("an unknown protocol: %v, %v", err, ended)
	}
	if c := new(Conn); true {
		c.Accept(NewServer(shared))
		if err := c.EOF(); err != ErrHandshake {
			t.Errorf("an end before the beginning: %v", err)
		}
		c.Stop()
	}
}

// TestServersRecords: a client may update its keys, and may not send tickets.
func TestServersRecords(t *testing.T) {
	secrets := [2][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}
	shared, _ := site(t, nil)
	const suite = tls.TLS_AES_128_GCM_SHA256
	made := func() (c *Conn, theirs half) {
		s := NewServer(shared)
		c = &Conn{thread: &s.thread, server: s, agreed: Agreed{Version: tls.VersionTLS13}}
		if err := errors.Join(c.in.keys(suite, secrets[0]), c.out.keys(suite, secrets[1]), theirs.keys(suite, secrets[0])); err != nil {
			t.Fatal(err)
		}
		return c, theirs
	}
	c, theirs := made()
	if _, _, err := c.Next(theirs.seal(nil, typeHandshake, []byte{messageTicket, 0, 0, 0})); err != ErrUnexpected {
		t.Errorf("a ticket from a client: %v", err)
	}
	c, theirs = made()
	if _, _, err := c.Next(theirs.seal(nil, typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, 1})); err != nil {
		t.Fatal(err)
	}
	if err := theirs.update(); err != nil {
		t.Fatal(err)
	}
	if plain, _, err := c.Next(theirs.seal(nil, typeData, []byte("hello"))); string(plain) != "hello" || err != nil {
		t.Errorf("%q, %v", plain, err)
	}
	var ours half
	if err := ours.keys(suite, secrets[1]); err != nil {
		t.Fatal(err)
	}
	for i, b := 0, c.SealApart(nil, append(make([]byte, 0, 100), "there"...)); len(b) > 0; i++ {
		n := headerBytes + int(b[3])<<8 + int(b[4])
		kind, plain, err := ours.open(b[:n])
		switch {
		case err != nil:
			t.Fatal(err)
		case i == 0 && kind == typeHandshake: // the update that was asked for
			if err := ours.update(); err != nil {
				t.Fatal(err)
			}
		case i != 1 || kind != typeData || string(plain) != "there":
			t.Errorf("record %d: %d %q", i, kind, plain)
		}
		b = b[n:]
	}
}

// TestSealApart: the same records as Seal's, of any length, the plain bytes unchanged,
// and nothing is allocated.
func TestSealApart(t *testing.T) {
	for _, suite := range suites() {
		secret := bytes.Repeat([]byte{7}, hashOf(suite)().Size())
		for _, n := range []int{0, 1, plainMost - 1, plainMost, plainMost + 1, 5*plainMost + 100} {
			var a, b Conn
			if err := errors.Join(a.out.keys(suite, secret), b.out.keys(suite, secret)); err != nil {
				t.Fatal(err)
			}
			memory := make([]byte, n+1)
			for i := range memory {
				memory[i] = byte(i * 7)
			}
			kept := bytes.Clone(memory)
			if x, y := a.Seal(nil, memory[:n]), b.SealApart(nil, memory[:n]); !bytes.Equal(x, y) || !bytes.Equal(memory, kept) {
				t.Errorf("%d bytes: %d sealed, %d apart; plain unchanged: %v", n, len(x), len(y), bytes.Equal(memory, kept))
			}
			out := make([]byte, 0, Sealed(n))
			if allocs := testing.AllocsPerRun(20, func() { out = b.SealApart(out[:0], memory[:n]) }); allocs != 0 {
				t.Errorf("%d bytes: %v allocations", n, allocs)
			}
		}
	}
}

// FuzzAccept: whatever a client begins with ends in a handshake, an error or the wish for
// more; in pieces as at once, and never with a byte for the application.
func FuzzAccept(f *testing.F) {
	shared, client := site(f, nil)
	hello := func(change func(*tls.Config)) []byte {
		far, near := net.Pipe()
		defer far.Close()
		c := client.Clone()
		change(c)
		go func() { _ = tls.Client(near, c).Handshake() }() // the pipe's end ends it
		b := make([]byte, 1<<14)
		n, err := far.Read(b)
		if err != nil {
			f.Fatal(err)
		}
		return b[:n]
	}
	f.Add(hello(func(*tls.Config) {}), 100)
	f.Add(hello(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), 1)
	f.Add(hello(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), 7)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	s := NewServer(shared)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		piece = min(max(piece, 1), 1<<16)
		c := new(Conn)
		c.Accept(s)
		defer c.Stop()
		for len(b) > 0 {
			part := b[:min(piece, len(b))]
			b = b[len(part):]
			for len(part) > 0 {
				plain, n, err := c.Next(part)
				if n < 1 || n > len(part) || len(plain) > 0 || c.Established() {
					t.Fatalf("%d of %d bytes taken, %d inside, established: %v", n, len(part), len(plain), c.Established())
				}
				if err != nil {
					return
				}
				part = part[n:]
			}
		}
	})
}
