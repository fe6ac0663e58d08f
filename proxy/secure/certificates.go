package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ceiling/proxy/config"

	"golang.org/x/crypto/acme"
)

// lookAgain is the shortest interval between checks of the files.
const lookAgain = time.Second

// Certificates are read from files, and reread when these change.
type Certificates struct {
	report func(string)
	mu     sync.Mutex
	list   []*pair
	hosts  map[string]*pair // what a Keeper obtains: files of its cache
	cache  string
	looked time.Time
	looks  bool // a check is in progress
}

// pair is a certificate with its key.
type pair struct {
	files  config.Certificate
	stamp  [2]syscall.Stat_t // of the files read last, successfully or not
	loaded *tls.Certificate
}

// Load reads the certificates of a configuration. Those of ACME may be obtained later.
func Load(c *config.TLS, report func(string)) (*Certificates, error) {
	all := &Certificates{report: report, looked: time.Now(), hosts: map[string]*pair{}}
	for _, f := range c.Certificates {
		p := &pair{files: f}
		if _, err := p.read(report); err != nil {
			return nil, err
		}
		all.list = append(all.list, p)
	}
	if c.ACME != nil {
		all.cache = c.ACME.Cache
		for _, h := range c.ACME.Hosts {
			file := filepath.Join(all.cache, plainName(h))
			all.hosts[plainName(h)] = &pair{files: config.Certificate{PEM: file, Key: file}}
		}
	}
	return all, nil
}

// plainName is a host as the cache's files are named (autocert.go).
func plainName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// read reads the files if they have changed. An error keeps the old certificate.
func (p *pair) read(report func(string)) (changed bool, err error) {
	stamp, err := stampOf([2]string{p.files.PEM, p.files.Key})
	if err != nil {
		return false, fmt.Errorf("tls: certificate: %w", err)
	}
	if stamp == p.stamp {
		return false, nil
	}
	p.stamp = stamp
	loaded, err := config.LoadCertificate(p.files)
	if err != nil {
		return true, fmt.Errorf("tls: %w", err)
	}
	if why := config.Invalid(loaded.Leaf, time.Now()); why != "" {
		report(fmt.Sprintf("tls: certificate %s %s", p.files.PEM, why))
	}
	p.loaded = &loaded
	return true, nil
}

// stampOf changes when the files do, even if a copy keeps their times.
func stampOf(names [2]string) (stamp [2]syscall.Stat_t, err error) {
	for i, name := range names {
		if err := syscall.Stat(name, &stamp[i]); err != nil {
			return stamp, &os.PathError{Op: "stat", Path: name, Err: err}
		}
		stamp[i].Atim = syscall.Timespec{} // reading them sets it
	}
	return stamp, nil
}

// ErrNoCertificate fails the handshake of a client that asks for another name, or too early.
var ErrNoCertificate = errors.New("no certificate for this name")

// Get chooses a certificate for the client. The files of the chosen one are read again if they have
// changed: no client gets the old one after a renewal.
func (c *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := plainName(hello.ServerName)
	if p := c.hosts[host]; p != nil {
		return c.obtained(p, host, hello)
	}
	if len(c.list) == 0 {
		return nil, ErrNoCertificate
	}
	if now := time.Now(); now.Sub(c.looked) >= lookAgain && !c.looks {
		c.looked, c.looks = now, true
		go c.look() // another one may suit the client by now
	}
	p := c.choose(hello)
	if c.refresh(p) {
		p = c.choose(hello) // the names may be others
	}
	return p.loaded, nil
}

// obtained returns a host's certificate from the authority, or to an authority the one that answers
// its challenge (RFC 8737).
func (c *Certificates) obtained(p *pair, host string, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		file := filepath.Join(c.cache, host+"+token") // as autocert names it
		token, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoCertificate, err)
		}
		return &token, nil
	}
	if c.refresh(p); p.loaded == nil {
		return nil, ErrNoCertificate
	}
	return p.loaded, nil
}

// choose returns the first certificate that suits the client; the first of all if none does, and the
// client then judges its name.
func (c *Certificates) choose(hello *tls.ClientHelloInfo) *pair {
	for _, p := range c.list {
		if hello.SupportsCertificate(p.loaded) == nil {
			return p
		}
	}
	return c.list[0]
}

// refresh reads a certificate again if its files have changed.
func (c *Certificates) refresh(p *pair) (changed bool) {
	changed, err := p.read(c.report)
	if err != nil && changed {
		c.report("the old certificate stays: " + err.Error()) // half of a renewal: the other half follows
	}
	return changed
}

// look refreshes all. Between two, handshakes go on.
func (c *Certificates) look() {
	for _, p := range c.list {
		c.mu.Lock()
		c.refresh(p)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = false
}
