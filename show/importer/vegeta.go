package importer

import (
	"errors"
	"fmt"
	"strings"
)

// vegetaDocument is the part of vegeta's JSON report that we read. Durations and latencies are
// nanoseconds.
type vegetaDocument struct {
	Latencies  map[string]float64 `json:"latencies"`
	BytesIn    *vegetaBytes       `json:"bytes_in"`
	Duration   *float64           `json:"duration"`
	Wait       float64            `json:"wait"`
	Requests   *uint64            `json:"requests"`
	Rate       *float64           `json:"rate"`
	Throughput *float64           `json:"throughput"` // since vegeta 12.6
	Statuses   map[string]uint64  `json:"status_codes"`
	Errors     []string           `json:"errors"`
}

type vegetaBytes struct {
	Total uint64 `json:"total"`
}

// noResponse is vegeta's status for a request without a response.
const noResponse = "0"

// parseVegeta parses vegeta's JSON report.
func parseVegeta(data []byte) (Result, error) {
	var d vegetaDocument
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	if d.Duration == nil || d.Requests == nil || d.Rate == nil || d.Statuses == nil || d.Latencies == nil {
		return Result{}, errors.New("latencies, duration, requests, rate or status_codes is missing")
	}
	return fromVegeta(&d)
}

// fromVegeta converts a vegeta report of any form.
func fromVegeta(d *vegetaDocument) (Result, error) {
	r := Result{Tool: Vegeta, From: FromDue, Loop: Open, Statuses: map[string]uint64{}, BodiesOnly: true}
	if err := errors.Join(figure("duration", *d.Duration), figure("wait", d.Wait), figure("rate", *d.Rate)); err != nil {
		return r, err
	}
	// Responses arrive until wait is over, so the completion rate covers both.
	r.DurationS = (*d.Duration + d.Wait) / 1e9
	if r.DurationS == 0 {
		return r, errors.New("a run of one request, or of none, has no rate")
	}
	all, err := total(d.Statuses)
	if err != nil {
		return r, err
	}
	if all != *d.Requests {
		return r, fmt.Errorf("%d requests, but %d statuses", *d.Requests, all)
	}
	for status, n := range d.Statuses {
		if status != noResponse && n > 0 {
			r.Statuses[status] = n
			r.Requests += n
		}
	}
	r.vegetaErrors(d)
	if d.BytesIn != nil {
		r.BytesRead = &d.BytesIn.Total
	}
	r.Caveats = append(r.Caveats,
		"latency counts from due until -max-workers is reached, then from sending; the report does not say whether it was",
		"the output lacks the URL and the number of connections, which grows as the server slows down")
	return r, r.vegetaLatency(d)
}

// vegetaErrors counts requests without a response. The report lists error texts without counts;
// texts of statuses are not counted here.
func (r *Result) vegetaErrors(d *vegetaDocument) {
	n := d.Statuses[noResponse]
	var causes []string
	for _, text := range d.Errors {
		if !startsWithStatus(text) && len(causes) < 5 {
			causes = append(causes, clean(text))
		}
	}
	r.fail(strings.TrimSuffix("no response: "+strings.Join(causes, "; "), ": "), n)
	if n > 0 {
		r.caveat("the latencies of %d requests without an answer are among its quantiles", n)
	}
}

// startsWithStatus recognises vegeta's text of a bad status, "503 Service Unavailable".
func startsWithStatus(text string) bool {
	return len(text) > 4 && text[3] == ' ' && strings.Trim(text[:3], "0123456789") == ""
}

func (r *Result) vegetaLatency(d *vegetaDocument) error {
	for name, ns := range d.Latencies {
		if name == "total" {
			continue
		}
		if err := (latencyNames{"mean", "min", "max", "", "th"}).set(r, "latencies", name, ns, 1); err != nil {
			return err
		}
	}
	return nil
}
