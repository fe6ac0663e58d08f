package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
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
		if _, err := p.read(report); err != nil {
			return nil, err
		}
		c.list = append(c.list, p)
	}
	return c, nil
}

// read reads the files if they have changed. An error keeps the old certificate.
func (p *pair) read(report func(string)) (changed bool, err error) {
	stamp, err := stampOf(p.files.PEM, p.files.Key)
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
func stampOf(names ...string) (stamp string, err error) {
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil {
			return "", &os.PathError{Op: "stat", Path: name, Err: err}
		}
		stamp += fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim, " ")
	}
	return stamp, nil
}

var errNoCertificate = errors.New("no certificate for this name")

// get chooses a certificate for the client. The files of the chosen one are read again if they have
// changed: no client gets the old one after a renewal.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return nil, errNoCertificate
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

// choose returns the first certificate that suits the client; the first of all if none does, and the
// client then judges its name.
func (c *certificates) choose(hello *tls.ClientHelloInfo) *pair {
	for _, p := range c.list {
		if hello.SupportsCertificate(p.loaded) == nil {
			return p
		}
	}
	return c.list[0]
}

// refresh reads a certificate again if its files have changed.
func (c *certificates) refresh(p *pair) (changed bool) {
	changed, err := p.read(c.report)
	if err != nil && changed {
		c.report("the old certificate stays: " + err.Error()) // half of a renewal: the other half follows
	}
	return changed
}

// look refreshes all. Between two, handshakes go on.
func (c *certificates) look() {
	for _, p := range c.list {
		c.mu.Lock()
		c.refresh(p)
		c.mu.Unlock()
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
