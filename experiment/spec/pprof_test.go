package spec

import (
	"slices"
	"strings"
	"testing"

	"ceiling/internal/secret"
)

func TestPprofURLs(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "off": nil,
		"127.0.0.1:6060":                    {"http://127.0.0.1:6060/debug/pprof/"},
		"http://h:1/":                       {"http://h:1/debug/pprof/"},
		"http://h:1/mine/pprof":             {"http://h:1/mine/pprof"},
		"127.0.0.1:1, http://h:2/x,[::1]:3": {"http://127.0.0.1:1/debug/pprof/", "http://h:2/x", "http://[::1]:3/debug/pprof/"},
	} {
		if got := PprofURLs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if err := checkPprof("127.0.0.1:1,ftp://x"); err == nil || !strings.Contains(err.Error(), "unknown scheme") {
		t.Errorf("%v", err)
	}
	if err := checkPprof(strings.Repeat("h:1,", 300) + "h:1"); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%v", err)
	}
	s := Spec{Common: Common{Pprof: "h:1,http://me:hunter22@h:2/"}}
	if shown := s.Concealed(secret.Plain()).Pprof; strings.Contains(shown, "hunter22") || !strings.HasPrefix(shown, "h:1,") {
		t.Errorf("shown as %q", shown)
	}
}
