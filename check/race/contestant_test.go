package race

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestConfigurations: what a contestant can do is configured, and what it cannot do is said.
func TestConfigurations(t *testing.T) {
	for _, k := range Contestants() {
		for want, s := range map[string]Setup{"/tmp/race/site": {Workers: 1, Case: Case{Files: true}}, "/tmp/race/": {Workers: 1, Case: Case{TLS: true, Forward: true}}} {
			s = s.canonical()
			c, err := k.render(&s)
			if can := s.Files && k.files || s.TLS && k.tls; can != (err == nil) {
				t.Errorf("%s: %+v: %v", k.Name, s, err)
			} else if can && (!strings.Contains(c.Text+c.Command, want) || !strings.HasPrefix(c.Command, "exec ") && !strings.Contains(c.Command, " exec ")) {
				t.Errorf("%s: no %s in %s\n%s", k.Name, want, c.Command, c.Text)
			}
			if text := c.Text; s.TLS && err == nil && !strings.Contains(text, "/cert.pem") && !strings.Contains(text, "/pair.pem") {
				t.Errorf("%s: no certificate in %s", k.Name, text)
			}
		}
	}
}

// TestBareHasNoFieldsAndNoLog: what a bare configuration lacks is that, and nothing
// else.
func TestBareHasNoFieldsAndNoLog(t *testing.T) {
	for _, k := range Contestants() {
		full, bare := Setup{Workers: 2, Case: Case{Forward: true}}.canonical(), Setup{Workers: 2}.canonical()
		a, _ := k.render(&full)
		b, err := k.render(&bare)
		if err != nil {
			t.Fatal(k.Name, err)
		}
		text := b.Text + b.Command
		for _, word := range []string{"access.log", "X-Forwarded", "--forward"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: bare, and has %s", k.Name, word)
			}
		}
		if a.Text+a.Command == text {
			t.Errorf("%s: fields and log change nothing", k.Name)
		}
		if !strings.Contains(text, "2") || !strings.Contains(text, "127.0.0.1:9090") && !strings.Contains(text, "9090") {
			t.Errorf("%s: no workers or no backend in %s", k.Name, text)
		}
	}
}

func TestHash(t *testing.T) {
	e := func(name, version string) *Contestant {
		for _, k := range Contestants() {
			if k.Name == name {
				k.Version = version
				return &k
			}
		}
		t.Fatal(name)
		return nil
	}
	hash := func(e *Contestant, s Setup) string {
		_, h, err := e.Canonical(s)
		if err != nil || len(h) != hashDigits {
			t.Fatalf("%s: %q, %v", e.Name, h, err)
		}
		return h
	}
	base := hash(e(Nginx, "1"), Setup{Listen: "127.0.0.1:1", Backend: "127.0.0.1:2", Dir: "/tmp/x", Workers: 1})
	if got := hash(e(Nginx, "1"), Setup{Listen: "127.0.0.1:3", Backend: "127.0.0.1:4", Dir: "/tmp/y", Workers: 1}); got != base {
		t.Error("ports and directory change the hash")
	}
	rebuilt := *e(Nginx, "1")
	rebuilt.Binary = "2"
	others := []string{
		hash(e(Nginx, "2"), Setup{Workers: 1}),
		hash(e(Nginx, "1"), Setup{Workers: 2}),
		hash(e(Nginx, "1"), Setup{Workers: 1, Case: Case{Forward: true}}),
		hash(e(Nginx, "1"), Setup{Workers: 1, Case: Case{Files: true}}),
		hash(e(Ours, "1"), Setup{Workers: 1}),
		hash(e(Prefork, "1"), Setup{Workers: 1}),
		hash(&rebuilt, Setup{Workers: 1}),
	}
	if all := append(others, base); len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Errorf("two of %q are the same", all)
	}
}

// TestMissing: who is not installed is named with how to get it; who does not exist
// is refused.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", "/nowhere/bin")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list, err := find(t.Context(), &Config{Program: self, Version: "v"})
	if err != nil || len(list) != len(Contestants()) {
		t.Fatalf("%d, %v", len(list), err)
	}
	for _, e := range list {
		own := e.program == ""
		if own != (e.Missing == "") || !own && !strings.HasPrefix(e.Missing, "not installed: ") || own &&
			(e.Version == "" || len(e.Binary) != hashDigits) {
			t.Errorf("%+v", e)
		}
	}
	if _, err := find(t.Context(), &Config{Only: []string{"ngnix"}}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "nginx") {
		t.Errorf("%v", err)
	}
	if _, err := casesOf([]string{"17"}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "tls-handshakes") {
		t.Errorf("%v", err)
	}
}

// TestLook: sbin stands beside a bin of PATH.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sbin", "a-server")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	if got := look("a-server"); got != file {
		t.Errorf("%q", got)
	}
	if got := look("another"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestPatterns(t *testing.T) {
	said := map[string]string{
		Nginx:     "nginx version: nginx/1.22.1\n",
		"haproxy": "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\n",
		"h2o":     "h2o version 2.2.5\nOpenSSL: OpenSSL 3\n",
		"caddy":   "v2.11.7 h1:abc=\n",
		"envoy":   "/usr/bin/envoy  version: 9e5580/1.40.0/Clean/RELEASE/BoringSSL\n",
	}
	want := map[string]string{Nginx: "1.22.1", "haproxy": "2.6.12", "h2o": "2.2.5", "caddy": "2.11.7", "envoy": "1.40.0"}
	for _, k := range Contestants() {
		if k.version == "" {
			continue
		}
		if m := regexp.MustCompile(k.pattern).FindStringSubmatch(said[k.Name]); m == nil || m[1] != want[k.Name] {
			t.Errorf("%s: %q", k.Name, m)
		}
	}
}

// TestStamped: a Go program says what it was built from, another file nothing.
func TestStamped(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := stamped(exe, ""); got == "" || got == "unknown" {
		t.Errorf("of this program: %q", got)
	}
	if got := stamped(exe, "std"); got != runtime.Version() {
		t.Errorf("Go's: %q", got)
	}
	if got := stamped("contestant_test.go", ""); got != "unknown" {
		t.Errorf("of a text: %q", got)
	}
}
