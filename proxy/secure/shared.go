package secure

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"

	"ceiling/proxy/config"
)

// With prefork the parent alone asks the authority. Its cache on the disk is where
// the children find certificates, and what answers a challenge by tls-alpn-01; one by
// http-01 is answered at the parent's socket, whose name they have from their
// environment.

// challengeEnv names the socket of the parent.
const challengeEnv = "CEILING_PROXY_CHALLENGE"

// shared reads what an autocert.DirCache holds: for each name a file with the key and
// the chain in PEM (autocert.go, cachePut).
type shared struct {
	dir   string
	mu    sync.Mutex
	known map[string]*sharedPair
}

type sharedPair struct {
	stamp  string
	looked time.Time
	loaded *tls.Certificate
}

// get is the certificate of a name, or that which answers a challenge for it.
func (s *shared) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	challenged := slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto})
	if challenged {
		name += "+token"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.known[name]
	if p == nil {
		p = new(sharedPair)
		s.known[name] = p
	}
	if now := time.Now(); challenged || p.loaded == nil || now.Sub(p.looked) >= lookAgain {
		p.looked = now
		if err := p.read(filepath.Join(s.dir, name)); err != nil && (challenged || p.loaded == nil) {
			return nil, fmt.Errorf("%w: %w", errNoCertificate, err)
		}
	}
	return p.loaded, nil
}

func (p *sharedPair) read(file string) error {
	stamp, err := stampOf(file)
	if err != nil || stamp == p.stamp {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	loaded, err := tls.X509KeyPair(text, text)
	if err != nil {
		return err // it is being written: the next look finds it whole
	}
	p.stamp, p.loaded = stamp, &loaded
	return nil
}

// Keeper is the parent's part: it gets certificates and renews them.
type Keeper struct {
	authority *authority
	tasks     sync.WaitGroup
}

// NewKeeper is for the parent of a Prefork; without ACME it does nothing.
func NewKeeper(c *config.Config, report func(string)) (*Keeper, error) {
	if c.TLS.ACME == nil {
		return &Keeper{}, nil
	}
	a, err := newAuthority(c.TLS.ACME, report)
	return &Keeper{authority: a}, err
}

// Environment is what the children are told.
func (k *Keeper) Environment() []string {
	if k.authority == nil {
		return nil
	}
	return []string{challengeEnv + "=" + k.authority.socket}
}

// Reload goes on with other hosts. Whatever else changes the children refuse.
func (k *Keeper) Reload(c *config.Config) {
	if c.TLS.ACME != nil {
		k.authority.become(c.TLS.ACME)
	}
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.authority.run(ctx, &k.tasks)
	<-ctx.Done()
	err := k.authority.close()
	k.tasks.Wait()
	return err
}
