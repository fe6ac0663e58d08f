// Package secret decides what lets a client in, and hides it: the only place
// that knows. What hiding changes is a secret, and nothing else is, so whoever
// hides and whoever warns agree.
//
// A hidden value is the word "hidden" with a short keyed digest, as in
// hidden-3f2a91bc04d7: under one key the same value gives the same word, so runs
// can still be compared, and without the key nobody can try out values. Hiding
// twice changes nothing.
//
// What has no sign of a secret stays: one in a path, or in a field or a
// parameter with a harmless name.
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

// Word stands in the place of a secret, alone or with a digest behind it.
const Word = "hidden"

const (
	// digestBytes of HMAC-SHA-256: among a million values two collide with a
	// chance of 1 in 560.
	digestBytes = 6
	// knownLeast is the length from which a value that was hidden is hidden
	// wherever else it occurs: shorter ones occur by chance.
	knownLeast = 6
	// knownMost bounds one that is looked for.
	knownMost = 8 << 10
)

// Hider hides secrets. The zero value and nil hide with the word alone. It may be
// used from several goroutines.
type Hider struct {
	key func() []byte

	mu    sync.Mutex
	known []string // that were hidden, the longest first
}

// New makes a Hider whose digests are under a key, which is asked for once, when
// it is first needed.
func New(key func() []byte) *Hider { return &Hider{key: sync.OnceValue(key)} }

// Plain hides with the word alone: for what is shown of a record, which says
// itself what is equal.
func Plain() *Hider { return nil }

// IsHidden tells a value that hiding has made.
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

// Value hides a whole value; an empty one is none.
func (h *Hider) Value(value string) string {
	if value == "" || IsHidden(value) {
		return value
	}
	h.remember(value)
	return h.word(value)
}

// word is what stands for a value.
func (h *Hider) word(value string) string {
	if h == nil || h.key == nil {
		return Word
	}
	mac := hmac.New(sha256.New, h.key())
	mac.Write([]byte(value))
	return Word + "-" + hex.EncodeToString(mac.Sum(nil)[:digestBytes])
}

// Body is what stands for a request's body, whose size is told beside it.
func (h *Hider) Body(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return h.Value(string(body))
}

// Field hides the value of a header field, whole where its name says that it is
// secret.
func (h *Hider) Field(name, value string) string {
	if !isName(name) {
		return h.shell(value)
	}
	h.rememberParts(value)
	return h.Value(value)
}

// FieldLine hides the value of a field written as "Name: value".
func (h *Hider) FieldLine(line string) string {
	name, value, found := strings.Cut(line, ":")
	if !found {
		return h.shell(line)
	}
	blank := value[:len(value)-len(strings.TrimLeft(value, " \t"))]
	return name + ":" + blank + h.Field(strings.TrimSpace(name), value[len(blank):])
}

// Variable hides the value of NAME=value.
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

// Variables hides the values of a list of NAME=value.
func (h *Hider) Variables(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = h.Variable(list[i])
	}
	return list
}

// remember keeps a value, to be found in texts.
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

// rememberParts keeps what a server may repeat of a field: a token without its
// scheme, the password of Basic (RFC 7617), each cookie.
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

// repeated hides what was hidden before wherever it occurs, as it is or
// percent-encoded.
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

// outside replaces a value except within what hiding has made.
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

// Text hides the secrets of a sentence: in its URLs and assignments, behind
// "Bearer" and "Basic", and what was hidden before.
func (h *Hider) Text(text string) string {
	return h.repeated(h.patterns(h.repeated(text), sentence))
}

// URL hides user and password of a URL, and the parameters of its query and its
// fragment whose names say that they are secret.
func (h *Hider) URL(text string) string { return h.patterns(text, address) }

// Shell hides the secrets of a command as a shell takes it.
func (h *Hider) Shell(text string) string { return h.shell(text) }

func (h *Hider) shell(text string) string { return h.patterns(text, command) }

// The detector: a text has a secret where hiding would change it.

// InName tells a name whose value is a secret, whatever it is.
func InName(name string) bool { return isName(name) }

// InURL, InField, InVariable and InShell tell whether there is a secret.
func InURL(text string) bool          { return Plain().URL(text) != text }
func InField(name, value string) bool { return Plain().Field(name, value) != value }
func InVariable(text string) bool     { return Plain().Variable(text) != text }
func InShell(text string) bool        { return Plain().Shell(text) != text }

// InCommand answers the words of a command line that have a secret, as they are
// shown: "Authorization: hidden".
func InCommand(words []string) []string {
	var list []string
	for i, shown := range Plain().Command(words) {
		if shown != words[i] {
			list = append(list, shown)
		}
	}
	return list
}
