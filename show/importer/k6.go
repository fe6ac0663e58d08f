package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// k6Document covers the three forms of k6's summary: --summary-export (figures directly in the
// metric), handleSummary (figures in values), and the machine-readable one of k6 1.5 and later (a
// list in results).
type k6Document struct {
	Metrics map[string]json.RawMessage `json:"metrics"`
	State   struct {
		DurationMs float64 `json:"testRunDurationMs"`
	} `json:"state"`
	Config struct {
		DurationS float64 `json:"duration"`
	} `json:"config"`
	Results struct {
		Metrics []struct {
			Name   string                     `json:"name"`
			Values map[string]json.RawMessage `json:"values"`
		} `json:"metrics"`
	} `json:"results"`
}

// k6Metrics are the figures by metric and name, whatever the form.
type k6Metrics map[string]map[string]float64

// parseK6 parses a k6 summary.
func parseK6(data []byte) (Result, error) {
	var d k6Document
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	m, err := d.figures()
	if err != nil {
		return Result{}, err
	}
	durationS := d.Config.DurationS
	if d.State.DurationMs > 0 {
		durationS = d.State.DurationMs / 1e3
	}
	count, ok := m["http_reqs"]["count"]
	if !ok {
		return Result{}, errors.New("no http_reqs count: the script made no HTTP request, or this is not a summary")
	}
	r := Result{Tool: K6, From: FromSent}
	if r.Requests, err = whole("http_reqs.count", count); err != nil {
		return r, err
	}
	rate, rated := m["http_reqs"]["rate"]
	switch {
	case durationS > 0:
		r.DurationS = durationS
	case rated && rate > 0: // --summary-export has no duration; its rate is per duration
		r.DurationS = count / rate
	default:
		return r, errors.New("it says neither how long the run was nor at what rate")
	}
	if rated {
		r.holdRate(r.Requests, rate)
	}
	if users, ok := m["vus_max"]["max"]; ok {
		n, err := whole("vus_max.max", users)
		if err != nil || n > math.MaxInt32 {
			return r, fmt.Errorf("vus_max.max is %g, which cannot be", users)
		}
		r.Connections = int(n)
	}
	if bytes, ok := m["data_received"]["count"]; ok {
		n, err := whole("data_received.count", bytes)
		if err != nil {
			return r, err
		}
		r.BytesRead = &n
	}
	return r, errors.Join(r.k6Failures(m), r.k6Latency(m["http_req_duration"]))
}

// figures normalises the three forms. It skips values that are not numbers (a threshold's
// outcome).
func (d *k6Document) figures() (k6Metrics, error) {
	m := k6Metrics{}
	for _, metric := range d.Results.Metrics {
		if err := m.add(metric.Name, metric.Values); err != nil {
			return nil, err
		}
	}
	for name, raw := range d.Metrics {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, fmt.Errorf("metric %q: %w", clean(name), err)
		}
		if values, ok := fields["values"]; ok {
			fields = nil
			if err := json.Unmarshal(values, &fields); err != nil {
				return nil, fmt.Errorf("values of metric %q: %w", clean(name), err)
			}
		}
		if err := m.add(name, fields); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m k6Metrics) add(name string, fields map[string]json.RawMessage) error {
	figures := map[string]float64{}
	for field, raw := range fields {
		var v float64
		if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			continue
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("metric %q: %w", clean(name), err)
		}
		figures[field] = v
	}
	if _, twice := m[name]; twice {
		return fmt.Errorf("duplicate metric %q", clean(name))
	}
	m[name] = figures
	return nil
}

// whole converts a count that k6 stores as a float64.
func whole(what string, v float64) (uint64, error) {
	if !(v >= 0 && v <= countMax) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s: invalid count %g", what, v)
	}
	return uint64(v), nil
}

// k6Failures parses http_req_failed, whose passes are the failed requests: the metric passes when
// the request does not.
func (r *Result) k6Failures(m k6Metrics) error {
	r.Caveats = append(r.Caveats,
		"http_reqs includes requests without a response, and http_req_failed counts them with bad statuses",
		"latency is http_req_duration: from sending to the last byte, without the time to get a connection (http_req_blocked)",
		"the duration has setup, ramps and teardown in it",
		"its connections are virtual users; each may keep several")
	if dropped, ok := m["dropped_iterations"]["count"]; ok && dropped > 0 {
		r.Loop = Open
		r.caveat("%.0f iterations were due and never begun: the asked load was not made", dropped)
	} else {
		r.caveat("closed loop unless the scenario is one of arrival rates, which the summary does not state: stalls are under-represented (coordinated omission)")
	}
	failed, ok := m["http_req_failed"]["passes"]
	if !ok {
		failed, ok = m["http_req_failed"]["matches"]
	}
	if !ok {
		return nil
	}
	n, err := whole("http_req_failed", failed)
	if err != nil {
		return err
	}
	if n > r.Requests {
		return fmt.Errorf("%d of %d requests failed, which cannot be", n, r.Requests)
	}
	r.fail("no response, or a status that was not expected", n)
	return nil
}

// k6Latency parses the trend of http_req_duration, in milliseconds.
func (r *Result) k6Latency(trend map[string]float64) error {
	if r.Requests == 0 {
		return nil // it prints zeros then
	}
	_, median := trend["med"]
	for name, ms := range trend {
		switch {
		case name == "count", name == "p(50)" && median:
			continue
		case name == "med":
			name = "p(50)"
		}
		if err := (latencyNames{"avg", "min", "max", "p(", ")"}).set(r, "http_req_duration", name, ms, 1e6); err != nil {
			return err
		}
	}
	return nil
}
