package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/unit"
	"ceiling/measure/load"
	"ceiling/measure/run"
)

// candidate is an agent that is present, and its reply to a run.
type candidate struct {
	present
	refuses string // "": it would
}

// chosen are the agents of a run.
type chosen struct {
	loads, observes []candidate
}

// choose asks the agents that are present and takes those the run needs, ordered by name. If some
// are missing, the error has every other agent's reply.
func (w *Work) choose(ctx context.Context, s *spec.Spec) (*chosen, error) {
	here, err := w.discover(ctx)
	if err != nil {
		return nil, err
	}
	if len(here) == 0 {
		return nil, fmt.Errorf("%w: no agents connected; start some with the line that ceiling fleet controller prints", exit.ErrRefused)
	}
	all := make([]candidate, 0, len(here))
	for _, p := range here {
		if err := w.command(&p); err != nil {
			return nil, err
		}
		all = append(all, candidate{present: p})
	}
	c := &chosen{}
	if c.observes, err = w.observers(ctx, all, s); err != nil {
		return nil, err
	}
	c.loads, err = w.loaders(ctx, all, s)
	return c, err
}

// observers returns the agents with the given names.
func (w *Work) observers(ctx context.Context, all []candidate, s *spec.Spec) ([]candidate, error) {
	var list []candidate
	for _, name := range w.o.Observe {
		i, err := observer(name, namesOf(all))
		if err != nil {
			return nil, err
		}
		list = append(list, all[i])
	}
	w.offer(ctx, list, order{Protocol: Protocol, Observe: true}, s)
	for _, c := range list {
		if c.refuses != "" {
			return nil, fmt.Errorf("%w: --observe %s: %s", exit.ErrRefused, c.name, c.refuses)
		}
	}
	return list, nil
}

// observer returns where one is among the agents that are here.
func observer(name string, here []string) (int, error) {
	i := slices.Index(here, name)
	if i < 0 {
		return 0, fmt.Errorf("%w: --observe %s: no agent of that name is here, but %s", exit.ErrRefused, name, strings.Join(here, ", "))
	}
	return i, nil
}

func namesOf(all []candidate) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// loaders returns the requested number of agents, from those that only load in this run.
func (w *Work) loaders(ctx context.Context, all []candidate, s *spec.Spec) ([]candidate, error) {
	n := w.o.Agents
	if n < 1 {
		return nil, fmt.Errorf("%w: --agents: give the number of agents that shall load, 1 or more", exit.ErrRefused)
	}
	if s.Connections < n {
		return nil, fmt.Errorf("%w: %d connections are too few for %d agents; each needs its own: -c %d", exit.ErrRefused, s.Connections, n, n)
	}
	var list, others []candidate
	for _, c := range all {
		if !slices.Contains(w.o.Observe, c.name) {
			list = append(list, c)
		}
	}
	equal, err := load.Split(weights(list[:0], n))
	if err != nil {
		return nil, fmt.Errorf("%w: --agents: %w", exit.ErrRefused, err)
	}
	w.offer(ctx, list, order{Protocol: Protocol, Load: true, Share: equal[0]}, s)
	var fit []candidate
	for _, c := range list {
		if c.refuses == "" {
			fit = append(fit, c)
		} else {
			others = append(others, c)
		}
	}
	if len(fit) >= n {
		return fit[:n], nil
	}
	for i := range fit {
		fit[i].refuses = "would load"
	}
	for _, c := range all {
		if slices.Contains(w.o.Observe, c.name) {
			c.refuses = "is to observe (--observe)"
			others = append(others, c)
		}
	}
	few := fmt.Errorf("%d agents are wanted to load, %d of the %d here would (%s)", n, len(fit), len(all), together(append(fit, others...)))
	if slices.ContainsFunc(others, func(c candidate) bool { return strings.Contains(c.refuses, run.NoAddress) }) {
		return nil, few // the same request succeeds once the name resolves there
	}
	return nil, fmt.Errorf("%w: %w", exit.ErrRefused, few)
}

// together lists the replies, merging equal ones.
func together(list []candidate) string {
	var said []string
	by := map[string][]string{}
	for _, c := range list {
		if by[c.refuses] == nil {
			said = append(said, c.refuses)
		}
		by[c.refuses] = append(by[c.refuses], c.name)
	}
	for i, what := range said {
		said[i] = strings.Join(by[what], ", ") + ": " + what
	}
	return strings.Join(said, "; ")
}

// offer offers an order to all of a list concurrently.
func (w *Work) offer(ctx context.Context, list []candidate, o order, s *spec.Spec) {
	o.Spec = s
	each(list, func(c *candidate) {
		if why := whyUnusable(&c.about, &o); why != "" {
			c.refuses = why
			return
		}
		if _, err := w.say(ctx, &c.present, verbOffer, "", o); err != nil {
			c.refuses = strings.TrimPrefix(err.Error(), c.name+": ")
		}
	})
}

// whyUnusable returns why an agent need not be asked; "": ask it.
func whyUnusable(a *About, o *order) string {
	if err := a.speaks(); err != nil {
		return err.Error()
	}
	switch {
	case a.Phase != Idle:
		return fmt.Sprintf("busy with run %s since %s", a.Run, unit.FormatDuration(time.Duration(a.BusyNs).Round(time.Second)))
	case o.Load && !a.Loads:
		return "it only observes"
	case o.Observe && !a.Observes:
		return "it only loads"
	}
	return ""
}

// weightMost is the largest ratio of the strongest agent's share to the weakest one's.
const weightMost = 16

// weights of the shares, by the calibrations that the agents keep: whole multiples of the weakest,
// or equal if one keeps none.
func weights(list []candidate, n int) []int {
	list = list[:min(n, len(list))]
	least := 0.0
	for _, c := range list {
		if c.about.CapacityPerS > 0 && (least == 0 || c.about.CapacityPerS < least) {
			least = c.about.CapacityPerS
		}
	}
	result := make([]int, 0, n)
	for i := range n {
		w := 1
		if i < len(list) && known(list) {
			w = min(int(list[i].about.CapacityPerS/least+0.5), weightMost)
		}
		result = append(result, w)
	}
	return result
}

// known reports whether every agent of a list keeps a calibration.
func known(list []candidate) bool {
	return !slices.ContainsFunc(list, func(c candidate) bool { return !(c.about.CapacityPerS > 0) })
}

// each calls do for all of a list concurrently.
func each[T any](list []T, do func(*T)) {
	done := make(chan struct{}, len(list))
	for i := range list {
		go func() {
			do(&list[i])
			done <- struct{}{}
		}()
	}
	for range list {
		<-done
	}
}
