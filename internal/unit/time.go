package unit

import (
	"fmt"
	"math"
	"strings"
	"time"

	"ceiling/internal/text"
)

// ParseDuration parses 30s, 500us, 2m, 1h30m, 1.5s, and a bare number as seconds, as wrk does. It
// rejects negative times and accepts zero.
func ParseDuration(s string) (time.Duration, error) {
	bad := func(why string) (time.Duration, error) {
		return 0, fmt.Errorf("invalid duration %s%s (e.g. 30s, 500us, 2m, 1h30m; a bare number is seconds)", text.Quote(s), why)
	}
	text := s
	if _, rest, ok := cutNumber(s); ok && rest == "" {
		text += "s"
	}
	// time.ParseDuration accepts a sign and ".5s"; both are probably mistakes.
	if text == "" || text[0] < '0' || text[0] > '9' {
		return bad("")
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		if n, rest, ok := cutNumber(text); ok && n.digits > 0 && isTimeUnit(rest) {
			return bad(": more than 292 years")
		}
		return bad("")
	}
	return d, nil
}

func isTimeUnit(s string) bool {
	switch s {
	case "ns", "us", "µs", "ms", "s", "m", "h":
		return true
	}
	return false
}

// FormatDuration formats d exactly for ParseDuration: 2m, 1h30m, 1.5s, 500us.
func FormatDuration(d time.Duration) string {
	text := strings.Replace(d.String(), "µ", "u", 1)
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// FormatNsFloat is FormatNs for a floating-point time.
func FormatNsFloat(ns float64) string {
	if !(ns > -9e18 && ns < 9e18) {
		return FormatSI(ns) + " ns"
	}
	return FormatNs(int64(ns))
}

// FormatNs formats ns nanoseconds with three significant digits: 412 ns, 83.2 µs, 1.07 ms, 2.50
// s, 16.7 min, 3.00 h. It rounds halves away from zero.
func FormatNs(ns int64) string {
	m := magnitude(ns)
	if m < 1000 {
		return fmt.Sprintf("%d ns", ns)
	}
	for _, u := range [...]struct {
		ns   uint64
		most uint64 // largest three-digit figure in this unit
		name string
	}{
		{1e3, 999, "µs"}, {1e6, 999, "ms"}, {1e9, 999, "s"}, {60e9, 999, "min"}, {3600e9, math.MaxUint64, "h"},
	} {
		// Integer arithmetic, so that no half is lost in a float.
		if (m+u.ns/2)/u.ns > u.most {
			continue
		}
		for _, decimals := range [...]struct{ factor, below uint64 }{{100, 1000}, {10, 1000}, {1, math.MaxUint64}} {
			step := u.ns / decimals.factor
			if figure := (m + step/2) / step; figure < decimals.below {
				return sign(ns) + point(figure, decimals.factor) + " " + u.name
			}
		}
	}
	return "" // unreachable: the last unit and factor accept everything
}

// point formats figure/factor with as many decimals as factor has zeros.
func point(figure, factor uint64) string {
	switch factor {
	case 100:
		return fmt.Sprintf("%d.%02d", figure/100, figure%100)
	case 10:
		return fmt.Sprintf("%d.%d", figure/10, figure%10)
	}
	return fmt.Sprint(figure)
}
