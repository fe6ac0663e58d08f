package spec

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Offer is a client's offer in a handshake, in crypto/tls's numbers; zero and nil are
// crypto/tls's defaults.
type Offer struct {
	// Min and Max version.
	Min, Max uint16
	// Suites of TLS 1.2.
	Suites []uint16
	// Groups of the key exchange, in crypto/tls's order of preference.
	Groups []tls.CurveID
}

// Offer returns the configured versions, ciphers and groups.
func (t *TLS) Offer() (Offer, error) {
	var o Offer
	switch t.Version {
	case "":
	case "1.2":
		o.Min, o.Max = tls.VersionTLS12, tls.VersionTLS12
	case "1.3":
		o.Min, o.Max = tls.VersionTLS13, tls.VersionTLS13
	default:
		return o, fmt.Errorf("--tls-version: %s is not supported; give 1.2 or 1.3", quoteShort(t.Version))
	}
	for name := range names(t.Ciphers) {
		id, err := suite(name)
		if err != nil {
			return o, err
		}
		o.Suites = append(o.Suites, id)
	}
	if len(o.Suites) > 0 {
		if t.Version == "1.3" {
			return o, errors.New("--ciphers: they are for TLS 1.2, and --tls-version is 1.3; remove one of them")
		}
		o.Min, o.Max = tls.VersionTLS12, tls.VersionTLS12 // they do not apply to 1.3
	}
	for name := range names(t.Curves) {
		i := slices.IndexFunc(groups(), func(g tls.CurveID) bool {
			return strings.EqualFold(g.String(), name) || curve(g) == strings.ToUpper(name)
		})
		if i < 0 {
			return o, fmt.Errorf("--curves: %s is not known here; there are %s", quoteShort(name), groupNames())
		}
		o.Groups = append(o.Groups, groups()[i])
	}
	return o, nil
}

// names splits at commas, or at colons as OpenSSL and curl do.
func names(text string) func(func(string) bool) {
	return strings.FieldsFuncSeq(text, func(c rune) bool { return c == ',' || c == ':' || c == ' ' })
}

// suite returns a TLS 1.2 cipher suite by its IANA or OpenSSL name.
func suite(name string) (uint16, error) {
	var known []string
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		is := strings.EqualFold(s.Name, name)
		if !slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			if is {
				return 0, fmt.Errorf("--ciphers: %s: the suites of TLS 1.3 cannot be chosen, Go's crypto/tls offers all three and the server takes one; remove it", name)
			}
			continue
		}
		if is || strings.EqualFold(openSSL(s.Name), name) {
			return s.ID, nil
		}
		if !s.Insecure {
			known = append(known, openSSL(s.Name))
		}
	}
	return 0, fmt.Errorf("--ciphers: %s is not supported; of TLS 1.2 there are %s, and older ones", quoteShort(name), strings.Join(known, ", "))
}

// openSSL returns the OpenSSL name of a TLS 1.2 suite's IANA name.
func openSSL(name string) string {
	name = strings.NewReplacer("TLS_RSA_WITH_", "", "TLS_", "", "_WITH", "", "AES_128", "AES128", "AES_256", "AES256", "3DES_EDE_CBC", "DES-CBC3").Replace(name)
	name = strings.NewReplacer("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305", "_CBC_", "_").Replace(name)
	return strings.ReplaceAll(name, "_", "-")
}

// groups returns the groups that crypto/tls can offer.
func groups() []tls.CurveID {
	return []tls.CurveID{
		tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521,
	}
}

// curve returns the common name of a group: P-256 for CurveP256.
func curve(g tls.CurveID) string { return strings.Replace(g.String(), "CurveP", "P-", 1) }

func groupNames() string {
	var list []string
	for _, g := range groups() {
		list = append(list, curve(g))
	}
	return strings.Join(list, ", ")
}
