package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("site.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRoadSignFiles reads a region and a settings file in RoadSign's words.
func TestRoadSignFiles(t *testing.T) {
	dir := t.TempDir()
	region := `
id = "capital"

[[locations]]
id = "old words"
host = ["localhost:8000"]
path = ["/"]
[[locations.destinations]]
id = "d"
uri = "http://localhost:3000"
helmet = { x_frame_options = "SAMEORIGIN", hsts_max_age = 60 }
transformers = [{ type = "replacePath", options = { pattern = "^/api", repl = "", complex = true } }, { type = "compressResponse", options = { level = 1 } }]

[[locations]]
id = "new words"
hosts = ["a.example"]
paths = ["^/files/.*"]
queries = { k = "v" }
headers = { X-A = ["1", "2"] }
[[locations.destinations]]
id = "f"
uri = "files://../data/static?index=index.html&suffix=.html&fallback=index.html&maxAge=3600"

[[applications]]
id = "app"
workdir = "../data"
command = ["node", "server.mjs"]
environment = ["A=b"]
`
	settings := `
id = "central"
[debug]
print_routes = false
[hypertext]
sideload_ports = ["127.0.0.1:81"]
sideload_secured_ports = []
ports = [":8000"]
secured_ports = [":8443"]
force_https = false
[[hypertext.certificate]]
key = "./certs/privkey.pem"
pem = "./certs/fullchain.pem"
[hypertext.limitation]
max_body_size = 549_755_813_888 # 512 GiB
max_qps = -1
[paths]
configs = "./config"
[telemetry]
request_logging = true
capture_traces = true
[performance]
traces_limit = 256
prefork = false
[security]
sideload_trusted_proxies = ["localhost"]
credential = "e81f"
`
	if err := os.Mkdir(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"settings.toml": settings, "config/a.toml": region,
		"config/off.toml": "id = 'x'\ndisabled = true\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Read(filepath.Join(dir, "settings.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{":8000"}, c.Listen); diff != "" {
		t.Error(diff)
	}
	if c.Admin != "127.0.0.1:81" || c.Log.Access != "-" || c.Limits.BodyBytes != 549755813888 || len(c.Regions) != 1 ||
		c.Security.Credential != "e81f" {
		t.Errorf("%+v", c)
	}
	l := c.Regions[0].Locations
	if len(l) != 2 || l[0].Hosts[0] != "localhost:8000" || l[0].Paths[0] != "/" || l[0].Destinations[0].Helmet.XFrameOptions != "SAMEORIGIN" ||
		l[0].Destinations[0].Transformers[0].Options.Pattern != "^/api" || l[1].Headers["X-A"][1] != "2" ||
		c.Regions[0].Applications[0].Command[1] != "server.mjs" {
		t.Errorf("%+v", c.Regions[0])
	}
	whole, err := Read(filepath.Join(dir, "config")) // a directory of regions
	if err != nil || len(whole.Regions) != 1 {
		t.Errorf("%v %v", whole, err)
	}
}

// TestErrorsNameTheirLine: one mistake each, and the line where it stands.
func TestErrorsNameTheirLine(t *testing.T) {
	head := "listen = [\"127.0.0.1:1\"]\n[[locations]]\n"                // lines 1 and 2
	dest := "[[locations.destinations]]\nuri = \"http://127.0.0.1:1\"\n" // 3 and 4 behind it
	for name, k := range map[string]struct {
		text string
		line int
		what string
	}{
		"unknown key":        {head + "hostz = []\n" + dest, 3, "unknown key locations.hostz"},
		"syntax":             {head + "hosts = [\n" + dest, 4, ""},
		"type":               {head + "priority = \"x\"\n" + dest, 3, ""},
		"duration":           {"[timeouts]\nidle = \"5 parsecs\"\n", 2, ""},
		"regex":              {head + "paths = [\"/a\",\n\"^/(\"]\n" + dest, 4, "missing closing"},
		"path":               {head + "paths = [\"a\"]\n" + dest, 3, "begin with /"},
		"host":               {head + "hosts = [\"a b\"]\n" + dest, 3, "invalid host name"},
		"host port":          {head + "hosts = [\"a:99999\"]\n" + dest, 3, "port"},
		"no destination":     {head, 2, "no destination"},
		"uri":                {head + "[[locations.destinations]]\nid = 'x'\nuri = \"ftp://a\"\n", 5, "http://"},
		"http":               {head + dest + "http = '3'\n", 5, "\"1.1\" and \"2\""},
		"http of files":      {head + "[[locations.destinations]]\nuri = 'files://.'\nhttp = '2'\n", 5, "files have none"},
		"second destination": {head + dest + "[[locations.destinations]]\nuri = \"http://\"\n", 6, "host"},
		"second location":    {head + dest + "[[locations]]\nbalance = 'x'\n" + dest, 6, "round_robin"},
		"region":             {"[[regions]]\nid = 'r'\n[[regions.locations]]\nbalance = 'x'\n[[regions.locations.destinations]]\nuri = 'http://a'\n", 4, "round_robin"},
		"files option":       {head + "[[locations.destinations]]\nuri = \"files://a?fallbak=x\"\n", 4, "fallbak"},
		"listen":             {"listen = [\n\"127.0.0.1:1\",\n\"nowhere\"]\n", 3, "host:port"},
		"trust":              {"trust = [\"10.0.0.0/33\"]\n", 1, "network"},
		"edit":               {head + "request_headers = { set = { Content-Length = \"1\" } }\n" + dest, 3, "Content-Length"},
		"header injection":   {head + "response_headers = { set = { X = \"a\\r\\nB: c\" } }\n" + dest, 3, "control byte"},
		"helmet":             {head + dest + "[locations.destinations.helmet]\nreferrer_policy = \"no\"\ncontent_security_policy = \"\"\"\ndefault-src 'self';\nimg-src *\"\"\"\n", 7, "one line"},
		"location's helmet":  {head + "helmet = { x_frame_options = \"a\\nb\" }\n" + dest, 3, "x_frame_options"},
		"files' option":      {head + "[[locations.destinations]]\nuri = \"files://a?charset=utf-8%0d%0aX:y\"\n", 4, "control byte"},
		"unreachable":        {head + "redirect = { to = \"/x\" }\n" + dest, 2, "get no request"},
		"unreachable, fixed": {head + "respond = { status = 204 }\n" + dest, 2, "get no request"},
		"fallback of none":   {head + "redirect = { to = \"/x\" }\nfallback = { uri = \"http://127.0.0.1:1\" }\n", 2, "get no request"},
		"no weight":          {head + dest + "weight = 0\n", 2, "another weight"},
		"negative weight":    {head + dest + "weight = -1\n", 3, "negative"},
		"include":            {"\ninclude = [\"no-such.toml\"]\n", 2, "no file no-such.toml"},
		"behind a BOM":       {"\ufeff[log]\nformat = \"x\"\n", 2, "combined"},
		"transformer":        {head + dest + "transformers = [{ type = \"x\" }]\n", 5, "replacePath"},
		"key":                {head + "balance = \"hash\"\nkey = \"phase\"\n" + dest, 4, "cookie:NAME"},
		"rate":               {head + "rate = { requests = 0 }\n" + dest, 3, "above 0"},
		"redirect":           {head + "redirect = { to = \"/x\", status = 200 }\n", 3, "308"},
		"header bytes":       {"[limits]\nheader_bytes = 1\n", 2, "65536"},
		"log":                {"[log]\nformat = \"x\"\n", 2, "combined"},
		"tls":                {"[tls]\nredirect = true\n", 1, "listen is needed"},
		"tls certificates":   {"[tls]\nlisten = [\"127.0.0.1:1\"]\n", 2, "certificates or acme"},
		"tls certificate":    {"[tls]\nlisten = [\"127.0.0.1:1\"]\n[[tls.certificates]]\npem = 'x'\n", 3, "pem and key"},
		"acme hosts":         {"[tls]\nlisten = [\"127.0.0.1:1\"]\n[tls.acme]\ncache = 'x'\nhosts = [\"*.a.example\"]\n", 5, "wildcards"},
		"acme cache":         {"[tls]\nlisten = [\"127.0.0.1:1\"]\n[tls.acme]\nhosts = [\"a.example\"]\n", 3, "cache"},
		"acme directory": {"[tls]\nlisten = [\"127.0.0.1:1\"]\n[tls.acme]\nhosts = [\"a.example\"]\ncache = 'x'\ndirectory = 'http://a'\n", 6,
			"https://"},
		"application id":    {"[[applications]]\nid = 'a'\nexe = 'x'\n[[applications]]\nid = 'a'\nexe = 'y'\n", 4, "its own id"},
		"application ready": {"[[applications]]\nid = 'a'\nexe = 'x'\nready = 'soon'\n", 4, "host:port"},
		"publish":           {"[[publish.sites]]\nid = 'a'\n", 1, "directory"},
		"application":       {"[[applications]]\nid = 'a'\n", 1, "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("site.toml", []byte(k.text))
			var list Errors
			if !errors.As(err, &list) || len(list) != 1 {
				t.Fatalf("%v; one error was planted", err)
			}
			if list[0].Line != k.line || !strings.Contains(list[0].What, k.what) {
				t.Errorf("%v; want line %d and %q", err, k.line, k.what)
			}
		})
	}
}

