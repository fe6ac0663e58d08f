package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ceiling/internal/browser"
	"ceiling/internal/needs"
	"ceiling/record"
)

// hostile is a text that would be an element, an attribute, a script, a link, or
// a reference, where it is not taken for text.
const hostile = "\"'><x-hostile onhostile=1></script><script>pwned=1</script><img src=x onerror=pwned=1>[a](javascript:pwned=1){{(run \"first\").Rate}}`|*\u202e\u0000"

// poisoned puts the text in the place of every string of a document, but of
// those that the reader itself looks at.
func poisoned(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = poisoned(inner, k)
		}
		return v
	case []any:
		for i, inner := range v {
			v[i] = poisoned(inner, key)
		}
		return v
	case string:
		switch key {
		case "schema", "id", "started", "created", "kind", "run", "ended", "url", "path", "method", "duration", "warmup", "timeout", "slo", "engine", "arrivals", "rate", "rest", "over", "resource", "decision", "metric", "unit":
			return v
		case "name": // two servers have to have different ones
			return v + hostile
		}
		return hostile
	}
	return v
}

// poison spoils the lines of some kinds.
func poison(t *testing.T, file string, kinds ...string) {
	t.Helper()
	rewrite(t, file, func(kind string, line []byte) []byte {
		if !slices.Contains(kinds, kind) {
			return line
		}
		var document any
		in := json.NewDecoder(bytes.NewReader(line))
		in.UseNumber()
		check(t, in.Decode(&document))
		line, err := json.Marshal(poisoned(document, ""))
		check(t, err)
		return line
	})
}

// hostileJournal is one whose records, and whose texts of a person's, are full
// of markup.
func hostileJournal(t *testing.T) string {
	t.Helper()
	dir := sampleJournal(t)
	for id := range samplePlans() {
		poison(t, fileOf(filepath.Join(dir, "0002-plans", recordsDir), id), "plan", "answer", "measured")
	}
	for _, id := range []string{runID, otherID} {
		poison(t, fileOf(filepath.Join(dir, "0001-base", recordsDir), id), "run", "result")
	}
	base := filepath.Join(dir, "0001-base", entryFile)
	check(t, os.WriteFile(base, []byte(strings.Replace(mustRead(t, base), `(run "x7f2").Station "server"`, `(run "x7f2").Target`, 1)), 0o644))
	plans := filepath.Join(dir, "0002-plans", entryFile)
	for _, file := range []string{base, plans} { // the verdicts name other bottlenecks now
		check(t, os.WriteFile(file, regexp.MustCompile(`(?m)^regime: .*\n`).ReplaceAll([]byte(mustRead(t, file)), nil), 0o644))
	}
	figure := regexp.MustCompile(`\(\(curve "sweep" "\w+"\)\.At 64\)\.\w+|\(curve "sweep" "fast"\)\.Knee`)
	text := figure.ReplaceAllString(mustRead(t, plans), `(plan "sweep").Count`)
	text = strings.Replace(text, `{{figure "search" "tried"}}`, "", 1) // no outcome of its runs is one
	check(t, os.WriteFile(plans, []byte(strings.Replace(text, `(curve "sweep" "fast").Says`, `(plan "sweep").Question`, 1)), 0o644))
	writeEntry(t, dir, "0007-text", "status: planned\ntitle: "+quoted(hostileLine)+"\nquestion: "+quoted(hostileLine)+"\nhypothesis: "+quoted(hostileLine)+"\n",
		"\n"+hostileLine+"\n\n<script>pwned=1</script>\n\n<x-hostile onhostile=1>\n\n<!-- x -->\n\n{{typed "+fmt.Sprintf("%q", hostileLine)+"}}\n\n```\n"+hostileLine+"\n```\n")
	return dir
}

// hostileLine is what a person might write in an entry.
const hostileLine = "\"'><x-hostile onhostile=1></script><script>pwned=1</script><img src=x onerror=pwned=1>"

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	return string(text)
}

