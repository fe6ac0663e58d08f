package interop

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
	"ceiling/measure/load"
)

func TestMain(m *testing.M) { leak.Main(m) }

// site is where one server listens and what it is made from.
type site struct {
	dir   string
	ports [places]int
	tools string
	roots *x509.CertPool
	// count is how many requests the server has logged.
	count func() uint64
}

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *site) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s *site) numbers() (list []string) {
	for _, p := range s.ports {
		list = append(list, strconv.Itoa(p))
	}
	return list
}

func (s *site) address(place int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports[place]))
}

const (
	smallBytes = 6
	largeBytes = 100_000
)

// newSite makes the files of one and holds its ports.
func newSite(t *testing.T, tools string) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), tools: tools, roots: x509.NewCertPool()}
	ca, err := authority.New("of a test")
	if err != nil {
		t.Fatal(err)
	}
	s.roots.AppendCertsFromPEM(ca.PEM())
	pair, err := ca.Issue(authority.Leaf{Names: []string{"localhost", "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "site"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	s.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	s.write(t, "site/small", "hello\n")
	s.write(t, "site/large", strings.Repeat("x", largeBytes))
	s.write(t, "log", "")
	for i := range s.ports {
		s.ports[i] = int(netip.MustParseAddrPort(porttest.Free(t, "127.0.0.1")).Port())
	}
	s.count = func() uint64 { return uint64(strings.Count(s.read(t, "log"), "\n")) }
	return s
}

// start runs the server until the test ends.
func (k *server) start(t *testing.T, s *site) {
	t.Helper()
	if k.program == "" {
		serveNetHTTP(t, s)
		return
	}
	program := filepath.Join(s.tools, k.program)
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath(k.program); err != nil {
			program = "/usr/sbin/" + k.program // which is not in everybody's PATH
		}
	}
	c := exec.Command(program, k.setup(t, s)...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "HOME="+s.dir, "PYTHONPATH="+filepath.Join(s.tools, "python"), "PYTHONDONTWRITEBYTECODE=1")
	var said bytes.Buffer
	c.Stderr = &said
	if k.name == "haproxy" { // has no file of its own
		out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		c.Stdout = out
	}
	if err := c.Start(); err != nil {
		t.Fatalf("%s: .ci/deps installs it: %v", k.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it has ended where this fails
		select {
		case <-ended:
		case <-time.After(3 * time.Second): // it waits for connections
			_ = c.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s says: %s", k.name, said.String())
		}
	})
	s.listens(t, ended)
}

// listens waits until all ports are open.
func (s *site) listens(t *testing.T, ended chan error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for place := range places {
		for {
			conn, err := net.Dial("tcp4", s.address(place))
			if err == nil {
				conn.Close()
				break
			}
			select {
			case end := <-ended:
				ended <- end
				t.Fatalf("it ended: %v", end)
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("port %d stays closed: %v", s.ports[place], err)
			}
		}
	}
}

// serveNetHTTP has Go's own server, whose handler counts.
func serveNetHTTP(t *testing.T, s *site) {
	t.Helper()
	var count atomic.Uint64
	s.count = count.Load
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for place := range places {
		ln, err := net.Listen("tcp4", s.address(place))
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: netHTTP(s, func() { count.Add(1) }), Protocols: new(http.Protocols)}
		h.Protocols.SetHTTP1(true)
		h.Protocols.SetHTTP2(true)
		h.Protocols.SetUnencryptedHTTP2(true)
		serve := h.Serve
		if place >= tls13 {
			h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
			if place == tls12 {
				h.TLSConfig.MinVersion, h.TLSConfig.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			}
			serve = func(ln net.Listener) error { return h.ServeTLS(ln, "", "") }
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = serve(ln) // until it is closed
		}()
		t.Cleanup(func() {
			_ = h.Close()
			<-done
		})
	}
}

// quiet is an Observer that looks at nothing.
type quiet struct{}

func (quiet) Connected(int, int, time.Time) {}
func (quiet) Window(bool, time.Time)        {}
func (quiet) Interval(*load.Tally, bool)    {}

const bodyBytes = 20_000

// mix has what differs for the framing of an answer: a length, a long body, no body
// whatever the length, an error, and a request with a body of its own.
func mix(host string) []load.Request {
	head := " HTTP/1.1\r\nHost: " + host + "\r\n"
	return []load.Request{
		{Bytes: []byte("GET /small" + head + "\r\n"), Weight: 4},
		{Bytes: []byte("GET /large" + head + "\r\n"), Weight: 1},
		{Bytes: []byte("HEAD /large" + head + "\r\n"), NoBody: true, Weight: 1},
		{Bytes: []byte("GET /missing" + head + "\r\n"), Weight: 1},
		{Bytes: fmt.Appendf(nil, "POST /small%sContent-Length: %d\r\n\r\n%s", head, bodyBytes, strings.Repeat("b", bodyBytes)), Weight: 1},
	}
}

// statuses by target of mix.
func (k *server) statuses() []int { return []int{200, 200, 200, 404, k.post} }

// shape is how a server is loaded.
type shape struct {
	name   string
	engine string
	change func(c *load.Config)
}

func shapes(n uint64) []shape {
	return []shape{
		{"one at a time", ring.Uring, func(c *load.Config) { c.Requests = n }},
		{"pipelined", ring.Uring, func(c *load.Config) { c.Requests, c.Pipelining = n, 8 }},
		{"pipelined", ring.Epoll, func(c *load.Config) { c.Requests, c.Pipelining = n, 8 }},
		{"new connections", ring.Uring, func(c *load.Config) { c.Requests, c.NewConnections = n/10, 1 }},
		{"for a time", ring.Uring, func(c *load.Config) { c.Duration = 100 * time.Millisecond }},
	}
}

