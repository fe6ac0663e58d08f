package server

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// preforkTLSEnv is set in the environment of a child with TLS, whose identity then comes first on
// the life pipe: a key does not belong in an environment.
const preforkTLSEnv = "CEILING_PREFORK_TLS"

// identityMost limits it, in bytes; a pipe holds 64 KiB (pipe(7)).
const identityMost = 60 << 10

// identity is the TLS state shared by the processes of a prefork server: the certificate, and the
// session ticket key, so that each can resume another's sessions.
type identity struct {
	Chain     [][]byte `json:"chain"`
	Key       []byte   `json:"key"` // PKCS #8
	Protocols []string `json:"protocols"`
	Tickets   [32]byte `json:"tickets"`
}

// identityOf encodes it for a child, with a length prefix; nil without TLS.
func identityOf(c *tls.Config) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	if len(c.Certificates) != 1 {
		return nil, fmt.Errorf("prefork with TLS: %d certificates, it takes one", len(c.Certificates))
	}
	i := identity{Chain: c.Certificates[0].Certificate, Protocols: c.NextProtos}
	_, _ = rand.Read(i.Tickets[:]) // cannot fail
	var err error
	if i.Key, err = x509.MarshalPKCS8PrivateKey(c.Certificates[0].PrivateKey); err != nil {
		return nil, fmt.Errorf("prefork with TLS: %w", err)
	}
	b, err := json.Marshal(i)
	if err == nil && len(b) > identityMost {
		err = errors.New("prefork with TLS: the certificate is too large")
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), err
}

// readIdentity decodes it in the child.
func readIdentity(r io.Reader) (*tls.Config, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("prefork child: TLS: %w", err)
	}
	b := make([]byte, min(binary.BigEndian.Uint32(size[:]), identityMost))
	_, err := io.ReadFull(r, b)
	var i identity
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil {
		return nil, fmt.Errorf("prefork child: TLS: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(i.Key)
	if err != nil {
		return nil, fmt.Errorf("prefork child: TLS: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{{Certificate: i.Chain, PrivateKey: key}}, NextProtos: i.Protocols}
	c.SetSessionTicketKeys([][32]byte{i.Tickets})
	return c, nil
}