// TestIncludeMatchesNothing: a pattern that matches no file is warned of, unless uploads will make some.
func TestIncludeMatchesNothing(t *testing.T) {
	text := "\ninclude = [\"sites/*.toml\"]\n[[locations]]\nredirect = { to = \"/x\" }\n"
	for extra, want := range map[string]string{"": "site.toml:2: include: no file matches sites/*.toml", "[publish]\nregions = \"sites\"\n": ""} {
		c := parse(t, text+extra)
		got := ""
		if len(c.Notes.Warnings) > 0 {
			got = c.Notes.Warnings[0].Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", extra, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := parse(t, "[[locations]]\n[[locations.destinations]]\nuri = 'http://a'\n")
	l := c.Regions[0].Locations[0]
	if c.Listen[0] != "127.0.0.1:8080" || c.Limits.HeaderBytes != 16384 || c.Log.Access != "off" || *l.Retry.Attempts != 2 ||
		*l.Destinations[0].Weight != 1 || l.Balance != "round_robin" {
		t.Errorf("%+v", c)
	}
	if c := parse(t, "[tls]\nlisten = ['127.0.0.1:8443']\n[[tls.certificates]]\npem = 'a'\nkey = 'b'\n[[locations]]\n[[locations.destinations]]\nuri = 'http://a'\n"); len(c.Listen) != 0 {
		t.Errorf("TLS alone was asked for, and there is %v", c.Listen)
	}
	for d, want := range map[Duration]time.Duration{0: time.Second, -1: 0, Duration(time.Minute): time.Minute} {
		if got := d.Or(time.Second); got != want {
			t.Errorf("%v: %v", d, got)
		}
	}
}

func TestParseURI(t *testing.T) {
	for uri, want := range map[string]Target{
		"http://a":          {Scheme: HTTP, Address: "a:80", Host: "a"},
		"https://a/b/":      {Scheme: HTTPS, Address: "a:443", Host: "a", Base: "/b"},
		"http://[::1]:8080": {Scheme: HTTP, Address: "[::1]:8080", Host: "[::1]:8080"},
		"unix:/run/x":       {Scheme: Unix, Address: "/run/x", Host: "localhost"},
		"unix:///run/x":     {Scheme: Unix, Address: "/run/x", Host: "localhost"},
		"http://a/%2f":      {Scheme: HTTP, Address: "a:80", Host: "a", Base: "/%2f"},
	} {
		got, err := ParseURI(uri)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", uri, err, diff)
		}
	}
	for _, uri := range []string{"", "a", "http:", "http://", "http://:80", "http://u@a", "http://a?b", "http://a#b", "unix:", "files://",
		"ws://a", "http://a b"} {
		if got, err := ParseURI(uri); err == nil {
			t.Errorf("%q: %+v", uri, got)
		}
	}
}

// FuzzParse: any text is a configuration or errors with lines of the text, and
// what is accepted is accepted again.
func FuzzParse(f *testing.F) {
	f.Add("listen = [\"127.0.0.1:1\"]\n[[locations]]\nhosts=['a']\n[[locations.destinations]]\nuri='http://a'\n")
	f.Add("[[regions]]\n[[regions.locations]]\npaths=['^/(']\nredirect={to='/'}\n")
	f.Add("[hypertext]\nports=[':1']\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") || strings.Contains(text, "configs") {
			return // it reads other files
		}
		_, err := Parse("f", []byte(text))
		if err == nil {
			return
		}
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 {
			t.Fatalf("%v", err)
		}
		lines := strings.Count(text, "\n") + 1
		for _, one := range list {
			if one.Line < 1 || one.Line > lines || one.What == "" {
				t.Fatalf("%v, of %d lines", one, lines)
			}
		}
	})
}

