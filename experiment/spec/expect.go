package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// Status codes of HTTP, as three digits (RFC 9110 §15).
const (
	statusFirst = 100
	statusLast  = 999
)

// expectMax limits the parts of an Expect; more would be unreadable.
const expectMax = 64

// Expect is the set of status codes that count as expected. Its text in JSON and YAML is that of
// String: "2xx,304". The zero value expects every status below 400.
type Expect []StatusRange

// StatusRange is the status codes from First to Last, inclusive.
type StatusRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// ParseExpect parses comma-separated codes (404), classes (2xx) and ranges (200-299). "" is the
// zero value. The error names the wrong part and the correct form.
func ParseExpect(text string) (Expect, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var e Expect
	for part := range strings.SplitSeq(text, ",") {
		r, ok := parseStatusRange(strings.TrimSpace(part))
		if !ok {
			return nil, fmt.Errorf("status %s: write a code, a class or a range: 2xx,304,400-404", quoteShort(part))
		}
		e = append(e, r)
	}
	return e, e.check()
}

func parseStatusRange(text string) (StatusRange, bool) {
	if len(text) == 3 && strings.EqualFold(text[1:], "xx") && text[0] >= '1' && text[0] <= '9' {
		class := int(text[0]-'0') * 100
		return StatusRange{class, class + 99}, true
	}
	from, to, isRange := strings.Cut(text, "-")
	first, ok := parseStatus(from)
	if !isRange || !ok {
		return StatusRange{first, first}, ok
	}
	last, ok := parseStatus(to)
	return StatusRange{first, last}, ok && last >= first
}

func parseStatus(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && len(text) == 3 && n >= statusFirst
}

func (e Expect) check() error {
	if len(e) > expectMax {
		return fmt.Errorf("expected statuses: %d parts are too many; at most %d", len(e), expectMax)
	}
	for _, r := range e {
		if r.First < statusFirst || r.Last > statusLast || r.Last < r.First {
			return fmt.Errorf("expected statuses: invalid range %d–%d; write 2xx,304", r.First, r.Last)
		}
	}
	return nil
}

// Has reports whether a status is expected.
func (e Expect) Has(status int) bool {
	if len(e) == 0 {
		return status < 400
	}
	for _, r := range e {
		if status >= r.First && status <= r.Last {
			return true
		}
	}
	return false
}

// String formats the Expect for ParseExpect; "" for the zero value.
func (e Expect) String() string {
	parts := make([]string, len(e))
	for i, r := range e {
		switch {
		case r.First == r.Last:
			parts[i] = strconv.Itoa(r.First)
		case r.First%100 == 0 && r.Last == r.First+99:
			parts[i] = strconv.Itoa(r.First/100) + "xx"
		default:
			parts[i] = strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText formats it for ParseExpect.
func (e Expect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText is ParseExpect.
func (e *Expect) UnmarshalText(text []byte) error {
	parsed, err := ParseExpect(string(text))
	*e = parsed
	return err
}

// ErrorsMatter is the share of failed requests and unexpected statuses from which a run's figures
// no longer describe the requested work: a hundredth shifts a p99 by itself.
const ErrorsMatter = 0.01

// errorsMost is the share from which no SLO can pass: a run with mostly errors measures the
// errors.
const errorsMost = 0.5

// FailsBy reports whether a share of errors, 0 to 1, fails a run under this SLO: if it fails the
// SLO's own error term, if it is at least ErrorsMatter without such a term, and from half of all
// requests in any case.
func (s SLO) FailsBy(share float64) bool {
	if share >= errorsMost {
		return true
	}
	for _, t := range s {
		if t.Metric == MetricErrors {
			return !t.Holds(share)
		}
	}
	return share >= ErrorsMatter
}
