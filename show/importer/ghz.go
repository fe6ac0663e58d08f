package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	Latencies []struct {
		Percentage float64 `json:"percentage"`
		Latency    float64 `json:"latency"`
	} `json:"latencyDistribution"`
	Options struct {
		Call        string `json:"call"`
		Host        string `json:"host"`
		Insecure    bool   `json:"insecure"`
		Connections int    `json:"connections"`
		Concurrency int    `json:"concurrency"`
	} `json:"options"`
}

// ghzOK is the status of a call that succeeded.
const ghzOK = "OK"

// parseGhz parses ghz's JSON. Its count and its rate include the calls that failed; a status may be
// the server's or, for one that it did not answer, of ghz itself: all but OK are errors here.
func parseGhz(data []byte) (Result, error) {
	var d ghzDocument
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	if d.Count == nil || d.Statuses == nil {
		return Result{}, errors.New("count or statusCodeDistribution is missing")
	}
	r := Result{Tool: Ghz, From: FromSent, Statuses: map[string]uint64{}}
	r.Caveats = append(r.Caveats,
		"closed loop unless it was given --rps or --load-schedule: stalls are under-represented (coordinated omission)",
		"latency counts from sending; the time that a call waited for its worker is not in it",
		"its quantiles cover the calls with status OK (unless --count-errors was given), its mean covers all")
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
	return r, r.ghzLatency(&d)
}

func (r *Result) ghzLatency(d *ghzDocument) error {
	if r.Requests == 0 {
		return nil // no call is in the distribution
	}
	figures := map[string]float64{"average": d.Average, "fastest": d.Fastest, "slowest": d.Slowest}
	for _, l := range d.Latencies {
		figures[strconv.FormatFloat(l.Percentage, 'g', -1, 64)] = l.Latency
	}
	for name, ns := range figures {
		if err := (latencyNames{"average", "fastest", "slowest", "", ""}).set(r, "latency", name, ns, 1); err != nil {
			return err
		}
	}
	return nil
}
