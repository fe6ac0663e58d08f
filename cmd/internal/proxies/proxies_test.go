package proxies

import (
	"slices"
	"strings"
	"testing"
)

// TestWithVerb: a file or a URI alone is served; a verb and a flag are what they are.
func TestWithVerb(t *testing.T) {
	for line, want := range map[string]string{
		"site.toml": "proxy site.toml", "/etc/site": "proxy /etc/site", "http://h:30 --listen :80": "proxy http://h:30 --listen :80",
		"proxy site.toml": "proxy site.toml", "check site.toml": "check site.toml", "--help": "--help", "": "", "nosuch": "nosuch",
	} {
		if got := withVerb(strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
