package journal

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/show/page"
)

// kind of a value: how it is printed, and what it can be compared with.
type kind int

const (
	kindText kind = iota
	kindCount
	kindPerS    // per second
	kindNs      // nanoseconds
	kindBytes   // bytes
	kindShare   // 0 to 1, printed in per cent
	kindChange  // a share with its sign
	kindTimes   // a ratio
	kindTwo     // a plain number, two decimals
	kindBytesPS // bytes per second
)

// format formats a number of a kind.
func (k kind) format(v float64) string {
	whole := int64(math.Round(min(max(v, -1e18), 1e18)))
	switch k {
	case kindPerS:
		return unit.FormatRate(v)
	case kindNs:
		return unit.FormatNs(whole)
	case kindBytes:
		return unit.FormatBytesSI(whole)
	case kindBytesPS:
		return unit.FormatBytesSI(whole) + "/s"
	case kindShare:
		return unit.Percent(v)
	case kindChange:
		return unit.Change(v)
	case kindTimes:
		return ratio(v) + " times"
	case kindTwo:
		return fmt.Sprintf("%.2f", v)
	}
	if v != math.Trunc(v) {
		return unit.FormatSI(v)
	}
	return unit.FormatCount(whole)
}

// ratio formats three significant digits, like other figures.
func ratio(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// interval formats an interval; a unit shared by both ends appears once. It names a confidence
// below 95%; 0 means minimum to maximum.
func interval(low, high string, confidence float64) string {
	figure, of, _ := strings.Cut(low, " ")
	if of != "" && strings.HasSuffix(high, " "+of) {
		low = figure
	}
	between := "–"
	if strings.ContainsAny(low+high, "+−") {
		between = " to " // a dash next to a sign reads as another sign
	}
	switch text := low + between + high; {
	case confidence >= 0.95: // the levels of medians of eight runs, and of several effects together, are above it
		return "(" + text + ")"
	case confidence == 0:
		return "(" + text + ", min–max)"
	default:
		return fmt.Sprintf("(%.0f%% CI %s)", 100*confidence, text)
	}
}

// rounded formats a mean of whole numbers.
func rounded(v float64) string { return unit.FormatCount(int64(math.Round(v))) }

// columns are those of a table whose first column has names and the others figures.
func columns(names ...string) []page.Column {
	var list []page.Column
	for i, name := range names {
		list = append(list, page.Column{Name: name, Figure: i > 0})
	}
	return list
}

func cells(texts ...string) []page.Cell {
	var list []page.Cell
	for _, text := range texts {
		list = append(list, page.Cell{Text: text})
	}
	return list
}
