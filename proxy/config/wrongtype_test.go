package config

import (
	"strings"
	"testing"

	"ceiling/internal/golden"
	"ceiling/internal/reference"
)

// TestWrongTypes: what is said of a value of the wrong kind names its line, its key
// and what is wanted, and no type of Go.
func TestWrongTypes(t *testing.T) {
	for text, want := range map[string]string{
		`listen = "a"`:                           `f:1: listen: a list of texts, ["…"], is wanted, not a string`,
		`workers = "x"`:                          "f:1: workers: a whole number is wanted, not a string",
		`via = 3`:                                "f:1: via: a text in quotes is wanted, not an integer",
		`proxy_protocol = "yes"`:                 "f:1: proxy_protocol: true or false is wanted, not a string",
		"timeouts = 5":                           "f:1: timeouts: a table, […], is wanted, not an integer",
		"[[locations]]\ndestinations = 3":        "f:2: locations.destinations: a list of tables, [[…]], is wanted, not an integer",
		"[timeouts]\nheader = \"10\"":            `f:2: timeouts.header: missing unit in duration "10"; a time is written like "10s" or "1m30s"`,
		"[timeouts]\nidle = \"1s\"\nheader = 10": `f:3: timeouts.header: a time has a unit, and is 1ms at least: "10s" is 10 seconds`,
		"[[locations]]\n\n[locations.timeouts]\nidle = 60": `f:4: locations.0.timeouts.idle: a time has a unit, and is 1ms at least: "60s" is 60 seconds`,
		"a = = 3": "f:1: unexpected character",
	} {
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

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
