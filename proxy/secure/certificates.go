package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ceiling/proxy/config"
)

// lookAgain is the shortest interval between checks of the files.
const lookAgain = time.Second

// certificates are read from files, and reread when these change.
type certificates struct {
	report func(string)
	mu     sync.Mutex
	list   []*pair
	looked time.Time
	looks  bool // a check is in progress
}

// pair is a certificate with its key.
type pair struct {
	files  config.Certificate
	stamp  string // of the files read last, successfully or not
	loaded *tls.Certificate
}

func newCertificates(files []config.Certificate, report func(string)) (*certificates, error) {
	c := &certificates{report: report, looked: time.Now()}
	for _, f := range files {
		p := &pair{files: f}
		if _, err := p.read(&c.mu); err != nil {
			return nil, err
		}
		c.list = append(c.list, p)
	}
	return c, nil
}

// read reads the files if they have changed; mu guards the loaded certificate. An error keeps the
// old one.
func (p *pair) read(mu *sync.Mutex) (changed bool, err error) {
	stamp, err := stampOf(p.files.PEM, p.files.Key)
	if err != nil {
		return false, fmt.Errorf("tls: certificate: %w", err)
	}
	if stamp == p.stamp {
		return false, nil
	}
	p.stamp = stamp
	loaded, err := tls.LoadX509KeyPair(p.files.PEM, p.files.Key)
	if err != nil {
		return true, fmt.Errorf("tls: certificate %s with key %s: %w", p.files.PEM, p.files.Key, err)
	}
	mu.Lock()
	defer mu.Unlock()
	p.loaded = &loaded
	return true, nil
}

// stampOf changes when the files do. A file renamed into place also has another inode, but time
// and size suffice: a renewal does not keep the time.
func stampOf(names ...string) (stamp string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
	}
	return stamp, nil
}

var errNoCertificate = errors.New("no certificate for this name")

// get chooses the first certificate that suits the client; the first of all if none does, and the
// client then judges its name.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookAgain && !c.looks {
		c.looked, c.looks = now, true
		go c.look() // the disk may be slow, and a loop waits for this
	}
	for _, p := range c.list {
		if hello.SupportsCertificate(p.loaded) == nil {
			return p.loaded, nil
		}
	}
	if len(c.list) == 0 {
		return nil, errNoCertificate
	}
	return c.list[0].loaded, nil
}

// look rereads what has changed, for the next handshakes.
func (c *certificates) look() {
	for _, p := range c.list {
		if changed, err := p.read(&c.mu); err != nil && changed {
			c.report("the old certificate stays: " + err.Error()) // half of a renewal: the other half follows
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = false
}

// certificate serves crypto/tls: from the authority for its names, else from files.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.authority.has(hello.ServerName) {
		return s.authority.certificate(hello)
	}
	return s.current.Load().certificates.get(hello)
}
