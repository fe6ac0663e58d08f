package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/experiment/spec"
)

// An independent client confirms that a plant is the bottleneck: Go's net/http measures the rate
// of the plant, and of the same plant with more of the planted resource. More of a resource that
// is not the bottleneck does not change the rate.

const (
	// confirmFor is the measured time of each side, after confirmWarm.
	confirmFor  = 900 * time.Millisecond
	confirmWarm = 300 * time.Millisecond
	// confirmedFrom is the least gain that shows the bottleneck when the resource was doubled:
	// about half the possible gain. Noise of a busy machine is below it, and the next bottleneck
	// may be near.
	confirmedFrom = 1.4
)

// Confirmation is the rate with the resource as planted, and with more of it.
type Confirmation struct {
	What    string  `json:"what"` // the addition: "twice the pool"
	Planted float64 `json:"planted_per_s"`
	More    float64 `json:"more_per_s"`
}

// Holds reports whether the rate followed the resource.
func (c *Confirmation) Holds() bool { return c.Planted > 0 && c.More >= confirmedFrom*c.Planted }

func (c *Confirmation) String() string {
	return fmt.Sprintf("%s: %.0f → %.0f requests/s (×%.2f)", c.What, c.Planted, c.More, c.More/max(c.Planted, 1))
}

// confirm measures the stage, and then the same with more of the resource. It strikes the plan's
// fixture between the two.
func confirm(ctx context.Context, o *Options, g *prereqs, number int, st *fixture, p *plan) (*Confirmation, error) {
	c := &Confirmation{What: p.more}
	var err error
	if c.Planted, err = st.rate(ctx, &p.spec, confirmWarm); err != nil {
		return nil, fmt.Errorf("confirm the plant: %w", err)
	}
	if err := st.teardown(); err != nil {
		return nil, err
	}
	more, err := setUp(ctx, o.Program, g, number, p.relieved)
	if err == nil {
		c.More, err = more.rate(ctx, &p.relieved.spec, max(confirmWarm, p.relieved.warm))
	}
	if err = errors.Join(err, more.teardown()); err != nil {
		return nil, fmt.Errorf("confirm the plant, %s: %w", p.more, err)
	}
	return c, nil
}

// rate returns the responses per second of a closed loop of Go's own client, after a warm-up.
func (st *fixture) rate(ctx context.Context, s *spec.Spec, warming time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, warming+confirmFor)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: s.Connections, MaxConnsPerHost: s.Connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	warm := time.Now().Add(warming)
	var answers atomic.Int64
	var clients sync.WaitGroup
	var once sync.Once
	var failed error
	for range s.Connections {
		clients.Go(func() {
			for ctx.Err() == nil {
				err := st.ask(ctx, client)
				if err != nil && ctx.Err() == nil {
					once.Do(func() { failed = err })
					time.Sleep(time.Millisecond) // do not flood a port that refuses
				} else if err == nil && time.Now().After(warm) {
					answers.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if answers.Load() == 0 {
		return 0, errors.Join(errors.New("no answer"), failed)
	}
	return float64(answers.Load()) / confirmFor.Seconds(), nil
}

func (st *fixture) ask(ctx context.Context, client *http.Client) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+st.addr+st.path, http.NoBody)
	if err != nil {
		return err
	}
	for _, h := range st.header {
		q.Header.Set(h.Name, h.Value)
	}
	res, err := client.Do(q)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return err
}
