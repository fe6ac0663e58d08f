package importer

import (
	"errors"
	"fmt"
)

// ohaDocument is the part of oha's JSON that we read. Times are seconds; a figure without
// responses is null.
type ohaDocument struct {
	Summary *struct {
		Total     *float64 `json:"total"`
		Slowest   *float64 `json:"slowest"`
		Fastest   *float64 `json:"fastest"`
		Average   *float64 `json:"average"`
		PerSecond *float64 `json:"requestsPerSec"`
		TotalData *uint64  `json:"totalData"`
	} `json:"summary"`
	Percentiles map[string]*float64 `json:"latencyPercentiles"`
	Statuses    map[string]uint64   `json:"statusCodeDistribution"`
	Errors      map[string]uint64   `json:"errorDistribution"`
}

// ohaCutOff is oha's name for the requests in flight when its time ran out.
const ohaCutOff = "aborted due to deadline"

// parseOha parses oha's JSON.
func parseOha(data []byte) (Result, error) {
	var d ohaDocument
	if err := oneValue(data, &d); err != nil {
		return Result{}, err
	}
	if d.Summary == nil || d.Summary.Total == nil || d.Summary.PerSecond == nil || d.Statuses == nil {
		return Result{}, errors.New("summary.total, summary.requestsPerSec or statusCodeDistribution is missing")
	}
	r := Result{Tool: Oha, From: FromSent, DurationS: *d.Summary.Total, Statuses: d.Statuses, BytesRead: d.Summary.TotalData, BodiesOnly: true}
	r.Caveats = append(r.Caveats,
		"closed loop unless it was given -q: stalls are under-represented (coordinated omission)",
		"with -q latency still counts from sending, unless --latency-correction was given; the output tells neither",
		"the output lacks the URL and the number of connections")
	if err := figure("summary.total", r.DurationS); err != nil || r.DurationS == 0 {
		return r, fmt.Errorf("invalid duration: %g s", r.DurationS)
	}
	var err error
	if r.Requests, err = total(d.Statuses); err != nil {
		return r, err
	}
	failed, err := total(d.Errors)
	if err != nil {
		return r, err
	}
	for what, n := range d.Errors {
		if what == ohaCutOff {
			r.caveat("%d requests in flight at the end were cut off; its rate counts them, this count does not", n)
			continue
		}
		r.fail(what, n)
	}
	r.holdRate(r.Requests+failed, *d.Summary.PerSecond)
	return r, r.ohaLatency(&d)
}

func (r *Result) ohaLatency(d *ohaDocument) error {
	for what, of := range map[string]map[string]*float64{"latencyPercentiles": d.Percentiles,
		"summary": {"average": d.Summary.Average, "fastest": d.Summary.Fastest, "slowest": d.Summary.Slowest}} {
		for name, value := range of {
			if value == nil {
				continue
			}
			if err := (latencyNames{"average", "fastest", "slowest", "p", ""}).set(r, what, name, *value, 1e9); err != nil {
				return err
			}
		}
	}
	return nil
}
