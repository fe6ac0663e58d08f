package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/condition"
)

// Status codes of HTTP, as three digits (RFC 9110 §15).
const (
	statusFirst = 100
	statusLast  = 999
)

// Limits of an Expect: more statuses would be unreadable, and each check is examined on the generator's
// thread.
const (
	statusesMax = 64
	checksMax   = 16
)

// Expect is what a response must be like to count as one. In JSON and YAML it is a text, "2xx,304", or
// a list of these and of checks. The zero value expects every status below 400.
type Expect struct {
	Statuses []StatusRange
	// Checks are for the responses of an expected status.
	Checks []condition.Condition
}

// StatusRange is the status codes from First to Last, inclusive.
type StatusRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// ParseExpect parses statuses, comma-separated codes (404), classes (2xx) and ranges (200-299), and
// checks (body contains "ok"). "" is the zero value. The error names the wrong part and the correct form.
func ParseExpect(lines ...string) (e Expect, err error) {
	for _, line := range lines {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line[0] >= '0' && line[0] <= '9':
			err = e.addStatuses(line)
		default:
			var c condition.Condition
			if c, err = condition.Parse(line); err == nil {
				e.Checks = append(e.Checks, c)
			}
		}
		if err != nil {
			return Expect{}, err
		}
	}
	return e, e.check()
}

func (e *Expect) addStatuses(line string) error {
	for part := range strings.SplitSeq(line, ",") {
		r, ok := parseStatusRange(strings.TrimSpace(part))
		if !ok {
			return fmt.Errorf("status %s: write a code, a class or a range: 2xx,304,400-404", quoteShort(part))
		}
		e.Statuses = append(e.Statuses, r)
	}
	return nil
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
	if len(e.Statuses) > statusesMax {
		return fmt.Errorf("expected statuses: %d parts are too many; at most %d", len(e.Statuses), statusesMax)
	}
	if len(e.Checks) > checksMax {
		return fmt.Errorf("expected responses: %d checks are too many; at most %d", len(e.Checks), checksMax)
	}
	for _, r := range e.Statuses {
		if r.First < statusFirst || r.Last > statusLast || r.Last < r.First {
			return fmt.Errorf("expected statuses: invalid range %d–%d; write 2xx,304", r.First, r.Last)
		}
	}
	return nil
}

// Has reports whether a status is expected.
func (e Expect) Has(status int) bool {
	if len(e.Statuses) == 0 {
		return status < 400
	}
	for _, r := range e.Statuses {
		if status >= r.First && status <= r.Last {
			return true
		}
	}
	return false
}

// IsZero reports whether nothing is said.
func (e Expect) IsZero() bool { return len(e.Statuses) == 0 && len(e.Checks) == 0 }

// String formats the statuses; "" for those below 400.
func (e Expect) String() string {
	parts := make([]string, len(e.Statuses))
	for i, r := range e.Statuses {
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

// written returns a text or, with checks, a list for ParseExpect.
func (e Expect) written() any {
	if len(e.Checks) == 0 {
		return e.String()
	}
	var list []string
	if len(e.Statuses) > 0 {
		list = append(list, e.String())
	}
	for i := range e.Checks {
		list = append(list, e.Checks[i].String())
	}
	return list
}

// MarshalJSON writes it for ParseExpect.
func (e Expect) MarshalJSON() ([]byte, error) { return json.Marshal(e.written()) }

// MarshalYAML writes it for ParseExpect.
func (e Expect) MarshalYAML() (any, error) { return e.written(), nil }

// UnmarshalJSON is ParseExpect, of a text or a list.
func (e *Expect) UnmarshalJSON(b []byte) error {
	return e.read(func(to any) error { return json.Unmarshal(b, to) })
}

// UnmarshalYAML is ParseExpect, of a text, a number or a list.
func (e *Expect) UnmarshalYAML(unmarshal func(any) error) error { return e.read(unmarshal) }

func (e *Expect) read(unmarshal func(any) error) error {
	var lines List[string]
	if err := either(&lines, unmarshal); err != nil {
		return err
	}
	parsed, err := ParseExpect(lines...)
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