// What is in a record is text, in every page.
func TestHostileRecords(t *testing.T) {
	s := build(t, hostileJournal(t))
	seen := 0
	for name, html := range s.Files {
		text := string(html)
		if filepath.Ext(name) == ".csv" {
			continue // no browser takes it for a page: it is text/csv, and nosniff
		}
		if strings.Contains(text, "&lt;x-hostile") {
			seen++
		}
		for _, bad := range []string{"<x-hostile", "<img src=x", "<script>pwned", "javascript:pwned=1\"", "\u202e"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q in it", name, bad)
			}
		}
		if n := strings.Count(text, "<script"); n > 1+strings.Count(text, "<script type=\"application/json\"") {
			t.Errorf("%s has %d scripts", name, n)
		}
	}
	if seen < 8 {
		t.Errorf("only %d pages show the text: the records are not poisoned", seen)
	}
}

// A record with credentials is not put into a journal.
func TestCredentialsStayOut(t *testing.T) {
	dir := oneRun(t, "in progress", "")
	e, err := FindEntry(dir, "0001")
	check(t, err)
	for _, spoil := range []func(r *record.Run){
		func(r *record.Run) {
			r.Spec.Targets[0].Header = append(r.Spec.Targets[0].Header, field("authorization", "Bearer x"))
		},
		func(r *record.Run) { r.Spec.Targets[0].URL = "http://me:secret@127.0.0.1:8080/" },
		func(r *record.Run) { r.Command = append(r.Command, "-H", "Cookie: id=7") },
		func(r *record.Run) { r.Command = append(r.Command, "--body=x") },
		func(r *record.Run) { r.Spec.Targets[0].URL += "?access_token=x" },
		func(r *record.Run) { r.Spec.Targets[0].Body = []byte("x") },
	} {
		r, h := sampleRun("20261121-150000-cred", 1)
		spoil(r)
		from := fileOf(t.TempDir(), r.ID)
		keepRun(t, from, r, h)
		if _, err := Add(e, record.File{Path: from}, ""); err == nil || !strings.Contains(err.Error(), "a journal is made to be published") {
			t.Errorf("it was put in: %v", err)
		}
		if list, err := os.ReadDir(filepath.Join(e.Dir, recordsDir)); err != nil || len(list) != 3 { // those of oneRun
			t.Errorf("a file of it is there: %v, %v", list, err)
		}
	}
}

func TestJournalInABrowser(t *testing.T) {
	needs.Program(t, "chromium")
	tab := browser.Start(t)
	t.Run("disk", func(t *testing.T) { testDisk(t, tab()) })
	t.Run("phone", func(t *testing.T) { testPhone(t, tab()) })
	t.Run("filter", func(t *testing.T) { testFilter(t, tab()) })
	t.Run("own", func(t *testing.T) { testOwn(t, tab()) })
	t.Run("server", func(t *testing.T) { testServer(t, tab()) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, tab()) })
}

// quiet fails when a page complained, or asked for anything but pages of the
// journal.
func quiet(t *testing.T, p *browser.Page, root string) {
	t.Helper()
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("console: %s", <-p.Errors)
	}
	for len(p.Requests) > 0 {
		_, to, _ := strings.Cut(<-p.Requests, " ")
		if !strings.HasPrefix(to, root) && !strings.HasPrefix(to, "data:image/png;base64,") {
			t.Errorf("a page asked for %.200s", to)
		}
	}
}

// follow opens the page that a link leads to.
func follow(p *browser.Page, selector string) {
	var to string
	p.Eval(fmt.Sprintf(`document.querySelector(%q).href`, selector), &to)
	p.Open(to)
}

// pagesShown are an index, entries, a run, and a plan of each kind.
func pagesShown() []string {
	return []string{IndexPage, "0001-base.html", "0002-plans.html", "0004-wrong.html", recordPage(runID), recordPage(sweepID),
		recordPage(searchID), recordPage(proofID), recordPage(comparisonID)}
}

// cutOff fails for texts that a phone shows only when the page is scrolled sideways.
func cutOff(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
	clipped, err := os.ReadFile("../../internal/browser/testdata/clipped.js")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	p.Eval(string(clipped), &texts)
	for i, text := range texts {
		if i < 5 {
			t.Errorf("%s: on a phone this is cut off: %s", name, text)
		}
	}
}

