package layout

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestFold(t *testing.T) {
	l := Output{Screen: true, Columns: 40}
	for name, k := range map[string]struct{ text, want string }{
		"fits":      {"short\n  --flag  says", "short\n  --flag  says"},
		"column":    {"warn  clock  a clock that steps is no measure\nok", "warn  clock  a clock that steps is no\n             measure\nok"},
		"indented":  {"    because a queue that is full drops what comes", "    because a queue that is full drops\n    what comes"},
		"paragraph": {"Loads a server and says how fast it is and\nwhat limits it.\n\nNext", "Loads a server and says how fast it is\nand what limits it.\n\nNext"},
		"sentence": {"Loads a server and says how fast it is and why.\nRoutes: /a",
			"Loads a server and says how fast it is\nand why.\nRoutes: /a"},
		"no room": {"      --a-long-name-of-a-flag strings   what it is good for", "      --a-long-name-of-a-flag strings\n        what it is good for"},
		"a unit":  {"the queue of the server was full for 12 ms", "the queue of the server was full for\n12 ms"},
	} {
		if got := l.Fold(k.text); got != k.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, k.want)
		}
		if got := (Output{Columns: 40}).Fold(k.text); got != k.text {
			t.Errorf("%s: no screen, and it becomes\n%s", name, got)
		}
	}
}

func FuzzFold(f *testing.F) {
	f.Add("warn  clock  a clock that steps is no measure\nok", 40)
	f.Add("      --flag strings   日本語 text", 20)
	f.Add("\x1b[1mbold\x1b[m  and\ttab \xff", 1)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		l := Output{Screen: true, Columns: columns % 200}
		folded := l.Fold(text)
		if strings.ContainsRune(text, '\x1b') || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > 0x2fff }) {
			return // not measured in columns
		}
		for line := range strings.Lines(folded) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > l.Width() && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%d columns: %q is %d wide", l.Width(), line, w)
			}
		}
		if a, b := strings.Join(strings.Fields(text), ""), strings.Join(strings.Fields(folded), ""); a != b {
			t.Errorf("%q became %q", a, b)
		}
	})
}
