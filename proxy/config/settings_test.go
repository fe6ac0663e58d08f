package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// settingsOfToday has the keys of RoadSign's settings at its last version.
const settingsOfToday = `id = "central"
[debug]
print_routes = false
[sideload]
ports = ["127.0.0.1:81"]
secured_ports = []
trusted_proxies = ["localhost"]
[hypertext]
ports = [":8000"]
secured_ports = []
force_https = false
[hypertext.limitation]
max_body_size = 549_755_813_888
max_qps = -1
[logging]
access = "./logs/access.log"
warden_apps = "./logs/warden"
[paths]
configs = "./config"
[telemetry]
request_logging = true
capture_traces = true
[performance]
low_memory = false
prefork = false
[security]
credential = "e81f43f3"
`

// settingsOfOld has those of an older one.
const settingsOfOld = `[debug]
print_routes = true
[hypertext]
sideload_ports = ["127.0.0.1:81"]
sideload_secured_ports = []
ports = [":8000"]
secured_ports = []
[hypertext.certificate]
redirect = false
sideload_key = "./cert.key"
sideload_pem = "./cert.pem"
key = "./cert.key"
pem = "./cert.pem"
[hypertext.limitation]
max_body_size = 549_755_813_888
max_qps = -1
[paths]
configs = "./config"
[performance]
request_logging = true
network_timeout = 3_000
prefork = true
[security]
sideload_trusted_proxies = ["localhost"]
credential = "e81f43f3"
`

// TestRoadSignSettings: settings of every version load and do what they did.
func TestRoadSignSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config/a.toml", `id = "region"
[[locations]]
hosts = ["localhost:8000"]
paths = ["/"]
[[locations.destinations]]
uri = "https://example.com?timeout=1500"
[[locations.destinations]]
uri = "http://example.com/base"
host = "client"
[[applications]]
id = "capital-app"
command = ["true"]
`)
	read := func(text string) *Config {
		t.Helper()
		write("settings.toml", text)
		c, err := Read(filepath.Join(dir, "settings.toml"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	today := read(settingsOfToday)
	d := today.Regions[0].Locations[0].Destinations
	got := fmt.Sprint(today.Listen, today.Admin, today.Limits.BodyBytes, today.Limits.RequestsPerClient, today.Log.Access, today.Log.Format,
		today.Log.Traces, today.Security.Credential, today.Regions[0].Applications[0].Log, d[0].Host, d[0].Timeout, d[1].Host,
		len(today.Notes.Unserved))
	if diff := cmp.Diff(fmt.Sprint([]string{":8000"}, "127.0.0.1:81", int64(549755813888), 0, "./logs/access.log", "json", 256, "e81f43f3",
		"logs/warden/capital-app.log", "upstream", 1500, "client", 0), got); diff != "" {
		t.Error(diff)
	}
	old := read(settingsOfOld)
	if old.Admin != "127.0.0.1:81" || old.Log.Access != "-" ||
		time.Duration(old.Timeouts.Response) != 3*time.Second || !old.Performance.Prefork || len(old.TLS.Certificates) != 0 || old.TLS.Redirect {
		t.Errorf("%+v", old)
	}
	if diff := cmp.Diff(filepath.Join(dir, "settings.toml")+":8: hypertext.certificate: nothing uses it without secured_ports\n"+
		filepath.Join(dir, "settings.toml")+":2: debug.print_routes: is not done; ceiling proxy check counts the locations",
		old.Notes.Unserved.Error()); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"one": "[hypertext]\nsecured_ports = [\":1\"]\n[hypertext.certificate]\nredirect = true\nkey = \"k\"\npem = \"p\"\n",
		"all": "[hypertext]\nsecured_ports = [\":1\"]\nredirect_to_https = true\n[[hypertext.certificate]]\nkey = \"k\"\npem = \"p\"\n",
	} {
		if c := read(text); !cmp.Equal(c.TLS.Certificates, []Certificate{{PEM: "p", Key: "k"}}) || !c.TLS.Redirect {
			t.Errorf("%s: %+v", name, c.TLS)
		}
	}
	for text, want := range map[string]string{
		"[hypertext.certificate]\nkey = 5\n":                                    "settings.toml:2: key: a text in quotes is wanted",
		"[[hypertext.certificate]]\n[[hypertext.certificate]]\nother = \"a\"\n": "settings.toml:3: unknown key hypertext.certificate.1.other",
		"[sideload]\nport = 1\n":                                                "settings.toml:2: unknown key sideload.port",
	} {
		if _, err := Parse("settings.toml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestOwnHostByDefault: only RoadSign's files replace the client's Host where none is given.
func TestOwnHostByDefault(t *testing.T) {
	const location = "[[locations]]\n[[locations.destinations]]\nuri = \"http://a\"\n"
	for text, want := range map[string]string{location: "", "id = \"region\"\n" + location: "upstream"} {
		if c := parse(t, text); c.Regions[0].Locations[0].Destinations[0].Host != want {
			t.Errorf("%q: %+v", text, c.Regions[0].Locations[0].Destinations[0])
		}
	}
	for uri, good := range map[string]bool{"http://a?timeout=5": true, "http://a/b?timeout=5": true, "http://a?timeout=x": false, "http://a?timeout=0": false,
		"http://a?x=1": false, "http://a?timeout=1&b=2": false} {
		if target, err := ParseURI(uri); (err == nil) != good || good && target.Timeout != 5 {
			t.Errorf("%s: %+v %v", uri, target, err)
		}
	}
}
