package page

import (
	"strings"

	"ceiling/internal/secret"
	"ceiling/internal/text"
)

// Reports are meant to be shared. A record may hold clear-text secrets, because the user asked
// for it or because it is older than redaction; they are redacted here.

// redact redacts the secrets in a target, in a server's command, or in a name derived from them.
func redact(text string) string { return secret.Plain().Shell(text) }

// secretPath reports whether an entry's whole value is secret.
func secretPath(path string) bool {
	_, name, ok := strings.Cut(path, ".header.")
	return ok && secret.InName(name) || isBody(path)
}

// isBody reports whether an entry is a request body.
func isBody(path string) bool { return strings.HasSuffix(path, ".body") }

// open returns an entry redacted for display; a secret redacted earlier keeps its digest.
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

// commandLine returns a command as typed, quoted for a shell, without its secrets.
func commandLine(words []string) string { return text.Shell(secret.Plain().Command(words)) }
