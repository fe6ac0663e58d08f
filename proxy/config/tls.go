package config

import (
	"fmt"
	"net/url"
	"strings"
)

// TLS is what clients are offered besides plain HTTP.
type TLS struct {
	// Listen are "host:port", as Config.Listen; none has no TLS.
	Listen []string `toml:"listen"`
	// Redirect answers plain requests with 308 and the same place under https.
	Redirect bool `toml:"redirect"`
	// Certificates are chosen by the name that a client asks for; the first is for
	// who asks for another, or none.
	Certificates []Certificate `toml:"certificates"`
	ACME         *ACME         `toml:"acme"`
}

// Certificate is a pair of PEM files, read again when they change.
type Certificate struct {
	// PEM is the chain, the server's own certificate first.
	PEM string `toml:"pem"`
	Key string `toml:"key"`
}

// ACME gets certificates from an authority (RFC 8555), by the challenges http-01
// and tls-alpn-01.
type ACME struct {
	// Hosts to get certificates for.
	Hosts []string `toml:"hosts"`
	// Directory of the authority; "" is Let's Encrypt's.
	Directory string `toml:"directory"`
	// Cache is a directory for keys and certificates.
	Cache string `toml:"cache"`
	// Email that the authority may write to; "" gives none.
	Email string `toml:"email"`
	// Roots is a PEM file of who vouches for the directory's own certificate; "" is
	// the system's.
	Roots string `toml:"roots"`
}

// tls checks what clients are offered.
func (k *checker) tls(c *Config, at *places) {
	t := &c.TLS
	for i, a := range t.Listen {
		if err := CheckAddress(a); err != nil {
			k.add(at, fmt.Sprintf("tls.listen.%d", i), "tls.listen: %v", err)
		}
	}
	for i, p := range t.Certificates {
		if p.PEM == "" || p.Key == "" {
			k.add(at, fmt.Sprintf("tls.certificates.%d", i), "tls.certificates: pem and key are needed, each a file")
		}
	}
	switch {
	case len(t.Listen) == 0 && (t.Redirect || t.ACME != nil || len(t.Certificates) > 0):
		k.add(at, "tls", "tls: listen is needed, such as [\":443\"]")
	case len(t.Listen) > 0 && t.ACME == nil && len(t.Certificates) == 0:
		k.add(at, "tls.listen", "tls: certificates or acme are needed")
	}
	if t.ACME != nil {
		k.acme(t.ACME, at)
	}
}

func (k *checker) acme(a *ACME, at *places) {
	if len(a.Hosts) == 0 {
		k.add(at, "tls.acme", "acme: hosts are needed")
	}
	for i, h := range a.Hosts {
		if CheckHost(h) != nil || strings.ContainsAny(h, "*:") || !strings.Contains(strings.Trim(h, "."), ".") {
			k.add(at, fmt.Sprintf("tls.acme.hosts.%d", i), "acme: hosts: %q is no name that an authority could look up; wildcards are not possible",
				h)
		}
	}
	if a.Cache == "" {
		k.add(at, "tls.acme", "acme: cache is needed, a directory that outlives the process: authorities limit how often they are asked")
	}
	if u, err := url.Parse(a.Directory); a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		k.add(at, "tls.acme.directory", "acme: directory: %q is no https:// URI", a.Directory)
	}
}

// OpenLocation is the ID of the location that answers an authority: it is asked in
// the clear, also where Redirect sends everybody else to https.
const OpenLocation = "acme-challenge"
