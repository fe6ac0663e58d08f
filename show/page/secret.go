package page

import (
	"strings"

	"ceiling/internal/lazy"
	"ceiling/internal/secret"
)

// A report is made to be sent to others. What a record has in clear, because it
// was asked to keep it or is older than the hiding, is hidden here.

// redact hides the secrets of a target, of a server's command, or of a name made
// of them.
func redact(text string) string { return secret.Plain().Shell(text) }

// secretPath tells an entry whose value is secret as a whole.
func secretPath(path string) bool {
	_, name, ok := strings.Cut(path, ".header.")
	return ok && secret.InName(name) || isBody(path)
}

// isBody tells the entry of a request's body.
func isBody(path string) bool { return strings.HasSuffix(path, ".body") }

// open is an entry as a reader may see it; a secret that is hidden already has a
// digest, which stays.
func open(path, value string) string {
	switch {
	case isBody(path):
		size, _, clear := strings.Cut(value, clearBody)
		if clear {
			return size + ", " + secret.Word
		}
		return value
	case secretPath(path):
		if !secret.IsHidden(value) {
			return secret.Word
		}
		return value
	}
	return redact(value)
}

// commandLine is a command as it was typed, quoted for a shell, without its
// secrets.
func commandLine(words []string) string {
	var out []string
	for _, w := range secret.Plain().Command(words) {
		out = append(out, quoted(w))
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
