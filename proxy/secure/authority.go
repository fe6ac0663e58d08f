package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"ceiling/proxy/config"
)

// authority obtains certificates by ACME. A nil authority does nothing.
//
// The challenge http-01 arrives at the proxy's plain address like any request: it has its own
// location, whose destination is a socket of this process.
type authority struct {
	manager *autocert.Manager
	asked   config.ACME
	hosts   atomic.Pointer[[]string]
	report  func(string)
	again   chan struct{} // hosts have changed
	shared  *shared       // replaces manager, server and ln: another process has these
	socket  string
	server  *http.Server
	ln      net.Listener
}

// newAuthority uses a certificate authority or, in a child of Prefork, reads what its parent
// obtained.
func newAuthority(c *config.ACME, report func(string)) (*authority, error) {
	if socket := os.Getenv(challengeEnv); socket != "" {
		a := &authority{asked: *c, report: report, again: make(chan struct{}, 1), socket: socket,
			shared: &shared{dir: c.Cache, known: map[string]*sharedPair{}}}
		a.hosts.Store(&c.Hosts)
		return a, nil
	}
	return ownAuthority(c, report)
}

func ownAuthority(c *config.ACME, report func(string)) (*authority, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	if c.Roots != "" {
		text, err := os.ReadFile(c.Roots)
		if err != nil {
			return nil, fmt.Errorf("acme: roots: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("acme: roots: %s has no certificate in PEM", c.Roots)
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Proxy: http.ProxyFromEnvironment}
	}
	if err := os.MkdirAll(c.Cache, 0o700); err != nil {
		return nil, fmt.Errorf("acme: cache: %w", err)
	}
	a := &authority{asked: *c, report: report, again: make(chan struct{}, 1)}
	a.hosts.Store(&c.Hosts)
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(c.Cache), Email: c.Email,
		Client: &acme.Client{DirectoryURL: firstOf(c.Directory, autocert.DefaultACMEDirectory), HTTPClient: client, UserAgent: "ceiling"},
		HostPolicy: func(_ context.Context, host string) error {
			if name, _, err := net.SplitHostPort(host); err == nil { // of a challenge to a port other than 80
				host = name
			}
			if !a.has(host) {
				return fmt.Errorf("acme: %q is not among the hosts", host)
			}
			return nil
		},
	}
	dir, err := os.MkdirTemp("", "ceiling-acme-") // accessible to this user only
	if err != nil {
		return nil, err
	}
	a.socket = filepath.Join(dir, "challenge")
	if a.ln, err = net.Listen("unix", a.socket); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	a.server = &http.Server{
		Handler:           a.manager.HTTPHandler(http.NotFoundHandler()),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	return a, nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// region returns the location for challenges.
func (a *authority) region() config.Region {
	none := 0
	return config.Region{ID: config.OpenLocation, Locations: []config.Location{{
		ID: config.OpenLocation, Paths: []string{"/.well-known/acme-challenge"}, Priority: math.MaxInt,
		Balance: "round_robin", Key: "client", Retry: &config.Retry{Attempts: &none, Budget: 0.2},
		Destinations: []config.Destination{{ID: config.OpenLocation, URI: "unix:" + a.socket, Weight: 1}},
	}}}
}

// has reports whether the certificates for a name come from the authority.
func (a *authority) has(name string) bool {
	if a == nil {
		return false
	}
	name = strings.TrimSuffix(name, ".")
	for _, h := range *a.hosts.Load() {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// certificate returns a name's certificate; a client neither waits for the authority longer than
// its handshake may take, nor keeps its place.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if a.shared != nil {
		return a.shared.get(hello)
	}
	type answer struct {
		certificate *tls.Certificate
		err         error
	}
	got := make(chan answer, 1)
	go func() {
		c, err := a.manager.GetCertificate(hello)
		got <- answer{c, err}
	}()
	select {
	case one := <-got:
		return one.certificate, one.err
	case <-hello.Context().Done():
		return nil, hello.Context().Err()
	}
}

// mayBecome checks whether a reload can switch to c. Only the hosts can change.
func (a *authority) mayBecome(c *config.ACME) error {
	switch {
	case a == nil && c == nil:
		return nil
	case a == nil || c == nil:
		return errors.New("reload: tls.acme appears or goes, which needs a new start")
	}
	old, next := a.asked, *c
	old.Hosts, next.Hosts = nil, nil
	if fmt.Sprint(old) != fmt.Sprint(next) {
		return errors.New("reload: tls.acme changes, which needs a new start; its hosts alone do not")
	}
	return nil
}

func (a *authority) become(c *config.ACME) {
	if a == nil {
		return
	}
	a.hosts.Store(&c.Hosts)
	select {
	case a.again <- struct{}{}:
	default:
	}
}

func (a *authority) close() error {
	if a == nil || a.shared != nil {
		return nil
	}
	err := a.server.Close()
	if open := a.ln.Close(); !errors.Is(open, net.ErrClosed) { // a running server has closed it
		err = errors.Join(err, open)
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(a.socket)))
}

// run answers challenges, and obtains the certificates before a client needs them: an authority
// may take longer than a handshake lasts.
func (a *authority) run(ctx context.Context, tasks *sync.WaitGroup) {
	if a == nil || a.shared != nil {
		return
	}
	tasks.Go(func() { _ = a.server.Serve(a.ln) }) // it ends with Close
	go func() {                                   // not waited for: a certificate request may take minutes, and nothing cancels it
		wait := time.Duration(0)
		for {
			if a.obtain() {
				wait = time.Hour * 24 * 365 // autocert renews
			} else {
				wait = min(max(2*wait, time.Minute), time.Hour)
			}
			select {
			case <-ctx.Done():
				return
			case <-a.again:
				wait = 0
			case <-time.After(wait):
			}
		}
	}()
}

// obtain gets the missing certificates; false if one is still missing.
func (a *authority) obtain() bool {
	all := true
	for _, host := range *a.hosts.Load() {
		if _, err := a.manager.GetCertificate(modern(host)); err != nil {
			all = false
			a.report(fmt.Sprintf("acme: %s: %v", host, err))
		}
	}
	return all
}

// modern is the ClientHello of a client that accepts an ECDSA key, as all current clients do.
func modern(host string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName: host, SupportedCurves: []tls.CurveID{tls.CurveP256},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		CipherSuites:     []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	}
}
