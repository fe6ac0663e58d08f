package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/text"
	"ceiling/show/page"
)

// Mistake is a mistake in a journal, with its position.
type Mistake struct {
	File string
	Line int // 0: the file as a whole
	Says string
}

// Error returns FILE:LINE: and the mistake.
func (m Mistake) Error() string {
	if m.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Says)
	}
	return m.File + ": " + m.Says
}

// Mistakes are all mistakes found, by file and line.
type Mistakes []Mistake

// Error returns one line per mistake.
func (m Mistakes) Error() string {
	var lines []string
	for _, one := range m {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// add records a mistake; its arguments may come from a record.
func (m *Mistakes) add(file string, line int, format string, args ...any) {
	*m = append(*m, Mistake{file, line, page.Text(fmt.Sprintf(format, args...))})
}

// sorted returns the mistakes as an error, without duplicates; nil if there are none.
func (m Mistakes) sorted() error {
	if len(m) == 0 {
		return nil
	}
	byPlace(m)
	return slices.Compact(m)
}

func byPlace(list []Mistake) {
	slices.SortStableFunc(list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Says, b.Says))
	})
}

// nearMost is the number of names suggested for an unknown one.
const nearMost = 5

// nearTo suggests the names most similar to an unknown one, best match first, among those that
// differ in at most half. If none is similar, it suggests the first names of the list.
func nearTo(name string, names []string) string {
	far := func(n string) int {
		if strings.Contains(strings.ToLower(n), strings.ToLower(name)) {
			return min(1, len(n)-len(name))
		}
		return text.Distance(strings.ToLower(name), strings.ToLower(n))
	}
	near := slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	switch similar := slices.IndexFunc(near, func(n string) bool { return far(n) > max(len(name)/2, 1) }); {
	case similar == 0:
		near = names
	case similar > 0:
		near = near[:similar]
	}
	if len(near) == 0 {
		return ""
	}
	return "; near: " + strings.Join(near[:min(len(near), nearMost)], ", ")
}

// clip shortens a text that a message quotes.
func clip(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
