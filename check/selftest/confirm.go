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
	// confirmFor is the measured time of each side, after the plan's warm-up.
	confirmFor = 900 * time.Millisecond
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

func (c *Confirmation) says() string {
	return fmt.Sprintf("%s: %.0f → %.0f requests/s (×%.2f)", c.What, c.Planted, c.More, c.More/max(c.Planted, 1))
}

// confirm measures the fixture, and then the same plan with more of the resource. It tears the plan's
// fixture down between the two.
func confirm(ctx context.Context, g *prereqs, number int, st *fixture, p *plan) (*Confirmation, error) {
	c := &Confirmation{What: p.More}
	var err error
	if c.Planted, err = st.rate(ctx, p); err != nil {
		return nil, fmt.Errorf("confirm the plant: %w", err)
	}
	if err := st.teardown(); err != nil {
		return nil, err
	}
	more, err := setUp(ctx, st.program, g, number, p.relieved)
	if err == nil {
		c.More, err = more.rate(ctx, p.relieved)
	}
	if err = errors.Join(err, more.teardown()); err != nil {
		return nil, fmt.Errorf("confirm the plant, %s: %w", p.More, err)
	}
	return c, nil
}

// rate returns the responses per second of a closed loop of Go's own client, after a warm-up.
func (st *fixture) rate(ctx context.Context, p *plan) (float64, error) {
	s, err := p.run("http://" + st.addr)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Warmup+confirmFor)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: s.Connections, MaxConnsPerHost: s.Connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	warm := time.Now().Add(s.Warmup)
	var answers atomic.Int64
	var clients sync.WaitGroup
	var once sync.Once
	var failed error
	for range s.Connections {
		clients.Go(func() {
			for ctx.Err() == nil {
				err := ask(ctx, client, &s.Targets[0])
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

func ask(ctx context.Context, client *http.Client, t *spec.Target) error {
	q, err := http.NewRequestWithContext(ctx, t.Method, t.URL, http.NoBody)
	if err != nil {
		return err
	}
	for _, h := range t.Header {
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
