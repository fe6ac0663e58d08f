package regimes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/server/downstream"
)

const (
	// outageRate is half the capacity of outageFaults' service.
	outageRate  = 200
	outageLasts = 6 * time.Second // duration of the run, in which the service stalls once

	outageAfter = time.Second             // of healthy service
	outageOver  = 2500 * time.Millisecond // the outage of 0.7 s, plus recovery
	outageLate  = 1500 * time.Millisecond // by when it should have recovered

	// Below this share of the earlier response rate, the service has not recovered.
	comeBack = 0.5
)

// Outcomes of an outage, in place of a bottleneck.
const (
	metastable = "metastable"
	recovered  = "recovered"
)

// outage stalls the service in the middle of an open loop, and checks whether it recovers.
func (m *measurement) outage(ctx context.Context, r *Regime, row *Row) error {
	rate, err := unit.ParseRate(fmt.Sprint(outageRate))
	if err != nil {
		return err
	}
	type result struct {
		run *record.Run
		err error
	}
	ended := make(chan result, 1)
	go func() {
		one, err := m.run(ctx, r, rate)
		ended <- result{one, err}
	}()
	at, err := m.lookOn(ctx, r)
	done := <-ended
	if err != nil {
		return err
	}
	if done.err != nil {
		return done.err
	}
	if err := judge(row, []*record.Run{done.run}); err != nil {
		return err
	}
	costOfCalls(row, &at[2], &at[3])
	return nameOutage(row, at)
}

// lookOn starts the outage, and returns the status before and after each of two periods: one
// before it, one long after.
func (m *measurement) lookOn(ctx context.Context, r *Regime) (at [4]downstream.Status, err error) {
	for i, after := range []time.Duration{rest + warmup, outageAfter, outageOver, outageLate} {
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(after):
		}
		if at[i], err = m.calls(ctx, r); err != nil {
			return at, err
		}
		if i == 1 {
			var begun downstream.Status
			if err := m.ask(ctx, http.MethodPost, "/call/outage", &begun); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// nameOutage decides whether the service recovered, from the response rate long after the outage.
func nameOutage(row *Row, at [4]downstream.Status) (err error) {
	share := func(first, last *downstream.Status) float64 {
		return float64(last.Answered-first.Answered) / float64(max(1, last.Requests-first.Requests))
	}
	before, late := share(&at[0], &at[1]), share(&at[2], &at[3])
	if row.PerS, err = stat.Median([]float64{float64(at[3].Answered-at[2].Answered) / outageLate.Seconds()}, confidence); err != nil {
		return err
	}
	row.Failed, row.Next = 0, ""
	row.Bottleneck = recovered
	what := "the service is back"
	switch {
	case before < comeBack:
		row.Bottleneck = string(record.Inconclusive)
		what = "the service was not well before, so its end says nothing"
	case late < comeBack*before:
		row.Bottleneck = metastable
		what = "the outage is over, and the policy's own calls keep the service down"
	}
	calls := 0.0
	if row.Cost.RoundTrips != nil {
		calls = *row.Cost.RoundTrips
	}
	row.Reason = fmt.Sprintf("%s of the requests were answered before the outage, and %s from 1.8 s after its end on, with %.2g calls for each: %s",
		unit.Percent(before), unit.Percent(late), calls, what)
	return nil
}
