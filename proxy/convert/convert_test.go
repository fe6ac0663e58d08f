package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"ceiling/internal/golden"
	"ceiling/proxy/config"
)

// TestConvert: what is written can be read, but for files that are not here, and every line that is
// not translated is named.
func TestConvert(t *testing.T) {
	for _, name := range []string{"mastodon.conf", "various.conf", "sonarr.conf", "Caddyfile"} {
		t.Run(name, func(t *testing.T) {
			r, err := File(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			golden.Text(t, filepath.Join("testdata", name+".toml"), r.TOML)
			_, err = config.Parse("x.toml", []byte(r.TOML))
			if err == nil {
				return
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.Contains(line, "no such file") && !strings.Contains(line, "it has no users") &&
					!strings.Contains(r.TOML, "add [[tls.certificates]]") {
					t.Error(line)
				}
			}
		})
	}
}

func TestConvertErrors(t *testing.T) {
	for text, want := range map[string]string{
		"server {\n listen 80;\n":       "x.conf:3: a { is not closed",
		"}\n":                           "x.conf:1: a } without its {",
		"server { root \"/srv;\n}":      "x.conf:2: a quote is not closed",
		strings.Repeat("a {", 40):       "nested more than",
		"include x.conf;\n":             "",
		"server { listen nonsense::; }": "",
		"":                              "",
	} {
		name := filepath.Join(t.TempDir(), "x.conf")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := File(name)
		switch {
		case want == "" && (err != nil || text != "" && len(r.Left) == 0):
			t.Errorf("%q: %+v %v", text, r, err)
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want) && !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, name := range []string{"mastodon.conf", "various.conf", "sonarr.conf", "Caddyfile"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "include") {
			return // no file of this machine
		}
		text = bytes.ToValidUTF8(text, []byte("?"))
		for _, of := range []func(string, []byte) (*Result, error){nginx, caddyfile} {
			r, err := of("x", text)
			if err != nil {
				continue
			}
			// Whatever it is, what is written is TOML.
			var any map[string]any
			if err := toml.Unmarshal([]byte(r.TOML), &any); err != nil {
				t.Errorf("%q: %v\n%s", text, err, r.TOML)
			}
		}
	})
}

// TestImportsEndSoon: what includes itself, and twice, ends.
func TestImportsEndSoon(t *testing.T) {
	for name, text := range map[string]string{
		"Caddyfile": "(a) {\n import b\n import b\n}\n(b) {\n import a\n import a\n}\nhttp://x {\n import a\n}\n",
		"x.conf":    "include x.conf;\ninclude x.conf;\n",
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := File(file); err != nil || len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, "each other") {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}
