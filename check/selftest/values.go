package selftest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/unit"
)

// params draws a scenario's parameters for one round.
type params struct {
	*rand.Rand
	cpus []int // available to this process
}

// values are a plan's parameters by name, as text: 5, 0.24, 8.1ms.
type values map[string]string

// hostValues are those that every scenario has: how many CPUs there are, and some of their numbers.
func (d *params) hostValues() values {
	n := len(d.cpus)
	return values{"cpus": strconv.Itoa(n), "first": strconv.Itoa(d.cpus[0]), "second": strconv.Itoa(d.cpus[min(1, n-1)]),
		"last": strconv.Itoa(d.cpus[n-1])}
}

// read adds parameters: "name=value" with blanks between them. A value 3..9 is drawn, both inclusive: whole numbers, times
// in us or ms, or shares where there is a point. 100..500/s is a rate, and 0.1..0.4*capacity one as a share of that at
// which requests of the parameter cpu would use all cores. The value connections is enough to keep every core busy.
func (d *params) read(v values, text string) {
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		low, high, drawn := strings.Cut(value, "..")
		switch {
		case value == "connections":
			v[name] = strconv.Itoa(d.whole(24, 40) * max(2, len(d.cpus)))
		case drawn:
			v[name] = d.between(number(low), high, v["cpu"])
		default:
			v[name] = value
		}
	}
}

func (d *params) between(low float64, high, cpu string) string {
	limit := strings.TrimRight(high, "usm/*capity") // us, ms, /s, *capacity
	to := number(limit)
	switch unit := high[len(limit):]; {
	case unit == "us" || unit == "ms":
		return duration(fmt.Sprint(d.whole(int(low), int(to)), unit)).String()
	case unit == "/s":
		return strconv.Itoa(int(d.share(low, to)))
	case unit == "*capacity":
		return strconv.Itoa(int(d.share(low, to) * float64(len(d.cpus)) / duration(cpu).Seconds()))
	case strings.Contains(limit, "."):
		return fmt.Sprintf("%.2f", d.share(low, to))
	}
	return strconv.Itoa(d.whole(int(low), int(to)))
}

// whole draws an integer from low to high, both inclusive.
func (d *params) whole(low, high int) int { return low + d.IntN(high-low+1) }

func (d *params) share(low, high float64) float64 { return low + d.Float64()*(high-low) }

// expand replaces {name} with the value of that name; {name*2}, {name/2} and {name+other} are computed, and {name|form}
// has another form. Unknown names stay.
func (v values) expand(text string) string {
	pattern := regexp.MustCompile(`\{([a-z0-9-]+)(?:([*/+])([a-z0-9]+))?(?:\|([a-z]+))?\}`)
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		part := pattern.FindStringSubmatch(found)
		value, known := v[part[1]]
		if !known && part[4] == "" {
			return found
		}
		value = cmp.Or(value, part[1])
		if part[2] != "" {
			value = compute(value, part[2], cmp.Or(v[part[3]], part[3]))
		}
		return form(value, part[4])
	})
}

// compute scales a time by a whole number, or calculates with two numbers: whole ones have a whole result.
func compute(a, operator, b string) string {
	by := number(b)
	if d, err := time.ParseDuration(a); err == nil {
		if operator == "/" {
			by = 1 / by
		}
		return time.Duration(float64(d) * by).String()
	}
	result := map[string]float64{"*": number(a) * by, "/": number(a) / by, "+": number(a) + by}[operator]
	if strings.Contains(a, ".") {
		return fmt.Sprintf("%.2f", result)
	}
	return strconv.Itoa(int(result))
}

func form(value, name string) string {
	switch name {
	case "ms":
		return strconv.FormatInt(duration(value).Milliseconds(), 10)
	case "us":
		return strconv.FormatInt(duration(value).Microseconds(), 10)
	case "percent":
		return fmt.Sprintf("%.0f%%", number(value)*100)
	case "si":
		return unit.FormatSI(number(value))
	case "at":
		return atATime(int(number(value)))
	}
	return value
}

func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // a bug in a file of scenarios
	}
	return n
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err) // a bug in a file of scenarios
	}
	return d
}

// atATime returns a pattern for a text that states the concurrency: a separate word, with what is
// counted. "python3 (3 processes)" only counts processes.
func atATime(n int) string {
	const things = `at a time|at once|in parallel|servers?\b|slots?\b|places?\b|connections?\b|workers?\b|processes\b|threads?\b|children\b|requests? (at|in|inside)`
	number := fmt.Sprintf(`(%d(\.[0-3]\d*)?|%d\.[7-9]\d*)`, n, n-1)
	if n == 1 {
		number += `|one( request| thread)?`
		number = "(" + number + ")"
	}
	return fmt.Sprintf(`(^|[^\d.,(])%s (of \d+ )?(busy )?(%s)|(pool|limit|maximum) of %s\b|(keeps|serves|served|before) %s\b|effective concurrency about %s( |;|$)`,
		number, things, number, number, number)
}
