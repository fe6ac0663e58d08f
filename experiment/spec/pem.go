package spec

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
)

// checkPEM says what is wrong with a file of certificates or of a key, and the command that mends
// it. Whether a key belongs to a certificate is checked once both are read.
func checkPEM(flag, name string, text []byte) error {
	kinds, encrypted := blocks(text)
	ofKey := flag == "--key"
	is := func(kind string) bool { return slices.Contains(kinds, kind) }
	keys := slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	certificates := is("CERTIFICATE")
	wrong := func(what, mend string) error { return fmt.Errorf("%s: %s %s; %s", flag, name, what, mend) }
	switch {
	case len(kinds) == 0 && isDER(text):
		return wrong("is not in PEM", derCommand(ofKey, name, text))
	case ofKey && encrypted:
		return wrong("is encrypted", fmt.Sprintf("decrypt it: openssl pkey -in %s -out %s.plain, and give that", name, name))
	case ofKey && is("OPENSSH PRIVATE KEY"):
		return wrong("is a key in OpenSSH's form", fmt.Sprintf("convert a copy of it: ssh-keygen -p -m PEM -f %s", name))
	case ofKey && !keys && certificates:
		return wrong("has a certificate and no key", "give the file with the certificate's key; are --cert and --key swapped?")
	case flag == "--cert" && !certificates && keys:
		return wrong("has a key and no certificate", "give the file with the certificate; are --cert and --key swapped?")
	case flag == "--cacert" && !certificates && keys:
		return wrong("has a key and no certificate", "give the file with the authority's certificate")
	case !ofKey && !certificates && (is("CERTIFICATE REQUEST") || is("NEW CERTIFICATE REQUEST")):
		return wrong("has a request for a certificate", "give the certificate that the authority made of it")
	}
	return nil
}

// blocks lists the kinds of blocks in a PEM file, and whether one is an encrypted key (PKCS #8, or
// by its header, RFC 1421).
func blocks(text []byte) (kinds []string, encrypted bool) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return kinds, encrypted
		}
		kinds = append(kinds, b.Type)
		encrypted = encrypted || b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED")
	}
}

// isDER reports whether a file begins with an ASN.1 sequence of a length that fits it.
func isDER(text []byte) bool {
	return len(text) > 4 && text[0] == 0x30 && (text[1] >= 0x80 || int(text[1]) <= len(text)) && !bytes.Contains(text, []byte(pemBegin))
}

// derCommand is the command that converts a file to PEM. A PKCS #12 file begins with its version, 3.
func derCommand(ofKey bool, name string, text []byte) string {
	command := "x509 -inform der"
	switch body := text[min(2+max(int(text[1])-0x80, 0), len(text)):]; {
	case bytes.HasPrefix(body, []byte{2, 1, 3}):
		command = "pkcs12 -nodes"
	case ofKey:
		command = "pkey -inform der"
	}
	return fmt.Sprintf("convert it: openssl %s -in %s -out %s.pem, and give that", command, name, name)
}
