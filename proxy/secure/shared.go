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

// With prefork, only the parent talks to the authority. Its cache on disk is where the children
// find certificates, and the answers to tls-alpn-01 challenges; http-01 challenges are answered
// at the parent's socket, whose name is in the children's environment.

// challengeEnv is the environment variable with the parent's socket.
const challengeEnv = "CEILING_PROXY_CHALLENGE"

// shared reads what an autocert.DirCache holds: per name, a file with the key and the chain in
// PEM (autocert.go, cachePut).
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

// get returns a name's certificate, or the one that answers a challenge for it.
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
		return err // it is being written: the next check finds it complete
	}
	p.stamp, p.loaded = stamp, &loaded
	return nil
}

// Keeper is the parent's part: it obtains and renews certificates.
type Keeper struct {
	authority *authority
	tasks     sync.WaitGroup
}

// NewKeeper makes a Keeper for the parent of a Prefork; without ACME it does nothing.
func NewKeeper(c *config.Config, report func(string)) (*Keeper, error) {
	if c.TLS.ACME == nil {
		return &Keeper{}, nil
	}
	a, err := newAuthority(c.TLS.ACME, report)
	return &Keeper{authority: a}, err
}

// Environment is added to the children's.
func (k *Keeper) Environment() []string {
	if k.authority == nil {
		return nil
	}
	return []string{challengeEnv + "=" + k.authority.socket}
}

// Reload switches to other hosts. The children refuse any other change.
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
