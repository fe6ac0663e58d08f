package journal

import (
	"errors"
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// Arithmetic blocks: a law computed with a run's own figures and checked against another figure
// of the record. A mismatch fails the build.

// sum is a law as the page shows it: terms, each after its sign, and the result.
type sum struct {
	// Law is its name, Of the point that it applies to.
	Law, Of string
	Terms   []term
	// Says is what the result was compared with; Runs is the number of runs.
	Says string
	Runs string
}

// term is one figure of a sum.
type term struct{ Sign, Value, Name string }

// little is Little's law: requests in flight = rate × response time.
func little(of any) (answer, error) {
	return sumOf(of, func(c condition) (sum, error) {
		n, s, w := c.sum(answers), c.sum(seconds), c.sum(waited)
		if !(n > 0) || !(s > 0) {
			return sum{}, errors.New("no response time was measured")
		}
		got := w / 1e9 / s
		out := sum{Law: "Little's law", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatNsFloat(w / n), "mean response time"},
			{"=", unit.FormatSI(got), "requests in flight"}}, Says: "An open loop has no fixed number of requests to hold this against."}
		if want := slots(c.runs[0]); !math.IsNaN(want) {
			if !c.same(slots) {
				return sum{}, errors.New("its runs differ in their slots")
			}
			off := got/want - 1
			if math.Abs(off) > record.LittleWithin {
				return sum{}, fmt.Errorf("rate × response time is %s requests in flight, %+.0f%% off the %s that the loop keeps: the record contradicts itself",
					unit.FormatSI(got), 100*off, unit.FormatCount(int64(want)))
			}
			r := c.runs[0]
			out.Says = fmt.Sprintf("The loop keeps %s × %d = %s in flight: %.1f%% off.", unit.Plural(r.Load.Connections, "connection", "connections"),
				max(r.Load.Pipelining, 1), unit.FormatCount(int64(want)), 100*math.Abs(off))
		}
		return out, nil
	})
}

// shareOfLink is the share of a link's speed that the responses take. The link is the record's,
// or a named one for a projection.
func shareOfLink(of any, links ...string) (answer, error) {
	if len(links) > 1 {
		return answer{}, errors.New("it takes one link speed")
	}
	return sumOf(of, func(c condition) (sum, error) {
		speed, says := c.runs[0].Spec.LinkBitsPerSecond, "The record gives the link speed."
		if c.linkBits > 0 {
			speed, says = c.linkBits, "The experiment gives the link speed."
		}
		if len(links) == 1 {
			bits, err := unit.ParseBits(links[0])
			if err != nil {
				return sum{}, err
			}
			if speed > 0 && speed != float64(bits) {
				return sum{}, fmt.Errorf("the record's link has %s, not %s", unit.FormatBits(unit.BitsPerSecond(speed)), links[0])
			}
			if speed == 0 {
				says = "An assumed link: the record has no link speed."
			}
			speed = float64(bits)
		}
		if !(speed > 0) {
			return sum{}, errors.New(`the record has no link speed; assume one, as in {{shareOfLink (run "NAME") "10Gbit/s"}}`)
		}
		n, s, b := c.sum(finished), c.sum(seconds), c.sum(bytesIn)
		if !(n > 0) || !(s > 0) {
			return sum{}, errors.New("no requests were completed")
		}
		share := 8 * b / s / speed
		if share > 1 {
			says += " It would be the bottleneck."
		}
		return sum{Law: "Share of a link", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatBytesSI(int64(b/n + .5)), "read per request"},
			{"=", unit.FormatBits(unit.BitsPerSecond(8 * b / s)), "above TCP"}, {"÷", unit.FormatBits(unit.BitsPerSecond(speed)), "link"},
			{"=", unit.Percent(share), "of the link"}}, Says: says}, nil
	})
}

// utilization is the utilization law: cores in use = rate × CPU time per request, at either end.
func utilization(of any) (answer, error) {
	return sumOf(of, func(c condition) (sum, error) {
		n, s := c.sum(finished), c.sum(seconds)
		used := c.sum(func(r *chart.Run) float64 { return serverCores(r) * r.ElapsedS })
		switch {
		case !(n > 0) || !(s > 0):
			return sum{}, errors.New("no requests were completed")
		case math.IsNaN(used):
			return sum{}, errors.New("the server's CPU was not measured")
		}
		out := sum{Law: "Utilization law", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatNsFloat(used / n * 1e9), "server CPU per request"},
			{"=", unit.FormatSI(used / s), "cores in use by the server"}}}
		r := c.runs[0]
		if cores := r.Environment.CoresAllowed; cores > 0 && r.Subject.Host == r.Environment.Host {
			if used/s > 1.02*float64(cores) {
				return sum{}, fmt.Errorf("the server used %s of %d cores: the record contradicts itself", unit.FormatSI(used/s), cores)
			}
			out.Says = fmt.Sprintf("The machine has %s: %s of it.", unit.Plural(cores, "core", "cores"), unit.Percent(used/s/float64(cores)))
		}
		return out, nil
	})
}

// sumOf applies a law to what a reference names.
func sumOf(of any, law func(condition) (sum, error)) (answer, error) {
	return about(of, func(c condition, to *answer) error {
		s, err := law(c)
		if err != nil {
			return err
		}
		s.Says, s.Of = page.Text(s.Says), c.name
		if len(c.runs) > 1 {
			s.Runs = fmt.Sprintf("All %d runs together.", len(c.runs))
		}
		to.html, err = execute("sum", s)
		return err
	})
}
