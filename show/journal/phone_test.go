package journal

import (
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/browser"
)

// testPhone: an entry of the index is a short card on a phone, with its status, day, title,
// figure and the first sentence of its finding; the rest is a tap away, and is there on a
// desk.
func testPhone(t *testing.T, p *browser.Page) {
	out := filepath.Join(t.TempDir(), "site")
	s := build(t, filepath.Join("..", "..", "docs", "journal"))
	check(t, Write(s, out))
	root := "file://" + out + "/"
	look := func(width int) (high []float64, text string, tags bool) {
		p.SetViewport(width, 844, 2, width < 600)
		p.Open(root + IndexPage)
		p.Eval(`[...document.querySelectorAll(".entries > li")].map(e => e.getBoundingClientRect().height)`, &high)
		p.Eval(`document.querySelector(".filters .chips a").checkVisibility({ contentVisibilityAuto: true })`, &tags)
		return high, p.Text(".entries"), tags
	}
	high, text, tags := look(390)
	for i, pixels := range high {
		if pixels > 844 {
			t.Errorf("entry %d takes more than a phone's window: %.0f pixels", i+1, pixels)
		}
	}
	if n := strings.Count(text, "Read on"); n < len(high)/2 || tags || strings.Contains(text, "Requests per second: /list") {
		t.Errorf("of %d entries %d can be read on; the tags are in sight: %v", len(high), n, tags)
	}
	for _, v := range p.Violations() {
		t.Errorf("on a phone: %s", v)
	}
	_, text, tags = look(1280)
	if strings.Contains(text, "Read on") || !tags || !strings.Contains(text, "Requests per second: /read") ||
		strings.Contains(text, "Requests per second: /list") {
		t.Errorf("on a desk: the tags are in sight: %v; %s", tags, text)
	}
	quiet(t, p, root)
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"No: it takes 1.5 ms. The CPU is why": "No: it takes 1.5 ms.",
		"net/http answers more. fiber less.":  "net/http answers more. fiber less.",
		"It does, e.g. with gzip.":            "It does, e.g. with gzip.",
	} {
		if first, rest := afterFirst(text); first != want || first+rest != text {
			t.Errorf("%q and %q of %q", first, rest, text)
		}
	}
}
