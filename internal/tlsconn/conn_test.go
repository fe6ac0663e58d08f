package tlsconn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
)

func TestMain(m *testing.M) { leak.Main(m) }

// logged is a server's key log.
type logged struct{ client, server []byte }

func (l *logged) Write(line []byte) (int, error) {
	f := bytes.Fields(line)
	secret, err := hex.DecodeString(string(f[2]))
	switch string(f[0]) {
	case "CLIENT_TRAFFIC_SECRET_0":
		l.client = secret
	case "SERVER_TRAFFIC_SECRET_0":
		l.server = secret
	}
	return len(line), err
}

// peer is a server that has done its handshake with a Conn and then seals and opens
// records itself, right or wrong.
type peer struct {
	t       testing.TB
	conn    *Conn
	in, out half
	raw     net.Conn // to the server's crypto/tls
	secure  *tls.Conn
}

// meet does a handshake of a Conn with crypto/tls. The server's bytes come in pieces
// of the given size.
func meet(t testing.TB, piece int, change func(server *tls.Config, client *Config)) (*peer, error) {
	t.Helper()
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	keys := &logged{}
	server := &tls.Config{Certificates: []tls.Certificate{pair}, KeyLogWriter: keys, NextProtos: []string{"http/1.1"}}
	client := Config{ServerName: "a.test", Roots: x509.NewCertPool(), Protocols: []string{"http/1.1"}}
	client.Roots.AppendCertsFromPEM(ca.PEM())
	if change != nil {
		change(server, &client)
	}
	far, near := net.Pipe()
	p := &peer{t: t, conn: &Conn{}, raw: near, secure: tls.Server(far, server)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.secure.Handshake() // what goes wrong the client says
		if p.secure.ConnectionState().Version != tls.VersionTLS12 {
			far.Close() // a ticket has been written
		}
	}()
	t.Cleanup(func() {
		p.conn.End()
		near.Close()
		far.Close()
		<-ended
	})
	err = p.shake(client, piece)
	if err == nil && p.conn.shake == nil {
		suite := p.conn.agreed.Suite
		err = errors.Join(p.out.keys(suite, keys.server), p.in.keys(suite, keys.client))
		p.out.seq = p.conn.in.seq
	}
	return p, err
}

func (p *peer) shake(client Config, piece int) error {
	p.conn.Begin(NewClient(client))
	b := make([]byte, piece)
	for {
		if out := p.conn.Pending(); len(out) > 0 {
			if _, err := p.raw.Write(out); err != nil {
				return err
			}
		}
		if p.conn.Established() {
			if p.conn.shake == nil { // the ticket, and the end
				rest, _ := io.ReadAll(p.raw)
				return p.feed(rest)
			}
			return nil
		}
		n, err := p.raw.Read(b)
		if err != nil {
			return err
		}
		if err := p.feed(b[:n]); err != nil {
			return err
		}
	}
}

// feed gives the Conn bytes that hold nothing for the application.
func (p *peer) feed(b []byte) error {
	p.t.Helper()
	for len(b) > 0 {
		plain, n, err := p.conn.Next(b)
		if err != nil {
			return err
		}
		if len(plain) > 0 {
			p.t.Errorf("%q of nothing", plain)
		}
		b = b[n:]
	}
	return nil
}

// read gives the Conn bytes in pieces, and answers what they hold.
func (p *peer) read(b []byte, piece int) (string, error) {
	var all []byte
	for len(b) > 0 {
		part := bytes.Clone(b[:min(piece, len(b))])
		b = b[len(part):]
		for len(part) > 0 {
			plain, n, err := p.conn.Next(part)
			all, part = append(all, plain...), part[n:]
			if err != nil {
				return string(all), err
			}
		}
	}
	return string(all), nil
}

// takes checks that the Conn seals what the peer can open.
func (p *peer) takes(text string) {
	p.t.Helper()
	var got []byte
	for b := p.conn.Seal(nil, []byte(text)); len(b) > 0; {
		n := headerBytes + int(b[3])<<8 + int(b[4])
		kind, plain, err := p.in.open(b[:n])
		switch {
		case err != nil:
			p.t.Fatal(err)
		case kind == typeHandshake && bytes.Equal(plain, []byte{messageKeyUpdate, 0, 0, 1, 0}):
			if err := p.in.update(); err != nil {
				p.t.Fatal(err)
			}
		case kind == typeData:
			got = append(got, plain...)
		default:
			p.t.Fatalf("a record of type %d: %x", kind, plain)
		}
		b = b[n:]
	}
	if string(got) != text {
		p.t.Errorf("%d bytes of %d came over", len(got), len(text))
	}
}

