package secret

import (
	"net/url"
	"slices"
	"strings"
)

// secretWords are words in names whose value grants access: of header fields (RFC 9110 section
// 11, RFC 6265, and common practice), query parameters, variables and flags.
func secretWords() []string {
	return []string{
		"authorization", "authentication", "auth", "oauth", "bearer", "jwt", "token", "secret", "secrets", "password", "passwd", "passphrase",
		"pwd", "pass",
		"key", "apikey", "cookie", "session", "sid", "sig", "signature", "hmac", "credential", "credentials", "creds", "csrf", "xsrf",
		"assertion", "otp",
	}
}

// secretEnds are endings of compound words: PGPASSWORD, authtoken.
func secretEnds() []string {
	return []string{"token", "secret", "password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey", "cookie",
		"credential", "credentials", "sessionid", "sessid", "authorization"}
}

// harmlessLast are last words of names about a secret rather than for one: --token-file,
// token_type, key_size.
func harmlessLast() []string {
	return []string{"file", "path", "dir", "type", "size", "length", "count", "ttl", "expires", "algorithm"}
}

// isName reports whether a name's value is secret.
func isName(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	words := wordsOf(name)
	if len(words) == 0 || len(words) > 1 && slices.Contains(harmlessLast(), words[len(words)-1]) {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool {
		w = strings.TrimRight(w, "0123456789") // oauth2, password1
		return slices.Contains(secretWords(), w) || slices.ContainsFunc(secretEnds(), func(end string) bool { return strings.HasSuffix(w, end) })
	})
}

// wordsOf splits a name at non-alphanumeric characters, and between a small and a capital letter:
// X-Auth-Token, accessToken.
func wordsOf(name string) []string {
	var words []string
	var word []byte
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	for i, c := range []byte(name) {
		large := 'A' <= c && c <= 'Z'
		if !large && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			end()
			continue
		}
		if large && i > 0 && 'a' <= name[i-1] && name[i-1] <= 'z' {
			end()
		}
		word = append(word, c)
	}
	end()
	return words
}
