package proxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/proxy/config"
)

func TestStatusPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a&b")
	r := run(t, "epoll", to("unix:"+dir+"/none", `paths = ["/app"]`)+"[[locations]]\ndestinations = [{ uri = \"files://"+dir+"\" }]\n")
	o := &Operator{Snapshot: r.Snapshot}
	page := func() string {
		w := httptest.NewRecorder()
		o.Server().Handler.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/", nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		return w.Body.String()
	}
	if text := page(); !strings.Contains(text, "p99 latency, at most</td><td>–<") {
		t.Error(text)
	}
	dial(t, r.addr).status("/app", 502)
	dial(t, r.addr).status("/", 404)
	text := page()
	for _, want := range []string{"one destination is unhealthy", "<td>requests</td><td>2<", `answered 5xx</td><td class="bad">1<`,
		"a&amp;b/none</td><td>ok<", `no such file or directory</small></td><td class="bad">missing<`, " ms<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if text := page(); !strings.Contains(text, "everything is healthy") {
		t.Error(text)
	}
}

// TestLogSkips: a location's requests are not logged, but its errors are.
func TestLogSkips(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\nlog = { access = \"" + log + "\", skip = [\"health\"] }\n" +
		"[[locations]]\nid = \"health\"\npaths = [\"=/ok\"]\nrespond = { body = \"ok\" }\n[[locations]]\nrespond = { body = \"other\" }\n"
	r := run(t, "epoll", text)
	l := dial(t, r.addr)
	l.status("/ok", 200)
	l.status("/other", 200)
	r.stop()
	if lines, err := os.ReadFile(log); err != nil || strings.Contains(string(lines), "/ok") || !strings.Contains(string(lines), "/other") {
		t.Errorf("%v %s", err, lines)
	}
	r = run(t, "epoll", strings.Replace(text, "body = \"ok\"", "status = 503", 1))
	dial(t, r.addr).status("/ok", 503)
	r.stop()
	if lines, err := os.ReadFile(log); err != nil || !strings.Contains(string(lines), "/ok") {
		t.Errorf("%v %s", err, lines)
	}
	if _, err := config.Parse("x.toml", []byte(strings.Replace(text, "id = ", "#", 1))); err == nil ||
		!strings.Contains(err.Error(), `no location has the id "health"`) {
		t.Errorf("%v", err)
	}
}

func TestLogFields(t *testing.T) {
	o := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	log := filepath.Join(t.TempDir(), "log")
	r := run(t, "epoll", "log = { access = \""+log+"\", format = \"json\", fields = { tenant = \"X-Tenant\", none = \"X-None\" } }\n"+to("http://"+o.addr))
	dial(t, r.addr).ask("GET", "/", "x-tenant: a\"b\r\n")
	r.stop()
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), `,"tenant":"a\u0022b",`) || strings.Contains(string(text), `"none"`) {
		t.Errorf("%v %s", err, text)
	}
}
