package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

func TestPage(t *testing.T) {
	needs.Program(t, "chromium")
	events := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<!doctype html><title>t</title><h1>Hello</h1><button>b</button>
<script>console.error("said", 7); console.log("quiet"); setTimeout(() => { throw new Error("thrown") });
fetch("/missing"); new EventSource("/events").onmessage = e => document.title = e.data</script>`)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: arrived\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-events:
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(events) })

	p := Start(t).Page()
	p.Open(server.URL + "/")
	p.Wait(`document.title == "arrived"`)
	if got := p.Text("h1"); got != "Hello" {
		t.Errorf("text %q", got)
	}
	errors := strings.Join(p.Errors(), "\n")
	for _, want := range []string{`"said" 7`, "thrown", "404"} {
		if !strings.Contains(errors, want) {
			t.Errorf("the errors lack %q:\n%s", want, errors)
		}
	}
	if strings.Contains(errors, "quiet") {
		t.Errorf("a plain message is among the errors:\n%s", errors)
	}
	seen := map[string]int{}
	for _, r := range p.Requests() {
		seen[strings.TrimPrefix(r.URL, server.URL)] = r.Status
	}
	if seen["/"] != 200 || seen["/missing"] != 404 || seen["/events"] != 200 {
		t.Errorf("requests %v", seen)
	}
	p.Key("Tab")
	var focused string
	p.Eval(`document.activeElement.tagName`, &focused)
	if focused != "BUTTON" {
		t.Errorf("after Tab the focus is on %s", focused)
	}
}

func TestViews(t *testing.T) {
	needs.Program(t, "chromium")
	file := filepath.Join(t.TempDir(), "page.html")
	text := `<!doctype html><meta name=viewport content="width=device-width"><p id=p>no script</p><script>p.innerText = "script"</script>`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b := Start(t)
	p := b.Page()
	p.Open("file://" + file)
	if got := p.Text("#p"); got != "script" {
		t.Errorf("with script: %q", got)
	}
	var dark, print bool
	p.SetDark(true)
	p.Eval(`matchMedia("(prefers-color-scheme: dark)").matches`, &dark)
	p.SetPrint(true)
	p.Eval(`matchMedia("print").matches`, &print)
	if !dark || !print {
		t.Errorf("dark %v, print %v", dark, print)
	}
	p.SetPrint(false)
	p.SetViewport(390, 700, 2, true)
	image, err := png.DecodeConfig(bytes.NewReader(p.Screenshot(false)))
	if err != nil || image.Width != 780 || image.Height != 1400 {
		t.Errorf("screenshot %v, %v", image, err)
	}
	if !bytes.HasPrefix(p.PDF(), []byte("%PDF-")) {
		t.Error("no PDF")
	}
	other := b.Page()
	other.SetScript(false)
	other.Open("file://" + file)
	if got := other.Text("#p"); got != "no script" {
		t.Errorf("without script: %q", got)
	}
	if n := len(other.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Nothing but the loopback can be reached, whatever a page tries.
func TestOutsideIsCut(t *testing.T) {
	needs.Program(t, "chromium")
	p := Start(t).Page()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(`<img src="http://outside.test/x.png">`), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Open("file://" + file)
	requests := p.Requests()
	if len(requests) != 2 || !strings.Contains(requests[1].Failed, "ERR_NAME_NOT_RESOLVED") {
		t.Errorf("requests %+v", requests)
	}
}
