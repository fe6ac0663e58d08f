package main

import (
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// abort ends a run that gets too many errors: of the requests that ended in the last second, and at
// least abortLeast.
type abort struct {
	share     float64
	last      []record.LoadRow
	ended     int64
	wrong     int64
	widthNs   int64
	lastEndNs int64
}

// abortLeast requests have to have ended before their errors end a run.
const abortLeast = 20

// abortShare reads the value of --abort-errors; 0 for "".
func abortShare(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	slo, err := spec.ParseSLO("errors<" + text)
	if err != nil || len(slo) != 1 || slo[0].Limit <= 0 {
		return 0, fmt.Errorf("--abort-errors: %s is not a share above 0; give --abort-errors 10%%", text)
	}
	return slo[0].Limit, nil
}

// row counts an interval, and returns why the run is to end; "" if it goes on.
func (a *abort) row(r *record.LoadRow, _ *hist.Hist) string {
	if r.Warmup {
		return "" // the window is to have some of them
	}
	if r.TNs < a.lastEndNs { // the next run of a plan
		*a = abort{share: a.share}
	}
	a.lastEndNs = r.TNs
	a.last = append(a.last, *r)
	a.count(r, 1)
	for len(a.last) > 1 && a.widthNs-a.last[0].WidthNs >= 1e9 {
		a.count(&a.last[0], -1)
		a.last = a.last[1:]
	}
	if a.ended < abortLeast || float64(a.wrong) < a.share*float64(a.ended) {
		return ""
	}
	return fmt.Sprintf("%s of %s in the last %s were errors (--abort-errors %s)", unit.Percent(float64(a.wrong)/float64(a.ended)),
		unit.Plural(int(a.ended), "request", "requests"), unit.FormatNs(a.widthNs), unit.Percent(a.share))
}

func (a *abort) count(r *record.LoadRow, sign int64) {
	a.ended += sign * int64(r.Completed+r.Failed)
	a.wrong += sign * int64(r.Bad+r.Failed)
	a.widthNs += sign * r.WidthNs
}