// suites has the whole of TLS 1.3 that is spoken here run over one peer after the
// other: crypto/tls chooses the cipher by the machine, so the others are set up by
// hand, from the same secrets.
func suites() map[string]uint16 {
	return map[string]uint16{
		"AES-128": tls.TLS_AES_128_GCM_SHA256, "AES-256": tls.TLS_AES_256_GCM_SHA384, "ChaCha20": tls.TLS_CHACHA20_POLY1305_SHA256,
	}
}

// TestRecords: whatever the cipher and the pieces, what one side seals the other
// opens, over updates of the keys in either direction.
func TestRecords(t *testing.T) {
	for name, suite := range suites() {
		for _, piece := range []int{1, 3, 1000, 1 << 20} {
			p, err := meet(t, piece, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p.conn.agreed.Protocol != "http/1.1" || p.conn.agreed.Version != tls.VersionTLS13 {
				t.Errorf("agreed on %+v", p.conn.agreed)
			}
			secrets := [2][]byte{bytes.Repeat([]byte{1}, hashOf(suite)().Size()), bytes.Repeat([]byte{2}, hashOf(suite)().Size())}
			if err := errors.Join(p.conn.in.keys(suite, secrets[0]), p.out.keys(suite, secrets[0]), p.conn.out.keys(suite, secrets[1]),
				p.in.keys(suite, secrets[1])); err != nil {
				t.Fatal(err)
			}
			long := strings.Repeat("0123456789", 4000)
			for round := range 3 {
				b := p.out.seal(nil, typeData, []byte("short"))
				for rest := long; rest != ""; rest = rest[min(len(rest), plainMost):] {
					b = p.out.seal(b, typeData, []byte(rest[:min(len(rest), plainMost)]))
				}
				if got, err := p.read(b, piece); err != nil || got != "short"+long {
					t.Fatalf("%s, pieces of %d, round %d: %d bytes, %v", name, piece, round, len(got), err)
				}
				p.takes("a request")
				p.takes(long)
				// The peer's keys change, and it asks for others of ours: twice, to be
				// answered once.
				for range 2 {
					b = p.out.seal(nil, typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, byte(min(round, 1))})
					if err := p.out.update(); err != nil {
						t.Fatal(err)
					}
					if got, err := p.read(b, piece); err != nil || got != "" {
						t.Fatalf("%q, %v", got, err)
					}
				}
				if p.conn.owed != (round > 0) {
					t.Errorf("round %d: an update is owed: %v", round, p.conn.owed)
				}
			}
			p.conn.out.seq = keyRecords
			p.in.seq = keyRecords
			p.takes("after 16 million records")
			if p.conn.out.seq != 1 {
				t.Errorf("%d records with the new keys, want 1", p.conn.out.seq)
			}
		}
	}
}

