package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEditsReachEveryResponse: what a location sets is one field of every response, whether a
// destination, a file or the proxy answers, over each version; what it removes is in none.
func TestEditsReachEveryResponse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html": "page", "big.js": strings.Repeat("text ", 5000), "app.js": strings.Repeat("text ", 500), "sub/index.html": "sub",
		"pre.css": "css", "pre.css.gz": "gz",
	} {
		_ = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755) // WriteFile says what is wrong
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Strict-Transport-Security", "X-Frame-Options", "Content-Security-Policy", "X-Set", "ETag", "X-Gone",
			"Cache-Control", "Vary", "Referrer-Policy"} {
			w.Header().Set(name, "destination")
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprint(w, strings.Repeat("text ", 500))
	})
	edits := "response_headers = { remove = [\"X-Gone\", \"Last-Modified\", \"Referrer-Policy\"], " +
		"set = { X-Set = \"1\", Access-Control-Allow-Origin = \"*\", ETag = '\"v1\"', cache-control = \"no-cache\", Vary = \"Origin\" }, add = { X-Add = \"1\" } }\n" +
		"helmet = { hsts_max_age = 60, x_frame_options = \"DENY\", content_security_policy = \"default-src 'self'\", referrer_policy = \"no-referrer\" }\n"
	own := "helmet = { x_frame_options = \"SAMEORIGIN\" }\n" // of the destination, the more specific
	r := run(t, begin("", certify(t, dir, "a.example"))+
		location(to, "paths = [\"/to\"]\n"+edits)+own+
		location(to, "paths = [\"/packed\"]\ncompress = true\n"+edits)+own+
		location("files://"+dir, "compress = true\n"+edits)+own+
		location("unix:"+dir+"/none", "paths = [\"/none\"]\n"+edits)+own+
		location(to, "paths = [\"/limited\"]\nrate = { requests = 1, per = \"1h\" }\n"+edits)+own+
		location(to, "paths = [\"/small\"]\nbody_bytes = 1\n"+edits)+own+
		"[[locations]]\npaths = [\"/moved\"]\nredirect = { to = \"/new\" }\n"+strings.ReplaceAll(edits, "DENY", "SAMEORIGIN"))
	first, err := r.client(false).Get("http://a.example/limited")
	read(t, first, err)
	for _, c := range []struct {
		method, path string
		status       int
		fields       string // of the request
	}{
		{"GET", "/to", 200, ""},
		{"GET", "/packed", 200, "Accept-Encoding: gzip"},
		{"GET", "/", 200, ""},
		{"HEAD", "/", 200, ""},
		{"GET", "/", 206, "Range: bytes=0-1"},
		{"GET", "/", 206, "Range: bytes=0-0,2-3"},
		{"GET", "/", 416, "Range: bytes=99-"},
		{"GET", "/", 304, "If-None-Match: *"},
		{"GET", "/", 412, "If-Match: \"x\""},
		{"GET", "/big.js", 200, ""},
		{"GET", "/app.js", 200, "Accept-Encoding: gzip"},
		{"GET", "/pre.css", 200, "Accept-Encoding: gzip"},
		{"GET", "/sub", 301, ""},
		{"GET", "/nothing", 404, ""},
		{"POST", "/", 405, ""},
		{"TRACE", "/to", 405, ""},
		{"GET", "/to", 417, "Expect: x"},
		{"GET", "/none", 502, ""},
		{"GET", "/limited", 429, ""},
		{"POST", "/small", 413, ""},
		{"GET", "/moved", 308, ""},
	} {
		for _, version := range []string{"plain", "HTTP/1.1", "HTTP/2"} {
			client, scheme := r.client(version == "HTTP/2"), "https"
			if version == "plain" {
				scheme = "http"
			}
			body := ""
			if c.method == "POST" {
				body = "body"
			}
			q, err := http.NewRequest(c.method, scheme+"://a.example"+c.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if name, value, ok := strings.Cut(c.fields, ": "); ok {
				q.Header.Set(name, value)
			}
			res, err := client.Do(q)
			what := fmt.Sprintf("%s %s %s %s", version, c.method, c.path, c.fields)
			read(t, res, err)
			client.CloseIdleConnections()
			if res.StatusCode != c.status {
				t.Errorf("%s: %s, want %d", what, res.Status, c.status)
			}
			want := map[string]string{
				"X-Set": "[1]", "Access-Control-Allow-Origin": "[*]", "X-Add": "[1]", "X-Gone": "[]", "X-Frame-Options": "[SAMEORIGIN]",
				"Content-Security-Policy": "[default-src 'self']", "Last-Modified": "[]", "Referrer-Policy": "[]",
				"Etag": `["v1"]`, "Cache-Control": "[no-cache]", "Vary": "[Origin, Accept-Encoding]", "Strict-Transport-Security": "[max-age=60; includeSubDomains]",
			}
			page := c.status >= 404 && c.status != 412 && c.status != 416
			if page { // it is not the content that is cached
				want["Etag"], want["Cache-Control"] = "[]", "[no-store]"
			}
			if strings.Contains("/to /none /limited /small /moved", c.path) && c.path != "/" { // one coding
				want["Vary"] = "[Origin]"
			}
			if scheme == "http" {
				want["Strict-Transport-Security"] = "[]"
				if !page && (c.path == "/to" || c.path == "/packed") {
					want["Strict-Transport-Security"] = "[destination]" // which no browser heeds
				}
			}
			for name, value := range want {
				if got := fmt.Sprint(res.Header[name]); got != value {
					t.Errorf("%s: %s %s, want %s", what, name, got, value)
				}
			}
		}
	}
}
