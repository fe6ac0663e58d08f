package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair makes a certificate and its key.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	writeDated(t, dir, name, time.Time{}, time.Time{}, "a.example")
}

// writeDated makes one with these dates and names.
func writeDated(t *testing.T, dir, name string, from, to time.Time, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const outsideText = `listen = ["127.0.0.1:80"]
workers = 4
include = ["region.toml"]
[tls]
listen = ["127.0.0.1:443"]
[[tls.certificates]]
pem = "DIR/a.pem"
key = "DIR/a.key"
[tls.acme]
hosts = ["a.example"]
cache = "DIR/new/cache"
[log]
access = "DIR/access.log"
[[locations]]
[[locations.destinations]]
uri = "files://DIR/www?maxAge=60"
[[locations.destinations]]
uri = "unix:DIR/socket"
[[locations.destinations]]
uri = "unix:DIR/later"
max_connections = 4
`

// TestCheck: what a start would refuse is found, with its line, and nothing is made.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "a")
	writePair(t, dir, "b")
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	put(t, filepath.Join(dir, "region.toml"), "[[locations]]\n[[locations.destinations]]\nuri = \"files://"+dir+"/www\"\n")
	put(t, filepath.Join(dir, "gone.toml"), "\n[[locations]]\n[[locations.destinations]]\nuri = \"files://"+dir+"/gone\"\n")
	file := filepath.Join(dir, "site.toml")
	check := func(text string) string {
		put(t, file, strings.ReplaceAll(text, "DIR", dir))
		_, err := Check(file)
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), dir, "DIR")
	}
	if got := check(outsideText); got != "" {
		t.Fatal(got)
	}
	for _, c := range []struct{ from, to, want string }{
		{"DIR/a.key", "DIR/b.key", "site.toml:7: certificate DIR/a.pem with key DIR/b.key: tls: private key does not match public key"},
		{"DIR/a.key", "DIR/c.key", "site.toml:8: key: open DIR/c.key: no such file or directory"},
		{"DIR/a.pem", "DIR/c.pem", "site.toml:7: pem: open DIR/c.pem: no such file or directory"},
		{"DIR/a.pem", "DIR/a.key", "site.toml:7: certificate DIR/a.key with key DIR/a.key: tls: failed to find certificate PEM data"},
		{"DIR/new/cache", "DIR/a.pem/cache", "site.toml:11: acme: cache: "},
		{"cache =", "roots = \"DIR/a.key\"\ncache =", "site.toml:11: acme: roots: DIR/a.key has no certificate in PEM"},
		{"DIR/access.log", "DIR/a.pem/access.log", "site.toml:13: access: "},
		{"DIR/access.log", "DIR/www", "site.toml:13: access: DIR/www is a directory"},
		{"maxAge=60", "maxAge=1h", "site.toml:16: uri: maxAge=1h: must be a number of seconds"},
		{"DIR/socket", "DIR/a.pem", "site.toml:18: uri: DIR/a.pem is not a socket"},
		{"max_connections = 4", "max_connections = 3", "site.toml:21: max_connections: 3 for 4 workers; each needs one"},
		{"127.0.0.1:443", "127.0.0.1:80", "site.toml:5: 127.0.0.1:80: duplicate listen address"},
		{"region.toml", "none.toml", "site.toml:3: include: no file none.toml"},
	} {
		if got := check(strings.Replace(outsideText, c.from, c.to, 1)); !strings.HasPrefix(got, "DIR/"+c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s for %s: %q, want %q", c.to, c.from, got, c.want)
		}
	}
	if got := check("[[regions]]\ndisabled = true\n[[regions.locations]]\n[[regions.locations.destinations]]\nuri = \"files://DIR/gone\"\n[[regions]]\n[[regions.locations]]\nredirect = { to = \"https://a\" }\n"); got != "" {
		t.Error("a disabled region:", got)
	}
	for _, name := range []string{"access.log", "new", "later"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// TestCheckEmpty: a file or a directory with no location is in no order, but where
// regions are to be published.
func TestCheckEmpty(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "site.toml")
	put(t, file, "")
	for _, path := range []string{file, dir, t.TempDir()} {
		if _, err := Check(path); err == nil || !strings.HasPrefix(err.Error(), path+": no location") {
			t.Errorf("%s: %v", path, err)
		}
	}
	put(t, file, "include = [\"regions/*.toml\"]\n[publish]\nregions = \"regions\"\n")
	if _, err := Check(file); err != nil {
		t.Error(err)
	}
}