// TestUnserved: what is read and not done is said, with its line; what is done is
// not.
func TestUnserved(t *testing.T) {
	c := parse(t, `[hypertext]
sideload_ports = ["127.0.0.1:1", ":2"]
sideload_secured_ports = [":3"]
[hypertext.limitation]
max_qps = 5
[debug]
print_routes = true
[telemetry]
capture_traces = true
[performance]
traces_limit = 7
[[locations]]
destinations = [{ uri = "http://a" }]
`)
	want := "site.toml:3: hypertext.sideload_secured_ports: the admin address is served without TLS\n" +
		"site.toml:2: hypertext.sideload_ports: there is one admin address: 127.0.0.1:1\n" +
		"site.toml:7: debug.print_routes: is not done; ceiling proxy check counts the locations"
	if diff := cmp.Diff(want, c.Notes.Unserved.Error()); diff != "" {
		t.Error(diff)
	}
	if c.Limits.RequestsPerClient != 5 || c.Log.Traces != 7 {
		t.Errorf("%+v %+v", c.Limits, c.Log)
	}
	if c := parse(t, "[hypertext.limitation]\nmax_qps = -1\n[telemetry]\ncapture_traces = true\n"); len(c.Notes.Unserved) > 0 ||
		c.Limits.RequestsPerClient != 0 || c.Log.Traces != 256 {
		t.Errorf("%+v %+v %+v", c.Notes.Unserved, c.Limits, c.Log)
	}
}

// TestExamplesInTheDocs: what proxy/README.md and CONFIG.md show is read without a
// mistake.
func TestExamplesInTheDocs(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	page = slices.Concat(page, readme)
	examples := regexp.MustCompile("(?ms)^```toml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 5 {
		t.Fatalf("%d examples: the page or this test is broken", len(examples))
	}
	for _, e := range examples {
		parse(t, e[1])
	}
}

// TestRegionsDirectory: it is relative to the file, as include is, and RoadSign's paths.configs is
// one.
func TestRegionsDirectory(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"[publish]\nregions = \"r\"\n":    "/etc/proxy/r",
		"[publish]\nregions = \"/r\"\n":   "/r",
		"[paths]\nconfigs = \"./none\"\n": "/etc/proxy/none",
		"[paths]\nconfigs = \"./none\"\n[publish]\nregions = \"r\"\n": "/etc/proxy/r",
	} {
		c, err := Parse("/etc/proxy/site.toml", []byte(text))
		if err != nil || c.Publish.Regions != want {
			t.Errorf("%q: %+v %v, want %q", text, c, err, want)
		}
	}
}
