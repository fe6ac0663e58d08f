package spec

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/unit"
)

// Metrics of a Term.
const (
	MetricResponse   = "response"
	MetricService    = "service"
	MetricFirstByte  = "first_byte"
	MetricFirstEvent = "first_event" // of responses that are streams of events
	MetricErrors     = "errors"
	MetricRate       = "rate"
)

// IsLatency reports whether a term is about a time.
func (t Term) IsLatency() bool { return isLatency(t.Metric) }

func isLatency(metric string) bool {
	return slices.Contains([]string{MetricResponse, MetricService, MetricFirstByte, MetricFirstEvent}, metric)
}

// Mean and Maximum are special Quantiles of a Term.
const (
	Mean    = -1
	Maximum = 1
)

// sloMax limits the terms of an SLO; more would be unreadable.
const sloMax = 64

// SLO is the conditions that a run must meet, all of them. Its text in JSON and YAML is that of
// String.
type SLO []Term

// Term is one condition, such as p99<5ms or errors<0.1%.
type Term struct {
	// Metric is "response", "service", "errors" or "rate".
	Metric string `json:"metric"`
	// Quantile of a latency metric, 0 to 1; 1 is the maximum. -1 is the mean.
	Quantile float64 `json:"quantile,omitempty"`
	// Less is true for <, false for >.
	Less bool `json:"less"`
	// Limit in nanoseconds (latency), as a share of requests 0 to 1 (errors),
	// or in requests per second (rate).
	Limit float64 `json:"limit"`
}

// Holds reports whether a measured value, in the unit of Limit, meets the term. The limit itself
// does: < and ≤ are the same here, so that errors<=0 means none at all, and a quantised value
// does not fail by equalling its limit. NaN never meets a term.
func (t Term) Holds(value float64) bool {
	if t.Less {
		return value <= t.Limit
	}
	return value >= t.Limit
}

// NeedsHistogram reports whether a term uses a quantile that a run's figures lack: they have p50,
// p90, p99 and p99.9.
func (s SLO) NeedsHistogram() bool {
	for _, t := range s {
		switch {
		case !t.IsLatency():
		case t.Quantile != Mean && t.Quantile != Maximum && t.Quantile != .5 && t.Quantile != .9 && t.Quantile != .99 && t.Quantile != .999:
			return true
		}
	}
	return false
}

// ParseSLO parses comma-separated terms: p99<5ms, p99.9<20ms (or p999), mean<2ms, max<1s, each of
// the response time or, prefixed with service., first_byte. or first_event., of another; errors<0.1% (or
// errors<0.001); rate>10k (or rate>10k/s). <= and ≤ mean <, >= and ≥ mean >. "" is no SLO.
//
// The error names the wrong term and the correct form.
func ParseSLO(text string) (SLO, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var slo SLO
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, fmt.Errorf("SLO %s: nothing between two commas; write p99<5ms,errors<0.1%%", quoteShort(text))
		}
		t, err := parseTerm(part)
		if err != nil {
			return nil, fmt.Errorf("SLO term %s: %w", quoteShort(part), err)
		}
		slo = append(slo, t)
	}
	return slo, slo.check()
}

func (s SLO) check() error {
	if len(s) > sloMax {
		return fmt.Errorf("SLO: %d terms are too many; at most %d", len(s), sloMax)
	}
	for i, t := range s {
		if err := t.check(); err != nil {
			return fmt.Errorf("SLO term %s: %w", t, err)
		}
		for _, u := range s[:i] {
			if t.Metric == u.Metric && t.Quantile == u.Quantile {
				return fmt.Errorf("SLO: both %s and %s are given; remove one of them", u, t)
			}
		}
	}
	return nil
}

// String formats the SLO for ParseSLO.
func (s SLO) String() string {
	parts := make([]string, len(s))
	for i, t := range s {
		parts[i] = t.String()
	}
	return strings.Join(parts, ",")
}

// MarshalText is String, after validating every term.
func (s SLO) MarshalText() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return []byte(s.String()), nil
}

// UnmarshalText is ParseSLO.
func (s *SLO) UnmarshalText(text []byte) error {
	slo, err := ParseSLO(string(text))
	*s = slo
	return err
}

