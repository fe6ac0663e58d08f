package unit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Frequency is exactly Count events per PerNs nanoseconds. The zero value is none.
type Frequency struct {
	Count uint64
	PerNs uint64
}

// Rate is a target rate: constant, or a linear ramp over the run from From to To. The zero value
// means no rate.
type Rate struct {
	From, To Frequency
}

const second = uint64(time.Second)

// maxPerSecond limits a target rate: one event per nanosecond, the clock's resolution.
const maxPerSecond = 1e9

// ParseRate parses a rate per second (1000, 10k), a rate per time (50/1s, 10/ms, 600/m) or a ramp
// between two (100:10k). A ramp may start or end at 0.
func ParseRate(s string) (Rate, error) {
	r, err := parseRate(s)
	if err != nil {
		return Rate{}, fmt.Errorf("invalid rate %s: %w (e.g. 1000, 10k, 50/1s, 600/m, a ramp 100:10k)", quote(s), err)
	}
	return r, nil
}

func parseRate(s string) (r Rate, err error) {
	from, to, ramp := strings.Cut(s, ":")
	if r.From, err = parseFrequency(from); err != nil {
		return r, err
	}
	r.To = r.From
	if ramp {
		if r.To, err = parseFrequency(to); err != nil {
			return r, err
		}
	}
	if r.From.Count == 0 && r.To.Count == 0 {
		return r, errors.New("nothing would be sent (leave it out for as fast as answers come)")
	}
	return r, nil
}

func parseFrequency(s string) (f Frequency, err error) {
	count, period, timed := strings.Cut(s, "/")
	n, rest, ok := cutNumber(count)
	factor := prefix(rest)
	if !ok || factor == 0 {
		if ok && rest == "m" {
			return f, errors.New("m is milli; a million is M, a minute /m")
		}
		return f, fmt.Errorf("%s must be a number", quote(count))
	}
	f.PerNs = second
	if timed {
		if f.PerNs, err = parsePeriod(period); err != nil {
			return f, err
		}
	}
	if f, ok = exact(n, factor, f.PerNs); !ok {
		return f, errors.New("it does not fit 64 bits")
	}
	if hi, lo := bits.Mul64(f.Count, second); hi >= f.PerNs {
		return f, errors.New("it is above 10^9 a second")
	} else if q, rest := bits.Div64(hi, lo, f.PerNs); q > maxPerSecond || q == maxPerSecond && rest > 0 {
		return f, errors.New("it is above 10^9 a second")
	}
	return f, nil
}

// exact returns n·factor per perNs. An integer count stays as written; a fraction (0.5, 2.5/m)
// moves into the period: 1 per 2 s.
func exact(n number, factor, perNs uint64) (f Frequency, ok bool) {
	if count, ok := n.times(factor); ok {
		return Frequency{count, perNs}, true
	}
	divisor := pow10(n.places)
	shared := gcd(factor, divisor)
	hi, count := bits.Mul64(n.digits, factor/shared)
	divisor /= shared
	shared = gcd(count, divisor)
	count, divisor = count/shared, divisor/shared
	hi2, per := bits.Mul64(perNs, divisor)
	return Frequency{count, per}, hi == 0 && hi2 == 0 && per <= math.MaxInt64
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// parsePeriod parses a unit alone (ms) or a time with one (10ms).
func parsePeriod(s string) (uint64, error) {
	text := s
	if isTimeUnit(s) {
		text = "1" + s
	}
	if _, rest, ok := cutNumber(text); ok && rest == "" {
		return 0, fmt.Errorf("%s has no unit of time", quote(s))
	}
	d, err := ParseDuration(text)
	if err != nil || d == 0 {
		return 0, fmt.Errorf("%s must be a time above 0", quote(s))
	}
	return uint64(d), nil
}

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r == Rate{} }

// Constant reports whether both ends are the same rate, however written: 60/m
// is 1.
func (r Rate) Constant() bool {
	hi, lo := bits.Mul64(r.From.Count, r.To.PerNs)
	hi2, lo2 := bits.Mul64(r.To.Count, r.From.PerNs)
	return hi == hi2 && lo == lo2
}

// PerSecond returns the mean rate over the run in events per second: for a ramp, the mean of its
// ends.
func (r Rate) PerSecond() float64 {
	return (r.From.PerSecond() + r.To.PerSecond()) / 2
}

// PerSecond returns f in events per second; 0 for the zero value.
func (f Frequency) PerSecond() float64 {
	if f.PerNs == 0 {
		return 0
	}
	return float64(f.Count) * (float64(second) / float64(f.PerNs))
}

// String formats r exactly for ParseRate; "" for the zero value.
func (r Rate) String() string {
	switch {
	case r.IsZero():
		return ""
	case r.From == r.To:
		return r.From.String()
	}
	return r.From.String() + ":" + r.To.String()
}

// String formats f as one end of a rate: 10k, 10/ms, 1/2s.
func (f Frequency) String() string {
	digits, prefix := shorten(f.Count)
	text := fmt.Sprintf("%d%s", digits, prefix)
	if f.PerNs == second || f == (Frequency{}) {
		return text
	}
	period := FormatDuration(time.Duration(f.PerNs))
	if unit, ok := strings.CutPrefix(period, "1"); ok && isTimeUnit(unit) {
		period = unit
	}
	return text + "/" + period
}

// MarshalText is String, for JSON and YAML.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate; an empty text is the zero value.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r = Rate{}
	if len(text) > 0 {
		*r, err = ParseRate(string(text))
	}
	return err
}

// FormatRate formats a measured request rate: 164,012 req/s from 100 on, three significant digits
// below (12.3 req/s).
func FormatRate(perSecond float64) string {
	if perSecond >= 100 && perSecond < 1e18 {
		return FormatCount(int64(math.Round(perSecond))) + " req/s"
	}
	return FormatSI(perSecond) + " req/s"
}
