package page

import (
	"strings"

	"ceiling/internal/lazy"
)

// A report is made to be sent to others, so what lets a client in is not shown:
// passwords in URLs, and header fields that carry credentials. What else is
// secret in a path, a query or a body is not known here, and is shown.

// hidden stands in the place of a secret.
const hidden = "(hidden)"

// secretNames are the fields that carry credentials: RFC 9110 section 11, RFC
// 6265, and what services use besides.
const secretNames = `proxy-authorization|authorization|cookie|x-api-key|api-key|x-auth-token|x-access-token|x-csrf-token|x-amz-security-token`

var (
	secretName  = lazy.Regexp(`(?i)^(` + secretNames + `)$`)
	secretField = lazy.Regexp(`(?is)((?:^-H|^|[^a-z-])(?:` + secretNames + `)\s*:).*`)
	password    = lazy.Regexp(`(://[^/?#@:\s]*):[^/?#@\s]*@`)
)

// redact hides the password of every URL in a text.
func redact(text string) string { return password().ReplaceAllString(text, "$1:"+hidden+"@") }

// secretPath tells an entry whose value is a credential.
func secretPath(path string) bool {
	_, name, ok := strings.Cut(path, ".header.")
	return ok && secretName().MatchString(name)
}

// commandLine is a command as it was typed, quoted for a shell, without its
// secrets.
func commandLine(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, quoted(secretField().ReplaceAllString(redact(w), "$1 "+hidden)))
	}
	return strings.Join(out, " ")
}

var bare = lazy.Regexp(`^[A-Za-z0-9_./:=,@%+-]+$`)

func quoted(word string) string {
	if bare().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
