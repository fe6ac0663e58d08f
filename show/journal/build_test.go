package journal

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/archive"
	"ceiling/internal/needs"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// content is what a page has of its own, without what tables and figures look
// like: that is another package's matter.
func content(html string) string {
	_, text, _ := strings.Cut(html, "<main id=\"main\">")
	text, _, _ = strings.Cut(text, "</main>")
	taken := regexp.MustCompile(`(?s)<div class="taken">.*?<p class="quiet">From `)
	text = regexp.MustCompile(`(?s)<div class="picture">.*?</figure></div>`).ReplaceAllString(text, "<div class=\"picture\">…</div>")
	return taken.ReplaceAllString(text, "<div class=\"taken\">…<p class=\"quiet\">From ")
}

func TestGoldenPages(t *testing.T) {
	s := build(t, sampleJournal(t))
	for _, name := range []string{"index", "0001-base", "0002-plans", "0003-next", "0004-wrong", "0005-onwrong"} {
		got := content(string(s.Files[name+".html"]))
		const golden = "testdata/golden.txtar"
		if *update {
			archive.Update(t, golden, name+".html", []byte(got))
		}
		want := archive.Read(t, golden, name+".html")
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("%s of %s:\n%s", name, golden, d)
		}
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}
}

// Every record has a page, and every run of a plan whose record is there.
func TestEveryRecordHasAPage(t *testing.T) {
	s := build(t, sampleJournal(t))
	for id, says := range map[string]string{
		runID: "shop used 1.20", otherID: "24,690", sweepID: "fast stops growing", searchID: "15,000 req/s hold",
		proofID:      "The server&#39;s CPU is the ceiling",
		comparisonID: "Slower by 20%", "20261121-100000-run1": "12,345",
	} {
		text := string(s.Files[recordPage(id)])
		if !strings.Contains(text, says) || !strings.Contains(text, "Referred to in") {
			t.Errorf("the page of %s is missing, or lacks %q", id, says)
		}
	}
	if s.Files[recordPage("20261121-110000-run1")] != nil {
		t.Error("a run without a record has a page")
	}
}

func TestSameInputSameBytes(t *testing.T) {
	needs.Time(t)
	dir := sampleJournal(t)
	first := build(t, dir)
	for range 3 {
		if second := build(t, dir); !maps.EqualFunc(first.Files, second.Files, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Fatal("the same journal makes other bytes")
		}
	}
	out := filepath.Join(t.TempDir(), "site")
	for range 2 { // the second replaces the first
		check(t, Write(first, out))
	}
	for name, want := range first.Files {
		got, err := os.ReadFile(filepath.Join(out, name))
		check(t, err)
		if string(got) != string(want) {
			t.Errorf("%s was not written as it is", name)
		}
	}
	mine := filepath.Join(t.TempDir(), "mine")
	check(t, os.Mkdir(mine, 0o755))
	check(t, os.WriteFile(filepath.Join(mine, "thesis.txt"), nil, 0o644))
	if err := Write(first, mine); err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("a folder of other files: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".journal-*"))
	if check(t, err); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Links between pages lead to pages that there are.
func TestLinksLeadSomewhere(t *testing.T) {
	s := build(t, sampleJournal(t))
	href := regexp.MustCompile(`href="([^"]*)"`)
	id := regexp.MustCompile(` id="([^"]*)"`)
	checked := 0
	for name, text := range s.Files {
		for _, m := range href.FindAllStringSubmatch(string(text), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.HasPrefix(to, "http") || to == "data:," {
				continue
			}
			target := name
			if to != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), to))
			}
			page, there := s.Files[target]
			if !there {
				t.Errorf("%s links to %s", name, m[1])
				continue
			}
			checked++
			if anchor != "" && !slices.ContainsFunc(id.FindAllStringSubmatch(string(page), -1), func(m []string) bool { return m[1] == anchor }) {
				t.Errorf("%s links to %s, and no element is called so", name, m[1])
			}
		}
		ids := map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(string(text), -1) {
			if ids[m[1]] {
				t.Errorf("%s has two elements called %s", name, m[1])
			}
			ids[m[1]] = true
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were looked at", checked)
	}
}

