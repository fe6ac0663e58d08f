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

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"ceiling/internal/needs"
)

// all empties a channel.
func all(p *Page, from chan string) (list []string) {
	for p.Eval("1", nil); len(from) > 0; {
		list = append(list, <-from)
	}
	return list
}

func TestPage(t *testing.T) {
	needs.Program(t, "chromium")
	events := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<!doctype html><title>t</title><h1>Hello</h1><button>b</button>
<script>console.error("said", 7); setTimeout(() => { throw new Error("thrown") });
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

	p := Start(t)()
	p.Open(server.URL + "/")
	p.Wait(`document.title == "arrived"`)
	if got := p.Text("h1"); got != "Hello" {
		t.Errorf("text %q", got)
	}
	p.Wait(`performance.getEntriesByType("resource").some(r => r.name.endsWith("/missing"))`)
	errors := strings.Join(all(p, p.Errors), "\n")
	for _, want := range []string{`"said"`, "7", "thrown", "404"} {
		if !strings.Contains(errors, want) {
			t.Errorf("the errors lack %q:\n%s", want, errors)
		}
	}
	requests := strings.Join(all(p, p.Requests), "\n")
	for _, want := range []string{"Document " + server.URL + "/\n", "Fetch " + server.URL + "/missing", "EventSource " + server.URL + "/events"} {
		if !strings.Contains(requests, want) {
			t.Errorf("the requests lack %q:\n%s", want, requests)
		}
	}
	Run(p, chromedp.KeyEvent(kb.Tab))
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
	tab := Start(t)
	p := tab()
	p.Open("file://" + file)
	if got := p.Text("#p"); got != "script" {
		t.Errorf("with script: %q", got)
	}
	var dark, print bool
	p.SetMedia("", true)
	p.Eval(`matchMedia("(prefers-color-scheme: dark)").matches`, &dark)
	p.SetMedia("print", false)
	p.Eval(`matchMedia("print").matches`, &print)
	if !dark || !print {
		t.Errorf("dark %v, print %v", dark, print)
	}
	p.SetMedia("", false)
	p.SetViewport(390, 700, 2, true)
	image, err := png.DecodeConfig(bytes.NewReader(Run(p, chromedp.CaptureScreenshot())))
	if err != nil || image.Width != 780 || image.Height != 1400 {
		t.Errorf("screenshot %v, %v", image, err)
	}
	other := tab()
	other.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	other.Open("file://" + file)
	if got := other.Text("#p"); got != "no script" {
		t.Errorf("without script: %q", got)
	}
	if list := all(other, other.Requests); len(list) != 1 {
		t.Errorf("requests %q", list)
	}
}

// Nothing but the loopback can be reached, whatever a page tries.
func TestOutsideIsCut(t *testing.T) {
	needs.Program(t, "chromium")
	p := Start(t)()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(`<img src="http://outside.test/x.png">`), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Open("file://" + file)
	requests, errors := all(p, p.Requests), all(p, p.Errors)
	if len(requests) != 2 || len(errors) != 1 || !strings.Contains(errors[0], "ERR_NAME_NOT_RESOLVED") {
		t.Errorf("requests %q, errors %q", requests, errors)
	}
}

func TestViolations(t *testing.T) {
	needs.Program(t, "chromium")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'") // axe runs all the same
		w.Write([]byte(`<!doctype html><html><head><title>t</title></head><body><main><h1>h</h1><p style="color:#bbb;background:#fff">faint</p><img src="data:,"></main></body></html>`))
	}))
	t.Cleanup(server.Close)
	p := Start(t)()
	p.Open(server.URL)
	found := strings.Join(p.Violations(), "\n")
	for _, want := range []string{"color-contrast", "html-has-lang", "image-alt"} {
		if !strings.Contains(found, want) {
			t.Errorf("%s was not found in:\n%s", want, found)
		}
	}
}
