// Package unit parses and prints rates, times and bytes.
//
// Prefixes are SI, powers of 1000 (k, M, G, T), everywhere; IEC prefixes, powers of 1024 (Ki, Mi,
// Gi), appear only in FormatBytesIEC. The parsers never confuse them, nor bits with bytes: they
// reject ambiguous text with a hint. A String method is exact, and the parser of its type (if
// any) reads it back; the Format functions round for readability.
//
// Every parse error names the text and gives a valid example.
package unit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"ceiling/internal/text"
)

// number is a decimal as written: digits / 10^places.
type number struct {
	digits uint64
	places int // digits after the point, without trailing zeros
}

// cutNumber parses digits with at most one point at the start of s. It rejects signs, exponents,
// separators and more than 64 bits; a point needs a digit on both sides.
func cutNumber(s string) (n number, rest string, ok bool) {
	i, point := 0, -1
	for ; i < len(s); i++ {
		if s[i] == '.' && point < 0 {
			point = i
		} else if s[i] < '0' || s[i] > '9' {
			break
		}
	}
	text := s[:i]
	if point >= 0 {
		if point == 0 || point == i-1 {
			return n, s, false
		}
		fraction := strings.TrimRight(text[point+1:], "0")
		text, n.places = text[:point]+fraction, len(fraction)
	}
	digits, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n.places > 18 {
		return n, s, false
	}
	n.digits = digits
	return n, s[i:], true
}

// times returns n·factor if that is an integer that fits.
func (n number) times(factor uint64) (product uint64, ok bool) {
	hi, lo := bits.Mul64(n.digits, factor)
	divisor := pow10(n.places)
	if hi >= divisor {
		return 0, false
	}
	product, rest := bits.Div64(hi, lo, divisor)
	return product, rest == 0
}

func pow10(places int) uint64 {
	p := uint64(1)
	for range places {
		p *= 10
	}
	return p
}

// prefix returns the factor of an SI prefix, 0 if s is none. Kilo may be written K, as in wrk;
// mega may not be written m, which is milli.
func prefix(s string) uint64 {
	switch s {
	case "":
		return 1
	case "k", "K":
		return 1e3
	case "M":
		return 1e6
	case "G":
		return 1e9
	case "T":
		return 1e12
	}
	return 0
}

// shorten writes n with the largest prefix that divides it: 20000 is 20k.
func shorten(n uint64) (digits uint64, prefix string) {
	for _, p := range [...]string{"k", "M", "G", "T"} {
		if n == 0 || n%1000 != 0 {
			break
		}
		n, prefix = n/1000, p
	}
	return n, prefix
}

// ParseCount parses an integer count: 20000, 20k, 1.5M, 1G.
func ParseCount(s string) (int64, error) {
	n, rest, ok := cutNumber(s)
	factor := prefix(rest)
	if rest == "T" {
		factor = 0 // a count of 10^12 is a mistake
	}
	if !ok || factor == 0 {
		hint := ""
		if ok && rest == "m" {
			hint = ": m is milli; a million is M"
		} else if strings.HasPrefix(s, "-") {
			hint = ": it is below 0"
		}
		return 0, fmt.Errorf("invalid count %s%s (e.g. 20000, 20k, 1M)", text.Quote(s), hint)
	}
	count, ok := n.times(factor)
	if !ok || count > math.MaxInt64 {
		return 0, fmt.Errorf("invalid count %s: at least 2^63 (e.g. 20000, 20k, 1M)", text.Quote(s))
	}
	return int64(count), nil
}

// FormatCount formats n with thousands separators: 164,012.
func FormatCount(n int64) string {
	text := strconv.FormatUint(magnitude(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign(n) + text
}

// magnitude returns |n|, even for the smallest int64.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func sign(n int64) string {
	if n < 0 {
		return "-"
	}
	return ""
}

// three formats x ≥ 0 with three significant digits (1.07, 10.7, 107; more if the integer part
// has more).
func three(x float64) string {
	for decimals := 2; decimals > 0; decimals-- {
		// 9.996 with two decimals is 10.00, which is four digits: one decimal less.
		if text := strconv.FormatFloat(x, 'f', decimals, 64); len(text) <= 4 {
			return text
		}
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

// scaled formats x ≥ 0 in the largest unit that it reaches, each step times the one before. The
// last unit has no upper limit.
func scaled(x, step float64, units ...string) string {
	for i, u := range units {
		text := three(x)
		// Decide on the rounded text: 999.9 k is 1.00 M, not 1000 k.
		if shown, _ := strconv.ParseFloat(text, 64); shown < step || i == len(units)-1 {
			return text + u
		}
		x /= step
	}
	return ""
}

// FormatSI formats x with three significant digits and an SI prefix: 164k, 1.07M, 12.3. Values
// below 0.01 are written 0.00123; NaN and infinities as such.
func FormatSI(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return strconv.FormatFloat(x, 'g', -1, 64)
	case x < 0:
		return "-" + FormatSI(-x)
	case x == 0:
		return "0"
	case x < 1:
		return Digits(x, 3)
	}
	return scaled(x, 1000, "", "k", "M", "G", "T", "P")
}

// digitsMost is the largest number that is written out; no figure that means something exceeds it.
const digitsMost = 1e15

// Digits formats x with up to that many significant digits and never with an exponent: 0.0123, 1.6,
// 160, 12,300.
func Digits(x float64, digits int) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return strconv.FormatFloat(x, 'g', -1, 64)
	case math.Abs(x) > digitsMost:
		return map[bool]string{true: "< −", false: "> "}[x < 0] + FormatCount(digitsMost)
	case math.Abs(x) < 1/digitsMost:
		return "0"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', max(digits-1, 0), 64), 64)
	if math.Abs(rounded) >= 1000 {
		return FormatCount(int64(rounded))
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// Times formats a multiple: 1.19×, 2.3×, 160×.
func Times(x float64) string {
	if math.Abs(x) < 2 {
		return Digits(x, 3) + "×"
	}
	return Digits(x, 2) + "×"
}

// DigitsOr is Digits for a figure above 0, and other for one that is not known.
func DigitsOr(x float64, digits int, other string) string {
	if !(x > 0) {
		return other
	}
	return Digits(x, digits)
}

// Range joins two ends, or returns the one that both are.
func Range(low, join, high string) string {
	if low == high {
		return low
	}
	return low + join + high
}

// Percent formats a share, rounded: 61%, 4.2%, 0.41%. It has two digits, and one more near the
// whole, so that 99.9% never reads as 100%.
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

// PercentDigits formats a share with up to that many significant digits: 95%, 98.75%.
func PercentDigits(share float64, digits int) string {
	return Digits(100*share, digits) + "%"
}

// PercentFixed formats a share with one decimal: 51.2%, 0.0%. Shares of a whole add up to 100 to the eye.
func PercentFixed(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// Change formats a relative change with its sign and one decimal: +5.0%, −12.4%.
func Change(share float64) string { return Minus(fmt.Sprintf("%+.1f%%", 100*share)) }

// Minus replaces a hyphen with a minus sign as wide as the plus sign.
func Minus(number string) string { return strings.Replace(number, "-", "−", 1) }

// Plural formats a count with its noun: 1 process, 3 processes, 12,000 processes.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return FormatCount(int64(n)) + " " + many
}
