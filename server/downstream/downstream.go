// Package downstream is a backend service with configurable faults, and the policies by which the
// server calls it.
//
// The service has slots, and a call occupies one for its duration; so its capacity is slots/time,
// by Little's law, and further calls wait. A call whose caller has left runs to completion, as in
// most services: this wasted work is how retries keep a service down.
package downstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/option"
)

// Faults define the behaviour of a call.
type Faults struct {
	Work  time.Duration // duration of a call, without CPU
	Slots int           // concurrent calls

	Fail     float64 // share of calls that end with status 500, 0 to 1
	Slow     float64 // share that takes SlowBy longer
	SlowBy   time.Duration
	Stall    float64 // share that takes StallFor longer, occupying its slot
	StallFor time.Duration

	Timeout time.Duration // of one call by a policy
	Outage  time.Duration // duration of an outage, in which every call stalls
}

// Standard is a service without faults: 20 slots of 2 ms, 10,000 calls/s.
func Standard() Faults {
	return Faults{Work: 2 * time.Millisecond, Slots: 20, SlowBy: 20 * time.Millisecond, StallFor: time.Second, Timeout: 50 * time.Millisecond,
		Outage: time.Second}
}

// form is an example of Parse's input.
const form = "work=2ms,slots=20,fail=1%,slow=5%:20ms,stall=0.1%:1s,timeout=50ms,outage=1s, or own"

// Parse parses faults as typed:
// "work=2ms,slots=20,fail=1%,slow=5%:20ms,stall=0.1%:1s,timeout=50ms". Omitted values are those
// of Standard, as is all of "own".
func Parse(text string) (Faults, error) {
	f := Standard()
	return f, option.Read(text, form, f.set)
}

func (f *Faults) set(name, value string) (err error) {
	share := func(into *float64, by *time.Duration) error {
		first, second, both := strings.Cut(value, ":")
		if both && by != nil {
			if *by, err = positive(second); err != nil {
				return err
			}
		}
		number, percent := strings.CutSuffix(first, "%")
		if *into, err = strconv.ParseFloat(number, 64); err != nil {
			return errors.New("it has no share")
		}
		if percent {
			*into /= 100
		}
		if !(*into >= 0 && *into <= 1) {
			return errors.New("the share must be 0–100%")
		}
		return nil
	}
	switch name {
	case "fail":
		return share(&f.Fail, nil)
	case "slow":
		return share(&f.Slow, &f.SlowBy)
	case "stall":
		return share(&f.Stall, &f.StallFor)
	case "work":
		f.Work, err = positive(value)
	case "timeout":
		f.Timeout, err = positive(value)
	case "outage":
		f.Outage, err = positive(value)
	case "slots":
		if f.Slots, err = strconv.Atoi(value); err != nil || f.Slots < 1 || f.Slots > 100_000 {
			err = errors.New("slots are 1 to 100000")
		}
	default:
		err = errors.New("no such fault")
	}
	return err
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > time.Minute {
		return 0, errors.New("a time is from 1ns to 1m")
	}
	return d, nil
}

// A Service listens on the loopback. Create it with Start.
type Service struct {
	faults Faults
	slots  chan struct{}
	server http.Server
	addr   string
	over   atomic.Int64 // the end of the outage, wall clock in nanoseconds
	ended  chan struct{}

	stopping chan struct{} // closed by Stop
	stop     sync.Once

	calls, failed, waiting, peak atomic.Int64
}

// Start starts a service.
func Start(f Faults) (*Service, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the downstream service: %w", err)
	}
	s := &Service{faults: f, slots: make(chan struct{}, f.Slots), addr: ln.Addr().String(), ended: make(chan struct{}),
		stopping: make(chan struct{})}
	s.server.Handler = http.HandlerFunc(s.answer)
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(ln) // until Stop
	}()
	return s, nil
}

// Stop stops the service and its calls. It may be called again.
func (s *Service) Stop() {
	s.stop.Do(func() { close(s.stopping) })
	_ = s.server.Close() // its connections are gone either way
	<-s.ended
}

// Break starts an outage: calls stall until it is over.
func (s *Service) Break() { s.over.Store(time.Now().Add(s.faults.Outage).UnixNano()) }

func (s *Service) answer(w http.ResponseWriter, _ *http.Request) {
	s.calls.Add(1)
	if n := s.waiting.Add(1); n > s.peak.Load() {
		s.peak.Store(n)
	}
	select {
	case s.slots <- struct{}{}: // even if the caller has left
	case <-s.stopping:
		return
	}
	s.waiting.Add(-1)
	select {
	case <-time.After(s.takes()):
	case <-s.stopping:
	}
	<-s.slots
	w.Header().Set("Content-Type", "application/json")
	if rand.Float64() < s.faults.Fail {
		s.failed.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"ok":false}`)) // a caller that has left needs no response
		return
	}
	_, _ = w.Write([]byte(`{"ok":true}`))
}

// takes returns how long a call occupies its slot.
func (s *Service) takes() time.Duration {
	d := s.faults.Work
	if rand.Float64() < s.faults.Slow {
		d += s.faults.SlowBy
	}
	if rand.Float64() < s.faults.Stall {
		d += s.faults.StallFor
	}
	return d + max(0, time.Until(time.Unix(0, s.over.Load())))
}

// get makes one call.
func get(ctx context.Context, client *http.Client, addr string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the downstream service answers %s", answer.Status)
	}
	return nil
}