// TestCheckWarns: what a start survives, and requests do not, is a warning with its line.
func TestCheckWarns(t *testing.T) {
	dir := t.TempDir()
	pair := func(name string, from, to time.Duration, names ...string) {
		writeDated(t, dir, name, time.Now().Add(from), time.Now().Add(to), names...)
	}
	const day = 24 * time.Hour
	pair("good", -day, 90*day, "a.example", "*.b.example")
	pair("old", -90*day, -day, "a.example", "*.b.example")
	pair("early", day, 90*day, "a.example", "*.b.example")
	pair("soon", -80*day, 3*day+time.Hour, "a.example", "*.b.example")
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "gone.toml"), "\n[[locations]]\n[[locations.destinations]]\nuri = \"files://"+dir+"/gone\"\n")
	put(t, filepath.Join(dir, "encrypted.key"), "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	put(t, filepath.Join(dir, "older.key"), "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n"+
		"-----END RSA PRIVATE KEY-----\n")
	const text = `listen = ["127.0.0.1:0"]
workers = 0
[tls]
listen = ["127.0.0.1:0"]
[[tls.certificates]]
pem = "DIR/good.pem"
key = "DIR/good.key"
[[locations]]
hosts = ["a.example", "A.example:8443", "x.b.example", "*.b.example", "*"]
[[locations.destinations]]
uri = "files://DIR/www"
[[locations.destinations]]
uri = "http://localhost:1"
[locations.fallback]
uri = "https://127.0.0.1:1"
`
	file := filepath.Join(dir, "site.toml")
	check := func(from, to string) (*Config, error) {
		put(t, file, strings.ReplaceAll(strings.Replace(text, from, to, 1), "DIR", dir))
		return Check(file)
	}
	if c, err := check("", ""); err != nil || len(c.Notes.Warnings) > 0 {
		t.Fatal(err, c.Notes.Warnings)
	}
	for _, w := range []struct{ from, to, want string }{
		{"files://DIR/www", "files://DIR/gone", "site.toml:11: uri: files: open DIR/gone: no such file or directory; create it, or"},
		{"files://DIR/www", "files://DIR/good.pem", "site.toml:11: uri: files: open DIR/good.pem: not a directory; create it, or"},
		{"workers = 0", `include = ["gone.toml"]`, "gone.toml:4: uri: files: open DIR/gone: no such file or directory"},
		{"http://localhost:1", "http://none.invalid:1", "site.toml:13: uri: none.invalid does not resolve: "},
		{"https://127.0.0.1:1", "https://none.invalid", "site.toml:15: uri: none.invalid does not resolve: "},
		{"DIR/good.pem\"\nkey = \"DIR/good.key", "DIR/old.pem\"\nkey = \"DIR/old.key", "site.toml:6: certificate DIR/old.pem expired on "},
		{"DIR/good.pem\"\nkey = \"DIR/good.key", "DIR/early.pem\"\nkey = \"DIR/early.key", "site.toml:6: certificate DIR/early.pem is not valid before "},
		{"DIR/good.pem\"\nkey = \"DIR/good.key", "DIR/soon.pem\"\nkey = \"DIR/soon.key", "site.toml:6: certificate DIR/soon.pem expires in 3 days, on "},
		{"x.b.example", "y.x.b.example", "site.toml:9: hosts: no certificate is for y.x.b.example: clients that use TLS reject"},
		{"*.b.example", "*.a.example", "site.toml:9: hosts: no certificate is for *.a.example: "},
	} {
		c, err := check(w.from, w.to)
		if err != nil || len(c.Notes.Warnings) != 1 {
			t.Errorf("%s: %v %v", w.to, err, c.Notes.Warnings)
			continue
		}
		if got := strings.ReplaceAll(c.Notes.Warnings[0].Error(), dir, "DIR"); !strings.HasPrefix(got, "DIR/"+w.want) {
			t.Errorf("%s: %q, want %q", w.to, got, w.want)
		}
	}
	for _, key := range []string{"encrypted", "older"} {
		if _, err := check("DIR/good.key", "DIR/"+key+".key"); err == nil || !strings.Contains(err.Error(), "is encrypted; decrypt it: openssl") ||
			!strings.HasPrefix(err.Error(), file+":6: ") {
			t.Error(err)
		}
	}
	if c, err := check("DIR/www\"", "DIR/gone\"\nweight = -1"); err == nil || len(c.Notes.Warnings) != 1 {
		t.Error("a warning beside an error is lost:", err, c)
	}
}

// A directory that is served below a path, and has nothing there, is warned of with what to write.
func TestFilesBelowAPathAreLookedFor(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths, uri, more string
		want             string
	}{
		{`"/s"`, "", "", `pattern = "/s"`},
		{`"/a/b/*"`, "", "", `pattern = "/a/b"`},
		{`"/docs"`, "", "", ""},
		{`"/"`, "", "", ""},
		{`"/v[0-9]+"`, "", "", ""},
		{`"/s"`, "?fallback=index.html", "", ""},
		{`"/s"`, "", `transformers = [{ type = "replacePath", options = { pattern = "/s", value = "" } }]`, ""},
	} {
		file := filepath.Join(t.TempDir(), "p.toml")
		text := "[[locations]]\nid = \"x\"\npaths = [" + c.paths + "]\n[[locations.destinations]]\nuri = \"files://" + dir + c.uri + "\"\n" + c.more + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Check(file)
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(got.Notes.Warnings)
		if (c.want == "") != (len(got.Notes.Warnings) == 0) || !strings.Contains(said, c.want) {
			t.Errorf("%s %s: %s", c.paths, c.more, said)
		}
	}
}
