package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Text writes a report, the worst first, with how to fix below each.
func Text(out io.Writer, r *Report) error {
	var b strings.Builder
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, utf8.RuneCountInString(f.Name))
	}
	on := r.Host + ", Linux " + r.Kernel
	if r.Target != "" {
		on += ", towards " + r.Target
	}
	fmt.Fprintf(&b, "%s\n\n", on)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", len(NotMeasured), f.Level, widest, f.Name, printable(f.What))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-*s  %*s  %s\n", len(NotMeasured), "", widest, "fix", printable(f.Fix))
		}
	}
	fmt.Fprintf(&b, "\n%d bad, %d warnings, %d not measured, %d ok\n", r.Count(Bad), r.Count(Warn), r.Count(NotMeasured), r.Count(OK))
	_, err := io.WriteString(out, b.String())
	return err
}

// printable keeps a process's name, which may hold anything, from steering the
// terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

// WriteJSON writes a report as --json has it.
func WriteJSON(out io.Writer, r *Report) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
