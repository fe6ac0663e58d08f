package config

import (
	"testing"

	"ceiling/internal/golden"
	"ceiling/internal/reference"
)

// TestKeysAreDocumented: proxy/KEYS.md is generated from the comments of the structs.
func TestKeysAreDocumented(t *testing.T) {
	f, err := reference.Read("toml", map[string]string{
		"config.Duration": "text, as in 1m30s", "config.Settings": "RoadSign's settings file ([CONFIG.md](CONFIG.md#roadsigns-settings))",
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	f.Title("config.Config", "file")
	page, err := f.Page("# The keys of the proxy's configuration\n\nMade from the comments of the structs in `proxy/config`; "+
		"[CONFIG.md](CONFIG.md) says what\nthe keys do together. A key that is left out has its default.\n", reference.Part{Heading: "All keys", Roots: []string{"config.Config"}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "../KEYS.md", page)
}
