package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

func TestViolations(t *testing.T) {
	needs.Program(t, "chromium")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'") // axe runs all the same
		w.Write([]byte(`<!doctype html><html><head><title>t</title></head><body><main><h1>h</h1><p style="color:#bbb;background:#fff">faint</p><img src="data:,"></main></body></html>`))
	}))
	t.Cleanup(server.Close)
	p := Start(t).Page()
	p.Open(server.URL)
	found := strings.Join(p.Violations(), "\n")
	for _, want := range []string{"color-contrast", "html-has-lang", "image-alt"} {
		if !strings.Contains(found, want) {
			t.Errorf("%s was not found in:\n%s", want, found)
		}
	}
}
