package ceiling

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// circumlocutions are phrases that a native writer does not use, and what to write.
func circumlocutions() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		`"of its own" is "its own" or "separate"`:                   regexp.MustCompile(`(?i)\bof (its|their|our|your|my|his|her) own\b`),
		`"stands" and "lies" are "is"`:                              regexp.MustCompile(`(?i)\b(stands?|lies)\b`),
		`"as X has it" is "like X"`:                                 regexp.MustCompile("(?i)\\bas [\\w`'-]+( [\\w`'-]+)? (has|have) (it|them)\\b"),
		`"leave X out" is "remove X" or "drop X"`:                   regexp.MustCompile(`(?i)\bleav(e|es|ing) \S+( \S+){0,3} out\b`),
		`name the actor; "goes on" is "continues"`:                  regexp.MustCompile(`(?i)\b(nobody|whoever|meanwhile|go(es)? on)\b`),
		`"alone" is "only"`:                                         regexp.MustCompile(`(?i)\balone\b`),
		`"by itself" is "automatically" or "separately"`:            regexp.MustCompile(`(?i)\bby (itself|themselves)\b`),
		`repeat the noun for "that of"; two sentences, not "whose"`: regexp.MustCompile(`(?i)\b(whose|of which|(that|those) of)\b`),
		`"beside", "anew", "mend" are "next to", "with", "fix"`:     regexp.MustCompile(`(?i)\b(beside|anew|mend(s|ed|ing)?)\b`),
	}
}

// TestProseIsPlain: no page, no message and no template has them. Generated pages have them from their
// sources: messages, and the comments that docs/record-fields.md shows.
func TestProseIsPlain(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "*.md", "*.tmpl", "*.html").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`<!-- race: (?s:.*?)<!-- end of race -->|\{\{.*?\}\}|class="[^"]*"|\| nobody-listens \|`)
	for _, page := range strings.Fields(string(list)) {
		if strings.HasPrefix(page, "docs/journal/") || strings.Contains(page, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		isPlain(t, page, names.ReplaceAllString(string(text), " "))
	}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING && strings.Contains(text.Value, " ") {
				isPlain(t, s.name, text.Value)
			}
			return true
		})
	}
}

func isPlain(t *testing.T, where, text string) {
	line := strings.Join(strings.Fields(text), " ") // a phrase may cross the end of a line
	for instead, phrase := range circumlocutions() {
		for _, at := range phrase.FindAllStringIndex(line, -1) {
			t.Errorf("%s: %s: %q", where, instead, line[max(0, at[0]-90):min(len(line), at[1]+60)])
		}
	}
}
