package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

// ghzDocument is the part of ghz's JSON that we read. Times are nanoseconds.
type ghzDocument struct {
	Count     *uint64           `json:"count"`
	Total     float64           `json:"total"`
	Average   float64           `json:"average"`
	Fastest   float64           `json:"fastest"`
	Slowest   float64           `json:"slowest"`
	RPS       float64           `json:"rps"`
	Statuses  map[string]uint64 `json:"statusCodeDistribution"`
	Latencies []ghzLatency      `json:"latencyDistribution"`
	Options   struct {
		Call        string `json:"call"`
		Host        string `json:"host"`
		Insecure    bool   `json:"insecure"`
		Connections int    `json:"connections"`
		Concurrency int    `json:"concurrency"`
	} `json:"options"`

	averageDigitNs int64
}

type ghzLatency struct {
	Percentage float64 `json:"percentage"`
	Latency    float64 `json:"latency"`

	digitNs int64 // 0: a nanosecond
}

// ghzOK is the status of a call that succeeded.
const ghzOK = "OK"

// parseGhz parses ghz's JSON.
func parseGhz(data []byte) (Result, error) {
	var d ghzDocument
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	if d.Count == nil || d.Statuses == nil {
		return Result{}, errors.New("count or statusCodeDistribution is missing")
	}
	return fromGhz(&d)
}

// fromGhz converts a report. Its count and its rate include the calls that failed; a status may be
// the server's or, for one that it did not answer, of ghz itself: all but OK are errors here.
func fromGhz(d *ghzDocument) (Result, error) {
	r := Result{Tool: Ghz, From: FromSent, Statuses: map[string]uint64{}}
	r.Caveats = append(r.Caveats,
		"closed loop unless it was given --rps or --load-schedule: stalls are under-represented (coordinated omission)",
		"latency counts from sending; the time that a call waited for its worker is not in it",
		"its quantiles are those of the calls with status OK (unless --count-errors was given), its mean is that of all")
	all, err := total(d.Statuses)
	if err != nil {
		return r, err
	}
	if all != *d.Count {
		return r, fmt.Errorf("%d calls, but %d statuses", *d.Count, all)
	}
	if err := errors.Join(figure("total", d.Total), figure("rps", d.RPS)); err != nil {
		return r, err
	}
	r.DurationS = d.Total / 1e9
	for status, n := range d.Statuses {
		if status != ghzOK {
			r.fail("status "+status, n)
		} else if n > 0 {
			r.Requests, r.Statuses[ghzOK] = n, n
		}
	}
	r.holdRate(all, d.RPS)
	if o := &d.Options; o.Host != "" {
		scheme := map[bool]string{true: "http://", false: "https://"}[o.Insecure]
		r.Target = scheme + o.Host + "/" + strings.TrimPrefix(o.Call, "/")
		r.Connections = o.Connections
		if o.Connections > 0 {
			r.Pipelining = max(o.Concurrency/o.Connections, 1)
		}
	}
	return r, r.ghzLatency(d)
}

func (r *Result) ghzLatency(d *ghzDocument) error {
	if r.Requests == 0 {
		return nil // no call is in the distribution
	}
	for _, f := range []struct {
		what string
		ns   float64
		into **int64
	}{{"average", d.Average, &r.MeanNs}, {"fastest", d.Fastest, &r.MinNs}, {"slowest", d.Slowest, &r.MaxNs}} {
		ns, err := nanoseconds(f.what, f.ns, 1)
		if err != nil {
			return err
		}
		*f.into = &ns
	}
	r.MeanDigitNs = d.averageDigitNs
	for _, l := range d.Latencies {
		ns, err := nanoseconds("a latency", l.Latency, 1)
		if err != nil {
			return err
		}
		if !(l.Percentage >= 0 && l.Percentage <= 100) {
			return fmt.Errorf("invalid quantile %g%%", l.Percentage)
		}
		r.Quantiles = append(r.Quantiles, Quantile{share(l.Percentage), ns, max(l.digitNs, 1)})
	}
	return nil
}

var (
	ghzCount    = lazy.Regexp(`(?m)^  Count:\t(\d+)$`)
	ghzRate     = lazy.Regexp(`(?m)^  Requests/sec:\t([\d.]+)$`)
	ghzFigure   = lazy.Regexp(`(?m)^  (Total|Slowest|Fastest|Average):\t([\d.]+) (ns|ms|s)$`)
	ghzQuantile = lazy.Regexp(`(?m)^  ([\d.]+) ?% in ([\d.]+) (ns|ms|s) *$`)
	ghzStatus   = lazy.Regexp(`(?m)^  \[([A-Za-z]\w*)\] +(\d+) responses *$`)
)

// parseGhzText parses ghz's summary.
func parseGhzText(data []byte) (Result, error) {
	text := string(data)
	count, err := match(ghzCount(), "Count", text)
	if err != nil {
		return Result{}, err
	}
	rate, err := match(ghzRate(), "Requests/sec", text)
	if err != nil {
		return Result{}, err
	}
	d := ghzDocument{Statuses: map[string]uint64{}}
	n, err := countOf(count[0])
	if err != nil {
		return Result{}, err
	}
	d.Count = &n
	if d.RPS, err = strconv.ParseFloat(rate[0], 64); err != nil {
		return Result{}, err
	}
	figures := map[string]*float64{"Total": &d.Total, "Slowest": &d.Slowest, "Fastest": &d.Fastest, "Average": &d.Average}
	for _, g := range ghzFigure().FindAllStringSubmatch(text, -1) {
		ns, digit, err := ohaTime(g[2], g[3])
		if err != nil {
			return Result{}, err
		}
		if *figures[g[1]] = float64(ns); g[1] == "Average" {
			d.averageDigitNs = digit
		}
	}
	for _, g := range ghzQuantile().FindAllStringSubmatch(text, -1) {
		percent, err := strconv.ParseFloat(g[1], 64)
		if err != nil {
			return Result{}, fmt.Errorf("invalid quantile %.40s%%", g[1])
		}
		ns, digit, err := ohaTime(g[2], g[3])
		if err != nil {
			return Result{}, err
		}
		d.Latencies = append(d.Latencies, ghzLatency{percent, float64(ns), digit})
	}
	summary, _, _ := strings.Cut(text, "\nError distribution:")
	for _, g := range ghzStatus().FindAllStringSubmatch(summary, -1) {
		if d.Statuses[g[1]], err = countOf(g[2]); err != nil {
			return Result{}, err
		}
	}
	return fromGhz(&d)
}
