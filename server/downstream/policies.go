package downstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

// The policies' parameters beyond the timeout of one call; documented for readers who want to
// calculate with them.
const (
	Attempts     = 3   // of a retry, including the first
	BudgetShare  = 0.2 // maximum retries in progress, as a share of the calls in progress
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 100 * time.Millisecond

	// The breaker opens when half of at least 20 calls of a second fail, and retries after half a
	// second.
	breakerShare   = 0.5
	breakerFewest  = 20
	breakerPeriod  = time.Second
	breakerDelay   = 500 * time.Millisecond
	breakerSuccess = 3

	hedgeAfter = 10 * time.Millisecond
)

// A Policy is a way to call a service that may fail.
type Policy struct {
	Name  string // the last element of its route
	About string
	make  func(f *Faults) failsafe.Executor[string]
}

// Policies returns the policies of a Caller.
func Policies() []Policy {
	return []Policy{
		{"none", "call the downstream service, and wait for as long as it takes", func(*Faults) failsafe.Executor[string] {
			return failsafe.With[string]()
		}},
		{"timeout", "give up after the timeout", func(f *Faults) failsafe.Executor[string] {
			return failsafe.With[string](limit(f))
		}},
		{"retry", "three attempts of the timeout each, at once", func(f *Faults) failsafe.Executor[string] {
			return failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxAttempts(Attempts).Build(), limit(f))
		}},
		{"budget", "three attempts with backoff and jitter, as long as retries are at most 20% of the calls under way",
			func(f *Faults) failsafe.Executor[string] {
				some := budget.NewBuilder().WithMaxRate(BudgetShare).WithMinConcurrency(1).Build()
				again := retrypolicy.NewBuilder[string]().WithMaxAttempts(Attempts).WithBackoff(backoffFirst, backoffMost).WithJitterFactor(0.5)
				return failsafe.With[string](again.WithBudget(some).Build(), limit(f))
			}},
		{"breaker", "no call for half a second once half of the calls of a second fail", func(f *Faults) failsafe.Executor[string] {
			b := circuitbreaker.NewBuilder[string]().WithFailureRateThreshold(breakerShare, breakerFewest, breakerPeriod)
			return failsafe.With[string](b.WithDelay(breakerDelay).WithSuccessThreshold(breakerSuccess).Build(), limit(f))
		}},
		{"hedge", "a second call where the first takes more than 10 ms, and the faster answer", func(f *Faults) failsafe.Executor[string] {
			return failsafe.With[string](limit(f), hedgepolicy.NewBuilderWithDelay[string](hedgeAfter).WithMaxHedges(1).Build())
		}},
		{"fallback", "an older answer where the call fails or takes longer than the timeout", func(f *Faults) failsafe.Executor[string] {
			return failsafe.With[string](fallback.NewWithResult(stale), limit(f))
		}},
	}
}

func limit(f *Faults) timeout.Timeout[string] { return timeout.New[string](f.Timeout) }

const (
	fresh = `{"ok":true}`
	stale = `{"ok":true,"stale":true}`
)

// A Caller calls a service through the policies, each with its own state.
type Caller struct {
	Service *Service
	client  *http.Client
	by      map[string]*route
	ctx     context.Context
	abort   context.CancelFunc
}

// A route is a policy with its results.
type route struct {
	policy                    failsafe.Executor[string]
	asked, answered, outdated atomic.Int64
}

// NewCaller returns a caller of s.
func NewCaller(s *Service) *Caller {
	c := &Caller{Service: s, by: map[string]*route{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}}
	c.ctx, c.abort = context.WithCancel(context.Background())
	for _, p := range Policies() {
		c.by[p.Name] = &route{policy: p.make(&s.faults).WithContext(c.ctx)}
	}
	return c
}

// Call handles a request through a policy, with as many calls as that makes. It returns JSON.
func (c *Caller) Call(policy string) ([]byte, error) {
	r := c.by[policy]
	if r == nil {
		return nil, fmt.Errorf("no policy %q", policy)
	}
	r.asked.Add(1)
	body, err := r.policy.GetWithExecution(func(e failsafe.Execution[string]) (string, error) {
		return fresh, get(e.Context(), c.client, c.Service.addr)
	})
	switch {
	case err != nil:
		return nil, err
	case body == stale:
		r.outdated.Add(1)
	}
	r.answered.Add(1)
	return []byte(body), nil
}

// Abort makes calls in progress fail.
func (c *Caller) Abort() { c.abort() }

// Close closes the caller and its service.
func (c *Caller) Close() error {
	c.abort()
	c.client.CloseIdleConnections()
	c.Service.Stop()
	return nil
}

// A Status is the results of all requests so far.
type Status struct {
	Requests int64 `json:"requests"` // of clients
	Answered int64 `json:"answered"` // of these, with an answer and not an error
	Stale    int64 `json:"stale"`    // of those, with a stale answer
	Calls    int64 `json:"calls"`    // received by the service, by its own count
	Failed   int64 `json:"failed"`   // of these, by its faults
	Waiting  int64 `json:"waiting"`  // for a slot, now
	Peak     int64 `json:"peak"`     // most that waited

	Stalled   bool  `json:"stalled"` // an outage is in progress
	Slots     int   `json:"slots"`   // of the service
	WorkNs    int64 `json:"work_ns"` // of one call, without faults
	TimeoutNs int64 `json:"timeout_ns"`
}

// Status sums up all policies.
func (c *Caller) Status() Status {
	s := c.Service
	st := Status{Calls: s.calls.Load(), Failed: s.failed.Load(), Waiting: s.waiting.Load(), Peak: s.peak.Load(),
		Stalled: time.Now().UnixNano() < s.over.Load(), Slots: s.faults.Slots, WorkNs: s.faults.Work.Nanoseconds(),
		TimeoutNs: s.faults.Timeout.Nanoseconds()}
	for _, r := range c.by {
		st.Requests += r.asked.Load()
		st.Answered += r.answered.Load()
		st.Stale += r.outdated.Load()
	}
	return st
}

// StatusJSON is Status for a route.
func (c *Caller) StatusJSON() ([]byte, error) { return json.Marshal(c.Status()) }
