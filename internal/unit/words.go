package unit

import (
	"math"
	"strconv"
)

// Percent is a share rounded for the eye: 61%, 4.2%, 0.41%. Two digits, but a
// share that is nearly all has one more, so that 99.9% never reads as 100%.
func Percent(share float64) string {
	p := 100 * share
	switch size := math.Abs(p); {
	case math.IsNaN(p):
		return "–"
	case size > 99 && size < 99.95:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	case size >= 9.95 || size < 0.0005:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	}
	return PercentDigits(share, 2)
}

// PercentDigits is a share with up to so many significant digits: 95%, 98.75%.
func PercentDigits(share float64, digits int) string {
	return strconv.FormatFloat(100*share, 'g', digits, 64) + "%"
}

// Plural is a count with its noun: 1 process, 3 processes, 12,000 processes.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return FormatCount(int64(n)) + " " + many
}
