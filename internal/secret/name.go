package secret

import (
	"net/url"
	"slices"
	"strings"
)

// secretWords are the words of a name whose value lets somebody in: of header
// fields (RFC 9110 section 11, RFC 6265, and what services use besides), of a
// query's parameters, of variables and of flags.
func secretWords() []string {
	return []string{
		"authorization", "authentication", "auth", "oauth", "bearer", "jwt", "token", "secret", "secrets", "password", "passwd", "passphrase",
		"pwd", "pass",
		"key", "apikey", "cookie", "session", "sid", "sig", "signature", "hmac", "credential", "credentials", "creds", "csrf", "xsrf",
		"assertion", "otp",
	}
}

// secretEnds are ends of words that are written together: PGPASSWORD, authtoken.
func secretEnds() []string {
	return []string{"token", "secret", "password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey", "cookie",
		"credential", "credentials", "sessionid", "sessid", "authorization"}
}

// harmlessLast are last words of names that tell something about a secret and
// not the secret: --token-file, token_type, key_size.
func harmlessLast() []string {
	return []string{"file", "path", "dir", "type", "size", "length", "count", "ttl", "expires", "algorithm"}
}

// isName tells a name whose value is secret.
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

// wordsOf parts a name at what is no letter or digit, and where a small letter
// is followed by a large one: X-Auth-Token, accessToken.
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