// multiplexed are the shapes of HTTP/2: a request has a stream of its own.
func multiplexed(n uint64) []shape {
	over := func(change func(c *load.Config)) func(c *load.Config) {
		return func(c *load.Config) {
			if c.Protocol = load.HTTP2; c.TLS != nil {
				c.TLS.Protocols = []string{"h2"}
			}
			change(c)
		}
	}
	return []shape{
		{"one at a time", ring.Uring, over(func(c *load.Config) { c.Requests = n / 2 })},
		{"streams", ring.Uring, over(func(c *load.Config) { c.Requests, c.Pipelining = n, 20 })},
		{"streams", ring.Epoll, over(func(c *load.Config) { c.Requests, c.Pipelining = n, 20 })},
		{"new connections", ring.Uring, over(func(c *load.Config) { c.Requests, c.NewConnections = n/20, 1 })},
		{"for a time", ring.Uring, over(func(c *load.Config) { c.Duration, c.Pipelining = 100*time.Millisecond, 8 })},
	}
}

// TestCounts holds the engine's counts against each server's own.
func TestCounts(t *testing.T) {
	needs.Program(t, "nginx", "haproxy", "h2o", "caddy", "node", "javac", "python3")
	tools := fetched(t)
	for _, k := range servers() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tools)
			k.start(t, s)
			for place, name := range map[int]string{plain: "plain", tls13: "TLS 1.3", tls12: "TLS 1.2"} {
				if place == tls12 && k.any12 {
					continue
				}
				for _, shape := range shapes(k.requests) {
					t.Run(name+"/"+shape.name+"/"+shape.engine, func(t *testing.T) { k.counted(t, s, place, shape) })
				}
			}
			for place, name := range map[int]string{h2c: "HTTP 2", tls13: "HTTP 2 over TLS 1.3", tls12: "HTTP 2 over TLS 1.2"} {
				if place == tls12 && k.any12 {
					continue
				}
				for _, shape := range multiplexed(k.requests) {
					t.Run(name+"/"+shape.name+"/"+shape.engine, func(t *testing.T) { k.counted(t, s, place, shape) })
				}
			}
		})
	}
}

// counted does one run and compares.
func (k *server) counted(t *testing.T, s *site, place int, shape shape) {
	address, err := netip.ParseAddrPort(s.address(place))
	if err != nil {
		t.Fatal(err)
	}
	c := load.Config{
		To: load.To(ring.TCPAddr(address)), Mix: mix(address.String()), Connections: 8, Threads: 2, Pipelining: 1,
		Timeout: 10 * time.Second, Engine: shape.engine, Seed: 1,
	}
	version := uint16(0)
	switch place {
	case tls13:
		version = tls.VersionTLS13
	case tls12:
		version = tls.VersionTLS12
	}
	if version != 0 {
		c.TLS = &tlsconn.Config{ServerName: "localhost", Roots: s.roots, Protocols: []string{"http/1.1"}}
	}
	shape.change(&c)
	loses := answersAll
	if k.pipelined != nil && c.Pipelining > 1 && c.Protocol == load.HTTP1 {
		loses = k.pipelined(place)
	}
	if loses == stalls {
		c.Requests, c.Timeout = 100, 50*time.Millisecond
	}
	before := s.count()
	r, err := load.Run(context.Background(), c, quiet{})
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, r, before)
	n := &r.Total
	if n.Sent != n.Completed+n.Failed+n.InFlight || c.Requests > 0 && (n.Sent != c.Requests || n.InFlight != 0) {
		t.Errorf("sent %d of %d, completed %d, failed %d, in flight %d", n.Sent, c.Requests, n.Completed, n.Failed, n.InFlight)
	}
	if (n.Failed > 0) != (loses != answersAll) || n.Failed == 0 && len(n.Faults)+len(r.Setup) != 0 {
		t.Errorf("failed %d of %d: %v, %v", n.Failed, n.Sent, n.Faults, r.Setup)
	}
	for i, want := range k.statuses() {
		if b := &n.ByTarget[i]; b.Completed == 0 && loses == answersAll && n.Completed >= 100 || uint64(b.Statuses[want]) != b.Completed {
			t.Errorf("request %d: %v of %d completed, want %d", i, b.Statuses, b.Completed, want)
		}
	}
	protocol := map[load.Protocol]string{load.HTTP1: "http/1.1", load.HTTP2: "h2"}[c.Protocol]
	if version != 0 && (r.Handshakes.Agreed.Version != version || r.Handshakes.Agreed.Protocol != protocol) {
		t.Errorf("agreed %+v, want version %x and %s", r.Handshakes.Agreed, version, protocol)
	}
}

// compare holds a result against the server's count since before.
func (s *site) compare(t *testing.T, r *load.Result, before uint64) {
	t.Helper()
	n := &r.Total
	// A server logs a request once it has answered. Those without an answer it may
	// never have read, and those that were sent again it may have read twice.
	var logged uint64
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if logged = s.count() - before; logged >= n.Completed {
			break
		}
	}
	if n.Completed < n.Sent { // those lines may come late: the next run must not be given them
		for same := 0; same < 5; time.Sleep(100 * time.Millisecond) {
			last := logged
			if logged = s.count() - before; logged != last {
				same = 0
			}
			same++
		}
	}
	most := n.Sent
	if n.Failed > 0 {
		most += n.Resent
	}
	if logged < n.Completed || logged > most {
		t.Errorf("the server has logged %d requests; sent %d, completed %d, sent again %d", logged, n.Sent, n.Completed, n.Resent)
	}
}

// fetched has tools.sh fetch what is missing.
func fetched(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "./tools.sh")
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tools.sh: %v %s", err, said.String())
	}
	return strings.TrimSpace(string(out))
}
