package unit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"ceiling/internal/text"
)

// Frequency is exactly Count events per PerNs nanoseconds. The zero value is none.
type Frequency struct {
	Count uint64
	PerNs uint64
}

// Rate is a target rate: constant, a linear ramp over the run from From to To, or steps. The zero
// value means no rate.
type Rate struct {
	// From and To are the first and the last.
	From, To Frequency
	// Steps are those of equal length that the run is divided into, as in String; "": none. A text, so
	// that rates can be compared.
	Steps string
}

// stepsMost is how many steps a run may have.
const stepsMost = 100

const second = uint64(time.Second)

// maxPerSecond limits a target rate: one event per nanosecond, the clock's resolution.
const maxPerSecond = 1e9

// ParseRate parses a rate per second (1000, 10k), a rate per time (50/1s, 10/ms, 600/m), a ramp
// between two (100:10k) or steps (1k+5k+1k). A ramp may start or end at 0, and a step be 0.
func ParseRate(s string) (Rate, error) {
	r, err := parseRate(s)
	if err != nil {
		return Rate{}, fmt.Errorf("invalid rate %s: %w (e.g. 1000, 10k, 50/1s, 600/m, a ramp 100:10k, steps 1k+5k+1k)", text.Quote(s), err)
	}
	return r, nil
}

func parseRate(s string) (r Rate, err error) {
	if strings.Contains(s, "+") {
		return parseSteps(s)
	}
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
		return r, errors.New("nothing would be sent (remove it for as fast as answers come)")
	}
	return r, nil
}

// parseSteps parses rates with plus signs between them.
func parseSteps(s string) (r Rate, err error) {
	var steps []string
	some := false
	for text := range strings.SplitSeq(s, "+") {
		if strings.Contains(text, ":") {
			return r, errors.New("a step is one rate, not a ramp")
		}
		if r.To, err = parseFrequency(text); err != nil {
			return r, err
		}
		if len(steps) == 0 {
			r.From = r.To
		}
		some = some || r.To.Count > 0
		steps = append(steps, r.To.String())
	}
	switch {
	case len(steps) > stepsMost:
		return r, fmt.Errorf("%d steps; at most %d", len(steps), stepsMost)
	case !some:
		return r, errors.New("nothing would be sent (remove it for as fast as answers come)")
	}
	r.Steps = strings.Join(steps, "+")
	return r, nil
}

// Each returns the steps; nil: there are none.
func (r Rate) Each() []Frequency {
	if r.Steps == "" {
		return nil
	}
	var list []Frequency
	for text := range strings.SplitSeq(r.Steps, "+") {
		f, err := parseFrequency(text)
		if err != nil {
			return nil // not made by ParseRate
		}
		list = append(list, f)
	}
	return list
}

func parseFrequency(s string) (f Frequency, err error) {
	count, period, timed := strings.Cut(s, "/")
	n, rest, ok := cutNumber(count)
	factor := prefix(rest)
	if !ok || factor == 0 {
		if ok && rest == "m" {
			return f, errors.New("m is milli; a million is M, a minute /m")
		}
		if ok && (rest[0] == 'e' || rest[0] == 'E') {
			return f, fmt.Errorf("%s has an exponent; write it out, as in 100k or 1M", text.Quote(count))
		}
		if strings.HasPrefix(count, "-") {
			return f, fmt.Errorf("%s is below 0", text.Quote(count))
		}
		return f, fmt.Errorf("%s must be a number", text.Quote(count))
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
	word := s
	if isTimeUnit(s) {
		word = "1" + s
	}
	if _, rest, ok := cutNumber(word); ok && rest == "" {
		return 0, fmt.Errorf("%s has no unit of time", text.Quote(s))
	}
	d, err := ParseDuration(word)
	if err != nil || d == 0 {
		return 0, fmt.Errorf("%s must be a time above 0", text.Quote(s))
	}
	return uint64(d), nil
}

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r == Rate{} }

// Constant reports whether it is one rate: both ends are the same, however written (60/m is 1), and
// there are no steps.
func (r Rate) Constant() bool {
	if r.Steps != "" {
		return false
	}
	hi, lo := bits.Mul64(r.From.Count, r.To.PerNs)
	hi2, lo2 := bits.Mul64(r.To.Count, r.From.PerNs)
	return hi == hi2 && lo == lo2
}

// PerSecond returns the mean rate over the run in events per second: for a ramp, the mean of its
// ends.
func (r Rate) PerSecond() float64 {
	if steps := r.Each(); steps != nil {
		sum := 0.0
		for _, f := range steps {
			sum += f.PerSecond()
		}
		return sum / float64(len(steps))
	}
	return (r.From.PerSecond() + r.To.PerSecond()) / 2
}

// Most returns the highest rate of the run in events per second.
func (r Rate) Most() float64 {
	most := max(r.From.PerSecond(), r.To.PerSecond())
	for _, f := range r.Each() {
		most = max(most, f.PerSecond())
	}
	return most
}

// At returns the rate in events per second when a share of the run, 0 to 1, is over.
func (r Rate) At(share float64) float64 {
	if steps := r.Each(); steps != nil {
		return steps[min(int(share*float64(len(steps))), len(steps)-1)].PerSecond()
	}
	from, to := r.From.PerSecond(), r.To.PerSecond()
	return from + (to-from)*share
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
	case r.Steps != "":
		return r.Steps
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
