// Package secret is the only place that decides what is a secret, and redacts it. A secret is
// exactly what redaction changes, so redaction and warnings always agree.
//
// A redacted value is the word "hidden" with a short keyed digest, as in hidden-3f2a91bc04d7:
// under one key the same value gives the same word, so runs can still be compared, and without
// the key a guess cannot be verified. Redaction is idempotent.
//
// Anything that does not look like a secret stays: one in a path, or in a field or parameter with
// a harmless name.
package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ceiling/internal/lazy"
)

// Word replaces a secret, alone or followed by a digest.
const Word = "hidden"

const (
	// digestBytes of HMAC-SHA-256: among a million values two collide with a probability of 1 in
	// 560.
	digestBytes = 6
	// knownLeast is the length from which a redacted value is redacted wherever else it occurs:
	// shorter ones occur by chance.
	knownLeast = 6
	// knownMost limits the length of such a value.
	knownMost = 8 << 10
)

// Hider redacts secrets. The zero value and nil use the word alone. It is safe for concurrent
// use.
type Hider struct {
	key func() []byte

	mu    sync.Mutex
	known []string // redacted so far, longest first
}

// New returns a Hider whose digests use a key, which is fetched once, on first use.
func New(key func() []byte) *Hider { return &Hider{key: sync.OnceValue(key)} }

// Plain redacts with the word alone: for displaying a record, which itself shows what is equal.
func Plain() *Hider { return nil }

// IsHidden reports whether a value is redacted.
func IsHidden(value string) bool {
	digest, keyed := strings.CutPrefix(value, Word+"-")
	if !keyed {
		return value == Word
	}
	if len(digest) != 2*digestBytes {
		return false
	}
	return strings.Trim(digest, "0123456789abcdef") == ""
}

// Value redacts a whole value, unless empty.
func (h *Hider) Value(value string) string {
	if value == "" || IsHidden(value) {
		return value
	}
	h.remember(value)
	return h.word(value)
}

// word returns the replacement of a value.
func (h *Hider) word(value string) string {
	if h == nil || h.key == nil {
		return Word
	}
	mac := hmac.New(sha256.New, h.key())
	mac.Write([]byte(value))
	return Word + "-" + hex.EncodeToString(mac.Sum(nil)[:digestBytes])
}

// Body returns the replacement of a request's body, whose size is given separately.
func (h *Hider) Body(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return h.Value(string(body))
}

// Field redacts the value of a header field: all of it if the name is secret.
func (h *Hider) Field(name, value string) string {
	if !isName(name) {
		return h.shell(value)
	}
	h.rememberParts(value)
	return h.Value(value)
}

// FieldLine redacts the value of a field written as "Name: value".
func (h *Hider) FieldLine(line string) string {
	name, value, found := strings.Cut(line, ":")
	if !found {
		return h.shell(line)
	}
	blank := value[:len(value)-len(strings.TrimLeft(value, " \t"))]
	return name + ":" + blank + h.Field(strings.TrimSpace(name), value[len(blank):])
}

// Variable redacts the value of NAME=value.
func (h *Hider) Variable(text string) string {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return h.shell(text)
	}
	if isName(name) {
		return name + "=" + h.Value(value)
	}
	return name + "=" + h.shell(value)
}

// Variables redacts the values of a list of NAME=value.
func (h *Hider) Variables(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = h.Variable(list[i])
	}
	return list
}

// remember stores a value, to be found in later texts.
func (h *Hider) remember(value string) {
	if h == nil || h.key == nil || len(value) < knownLeast || len(value) > knownMost || IsHidden(value) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.known, value) {
		return
	}
	at, _ := slices.BinarySearchFunc(h.known, len(value), func(k string, n int) int { return n - len(k) })
	h.known = slices.Insert(h.known, at, value)
}

// rememberParts stores the parts of a field that a server may echo: a token without its scheme,
// the password of Basic (RFC 7617), each cookie.
func (h *Hider) rememberParts(value string) {
	if scheme, rest, found := strings.Cut(value, " "); found && !strings.Contains(scheme, "=") {
		rest = strings.TrimSpace(rest)
		h.remember(rest)
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			h.remember(password)
		}
	}
	for part := range strings.SplitSeq(value, ";") {
		if _, cookie, found := strings.Cut(part, "="); found {
			h.remember(strings.TrimSpace(cookie))
		}
	}
}

// repeated redacts known secrets wherever they occur, literally or percent-encoded.
func (h *Hider) repeated(text string) string {
	if h == nil {
		return text
	}
	h.mu.Lock()
	known := h.known[:len(h.known):len(h.known)]
	h.mu.Unlock()
	for _, k := range known {
		text = outside(text, k, h.word(k))
		if encoded := url.QueryEscape(k); encoded != k {
			text = outside(text, encoded, h.word(k))
		}
	}
	return text
}

var marker = lazy.Regexp(`hidden-[0-9a-f]{12}`)

// outside replaces a value except inside earlier replacements.
func outside(text, value, by string) string {
	if !strings.Contains(text, value) {
		return text
	}
	var b strings.Builder
	done := 0
	for _, m := range marker().FindAllStringIndex(text, -1) {
		b.WriteString(strings.ReplaceAll(text[done:m[0]], value, by))
		b.WriteString(text[m[0]:m[1]])
		done = m[1]
	}
	return b.String() + strings.ReplaceAll(text[done:], value, by)
}

// Text redacts the secrets of a sentence: in its URLs and assignments, after "Bearer" and
// "Basic", and known secrets.
func (h *Hider) Text(text string) string {
	return h.repeated(h.patterns(h.repeated(text), sentence))
}

// URL redacts a URL's user and password, and the parameters of its query and fragment with secret
// names.
func (h *Hider) URL(text string) string { return h.patterns(text, address) }

// Shell redacts the secrets of a shell command.
func (h *Hider) Shell(text string) string { return h.shell(text) }

func (h *Hider) shell(text string) string { return h.patterns(text, command) }

// Detection: a text contains a secret if redaction would change it.

// InName reports whether a name's value is always secret.
func InName(name string) bool { return isName(name) }

// InURL, InField, InVariable and InShell report whether there is a secret.
func InURL(text string) bool          { return Plain().URL(text) != text }
func InField(name, value string) bool { return Plain().Field(name, value) != value }
func InVariable(text string) bool     { return Plain().Variable(text) != text }
func InShell(text string) bool        { return Plain().Shell(text) != text }

// InCommand returns the words of a command line that contain a secret, redacted: "Authorization:
// hidden".
func InCommand(words []string) []string {
	var list []string
	for i, shown := range Plain().Command(words) {
		if shown != words[i] {
			list = append(list, shown)
		}
	}
	return list
}
