package journal

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ceiling/internal/browser"
)

// Texts of the front matter are held to what records have, at their line.
func TestFrontTexts(t *testing.T) {
	for _, c := range []struct{ front, want string }{
		{"finding: It makes {{(run \"first\").Rte}}.\n", `entry.md:7: {{(run "first").Rte}}: unknown .Rte; near: Rate`},
		{"next: |\n  Then\n  {{(run \"frist\").Rate}}\n", `entry.md:9: {{(run "frist").Rate}}: "frist" is not among`},
		{"finding: '{{table \"first\"}}'\n", `entry.md:7: {{table "first"}} must be in its own paragraph`},
		{"finding: It makes {{(run \"first\").Rate\n", "entry.md:7: {{(run \"first\").Rate is not closed by }}"},
		{"hero: on /read\n", "entry.md:7: hero: it takes one figure and what that counts"},
		{"hero: '{{(run \"first\").Rate}} {{(run \"first\").P99}}'\n", "entry.md:7: hero: it takes one figure"},
		{"hero: '{{(run \"first\").Rate}} {{table \"first\"}}'\n", `entry.md:7: hero: {{table "first"}} is not a graph`},
		{"regime: bandwidth\n", `entry.md:7: regime: most runs of this entry name "CPU contention" (2 of 4)`},
		{"regime: server CPU\n", ""}, // 2 of 4, too
	} {
		dir := oneRun(t, "done", "")
		text := mustRead(t, filepath.Join(dir, "0001-a", entryFile))
		_, front, _ := strings.Cut(text, "---\n")
		front, _, _ = strings.Cut(front, "---\n")
		if strings.HasPrefix(c.front, "finding") {
			front = strings.Replace(front, "finding: F\n", "", 1)
		}
		lines := strings.SplitAfter(front, "\n")
		writeEntry(t, dir, "0001-a", strings.Join(lines[:5], "")+c.front+strings.Join(lines[5:], ""), "")
		got := mistakesOf(t, dir)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: got %q, want %q", c.front, got, c.want)
		}
	}
	dir := oneRun(t, "done", "")
	text := mustRead(t, filepath.Join(dir, "0001-a", entryFile))
	_, front, _ := strings.Cut(text, "---\n")
	front, _, _ = strings.Cut(front, "---\n")
	writeEntry(t, dir, "0001-a", strings.Replace(front, "finding: F", "finding: It makes 12,345 requests/s.", 1), "")
	if w := build(t, dir).Warnings; len(w) != 1 || !strings.Contains(w[0].Error(), `"12,345 requests/s" looks like a measured number`) {
		t.Errorf("a typed number in a finding: %v", w)
	}
}

// atom is what a reader of feeds takes from one.
type atom struct {
	XMLName xml.Name   `xml:"http://www.w3.org/2005/Atom feed"`
	Title   string     `xml:"http://www.w3.org/2005/Atom title"`
	ID      string     `xml:"http://www.w3.org/2005/Atom id"`
	Updated time.Time  `xml:"http://www.w3.org/2005/Atom updated"`
	Author  string     `xml:"http://www.w3.org/2005/Atom author>name"`
	Links   []atomLink `xml:"http://www.w3.org/2005/Atom link"`
	Entries []struct {
		Title   string     `xml:"http://www.w3.org/2005/Atom title"`
		ID      string     `xml:"http://www.w3.org/2005/Atom id"`
		Updated time.Time  `xml:"http://www.w3.org/2005/Atom updated"`
		Links   []atomLink `xml:"http://www.w3.org/2005/Atom link"`
		Summary string     `xml:"http://www.w3.org/2005/Atom summary"`
	} `xml:"http://www.w3.org/2005/Atom entry"`
}

type atomLink struct {
	Rel string `xml:"rel,attr"`
	To  string `xml:"href,attr"`
}

// The feed has what RFC 4287 asks for, and its IDs stay when a text or the address of
// the pages changes.
func TestFeed(t *testing.T) {
	dir := sampleJournal(t)
	read := func() (f atom, pages map[string][]byte) {
		s := build(t, dir)
		check(t, xml.Unmarshal(s.Files[FeedPage], &f))
		return f, s.Files
	}
	f, pages := read()
	if f.Title != "The shop's journal" || f.Author != "The shop" || len(f.Entries) != 6 || !f.Updated.Equal(day26()) {
		t.Errorf("the feed is %+v", f)
	}
	absolute := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for _, e := range f.Entries {
		name, under := strings.CutPrefix(e.Links[0].To, "https://example.org/journal/")
		if !absolute.MatchString(e.ID) || seen[e.ID] || e.Title == "" || e.Updated.IsZero() || e.Links[0].Rel != "alternate" || !under ||
			pages[name] == nil {
			t.Errorf("an entry of the feed: %+v", e)
		}
		seen[e.ID] = true
	}
	if !absolute.MatchString(f.ID) || seen[f.ID] {
		t.Errorf("the feed's own ID is %s", f.ID)
	}
	by := map[string]int{}
	for i, e := range f.Entries {
		by[e.Title] = i
	}
	if s := f.Entries[by["How fast is the shop?"]].Summary; !strings.HasPrefix(s, `The shop answers 12,345 req/s on one "core" & a bit, and twice that (2.00 times)`) {
		t.Errorf("the summary is %q", s)
	}
	if s := f.Entries[by["What was wrong"]].Summary; s != "Retracted: the <clock> was read before the batch" {
		t.Errorf("the summary of a retracted entry is %q", s)
	}
	if plans := f.Entries[by["Plans of every kind"]]; !plans.Updated.Equal(day26()) {
		t.Errorf("a changed entry is of %s", plans.Updated)
	}
	index := filepath.Join(dir, aboutFile)
	replaceText(t, index, "https://example.org/journal/", "https://example.com/")
	replaceText(t, filepath.Join(dir, "0001-base", entryFile), "title: How fast", "title: Say how fast")
	moved, _ := read()
	for i, e := range moved.Entries {
		if e.ID != f.Entries[i].ID || !strings.HasPrefix(e.Links[0].To, "https://example.com/") {
			t.Errorf("%s was %s before it moved", e.ID, f.Entries[i].ID)
		}
	}
}