func parseTerm(text string) (Term, error) {
	at := strings.IndexAny(text, "<>≤≥=")
	if at < 0 {
		return Term{}, errors.New("no < or > in it; write p99<5ms, errors<0.1% or rate>10k")
	}
	name, rest := strings.ToLower(strings.TrimSpace(text[:at])), text[at:]
	t, err := parseMetric(name)
	if err != nil {
		return Term{}, err
	}
	op := operator(rest)
	switch op {
	case "<", "<=", "≤":
		t.Less = true
	case ">", ">=", "≥":
	default:
		return Term{}, fmt.Errorf("%s compares nothing; write %s", op, t.meant(name, rest))
	}
	if t.Limit, err = t.parseLimit(strings.TrimSpace(rest[len(op):])); err != nil {
		return Term{}, fmt.Errorf("%w; write %s", err, t.meant(name, rest))
	}
	return t, t.check()
}

// operator returns the comparison operator at the start of text.
func operator(text string) string {
	for _, op := range []string{"<=", ">=", "==", "≤", "≥"} {
		if strings.HasPrefix(text, op) {
			return op
		}
	}
	return text[:1]
}

// parseMetric parses the part before the operator.
func parseMetric(name string) (Term, error) {
	switch name {
	case MetricErrors, MetricRate:
		return Term{Metric: name}, nil
	}
	t, stat := Term{Metric: MetricResponse}, name
	if metric, after, found := strings.Cut(name, "."); found {
		if metric == "ttfb" {
			metric = MetricFirstByte
		}
		if isLatency(metric) {
			t.Metric, stat = metric, after
		}
	}
	q, ok := parseQuantile(stat)
	if inner := strings.TrimSuffix(strings.TrimPrefix(stat, "p("), ")"); !ok && len(inner) == len(stat)-3 {
		if _, is := parseQuantile("p" + inner); is {
			return Term{}, fmt.Errorf("%s is k6's form; write p%s<200ms", quoteShort(name), inner)
		}
	}
	if !ok {
		return Term{}, fmt.Errorf("unknown SLO metric %s; use p50 p99 p99.9 mean max, the same as service.p99, first_byte.p99 or first_event.p99, errors, rate",
			quoteShort(name))
	}
	t.Quantile = q
	return t, nil
}

// parseQuantile parses mean, max, p50, p99.9, and p999 for the same. It moves the decimal point
// in the text to get the float nearest to what was written: 99.9/100 is not.
func parseQuantile(stat string) (float64, bool) {
	switch stat {
	case "mean", "avg":
		return Mean, true
	case "max", "p100":
		return Maximum, true
	}
	digits, found := strings.CutPrefix(stat, "p")
	whole, fraction, _ := strings.Cut(digits, ".")
	if !found || len(whole)+len(fraction) > 12 || !allDigits(whole) || fraction != "" && !allDigits(fraction) ||
		strings.HasSuffix(digits, ".") {
		return 0, false
	}
	switch {
	case len(whole) == 1:
		whole = "0" + whole
	case len(whole) > 2 && fraction != "":
		return 0, false
	}
	q, err := strconv.ParseFloat("0."+whole+fraction, 64)
	return q, err == nil && q > 0 && q < 1
}

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if !isDigit(c) {
			return false
		}
	}
	return s != ""
}

// parseLimit parses the part after the operator, in the unit of Limit.
func (t Term) parseLimit(text string) (float64, error) {
	switch t.Metric {
	case MetricErrors:
		return parseShare(text)
	case MetricRate:
		n, err := unit.ParseCount(strings.TrimSuffix(text, "/s"))
		return float64(n), err
	}
	if strings.Trim(text, "0123456789.") == "" && text != "" {
		return 0, fmt.Errorf("%s has no unit", quoteShort(text)) // seconds to ParseDuration, as in wrk -d; here it would be a guess
	}
	d, err := unit.ParseDuration(text)
	return float64(d), err
}

// parseShare parses 0.1% or 0.001.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	number = strings.TrimSpace(number)
	if strings.ContainsFunc(number, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
		return 0, fmt.Errorf("%s is not a share", quoteShort(text))
	}
	if percent {
		number += "e-2"
	}
	share, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a share", quoteShort(text))
	}
	return share, nil
}