// testDisk opens the pages as files: they can be read by everybody, in light and
// dark, on a phone and on paper, and lead to each other.
func testDisk(t *testing.T, p *browser.Page) {
	out := filepath.Join(t.TempDir(), "site")
	dir := sampleJournal(t)
	check(t, Write(build(t, dir), out))
	root := "file://" + out + "/"
	for i, name := range pagesShown() {
		p.SetViewport(1280, 900, 1, false)
		p.SetMedia("", i%2 == 1)
		p.Open(root + name)
		p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
		for _, v := range p.Violations() {
			t.Errorf("%s: %s", name, v)
		}
		p.SetMedia("", i%2 == 0)
		p.SetViewport(360, 800, 2, true)
		p.Open(root + name)
		var wide int
		p.Eval(`document.documentElement.scrollWidth`, &wide)
		if wide > 360 {
			t.Errorf("%s: at 360 pixels the page is %d wide", name, wide)
		}
		cutOff(t, p, name)
	}
	p.SetViewport(1280, 900, 1, false)
	p.Open(root + IndexPage)
	if text := p.Text("main"); strings.Index(text, "What was wrong") > strings.Index(text, "How fast is the shop?") || !strings.Contains(text, "retracted") {
		t.Errorf("the index is not in the order of the days, or has no statuses: %s", text)
	}
	follow(p, ".entries a[href='0002-plans.html']")
	var drawn struct{ Dots, Bars int }
	p.Eval(`({ dots: [...document.querySelectorAll("figure .graph .dot")].reduce((n, d) => n + +d.dataset.points, 0), bars: document.querySelectorAll("figure .forest-reach").length })`, &drawn)
	if drawn.Dots != 6+12+2 || drawn.Bars != 3+2 {
		t.Errorf("%d dots and %d bars are drawn; the records have 6 rates, 12 percentiles, 2 attempts and 5 estimates", drawn.Dots, drawn.Bars)
	}
	follow(p, "a.value[href='runs/"+searchID+".html']")
	if !strings.Contains(p.Text("main"), "Tested rates") {
		t.Error("a figure does not lead to its record")
	}
	p.SetMedia("print", false)
	pdf := browser.Run(p, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground(),
		chromedp.PDFPreferCSSPageSize()))
	if !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Error("it cannot be printed")
	}
	quiet(t, p, root)
}

// testOwn: the texts of this repository's own entries, which are as long as they are, fit
// on a phone and can be read by everybody.
func testOwn(t *testing.T, p *browser.Page) {
	out := filepath.Join(t.TempDir(), "site")
	s := build(t, filepath.Join("..", "..", "docs", "journal"))
	check(t, Write(s, out))
	root := "file://" + out + "/"
	p.SetViewport(390, 844, 2, true)
	for name := range s.Files {
		if strings.Contains(name, "/") || filepath.Ext(name) != ".html" {
			continue
		}
		p.SetMedia("", strings.HasSuffix(name, "s.html"))
		p.Open(root + name)
		var wide int
		if p.Eval(`document.documentElement.scrollWidth`, &wide); wide > 390 {
			t.Errorf("%s: at 390 pixels the page is %d wide", name, wide)
		}
		cutOff(t, p, name)
		if name == IndexPage || strings.HasPrefix(name, "0004") || strings.HasPrefix(name, "0007") {
			for _, v := range p.Violations() {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
	quiet(t, p, root)
}

func testHostile(t *testing.T, p *browser.Page) {
	out := filepath.Join(t.TempDir(), "site")
	check(t, Write(build(t, hostileJournal(t)), out))
	root := "file://" + out + "/"
	for _, name := range append(pagesShown(), "0007-text.html") {
		p.Open(root + name)
		p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
		var state struct {
			Pwned    string
			Elements int
			Images   int
			Links    []string
		}
		p.Eval(`({ pwned: typeof pwned, elements: document.querySelectorAll("x-hostile, [onhostile], [onerror], iframe, object, base, link:not([rel=icon], [rel=alternate]), form").length,
			images: [...document.images].filter(i => !i.src.startsWith("data:image/png;base64,")).length,
			links: [...document.links].map(a => a.protocol).filter(p => p !== "file:" && p !== "https:") })`, &state)
		if state.Pwned != "undefined" || state.Elements+state.Images+len(state.Links) > 0 {
			t.Errorf("%s: %+v", name, state)
		}
	}
	quiet(t, p, root)
}
