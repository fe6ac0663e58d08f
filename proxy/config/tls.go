package config

import (
	"fmt"
	"net/url"
	"strings"
)

// TLS is what clients are offered in addition to plain HTTP.
type TLS struct {
	// Listen has "host:port" for TLS 1.2 and 1.3, with HTTP/2 and HTTP/1.1; empty means no TLS.
	Listen []string `toml:"listen"`
	// Redirect responds to plain requests with 308 and the same URL with https, at the first of these
	// ports.
	Redirect bool `toml:"redirect"`
	// Certificates are chosen by the name that a client requests; the first is for other names,
	// or none.
	Certificates []Certificate `toml:"certificates"`
	ACME         *ACME         `toml:"acme"`
	// ClientCA is a PEM file of the CAs that certificates of clients must be from; "" asks for none. It
	// is read at the start. nginx: ssl_client_certificate; Caddy: client_auth; Traefik: clientAuth.
	ClientCA string `toml:"client_ca"`
	// ClientOptional also admits clients that show no certificate. nginx: ssl_verify_client optional.
	ClientOptional bool `toml:"client_optional"`
	// ClientField is a field, such as X-Client-Subject, by which requests carry the subject of their
	// client's certificate, as in CN=alice,O=Example; a client cannot send it. nginx:
	// $ssl_client_s_dn.
	ClientField string `toml:"client_field"`
}

// Certificate is a pair of PEM files, reread when they change.
type Certificate struct {
	// PEM is the chain, the server's own certificate first.
	PEM string `toml:"pem"`
	Key string `toml:"key"` // its private key, not encrypted
}

// ACME obtains certificates from an authority (RFC 8555), by the challenges http-01 and
// tls-alpn-01.
type ACME struct {
	// Hosts to obtain certificates for; no wildcards.
	Hosts []string `toml:"hosts"`
	// Directory of the authority; "" is Let's Encrypt's.
	Directory string `toml:"directory"`
	// Cache is a directory for keys and certificates.
	Cache string `toml:"cache"`
	// Email is the contact address for the authority; "" gives none.
	Email string `toml:"email"`
	// Roots is a PEM file of the CAs for the directory's own certificate; "" means the system's.
	Roots string `toml:"roots"`
}

// tls checks the TLS configuration.
func (k *checker) tls(c *Config, at *places) {
	t := &c.TLS
	for i, a := range t.Listen {
		if err := CheckListener(a); err != nil {
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
	if t.ClientCA == "" && (t.ClientOptional || t.ClientField != "") {
		k.add(at, "tls", "tls: client_optional and client_field have no use without client_ca")
	}
	if t.ClientField != "" && !token(t.ClientField) {
		k.add(at, "tls.client_field", "client_field: invalid field name %q", t.ClientField)
	}
	if t.ClientCA != "" {
		if _, _, err := ReadCAs(t.ClientCA); err != nil {
			k.add(at, "tls.client_ca", "client_ca: %v", err)
		}
	}
}

func (k *checker) acme(a *ACME, at *places) {
	if len(a.Hosts) == 0 {
		k.add(at, "tls.acme", "acme: hosts are needed")
	}
	for i, h := range a.Hosts {
		if CheckHost(h) != nil || strings.ContainsAny(h, "*:") || !strings.Contains(strings.Trim(h, "."), ".") {
			k.add(at, fmt.Sprintf("tls.acme.hosts.%d", i), "acme: hosts: an authority cannot look up %q; wildcards are not possible",
				h)
		}
	}
	if a.Cache == "" {
		k.add(at, "tls.acme", "acme: cache is required, a directory that outlives the process: authorities limit how often certificates are issued")
	}
	if u, err := url.Parse(a.Directory); a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		k.add(at, "tls.acme.directory", "acme: directory: invalid https:// URI %q", a.Directory)
	}
}

// OpenLocation is the ID of the location that answers an authority: it is reached in plain, even
// if Redirect sends all other requests to https.
const OpenLocation = "acme-challenge"
