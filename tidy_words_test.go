package ceiling

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// riddles are the turns of phrase that a native reader has to translate, and what to write instead.
func riddles() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		`"X is no Y" is "invalid Y: X" or "X is not a Y"`: regexp.MustCompile(`\b(is|are|was|were) (no|none)\b( [^l]|[^ ]|$| l[^o])`),
		`"is not from A to B" is "must be A–B"`:           regexp.MustCompile(`\b(is|are) not from\b`),
		`name the actor`: regexp.MustCompile(`\b([Nn]obody|[Ww]hoever|anew|[Mm]eanwhile)\b|\bheld against\b`),
		`"does not tell" is "unknown" or "does not report"`: regexp.MustCompile(`\bdoes not tell\b`),
		`"spoken" is "supported"`:                           regexp.MustCompile(`\bspoken\b`),
		`"asked for" is "requested", "target" or "given"`:   regexp.MustCompile(`\basked for\b`),
		`"a lone request" is "an unloaded request"`:         regexp.MustCompile(`(?i)\blone requests?\b`),
	}
}

// TestTextIsPlain: what a person reads is what a performance engineer would write. Comments are
// held to the actor alone.
func TestTextIsPlain(t *testing.T) {
	actor := riddles()["name the actor"]
	for _, s := range sources(t) {
		if s.test || s.file == nil {
			continue
		}
		for _, group := range s.file.Comments {
			if found := actor.FindString(group.Text()); found != "" && found != "nobody" { // the system's user
				t.Errorf("%s: %q in a comment: name the actor", s.name, found)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			l, is := n.(*ast.BasicLit)
			if !is || l.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(l.Value); err == nil && strings.Contains(text, " ") { // of several words
				checkPlain(t, s.name, text)
			}
			return true
		})
	}
	list, err := exec.Command("git", "ls-files", "*.tmpl", "*.html").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			checkPlain(t, name, line)
		}
	}
}

func checkPlain(t *testing.T, name, text string) {
	t.Helper()
	for instead, riddle := range riddles() {
		if riddle.MatchString(text) {
			t.Errorf("%s: %s: %.120q", name, instead, text)
		}
	}
}
