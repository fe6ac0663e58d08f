package ceiling

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/show/report"
)

// link is a Markdown link to another place of the repository.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`) // read-only

// manualPages are the pages that a reader meets.
func manualPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "proxy/README.md", "proxy/CONFIG.md",
		"deploy/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/bottlenecks/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
}

// anchors are those that GitHub and most generators make of a page's headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(strings.TrimSpace(heading[1]))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	for _, named := range regexp.MustCompile(`<a id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		all[named[1]] = true
	}
	return all
}

// TestLinksOfTheManual: each leads to a file that is there, and to a heading that it has.
func TestLinksOfTheManual(t *testing.T) {
	checked, headings := 0, map[string]map[string]bool{}
	for _, page := range manualPages(t) {
		for _, found := range link.FindAllStringSubmatch(prose(t, page), -1) {
			to, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
				continue
			}
			checked++
			file := page
			if to != "" {
				file = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s leads nowhere", page, found[1])
				continue
			}
			if anchor == "" || !strings.HasSuffix(file, ".md") {
				continue
			}
			if headings[file] == nil {
				headings[file] = anchors(prose(t, file))
			}
			if !headings[file][anchor] {
				t.Errorf("%s: %s has no heading %q", page, file, anchor)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found: the search is broken", checked)
	}
}

// TestEveryPageIsReached from the manual's index; the fields of a record from the page on records.
func TestEveryPageIsReached(t *testing.T) {
	index := prose(t, "docs/index.md") + prose(t, "docs/record.md")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "index.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("%s is not reached from docs/index.md", page)
		}
	}
}

// TestEveryBottleneckHasItsPage: the verdict names it with -v, and the list of all leads there.
func TestEveryBottleneckHasItsPage(t *testing.T) {
	list := prose(t, "docs/verdicts.md")
	for _, b := range record.Bottlenecks() {
		page := report.ManualOf(b)
		if !strings.Contains(list, "]("+strings.TrimPrefix(page, "docs/")+")") {
			t.Errorf("docs/verdicts.md does not lead to %s", page)
		}
		if text := prose(t, page); !strings.Contains(text, "**Confused with:**") {
			t.Errorf("%s does not say what it is confused with", page)
		}
	}
}

// TestReadmeIsShort: a first page that nobody finishes is no first page.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines; 150 are enough", lines)
	}
}
