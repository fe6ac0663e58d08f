package bus

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Token is what an agent needs to join a test bed, and to authenticate its controller. Its holder
// may become an agent of that test bed, and no more: it cannot seal commands. With an
// organisation's own cluster, which has its own credentials, Authority and Secret are zero.
type Token struct {
	Bed       string
	Authority [32]byte          // SHA-256 of the controller's CA certificate, DER
	Key       ed25519.PublicKey // verifies commands
	Secret    [32]byte          // what an agent logs in with
}

const (
	tokenPrefix  = "ceiling-"
	tokenVersion = 1
	tokenFixed   = 2 + 32 + ed25519.PublicKeySize + 32 + tokenSum // without the bed's name
	tokenSum     = 8                                              // bytes of SHA-256 at the end
	maxToken     = 512                                            // characters; the longest real one has 196
)

// Own reports whether the token is for an organisation's own cluster.
func (t Token) Own() bool { return t.Authority == [32]byte{} && t.Secret == [32]byte{} }

// String returns the form for a file or a variable: base64url, with a checksum by which ParseToken
// distinguishes a truncated paste from a wrong token.
func (t Token) String() string {
	b := append([]byte{tokenVersion, byte(len(t.Bed))}, t.Bed...)
	b = append(b, t.Authority[:]...)
	b = append(b, t.Key...)
	b = append(b, t.Secret[:]...)
	sum := sha256.Sum256(b)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, sum[:tokenSum]...))
}

// ParseToken parses what String returns, ignoring surrounding white space. Its errors are
// ErrTokenMalformed and never contain the token.
func ParseToken(s string) (Token, error) {
	t, err := parseToken(s)
	if err != nil {
		return Token{}, &worded{err.Error(), []error{ErrTokenMalformed, err}}
	}
	return t, nil
}

func parseToken(s string) (Token, error) {
	var t Token
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, tokenPrefix)
	switch {
	case s == "":
		return t, errors.New("the token is empty: copy it from the controller")
	case !ok && strings.HasPrefix(tokenPrefix, s):
		return t, errors.New("the token is cut off: copy it again from the controller")
	case !ok:
		return t, fmt.Errorf("the token does not begin with %q: copy it from the controller", tokenPrefix)
	case len(s) > maxToken:
		return t, fmt.Errorf("the token has %d characters, %d at most are one", len(s), maxToken)
	}
	if i := strings.IndexFunc(rest, func(r rune) bool { return !isBase64(r) }); i >= 0 {
		return t, fmt.Errorf("the token has a character at %d that none has: copy it again from the controller", len(tokenPrefix)+i+1)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil { // a length or last character that whole bytes cannot have
		return t, errors.New("the token is cut off or changed: copy it again from the controller")
	}
	return decodeToken(b)
}

func isBase64(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

func decodeToken(b []byte) (Token, error) {
	var t Token
	if len(b) > 0 && b[0] != tokenVersion {
		return t, fmt.Errorf("the token is of version %d, this ceiling knows %d: use the same ceiling on every machine", b[0], tokenVersion)
	}
	if len(b) < 2 || len(b) < tokenFixed+int(b[1]) {
		return t, errors.New("the token is cut off: copy it again from the controller")
	}
	if extra := len(b) - tokenFixed - int(b[1]); extra > 0 {
		return t, errors.New("something follows the token: copy it again from the controller, and nothing else")
	}
	body, sum := b[:len(b)-tokenSum], sha256.Sum256(b[:len(b)-tokenSum])
	if subtle.ConstantTimeCompare(b[len(body):], sum[:tokenSum]) != 1 {
		return t, errors.New("the token has a wrong character: copy it again from the controller")
	}
	t.Bed, body = string(body[2:2+int(b[1])]), body[2+int(b[1]):]
	body = body[copy(t.Authority[:], body):]
	t.Key, body = ed25519.PublicKey(append([]byte(nil), body[:ed25519.PublicKeySize]...)), body[ed25519.PublicKeySize:]
	copy(t.Secret[:], body)
	if err := CheckBed(t.Bed); err != nil {
		return Token{}, fmt.Errorf("the token: %w", err)
	}
	return t, nil
}