// check rejects a meaningless term, even one that was never parsed.
func (t Term) check() error {
	switch {
	case math.IsNaN(t.Limit) || math.IsInf(t.Limit, 0) || t.Limit < 0:
		return fmt.Errorf("the limit %v is not a number from 0 up", t.Limit)
	case t.Metric == MetricRate && t.Less:
		return fmt.Errorf("a rate has a lower bound (-R sets the rate that is sent); write %s", t.meant(t.name(), t.limit()))
	case t.Metric != MetricRate && !t.Less:
		return fmt.Errorf("this is to stay below its limit; write %s", t.meant(t.name(), t.limit()))
	case t.Metric != MetricErrors && t.Limit != math.Trunc(t.Limit):
		return fmt.Errorf("the limit %v is not a whole number of nanoseconds, or of requests per second", t.Limit)
	case t.Metric == MetricRate:
		return nil
	case t.Metric == MetricErrors && t.Limit > 1:
		return fmt.Errorf("a share of errors is at most 1; for per cent write %s", t.meant(t.name(), strconv.FormatFloat(t.Limit, 'f', -1, 64)))
	case t.Metric == MetricErrors:
		return nil
	case !t.IsLatency():
		return fmt.Errorf("unknown metric %s; there are response, service, first_byte, first_event, errors and rate", quoteShort(t.Metric))
	case t.Quantile != Mean && !(t.Quantile > 0 && t.Quantile <= 1):
		return fmt.Errorf("quantile %v is not in 0 to 1; -1 is the mean and 1 the maximum", t.Quantile)
	case t.Limit == 0:
		return fmt.Errorf("no time is below 0; write %s", t.meant(t.name(), ""))
	}
	return nil
}

// meant returns a correct term with the number of a limit that is none, if that has one.
func (t Term) meant(name, limit string) string {
	found := regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?) *(ns|us|µs|ms|s|m|k|M)?`).FindStringSubmatch(limit)
	number, suffix := "", ""
	if found != nil && strings.Trim(found[1], "0.") != "" {
		number, suffix = found[1], found[2]
	}
	short := slices.Contains([]string{"k", "M"}, suffix)
	switch value, err := strconv.ParseFloat(number, 64); {
	case t.Metric == MetricErrors && (err != nil || value > 100):
		return "errors<0.1%"
	case t.Metric == MetricErrors:
		return "errors<" + number + "%"
	case t.Metric == MetricRate && (err != nil || !short && value != math.Trunc(value)):
		return "rate>10k"
	case t.Metric == MetricRate && short:
		return "rate>" + number + suffix
	case t.Metric == MetricRate:
		return "rate>" + number
	case err != nil:
		return name + "<5ms"
	case suffix == "" || short:
		suffix = "ms"
	}
	return name + "<" + number + suffix
}

// String formats the term for ParseSLO.
func (t Term) String() string {
	op := ">"
	if t.Less {
		op = "<"
	}
	return t.name() + op + t.limit()
}

// name is the part before the operator.
func (t Term) name() string {
	if t.Metric == MetricErrors || t.Metric == MetricRate {
		return t.Metric
	}
	stat := "p" + percent(t.Quantile)
	switch t.Quantile {
	case Mean:
		stat = "mean"
	case Maximum:
		stat = "max"
	}
	if t.Metric == MetricResponse {
		return stat
	}
	return t.Metric + "." + stat
}

// limit is the part after the operator. It parses to the same number.
func (t Term) limit() string {
	switch t.Metric {
	case MetricErrors:
		return percent(t.Limit) + "%"
	case MetricRate:
		return strconv.FormatFloat(t.Limit, 'f', -1, 64)
	}
	for _, u := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
		if t.Limit >= u.ns && math.Mod(t.Limit, u.ns) == 0 {
			return strconv.FormatFloat(t.Limit/u.ns, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(t.Limit, 'f', -1, 64) + "ns"
}

// percent formats a share in per cent by moving the decimal point of its shortest text;
// multiplying by 100 would add rounding errors: 0.999 is 99.9.
func percent(share float64) string {
	text := strconv.FormatFloat(share, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	e, err := strconv.Atoi(exponent)
	if err != nil { // NaN or infinite
		return text
	}
	moved, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(e+2), 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(moved, 'f', -1, 64)
}
