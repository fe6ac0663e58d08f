package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/load"
	"ceiling/measure/run"
)

// choose asks the agents that are present and takes those the run needs, ordered by name. If some
// are missing, the error has every other agent's reply.
func (w *Work) choose(ctx context.Context, s *spec.Spec) (loads, observes []present, err error) {
	here, err := w.usable(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(here) == 0 {
		return nil, nil, fmt.Errorf("%w: no agents connected; start some with the line that ceiling fleet controller prints", exit.ErrRefused)
	}
	for _, name := range w.o.Observe {
		p, err := named(name, here)
		if err != nil {
			return nil, nil, err
		}
		observes = append(observes, *p)
	}
	w.offer(ctx, observes, order{Observe: true, Spec: s})
	for _, p := range observes {
		if p.refuses != "" {
			return nil, nil, fmt.Errorf("%w: --observe %s: %s", exit.ErrRefused, p.Name, p.refuses)
		}
	}
	loads, err = w.loaders(ctx, here, s)
	return loads, observes, err
}

// named returns an agent that is here.
func named(name string, here []present) (*present, error) {
	var names []string
	for i := range here {
		if here[i].Name == name {
			return &here[i], nil
		}
		names = append(names, here[i].Name)
	}
	return nil, fmt.Errorf("%w: --observe %s: no agent of that name is here, but %s", exit.ErrRefused, name, strings.Join(names, ", "))
}

// loaders returns the requested number of agents, from those that only load in this run.
func (w *Work) loaders(ctx context.Context, here []present, s *spec.Spec) ([]present, error) {
	n := w.o.Agents
	if s.Connections < n {
		return nil, fmt.Errorf("%w: %d connections are too few for %d agents; each needs its own: -c %d", exit.ErrRefused, s.Connections, n, n)
	}
	equal, err := load.Split(slices.Repeat([]int{1}, n))
	if err != nil {
		return nil, fmt.Errorf("%w: --agents: %w", exit.ErrRefused, err)
	}
	var list, fit, others []present
	for _, p := range here {
		if slices.Contains(w.o.Observe, p.Name) {
			p.refuses = "is to observe (--observe)"
			others = append(others, p)
		} else {
			list = append(list, p)
		}
	}
	w.offer(ctx, list, order{Load: true, Share: equal[0], Spec: s})
	for _, p := range list {
		if p.refuses == "" {
			fit = append(fit, p)
		} else {
			others = append(others, p)
		}
	}
	if len(fit) >= n {
		return fit[:n], nil
	}
	for i := range fit {
		fit[i].refuses = "would load"
	}
	few := fmt.Errorf("%d agents are wanted to load, %d of the %d here would (%s)", n, len(fit), len(here), together(append(fit, others...)))
	if strings.Contains(few.Error(), run.NoAddress) {
		return nil, few // the same request succeeds once the name resolves there
	}
	return nil, fmt.Errorf("%w: %w", exit.ErrRefused, few)
}

// together lists the replies, merging equal ones.
func together(list []present) string {
	var said []string
	by := map[string][]string{}
	for _, c := range list {
		if by[c.refuses] == nil {
			said = append(said, c.refuses)
		}
		by[c.refuses] = append(by[c.refuses], c.Name)
	}
	for i, what := range said {
		said[i] = strings.Join(by[what], ", ") + ": " + what
	}
	return strings.Join(said, "; ")
}

// offer offers an order to all of a list concurrently, and notes who refuses it.
func (w *Work) offer(ctx context.Context, list []present, o order) {
	_ = each(list, func(p *present) error {
		err := p.speaks()
		if err == nil {
			_, err = w.say(ctx, p, command{Verb: verbOffer, Order: &o})
		}
		if err != nil {
			p.refuses = strings.TrimPrefix(err.Error(), p.Name+": ")
		}
		return nil
	})
}

// weightMost is the largest ratio of the strongest agent's share to the weakest one's.
const weightMost = 16

// weights of the shares, by the calibrations that the agents keep: whole multiples of the weakest,
// or equal if one keeps none.
func weights(list []present) []int {
	least := math.Inf(1)
	for _, c := range list {
		least = min(least, c.CapacityPerS)
	}
	result := make([]int, len(list))
	for i, c := range list {
		if result[i] = 1; least > 0 {
			result[i] = min(int(c.CapacityPerS/least+0.5), weightMost)
		}
	}
	return result
}
