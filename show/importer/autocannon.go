package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// autocannonDocument is the part of autocannon's JSON that we read. The duration is in seconds,
// latencies are whole milliseconds.
type autocannonDocument struct {
	URL         string             `json:"url"`
	Connections int                `json:"connections"`
	Pipelining  int                `json:"pipelining"`
	Workers     int                `json:"workers"`
	Duration    *float64           `json:"duration"`
	Errors      uint64             `json:"errors"` // includes timeouts
	Timeouts    uint64             `json:"timeouts"`
	Resets      uint64             `json:"resets"`
	Mismatches  uint64             `json:"mismatches"`
	Info        uint64             `json:"1xx"`
	Good        *uint64            `json:"2xx"`
	Redirected  uint64             `json:"3xx"`
	Wrong       uint64             `json:"4xx"`
	Broken      uint64             `json:"5xx"`
	Latency     map[string]float64 `json:"latency"`
	Throughput  struct {
		Total *float64 `json:"total"`
	} `json:"throughput"`
}

// parseAutocannon parses autocannon's JSON. The rate that autocannon prints is the mean of
// one-second samples, so it is not checked against the count.
func parseAutocannon(data []byte) (Result, error) {
	var d autocannonDocument
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	if d.Duration == nil || d.Good == nil || d.Latency == nil {
		return Result{}, errors.New("duration, 2xx or latency is missing")
	}
	r := Result{Tool: Autocannon, From: FromSent, Target: d.URL, Connections: d.Connections, Pipelining: d.Pipelining,
		Workers: max(d.Workers, 1), DurationS: *d.Duration, Statuses: map[string]uint64{}}
	if err := figure("duration", r.DurationS); err != nil || r.DurationS == 0 {
		return r, fmt.Errorf("invalid duration: %g s", r.DurationS)
	}
	if r.Connections < 0 {
		return r, fmt.Errorf("%d connections cannot be", r.Connections)
	}
	for class, n := range map[string]uint64{"1xx": d.Info, "2xx": *d.Good, "3xx": d.Redirected, "4xx": d.Wrong, "5xx": d.Broken} {
		if n > 0 {
			r.Statuses[class] = n
		}
	}
	var err error
	if r.Requests, err = total(r.Statuses); err != nil {
		return r, err
	}
	if _, err := total(map[string]uint64{"errors": d.Errors, "resets": d.Resets, "mismatches": d.Mismatches}); err != nil {
		return r, err
	}
	if d.Timeouts > d.Errors {
		return r, fmt.Errorf("%d timeouts of %d errors cannot be", d.Timeouts, d.Errors)
	}
	r.fail("timeout", d.Timeouts)
	r.fail("error", d.Errors-d.Timeouts)
	r.fail("reset", d.Resets)
	if t := d.Throughput.Total; t != nil {
		if err := figure("throughput.total", *t); err != nil || *t > countMax {
			return r, fmt.Errorf("throughput.total is %g, which cannot be", *t)
		}
		n := uint64(*t)
		r.BytesRead = &n
	}
	return r, r.autocannonLatency(&d)
}

func (r *Result) autocannonLatency(d *autocannonDocument) error {
	r.Caveats = append(r.Caveats,
		"closed loop unless it was given -R: stalls are under-represented (coordinated omission)",
		"resolution 1 ms: a 0 is anything below 1 ms")
	if d.Mismatches > 0 {
		r.caveat("%d responses had another body than expected; they are counted as responses", d.Mismatches)
	}
	// With -R autocannon fills in the requests that a stall kept it from sending, as
	// HdrHistogram's corrected recording does; if there are as many values as responses, it did
	// not.
	if n := d.Latency["totalCount"]; n > float64(r.Requests) && n <= countMax {
		r.MadeUp = uint64(n) - r.Requests
		r.caveat("%.0f of its %.0f latencies were never measured: it made them up to correct for coordinated omission (-R)",
			n-float64(r.Requests), n)
	}
	if r.Requests == 0 {
		return nil // it prints zeros then
	}
	for name, ms := range d.Latency {
		ns, err := nanoseconds("latency."+clean(name), ms, 1e6)
		if err != nil {
			return err
		}
		switch {
		case name == "mean":
			r.MeanNs, r.MeanDigitNs = &ns, 1e6
		case name == "max":
			r.MaxNs = &ns
		case name[:min(1, len(name))] == "p": // min is not read: it is 1 where it should be 0
			percent, err := strconv.ParseFloat(strings.Replace(name[1:], "_", ".", 1), 64)
			if err != nil || !(percent >= 0 && percent <= 100) {
				return fmt.Errorf("latency: invalid percentile %q", clean(name))
			}
			r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, 1e6})
		}
	}
	return nil
}