// TestHostileRecords: each ends the connection by its name, and the peer is told.
func TestHostileRecords(t *testing.T) {
	data := func(p *peer) []byte { return p.out.seal(nil, typeData, []byte("x")) }
	handshake := func(b ...byte) func(*peer) []byte {
		return func(p *peer) []byte { return p.out.seal(nil, typeHandshake, b) }
	}
	ticket := append([]byte{messageTicket, 0, 0, 200}, make([]byte, 200)...)
	times := func(n int, one func(*peer) []byte) func(*peer) []byte {
		return func(p *peer) (b []byte) {
			for range n {
				b = append(b, one(p)...)
			}
			return b
		}
	}
	for name, k := range map[string]struct {
		bytes func(*peer) []byte
		err   error
		alert byte
	}{
		"bad MAC":           {func(p *peer) []byte { b := data(p); b[len(b)-1] ^= 1; return b }, ErrMAC, alertMAC},
		"bad length in MAC": {func(p *peer) []byte { b := data(p); b[4]--; return b[:len(b)-1] }, ErrMAC, alertMAC},
		"too short":         {func(*peer) []byte { return []byte{typeData, 3, 3, 0, 3, 1, 2, 3} }, ErrMAC, alertMAC},
		"empty":             {func(*peer) []byte { return []byte{typeData, 3, 3, 0, 0} }, ErrMAC, alertMAC},
		"oversize":          {func(*peer) []byte { return []byte{typeData, 3, 3, 0x41, 1} }, ErrOversize, alertOverflow},
		"oversize inside": {func(p *peer) []byte { return p.out.seal(nil, typeData, make([]byte, plainMost+1)) }, ErrOversize,
			alertOverflow},
		"in the clear":        {func(*peer) []byte { return []byte{typeAlert, 3, 3, 0, 2, 1, 0} }, ErrUnexpected, alertUnexpected},
		"change cipher spec":  {func(*peer) []byte { return []byte{20, 3, 3, 0, 1, 1} }, ErrUnexpected, alertUnexpected},
		"HTTP":                {func(*peer) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n") }, ErrUnexpected, alertUnexpected},
		"only padding":        {func(p *peer) []byte { return p.out.seal(nil, 0, []byte{0, 0}) }, ErrUnexpected, alertUnexpected},
		"unknown type":        {func(p *peer) []byte { return p.out.seal(nil, 99, []byte{0}) }, ErrUnexpected, alertUnexpected},
		"no handshake":        {handshake(), ErrUnexpected, alertUnexpected},
		"renegotiation":       {handshake(0, 0, 0, 0), ErrUnexpected, alertUnexpected},
		"wants a certificate": {handshake(13, 0, 0, 1, 0), ErrUnexpected, alertUnexpected},
		"update of 2 bytes":   {handshake(messageKeyUpdate, 0, 0, 2, 0, 0), ErrUnexpected, alertUnexpected},
		"update of 2":         {handshake(messageKeyUpdate, 0, 0, 1, 2), ErrUnexpected, alertUnexpected},
		"behind an update":    {handshake(messageKeyUpdate, 0, 0, 1, 0, messageTicket), ErrUnexpected, alertUnexpected},
		"a huge message":      {handshake(messageTicket, 0xff, 0, 0), ErrOversize, alertOverflow},
		"within a message":    {func(p *peer) []byte { return append(handshake(messageTicket, 0, 0, 9)(p), data(p)...) }, ErrUnexpected, alertUnexpected},
		"empty records":       {times(idleMost+1, func(p *peer) []byte { return p.out.seal(nil, typeData, nil) }), ErrIdle, alertUnexpected},
		"tickets":             {times(idleMost+1, handshake(ticket...)), ErrIdle, alertUnexpected},
		"fatal alert": {func(p *peer) []byte { return p.out.seal(nil, typeAlert, []byte{alertFatal, alertInternal}) },
			tls.AlertError(alertInternal), 0},
		"close_notify": {func(p *peer) []byte { return p.out.seal(nil, typeAlert, []byte{alertWarning, alertClose}) }, io.EOF, 0},
		"a long alert": {func(p *peer) []byte { return p.out.seal(nil, typeAlert, []byte{2, 80, 0}) }, ErrUnexpected, alertUnexpected},
	} {
		for _, piece := range []int{1, 1 << 20} {
			p, err := meet(t, 1<<20, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.read(k.bytes(p), piece)
			if err != k.err {
				t.Errorf("%s: %v, want %v", name, err, k.err)
			}
			if _, _, again := p.conn.Next([]byte("more")); again != k.err {
				t.Errorf("%s: %v for what comes later", name, again)
			}
			told := p.conn.Pending()
			if k.alert == 0 {
				if len(told) > 0 {
					t.Errorf("%s: %x was sent", name, told)
				}
				continue
			}
			kind, plain, err := p.in.open(told)
			if err != nil || kind != typeAlert || !bytes.Equal(plain, []byte{alertFatal, k.alert}) {
				t.Errorf("%s: the peer is told %d %v, %v", name, kind, plain, err)
			}
		}
	}
}

// TestHarmlessRecords: tickets in pieces, padding, an empty record, user_canceled.
func TestHarmlessRecords(t *testing.T) {
	for _, piece := range []int{1, 100, 1 << 20} {
		p, err := meet(t, 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		ticket := append([]byte{messageTicket, 0, 0, 200}, make([]byte, 200)...)
		b := p.out.seal(nil, typeHandshake, ticket[:2])
		b = p.out.seal(b, typeHandshake, ticket[2:100])
		b = p.out.seal(b, typeHandshake, append(append(ticket[100:], ticket...), ticket[:7]...))
		b = p.out.seal(b, typeHandshake, ticket[7:])
		b = p.out.seal(b, typeData, nil)
		b = p.out.seal(b, typeAlert, []byte{alertWarning, alertCanceled})
		b = p.out.seal(b, 0, append([]byte("padded"), typeData, 0, 0, 0))
		if got, err := p.read(b, piece); got != "padded" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if p.conn.EOF() != ErrTruncated {
			t.Errorf("an end without close_notify is %v", p.conn.EOF())
		}
		p.conn.End()
		kind, plain, err := p.in.open(p.conn.Pending())
		if err != nil || kind != typeAlert || !bytes.Equal(plain, []byte{alertWarning, alertClose}) {
			t.Errorf("the end is %d %v, %v", kind, plain, err)
		}
	}
}

// TestOlderVersion: TLS 1.2 stays with crypto/tls, both ways.
func TestOlderVersion(t *testing.T) {
	for _, piece := range []int{1, 1 << 20} {
		p, err := meet(t, piece, func(server *tls.Config, _ *Config) { server.MaxVersion = tls.VersionTLS12 })
		if err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("0123456789", 4000)
		go func() { _, _ = p.raw.Write(p.conn.Seal(nil, []byte(long))) }()
		got := make([]byte, len(long))
		if _, err := io.ReadFull(p.secure, got); err != nil || string(got) != long {
			t.Fatal(err)
		}
		go func() {
			_, _ = p.secure.Write(got)
			_ = p.secure.CloseWrite()
			p.secure.NetConn().Close()
		}()
		b, err := io.ReadAll(p.raw)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := p.read(b, piece); back != long || err != io.EOF || p.conn.EOF() != nil {
			t.Errorf("%d bytes came back, %v", len(back), err)
		}
	}
}

// TestRefusedHandshakes: by names that say what is wrong.
func TestRefusedHandshakes(t *testing.T) {
	for name, k := range map[string]struct {
		change func(server *tls.Config, client *Config)
		says   string
	}{
		"wrong name":        {func(_ *tls.Config, c *Config) { c.ServerName = "b.test" }, "the certificate is for a.test, not for b.test"},
		"unknown authority": {func(_ *tls.Config, c *Config) { c.Roots = x509.NewCertPool() }, "the certificate is signed by an unknown authority"},
		"older than 1.2":    {func(s *tls.Config, _ *Config) { s.MinVersion, s.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, "TLS alert from the server: protocol version not supported"},
		"other protocol":    {func(s *tls.Config, _ *Config) { s.NextProtos = []string{"x"} }, "TLS alert from the server: no application protocol"},
	} {
		_, err := meet(t, 1<<20, k.change)
		if err == nil || Explain(err) != k.says {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := meet(t, 1<<20, func(_ *tls.Config, c *Config) { c.ServerName, c.Insecure = "b.test", true }); err != nil {
		t.Error(err)
	}
}

// TestNoAllocation: a record costs none, in either direction.
func TestNoAllocation(t *testing.T) {
	p, err := meet(t, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	const runs = 1000
	text := make([]byte, 4500)
	b, at := p.conn.Seal(nil, text), 0
	var answers []byte
	for range runs + 1 {
		answers = p.out.seal(answers, typeData, text)
	}
	if n := testing.AllocsPerRun(runs, func() {
		b = p.conn.Seal(b[:0], text)
		plain, n, err := p.conn.Next(answers[at:])
		if err != nil || len(plain) != len(text) {
			t.Fatal(err)
		}
		at += n
	}); n != 0 {
		t.Errorf("%v allocations for each record", n)
	}
}

func FuzzNext(f *testing.F) {
	p, err := meet(f, 1<<20, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.out.seal(nil, typeData, []byte("hello")), uint8(0), 1)
	f.Add(p.out.seal(nil, typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, 1}), uint8(1), 7)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), uint8(2), 100)
	suite, secret := p.conn.agreed.Suite, p.conn.in.secret
	f.Fuzz(func(t *testing.T, b []byte, how uint8, piece int) {
		client := NewClient(Config{Insecure: true})
		c := &Conn{thread: &client.thread, agreed: Agreed{Version: tls.VersionTLS13, Suite: suite}}
		out := half{}
		if err := errors.Join(c.in.keys(suite, secret), c.out.keys(suite, secret), out.keys(suite, secret)); err != nil {
			t.Fatal(err)
		}
		switch how % 3 {
		case 0: // sealed, of any type: what is inside is anything
			if len(b) > 0 {
				b = out.seal(out.seal(nil, b[0], b[1:min(len(b), plainMost)]), typeHandshake, b[:min(len(b), plainMost)])
			}
		case 1: // a handshake that meets anything
			c.Begin(client)
		}
		piece = min(max(piece, 1), 1<<16)
		for len(b) > 0 {
			part := b[:min(piece, len(b))]
			b = b[len(part):]
			for len(part) > 0 {
				plain, n, err := c.Next(part)
				if n < 1 || n > len(part) || len(plain) > plainMost {
					t.Fatalf("%d of %d bytes taken, %d inside", n, len(part), len(plain))
				}
				if err != nil {
					c.End()
					return
				}
				part = part[n:]
			}
		}
		c.End()
	})
}

// TestResumption: with a ticket in pieces, behind one that is damaged, or in the
// handshake as of TLS 1.2, the next connection goes on from the session, which the
// server says too; data comes through as ever, and nothing is left behind.
func TestResumption(t *testing.T) {
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		most    uint16
		piece   int
		off     bool // the server gives no tickets
		resumes []bool
	}{
		"1.3":             {tls.VersionTLS13, 1 << 20, false, []bool{false, true, true, true}},
		"1.3 in pieces":   {tls.VersionTLS13, 1, false, []bool{false, true, true}},
		"1.2":             {tls.VersionTLS12, 100, false, []bool{false, true, true}},
		"without tickets": {tls.VersionTLS13, 1 << 20, true, []bool{false, false}},
	} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.PEM())
		client := NewClient(Config{ServerName: "a.test", Roots: roots, Resume: true})
		server := &tls.Config{Certificates: []tls.Certificate{pair}, MaxVersion: k.most, SessionTicketsDisabled: k.off}
		for n, want := range k.resumes {
			far, near := overTCP(t)
			secure := tls.Server(far, server)
			resumed := make(chan bool, 1)
			go func() {
				err := secure.Handshake()
				resumed <- secure.ConnectionState().DidResume && err == nil
				_, _ = secure.Write([]byte("hello"))
				far.Close()
			}()
			c := &Conn{}
			c.Begin(client)
			var got []byte
			b := make([]byte, k.piece)
			for {
				if out := c.Pending(); len(out) > 0 {
					if _, err := near.Write(out); err != nil {
						t.Fatal(err)
					}
				}
				read, err := near.Read(b)
				for rest := b[:read]; len(rest) > 0; {
					plain, took, err := c.Next(rest)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					got, rest = append(got, plain...), rest[took:]
				}
				if err != nil {
					break
				}
			}
			if is := <-resumed; is != want || c.Agreed().Resumed != want || string(got) != "hello" {
				t.Errorf("%s, connection %d: the server has resumed %v, the client %v, want %v; %q came", name, n, is, c.Agreed().Resumed, want, got)
			}
			if c.AwaitsTicket() {
				t.Errorf("%s: data has come, and a ticket is waited for", name)
			}
			c.End()
			near.Close()
		}
	}
}

// overTCP are the two ends of a connection, which hold what is written.
func overTCP(t *testing.T) (far, near net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return far, near
}

// TestDamagedTicket: it is left aside; the connection goes on.
func TestDamagedTicket(t *testing.T) {
	p, err := meet(t, 1<<20, func(s *tls.Config, c *Config) { s.SessionTicketsDisabled, c.Resume = true, true })
	if err != nil {
		t.Fatal(err)
	}
	b := p.out.seal(nil, typeHandshake, append([]byte{messageTicket, 0, 0, 3}, 1, 2, 3))
	b = p.out.seal(b, typeData, []byte("x"))
	if got, err := p.read(b, 1<<20); err != nil || got != "x" || p.conn.AwaitsTicket() {
		t.Errorf("%q, %v", got, err)
	}
}

// TestCost: a longer answer takes longer, with every cipher of TLS 1.3, and what is not
// one is refused.
func TestCost(t *testing.T) {
	needs.Quiet(t)
	for _, suite := range suites() {
		short, err := Cost(tls.CipherSuiteName(suite), 60, 150)
		long, errLong := Cost(tls.CipherSuiteName(suite), 60, 100_000)
		if err != nil || errLong != nil || short <= 0 || long < short {
			t.Errorf("%s: %v with 150 bytes, %v with 100,000: %v", tls.CipherSuiteName(suite), short, long, errors.Join(err, errLong))
		}
	}
	if _, err := Cost("TLS_RSA_WITH_AES_128_CBC_SHA", 60, 150); err == nil {
		t.Error("a cipher of TLS 1.2 has a cost")
	}
}

// TestTrustExpires: a certificate that was verified is not verified again, until its chain has expired.
func TestTrustExpires(t *testing.T) {
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	client := NewClient(Config{ServerName: "a.test", Roots: roots})
	state := tls.ConnectionState{}
	for _, der := range pair.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		state.PeerCertificates = append(state.PeerCertificates, one)
	}
	if err := client.check(state); err != nil || !client.until.Equal(state.PeerCertificates[0].NotAfter) {
		t.Fatalf("%v, until %v", err, client.until)
	}
	client.verify.Roots = x509.NewCertPool() // only a verification would fail now
	if err := client.check(state); err != nil {
		t.Error(err)
	}
	client.until = time.Now()
	if err := client.check(state); err == nil {
		t.Error("an expired chain is trusted")
	}
}
