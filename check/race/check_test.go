package race

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

func caseOf(t *testing.T, name string) *Case {
	t.Helper()
	list, err := casesOf([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func dialed(t *testing.T, url string) net.Conn {
	t.Helper()
	c, err := new(race).dial(t.Context(), caseOf(t, "16"), strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestCheck: a proxy that does as it should passes, and each that differs in one
// thing is told by that.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		rewrite func(r *httputil.ProxyRequest)
		answer  func(r *http.Response) error
		close   bool
		want    string
	}{
		"right":         {},
		"path":          {rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.RawPath = "" }, want: "request line"},
		"query":         {rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.RawQuery = "" }, want: "request line"},
		"host":          {rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = "" }, want: "Host"},
		"no field":      {rewrite: func(r *httputil.ProxyRequest) { r.Out.Header.Del("X-Forwarded-Proto") }, want: "X-Forwarded-Proto"},
		"a field twice": {rewrite: func(r *httputil.ProxyRequest) { r.Out.Header.Add("X-Forwarded-For", "127.0.0.1") }, want: "X-Forwarded-For"},
		"agent":         {rewrite: func(r *httputil.ProxyRequest) { r.Out.Header.Set("User-Agent", "other") }, want: "User-Agent"},
		"request body": {rewrite: func(r *httputil.ProxyRequest) {
			if r.Out.ContentLength > 0 {
				r.Out.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", int(r.Out.ContentLength))))
			}
		}, want: "not the one that was sent"},
		"status": {answer: func(r *http.Response) error { r.StatusCode = 202; return nil }, want: "202"},
		"body": {answer: func(r *http.Response) error {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", int(r.ContentLength))))
			return nil
		}, want: "not the backend's"},
		"answer's field": {answer: func(r *http.Response) error { r.Header.Del("X-Keep"); return nil }, want: "X-Keep"},
		"type":           {answer: func(r *http.Response) error { r.Header.Set("Content-Type", "text/plain"); return nil }, want: "Content-Type"},
		"connections":    {close: true, want: "does not keep them"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := newRecording(16)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.close() }() // its requests are answered
			target := &url.URL{Scheme: "http", Host: b.addr}
			transport := &http.Transport{DisableKeepAlives: c.close, DisableCompression: true}
			defer transport.CloseIdleConnections()
			proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, ModifyResponse: c.answer,
				Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(target)
					r.Out.Host = r.In.Host
					r.SetXForwarded()
					if c.rewrite != nil {
						c.rewrite(r)
					}
				}})
			defer proxy.Close()
			head, err := check(dialed(t, proxy.URL), &Contestant{}, caseOf(t, "16"), strings.TrimPrefix(proxy.URL, "http://"), b)
			switch {
			case c.want == "" && (err != nil || !strings.HasPrefix(head, "GET /bytes/16 HTTP/1.1\r\n")):
				t.Errorf("%q, %v", head, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v; want %q in it", err, c.want)
			}
		})
	}
}

// TestCheckFile: the file itself passes, and nothing else.
func TestCheckFile(t *testing.T) {
	if len(servedFile()) != 268 {
		t.Fatalf("%d bytes", len(servedFile()))
	}
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"right":  {200, "text/html; charset=utf-8", string(servedFile()), ""},
		"status": {206, "text/html", string(servedFile()), "206"},
		"type":   {200, "text/plain", string(servedFile()), "text/plain"},
		"body":   {200, "text/html", strings.Repeat("x", 268), "not 200 with the file's"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := checkFile(dialed(t, s.URL), caseOf(t, "file"), strings.TrimPrefix(s.URL, "http://"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q in it", name, err, c.want)
		}
		s.Close()
	}
}

// TestRace is a whole race, as short as one can be: nginx and HAProxy as .ci/deps
// installs them, and what this program has. It is held to be right, not fast.
func TestRace(t *testing.T) {
	needs.Quiet(t)
	dir := t.TempDir()
	names := []string{Nginx, "haproxy", "h2o", "caddy", "fasthttp", "httputil", Ours, Prefork}
	r, err := Run(t.Context(), Config{
		Rounds: 1, Duration: 200 * time.Millisecond, Workers: 1, Connections: 8, PerS: 500, Seed: 1, Hold: 300,
		Only: names, Cases: []string{"16", "file", "idle", "tls-handshakes"}, Program: program(t), Version: "test", Keep: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	for i := range r.Cases {
		c := &r.Cases[i]
		if len(c.Rows) != len(names) {
			t.Errorf("%s: %d rows", c.Name, len(c.Rows))
		}
		for k := range c.Rows {
			wantRow(t, c, &c.Rows[k])
		}
	}
	if len(r.Verdicts) != 2*7 {
		t.Errorf("%d verdicts: %+v", len(r.Verdicts), r.Verdicts)
	}
}

// TestRaceOverHTTP2 has few requests in flight, so that a busy machine answers some in time.
func TestRaceOverHTTP2(t *testing.T) {
	needs.Quiet(t)
	names := []string{Nginx, "h2o", "caddy", Ours}
	r, err := Run(t.Context(), Config{
		Rounds: 1, Duration: 300 * time.Millisecond, Workers: 1, Connections: 1, PerS: 100, Seed: 1,
		Only: names, Cases: []string{"h2"}, Program: program(t), Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Cases[0].Rows {
		wantRow(t, &r.Cases[0], &r.Cases[0].Rows[i])
	}
}

func wantRow(t *testing.T, c *CaseResult, row *Row) {
	t.Helper()
	switch {
	case row.Name == "haproxy" && c.Files:
		if row.NotRaced != "it serves no files" {
			t.Errorf("%s: %s: %q", c.Name, row.Name, row.NotRaced)
		}
	case c.TLS && (row.Name == "fasthttp" || row.Name == "httputil"):
		if row.NotRaced != "it is not configured for TLS here" {
			t.Errorf("%s: %s: %q", c.Name, row.Name, row.NotRaced)
		}
	case row.NotRaced != "":
		t.Errorf("%s: %s was not raced: %s; nginx and haproxy are installed by: make deps", c.Name, row.Name, row.NotRaced)
	case row.Hash == "" || c.TLS == (row.Cipher == "") || row.Errors > 0 || row.Miscounted > 0:
		t.Errorf("%s: %s: hash %q, %d errors, %d rounds miscounted", c.Name, row.Name, row.Hash, row.Errors, row.Miscounted)
	case c.Idle:
		if d := row.Idle; d == nil || d.Held != 300 || d.Errors > 0 || d.Requests == 0 {
			t.Errorf("%s: %+v", row.Name, row.Idle)
		}
	case row.NsPerRequest.Value < 100 || row.NsPerRequest.Value > 1e9 || row.Memory.Value < 1<<20:
		t.Errorf("%s: %s: %.0f ns for a request, %.0f bytes", c.Name, row.Name, row.NsPerRequest.Value, row.Memory.Value)
	case row.Name != Nginx && row.ToNginx == nil:
		t.Errorf("%s: %s has no ratio", c.Name, row.Name)
	}
}