// The journal of this repository builds, with every reference in it, from what
// is in the repository alone.
func TestOwnJournal(t *testing.T) {
	needs.Time(t)
	dir := filepath.Join("..", "..", "docs", "journal")
	j, err := Read(dir, noStore(t))
	check(t, err)
	s, err := Build(j)
	check(t, err)
	for _, w := range s.Warnings {
		t.Errorf("warning: %s", w.Error())
	}
	reference := regexp.MustCompile(`\{\{[^}]*\}\}`)
	walked, entries := 0, 0
	for _, e := range j.Entries {
		entries++
		for _, text := range reference.FindAllString(string(e.body), -1) {
			a, err := e.answer(strings.TrimSuffix(strings.TrimPrefix(text, "{{"), "}}"))
			if err != nil {
				t.Errorf("%s: %s: %v", e.Name, text, err)
			}
			if a.Pending != (len(a.From) > 0 && a.From[0].Pending()) || a.full() == "" && len(a.blocks) == 0 && a.html == "" {
				t.Errorf("%s: %s comes to nothing", e.Name, text)
			}
			walked++
		}
		if strings.Contains(content(string(s.Files[e.Page()])), "{{") {
			t.Errorf("%s: a reference is left in the page", e.Name)
		}
	}
	if entries < 6 || walked < 100 {
		t.Errorf("%d entries with %d references: some are missing, or this test does not find them", entries, walked)
	}
	checkOwnPages(t, s)
}

// checkOwnPages looks for what only a real journal has: experiments over a link, both ends by category, every
// published point, and intervals above and below 95 %.
func checkOwnPages(t *testing.T, s *Site) {
	t.Helper()
	for name, want := range map[string][]string{
		"0017-link.html":      {"The experiment gives the link speed", "CPU time of both ends over the window of ", "a veth pair to a network namespace"},
		"0022-published.html": {"Entry 01", "Entry 12", "artifact: backlog flush"},
		"0010-regimes.html":   {"memory-16B", "208,350", "metastable"},
		"index.html":          {"A million requests per second is not one number"},
	} {
		for _, text := range want {
			if !strings.Contains(string(s.Files[name]), text) {
				t.Errorf("%s lacks %q", name, text)
			}
		}
	}
	if rows := strings.Count(string(s.Files["0022-published.html"]), "<tr>"); rows != 46+6 {
		t.Errorf("%d rows for 46 published points in 6 tables", rows)
	}
	// An interval of 96 or 99 % goes without its level, one of 88 % has it.
	if page := string(s.Files["0001-servers.html"]); strings.Contains(page, "96% CI") {
		t.Error("a level above 95% is named")
	}
	if page := string(s.Files["0002-connections.html"]); !strings.Contains(page, "88% CI") {
		t.Error("a level below 95% is not named")
	}
}

// The documentation has every figure, and of a record to come each can be asked.
func TestDocumentedFigures(t *testing.T) {
	text := mustRead(t, filepath.Join("..", "..", "docs", "journal.md"))
	e := &Entry{Records: []*Record{{Name: "later"}}}
	for _, of := range []string{`run "later"`, `plan "later"`, `curve "later" "a"`, `(curve "later" "a").At 1`, `resource "later" "a"`,
		`metric "later" "a"`, `cell "later" "a"`, `effect "later" "a" "b"`, `(run "later").Lag`} {
		found, err := evaluate(of, e.functions())
		check(t, err)
		for _, figure := range found.(figures).names() {
			if !strings.Contains(text, "`"+figure+"`") {
				t.Errorf("docs/journal.md lacks %s of %s", figure, of)
			}
			more := map[string]string{"At": " 1", "Station": ` "server"`}[figure]
			switch a, err := e.answer("(" + of + ")." + figure + more); figure {
			case "At", "Run", "Service", "Lag":
				if err == nil || !strings.Contains(err.Error(), "has figures; name one") {
					t.Errorf("%s of %s: %v", figure, of, err)
				}
			default:
				if err != nil || !a.Pending {
					t.Errorf("%s of %s: %v, %v", figure, of, a, err)
				}
			}
		}
	}
}
