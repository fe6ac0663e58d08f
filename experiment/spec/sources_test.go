package spec

import (
	"strings"
	"testing"
)

func TestParseSource(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.2": "10.0.0.2/32", "10.0.0.5/28": "10.0.0.0/28", "::1": "::1/128", "fd00::7/120": "fd00::/120",
		"::ffff:10.0.0.2": "10.0.0.2/32", "127.0.0.0/16": "127.0.0.0/16",
	} {
		if p, err := ParseSource(text); err != nil || p.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, p, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "is none", "eth0": "is none", "10.0.0.2:80": "is none", "10.0.0.0/33": "is none", "fe80::1%eth0": "is none",
		"10.0.0.0/8": "more than 65536", "fd00::/64": "more than 65536", "::ffff:10.0.0.0/120": "IPv4 in IPv6",
	} {
		if _, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
