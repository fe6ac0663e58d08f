package journal

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"ceiling/internal/browser"
)

func get(t *testing.T, url string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	check(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(t, err)
	return answer.StatusCode, string(text), answer.Header
}

// touch makes a file newer, whatever the resolution of the file system's clock.
func touch(t *testing.T, path string, by time.Duration) {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	check(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(by)))
}

var mediaTypes = map[string]string{".html": "text/html", ".xml": "application/atom+xml", ".csv": "text/csv"}

// The pages are those of the files as they are now; a mistake is a page too.
func TestServed(t *testing.T) {
	dir := sampleJournal(t)
	server := httptest.NewServer(NewHandler(dir, noStore(t)))
	t.Cleanup(server.Close)
	want := build(t, dir)
	for name, data := range want.Files {
		code, text, head := get(t, server.URL+"/"+name, nil)
		if code != 200 || text != string(data) || !strings.HasPrefix(head.Get("Content-Type"), mediaTypes[filepath.Ext(name)]) ||
			head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %d bytes of %d, %v", name, code, len(text), len(data), head)
		}
	}
	if code, text, _ := get(t, server.URL, nil); code != 200 || text != string(want.Files[IndexPage]) {
		t.Errorf("the root is not the index: %d", code)
	}
	if code, _, _ := get(t, server.URL+"/runs/../../../etc/passwd", nil); code != 404 {
		t.Errorf("outside: %d", code)
	}
	path := filepath.Join(dir, "0006-later", entryFile)
	good := mustRead(t, path)
	check(t, os.WriteFile(path, []byte(strings.Replace(good, "title: Alone", "title: Two of us", 1)), 0o644))
	touch(t, path, time.Second)
	if _, text, _ := get(t, server.URL, nil); !strings.Contains(text, "Two of us") {
		t.Error("the change is not to be seen")
	}
	check(t, os.WriteFile(path, []byte(strings.Replace(good, "status: in progress", "status: <b>", 1)), 0o644))
	touch(t, path, 2*time.Second)
	code, text, _ := get(t, server.URL+"/0001-base.html", nil)
	if code != 500 || !strings.Contains(text, "0006-later/entry.md:4: status: unknown status &#34;&lt;b&gt;&#34;") {
		t.Errorf("a mistake: %d, %s", code, content(text))
	}
	check(t, os.WriteFile(path, []byte(good), 0o644))
	touch(t, path, 3*time.Second)
	if code, text, _ := get(t, server.URL, nil); code != 200 || text != string(want.Files[IndexPage]) {
		t.Errorf("mended: %d", code)
	}
	check(t, os.RemoveAll(dir))
	if code, text, _ := get(t, server.URL, nil); code != 500 || !strings.Contains(text, "could not be built") {
		t.Errorf("the folder is gone: %d", code)
	}
}

// A name that is not this machine's own is refused, and so is what changes
// something.
func TestServedToThisMachineAlone(t *testing.T) {
	server := httptest.NewServer(NewHandler(sampleJournal(t), noStore(t)))
	t.Cleanup(server.Close)
	for host, want := range map[string]int{"localhost:80": 200, "127.0.0.1": 200, "[::1]:99": 200, "evil.example": 421,
		"localhost.evil.example:80": 421, "": 200} {
		code, text, _ := get(t, server.URL, func(r *http.Request) { r.Host = host })
		if code != want || code != 200 && strings.Contains(text, "shop") {
			t.Errorf("host %q: %d, want %d", host, code, want)
		}
	}
	if code, _, head := get(t, server.URL, func(r *http.Request) { r.Method = http.MethodPost }); code != 405 || head.Get("Allow") == "" {
		t.Errorf("POST: %d", code)
	}
}

// testServer looks at the same pages in a browser, from the server, and at the
// page of mistakes.
func testServer(t *testing.T, p *browser.Page) {
	dir := sampleJournal(t)
	server := httptest.NewServer(NewHandler(dir, noStore(t)))
	t.Cleanup(server.Close)
	p.Open(server.URL + "/")
	follow(p, "a[href='0001-base.html']")
	if text := p.Text("article"); !strings.Contains(text, "The shop answers 12,345 req/s on 64 connections") {
		t.Errorf("the text: %s", text)
	}
	browser.Run(p, chromedp.KeyEvent(kb.Tab))
	var focused string
	p.Eval(`document.activeElement.className`, &focused)
	if focused != "skip" {
		t.Errorf("the first thing that the keyboard reaches is %q", focused)
	}
	follow(p, "a.value")
	p.Wait(`document.querySelector("figure#rate") && document.querySelector("figure#rate").dataset.drawn`)
	follow(p, ".trail a")
	var entries int
	if p.Eval(`document.querySelectorAll(".entries > li").length`, &entries); entries != 6 {
		t.Errorf("the index has %d entries", entries)
	}
	quiet(t, p, server.URL)
	path := filepath.Join(dir, "0006-later", entryFile)
	check(t, os.WriteFile(path, []byte("nothing"), 0o644))
	touch(t, path, time.Second)
	code, _, _ := get(t, server.URL, nil)
	p.Open(server.URL + "/0001-base.html")
	if text := p.Text("main"); code != 500 || !strings.Contains(text, "an entry begins with a front matter") {
		t.Errorf("mistakes: %d, %s", code, text)
	}
	for _, v := range p.Violations() {
		t.Errorf("mistakes: %s", v)
	}
}
