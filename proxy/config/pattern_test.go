package config

import (
	"regexp"
	"strings"
	"testing"
)

// TestPatterns: what looks like another program's pattern is anchored, or rejected with what to write.
func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, takes, leaves string }{
		{"/api", "/api /api/x", "/apiary /x/api"},
		{"/api/*", "/api/ /api/x", "/api /apiary /public/apix /public/api/x"},
		{"/*", "/ /x", ""},
		{"/v[0-9]+", "/v1 /v22/x", "/v1x /public/v1 /v"},
		{"/v[0-9]+/", "/v1/ /v1/x", "/v1 /public/v1/"},
		{"/files/.*", "/files/ /files/a", "/files /x/files/a"},
		{"^/files/.*", "/files/a", "/x/files/a"},
		{"~ws", "/ws /x/aws", "/x"},
		{"=/api/*", "/api/*", "/api/x"},
		{`~^/users/[0-9]{2,3}$`, "/users/12", "/users/1"},
		{`~^/\p{Greek}+$`, "/λ", "/a"},
		{"/a(/.*)?$", "/a /a/b", "/ab"},
	} {
		if err := checkPath(c.pattern); err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		kind, text := PathKind(c.pattern)
		match := func(path string) bool {
			switch kind {
			case PathExact:
				return path == text
			case PathRegex:
				return regexp.MustCompile(text).MatchString(path)
			}
			return path == text || strings.HasPrefix(path, strings.TrimSuffix(text, "/")+"/") && strings.HasPrefix(path, text)
		}
		for _, path := range strings.Fields(c.takes) {
			if !match(path) {
				t.Errorf("%s does not take %s", c.pattern, path)
			}
		}
		for _, path := range strings.Fields(c.leaves) {
			if match(path) {
				t.Errorf("%s takes %s", c.pattern, path)
			}
		}
	}
	for pattern, write := range map[string]string{
		"/users/{id}":      `write "~^/users/[^/]+$"`,
		"/users/{id}/edit": `write "~^/users/[^/]+/edit$"`,
		"/users/:id":       `write "~^/users/[^/]+$"`,
		"~^/users/{id}$":   `write "~^/users/[^/]+$"`,
		"/users/*/edit":    `write "~^/users/[^/]*/edit$"`,
		"/api/**":          `write "~^/api(/.*)?$"`,
		"*.php":            `write "~^[^/]*\\.php$"`,
		`\.php$`:           `write "~\\.php$"`,
		"/search?q=1":      `write queries = { q = "1" }`,
		"/caf%C3%A9":       `write "/café"`,
		"/a//b":            `write "/a/b"`,
		"=/a/../b":         `write "=/b"`,
		"/a/./":            `write "/a/"`,
		"/admin;x":         `write "/admin"`,
		"api":              "does not begin with /",
		"":                 "does not begin with /",
		"~[":               "error parsing regexp",
	} {
		if err := checkPath(pattern); err == nil || !strings.Contains(err.Error(), write) {
			t.Errorf("%s: %v, want %s", pattern, err, write)
		}
	}
}

// TestHostsAndMethods: names as requests have them.
func TestHostsAndMethods(t *testing.T) {
	for host, want := range map[string]string{"bücher.example": "xn--bcher-kva.example", "*.BÜCHER.example:8080": "*.xn--bcher-kva.example:8080",
		"a.example.": "a.example", "*": "*", "[::1]:80": "[::1]:80", "例え.テスト": "xn--r8jz45g.xn--zckzah"} {
		if got := asciiHost(host); got != want || CheckHost(got) != nil {
			t.Errorf("%s: %q %v", host, got, CheckHost(got))
		}
	}
	if err := CheckHost(asciiHost("a_\u2028.example")); err == nil {
		t.Error("a name of no letters")
	}
	for method, want := range map[string]string{"GET": "", "PURGE": "", "get": `write "GET"`, "TRACE": "never", "G T": "invalid token", "purge": ""} {
		if err := checkMethod(method); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", method, err)
		}
	}
}
