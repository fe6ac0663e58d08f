package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"ceiling/proxy/config"
)

// CertManager obtains certificates by ACME, renews them, and answers the authority's challenges. Its cache
// on disk is where Certificates finds both the certificates and the answers to tls-alpn-01; http-01
// arrives at the proxy's plain address like any request, whose location has a socket of the Keeper as
// its destination. So several processes can serve what one Keeper obtains.
type CertManager struct {
	manager *autocert.Manager
	hosts   atomic.Pointer[[]string]
	report  func(string)
	again   chan struct{} // hosts have changed
	socket  string
	server  *http.Server
	ln      net.Listener
}

// NewKeeper makes a Keeper, which does nothing before Run.
func NewKeeper(c *config.ACME, report func(string)) (*CertManager, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	if c.Roots != "" {
		pool, _, err := config.ReadCAs(c.Roots)
		if err != nil {
			return nil, fmt.Errorf("acme: roots: %w", err)
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Proxy: http.ProxyFromEnvironment}
	}
	if err := os.MkdirAll(c.Cache, 0o700); err != nil {
		return nil, fmt.Errorf("acme: cache: %w", err)
	}
	k := &CertManager{report: report, again: make(chan struct{}, 1)}
	k.hosts.Store(&c.Hosts)
	k.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(c.Cache), Email: c.Email,
		Client: &acme.Client{DirectoryURL: cmp.Or(c.Directory, autocert.DefaultACMEDirectory), HTTPClient: client, UserAgent: "ceiling"},
		HostPolicy: func(_ context.Context, host string) error {
			if name, _, err := net.SplitHostPort(host); err == nil { // of a challenge to a port other than 80
				host = name
			}
			if !k.has(host) {
				return fmt.Errorf("acme: %q is not among the hosts", host)
			}
			return nil
		},
	}
	dir, err := os.MkdirTemp("", "ceiling-acme-") // accessible to this user only
	if err != nil {
		return nil, err
	}
	k.socket = filepath.Join(dir, "challenge")
	if k.ln, err = net.Listen("unix", k.socket); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	k.server = &http.Server{
		Handler:           k.manager.HTTPHandler(http.NotFoundHandler()),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	return k, nil
}

// Socket is the destination of http-01 challenges.
func (k *CertManager) Socket() string { return k.socket }

// Region returns the location for challenges, with a Keeper's socket as its destination.
func Region(socket string) config.Region {
	return config.Region{ID: config.OpenLocation, Locations: []config.Location{{
		ID: config.OpenLocation, Paths: []string{"/.well-known/acme-challenge"}, Priority: math.MaxInt,
		Balance: "round_robin", Key: "client", Retry: &config.Retry{Attempts: new(0), Budget: 0.2},
		Destinations: []config.Destination{{ID: config.OpenLocation, URI: "unix:" + socket, Weight: new(1)}},
	}}}
}

func (k *CertManager) has(host string) bool {
	return slices.ContainsFunc(*k.hosts.Load(), func(h string) bool { return plainName(h) == plainName(host) })
}

// Become switches to other hosts.
func (k *CertManager) Become(hosts []string) {
	k.hosts.Store(&hosts)
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// Close frees a Keeper that will not run.
func (k *CertManager) Close() error {
	err := k.server.Close()
	if open := k.ln.Close(); !errors.Is(open, net.ErrClosed) { // a running server has closed it
		err = errors.Join(err, open)
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(k.socket)))
}

// Run works until ctx ends.
func (k *CertManager) Run(ctx context.Context) error {
	served := make(chan struct{})
	go func() { defer close(served); _ = k.server.Serve(k.ln) }() // it ends with Close
	go k.obtainAll(ctx)                                           // not waited for: nothing cancels a request, which may take minutes
	<-ctx.Done()
	err := k.Close()
	<-served
	return err
}

// retryLeast is the first wait after a failure: autocert answers with that failure for a minute
// (createCertRetryAfter).
const retryLeast = time.Minute + time.Second

// obtainAll obtains the certificates before a client needs them, and tries again what fails.
func (k *CertManager) obtainAll(ctx context.Context) {
	wait := time.Duration(0)
	for {
		if k.obtain() {
			wait = time.Hour * 24 * 365 // autocert renews
		} else {
			wait = min(max(2*wait, retryLeast), time.Hour)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.again:
			wait = 0
		case <-time.After(wait):
		}
	}
}

// obtain gets the missing certificates; false if one is still missing.
func (k *CertManager) obtain() bool {
	all := true
	for _, host := range *k.hosts.Load() {
		if _, err := k.manager.GetCertificate(modern(host)); err != nil {
			all = false
			k.report(fmt.Sprintf("acme: %s: %v", host, err))
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