func day26() time.Time { return time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC) }

// Links to pages are shown by others with a title, a text and an address.
func TestSharedLinks(t *testing.T) {
	s := build(t, sampleJournal(t))
	for name, want := range map[string][]string{
		IndexPage: {`property="og:title" content="The shop&#39;s journal"`, `property="og:type" content="website"`,
			`property="og:url" content="https://example.org/journal/index.html"`},
		"0001-base.html": {`name="twitter:card" content="summary"`, `property="og:title" content="How fast is the shop? `, `property="og:type" content="article"`,
			`property="og:description" content="The shop answers 12,345 req/s on one &#34;core&#34; &amp; a bit`},
		"0004-wrong.html": {`property="og:description" content="Retracted: the &lt;clock&gt;`},
		recordPage(runID): {`property="og:title"`, `href="../feed.xml"`},
	} {
		for _, w := range want {
			if !strings.Contains(string(s.Files[name]), w) {
				t.Errorf("%s lacks %s", name, w)
			}
		}
	}
}

// inSight are the entries of the index that a reader sees, by their numbers.
func inSight(p *browser.Page) string {
	var list []string
	p.Eval(`[...document.querySelectorAll(".entries > li")].filter(e => e.getClientRects().length).map(e => e.querySelector(".number").innerText)`, &list)
	return strings.Join(list, " ")
}

// testFilter: a label of the index leaves its entries in sight, without script as an
// anchor, and with it in any combination.
func testFilter(t *testing.T, p *browser.Page) {
	out := filepath.Join(t.TempDir(), "site")
	check(t, Write(build(t, sampleJournal(t)), out))
	index := "file://" + out + "/" + IndexPage
	const all = "0004 0001 0002 0003 0005 0006"
	p.SetViewport(1280, 900, 1, false)
	for _, script := range []bool{false, true} {
		p.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !script})
		for anchor, want := range map[string]string{"": all, "#entries": all, "#tag-shop": "0001 0002", "#tag-http-1.1": "0001",
			"#regime-cpu-contention": "0002", "#status-in-progress": "0005 0006", "#status-retracted": "0004"} {
			p.Open("about:blank") // so that the anchor alone does not stay on the page
			p.Open(index + anchor)
			if got := inSight(p); got != want {
				t.Errorf("script %v, %q: %s are in sight, want %s", script, anchor, got, want)
			}
		}
		p.Open("file://" + out + "/0001-base.html")
		follow(p, "a[href='index.html#tag-http-1.1']")
		if got := inSight(p); got != "0001" {
			t.Errorf("script %v: the tag of an entry leads to %s", script, got)
		}
	}
	p.Open("about:blank")
	p.Open(index)
	for _, step := range []struct{ click, want, says string }{
		{"a[href='#tag-shop']", "0001 0002", "2 of 6 entries"},
		{"a[href='#regime-server-cpu']", "0001", "1 of 6 entries"},
		{"a[href='#regime-cpu-contention']", "0002", "1 of 6 entries"}, // in place of the other
		{"a[href='#status-planned']", "", "No entry has all of these."},
		{"a[href='#entries']", all, ""},
	} {
		p.Eval(`document.querySelector(".find `+step.click+`").click()`, nil)
		if got, says := inSight(p), p.Text("#count"); got != step.want || says != step.says {
			t.Errorf("after %s: %q %q, want %q %q", step.click, got, says, step.want, step.says)
		}
	}
	p.Eval(`{ const w = document.querySelector("#words"); w.value = "sweep SAYS"; w.dispatchEvent(new Event("input")); }`, nil)
	if got := inSight(p); got != "0002" {
		t.Errorf("words: %s", got)
	}
	for _, v := range p.Violations() {
		t.Error(v)
	}
	quiet(t, p, "file://"+out+"/")
}

// replaceText changes a file that has to have the text.
func replaceText(t *testing.T, path, old, with string) {
	t.Helper()
	text := mustRead(t, path)
	if !strings.Contains(text, old) {
		t.Fatalf("%s lacks %q", path, old)
	}
	check(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, old, with)), 0o644))
}

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
