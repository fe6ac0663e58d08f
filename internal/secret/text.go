package secret

import (
	"strings"

	"ceiling/internal/lazy"
)

// kind of a text: what it may contain, and where a value ends.
type kind int

const (
	address  kind = iota // a URL and nothing else
	sentence             // prose, possibly with URLs
	command              // a shell command, or a word of a command line
)

// The patterns. An already redacted value matches again and stays.
var (
	// userinfo of a URL (RFC 3986 section 3.2.1), up to the last @ before the path.
	userinfo      = lazy.Regexp(`://([^/?#\s]+)@`)
	userinfoAlone = lazy.Regexp(`://([^/?#]+)@`)
	// login is user:password@ without a scheme, as in database addresses.
	loginAlone = lazy.Regexp(`^([^/?#@\s]+:[^/?#]+)@`)
	login      = lazy.Regexp(`(?:^|[\s'"=])[^\s/:@'"=?&]+:([^\s/@'"]+)@`)
	// parameter of a query, or of a URL percent-encoded within another.
	parameter = lazy.Regexp(`(?:[?&;#]|%3[fF]|%26|%23)([^=&;#?%\s]+|[^=&;#?%\s]*(?:%(?:[4-7][0-9a-fA-F]|2[dD]|5[fF])[^=&;#?%\s]*)+)(?:=|%3[dD])`)
	// assignment of a variable, or of a flag.
	assignment = lazy.Regexp(`(?:^|[\s'"(,{\[])-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)=`)
	// flag with its value after a blank.
	flag = lazy.Regexp(`(?:^|[\s'"])--?([A-Za-z][A-Za-z0-9_-]*)\s+`)
	// field of a header or of JSON after a quotation mark.
	field = lazy.Regexp(`(["'])([A-Za-z][A-Za-z0-9_-]*)["']?\s*:\s*`)
	// fieldFlag is a header field after its flag, without a quotation mark.
	fieldFlag = lazy.Regexp(`(?:^|\s)(?:-H\s*|--header[=\s])\s*([A-Za-z0-9_-]+):\s*`)
	// user is curl's user:password.
	user = lazy.Regexp(`(?:^|\s)(?:-u|--user)[\s=]+["']?([^\s:"']+:[^\s"']+)`)
	// scheme of credentials (RFC 9110 section 11.4) with the credentials.
	scheme = lazy.Regexp(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/:-]{8,}=*)`)
	// shape of recognisable tokens: JSON Web Tokens, and those of well-known services.
	shape = lazy.Regexp(`\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|sk[-_](?:live_|test_|proj-)?[A-Za-z0-9]{16,})`)
)

// patterns redacts what a text of this kind may contain.
func (h *Hider) patterns(text string, k kind) string {
	if text == "" || IsHidden(text) {
		return text
	}
	switch k {
	case address:
		text = h.groups(text, userinfoAlone().FindAllStringSubmatchIndex(text, -1), 1)
		text = h.groups(text, loginAlone().FindAllStringSubmatchIndex(text, -1), 1)
	default:
		text = h.groups(text, userinfo().FindAllStringSubmatchIndex(text, -1), 1)
	}
	if k == command {
		text = h.groups(text, login().FindAllStringSubmatchIndex(text, -1), 1)
	}
	text = h.named(text, parameter().FindAllStringSubmatchIndex, 1, func(rest, _ string) (int, int) { return parameterEnd(rest, k) })
	if k != address {
		text = h.named(text, assignment().FindAllStringSubmatchIndex, 1, func(rest, _ string) (int, int) { return wordEnd(rest) })
		text = h.named(text, field().FindAllStringSubmatchIndex, 2, fieldEnd)
		text = h.groups(text, scheme().FindAllStringSubmatchIndex(text, -1), 1)
	}
	if k == command {
		text = h.groups(text, user().FindAllStringSubmatchIndex(text, -1), 1)
		text = h.named(text, flag().FindAllStringSubmatchIndex, 1, flagEnd)
		text = h.named(text, fieldFlag().FindAllStringSubmatchIndex, 1, func(rest, _ string) (int, int) { return wordEnd(rest) })
	}
	return h.groups(text, shape().FindAllStringSubmatchIndex(text, -1), 1)
}

// groups redacts a group of each match.
func (h *Hider) groups(text string, matches [][]int, group int) string {
	var b strings.Builder
	done := 0
	for _, m := range matches {
		from, to := m[2*group], m[2*group+1]
		b.WriteString(text[done:from])
		b.WriteString(h.Value(text[from:to]))
		done = to
	}
	return b.String() + text[done:]
}

// named redacts the values after secret names. find matches everything up to the value, with the
// name in a group; ends returns where the value starts and ends in the text after the match.
func (h *Hider) named(text string, find func(string, int) [][]int, group int, ends func(rest, match string) (from, to int)) string {
	var b strings.Builder
	done := 0
	for _, m := range find(text, -1) {
		if m[1] < done || !isName(text[m[2*group]:m[2*group+1]]) {
			continue
		}
		from, to := ends(text[m[1]:], text[m[0]:m[1]])
		if from >= to {
			continue
		}
		b.WriteString(text[done : m[1]+from])
		b.WriteString(h.Value(text[m[1]+from : m[1]+to]))
		done = m[1] + to
	}
	return b.String() + text[done:]
}

// parameterEnd ends at the next parameter, and in prose before a closing character.
func parameterEnd(rest string, k kind) (int, int) {
	to := len(rest)
	if i := strings.IndexAny(rest, "&# \t\r\n"); i >= 0 {
		to = i
	}
	if i := strings.Index(rest[:to], "%26"); i >= 0 {
		to = i
	}
	if k != address {
		to = len(strings.TrimRight(rest[:to], `'")]},.;:>`))
	}
	return 0, to
}

// wordEnd ends at a blank, or at the quotation mark that opened the value.
func wordEnd(rest string) (int, int) {
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		if i := strings.IndexByte(rest[1:], rest[0]); i >= 0 {
			return 1, 1 + i
		}
	}
	to := len(rest)
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		to = i
	}
	return 0, len(strings.TrimRight(rest[:to], `'")]},;`))
}

// flagEnd is wordEnd for a flag's value, unless that is another flag.
func flagEnd(rest, _ string) (int, int) {
	if strings.HasPrefix(rest, "-") {
		return 0, 0
	}
	return wordEnd(rest)
}

// fieldEnd ends at the quotation mark that opened the field, or its value, as in JSON.
func fieldEnd(rest, match string) (int, int) {
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		return wordEnd(rest)
	}
	if i := strings.IndexByte(rest, match[0]); i >= 0 && !strings.ContainsAny(match[1:], `"'`) {
		return 0, i
	}
	return wordEnd(rest)
}
