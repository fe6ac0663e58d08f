package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"ceiling/show/importer"
)

// An answer is a tool's report of its run.
type answer struct {
	// Completed counts complete responses with status 2xx.
	Completed uint64
	// Bad counts requests that failed or had another status, except those that the tool cancels
	// when its time is over.
	Bad uint64
	// ElapsedS is the duration that the tool reports, seconds.
	ElapsedS float64
	// Ours is what only our document has.
	Ours *ownFigures
}

// rateTolerance is the allowed deviation of a printed rate from count / time. Tools print times
// with as few as three digits (wrk: "2.00s"), and h2load divides by the configured time but
// prints the time until it had stopped, 1 % more on a busy machine. A wrong count is off by more.
const rateTolerance = 0.05

// happened rejects a run without requests or time.
func (a *answer) happened(counted uint64) error {
	if counted == 0 {
		return errors.New("no request was made")
	}
	if a.ElapsedS <= 0 {
		return errors.New("no time has passed")
	}
	return nil
}

// check compares a printed rate with the counted requests and the time.
func (a *answer) check(counted uint64, perS float64) error {
	if err := a.happened(counted); err != nil {
		return err
	}
	if want := float64(counted) / a.ElapsedS; math.Abs(perS-want) > rateTolerance*want {
		return fmt.Errorf("it prints %.1f requests/s, but %d requests in %.3f s are %.1f", perS, counted, a.ElapsedS, want)
	}
	return nil
}

// peer parses the output of another tool, and rejects results that no comparison can rest on: a
// rate that is not count / time, no requests, or of ab -k a connection per request, which is a
// different workload.
func peer(tool string) func([]byte) (answer, error) {
	return func(out []byte) (answer, error) {
		r, err := importer.Parse(out)
		switch {
		case err != nil:
			return answer{}, err
		case r.Tool != tool:
			return answer{}, fmt.Errorf("this is output of %s, want %s", r.Tool, tool)
		case r.RateDiffers:
			return answer{}, errors.New(strings.Join(r.Caveats, "; "))
		case tool == importer.Ab && (r.KeptAlive == nil || *r.KeptAlive != r.Requests+r.Failed()):
			return answer{}, errors.New("not all requests were kept alive: it measured connections too")
		}
		a := answer{ElapsedS: r.DurationS, Bad: r.Failed()}
		for status, n := range r.Statuses {
			if strings.HasPrefix(status, "2") || status == "below 400" {
				a.Completed += n
			} else {
				a.Bad += n
			}
		}
		if a.Completed+a.Bad == 0 {
			return answer{}, errors.New("no request was made")
		}
		return a, nil
	}
}
