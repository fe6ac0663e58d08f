package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/measure/data"
	"ceiling/measure/load"
)

// replay sends the requests of an access log when the log has them, or faster.
type replay struct {
	order []int   // of the targets
	times []int64 // after the first, in nanoseconds
}

// replaySpeed reads -R log, log*10 (ten times as fast) and log/2; 0: the rate is another.
func replaySpeed(rate string) (float64, error) {
	rest, is := strings.CutPrefix(rate, spec.Logged)
	if !is {
		return 0, nil
	}
	if rest == "" {
		return 1, nil
	}
	speed, err := strconv.ParseFloat(rest[1:], 64)
	switch {
	case rest[0] != '*' && rest[0] != '/', err != nil, !(speed >= 1e-6 && speed <= 1e6):
		return 0, fmt.Errorf("-R: invalid rate %q (use log, log*10 for ten times as fast, log/2 for half)", rate)
	case rest[0] == '/':
		speed = 1 / speed
	}
	return speed, nil
}

// replays takes over order and times of a log, and sets the mean rate.
func (f *runFlags) replays(set *borrowed.Set, speed float64, sh *shell) error {
	r := &replay{order: set.Order}
	for _, at := range set.Times {
		r.times = append(r.times, int64(float64(at)/speed))
	}
	if f.changed("duration") {
		d, err := unit.ParseDuration(f.load.duration)
		if err != nil {
			return fmt.Errorf("-d: %w", err)
		}
		n, _ := slices.BinarySearch(r.times, int64(d))
		r.order, r.times = r.order[:n], r.times[:n]
	}
	if len(r.times) < 2 {
		return fmt.Errorf("-R log: %s has %s with a time; at least 2 are needed", f.load.from.targets, unit.Plural(len(r.times), "request", "requests"))
	}
	takes := max(time.Duration(r.times[len(r.times)-1]), time.Millisecond)
	sh.Note("ceiling: %s: its %s take %s", f.load.from.targets, unit.Plural(len(r.times), "request", "requests"), unit.FormatDuration(takes.Round(time.Millisecond)))
	f.replay, f.load.rate = r, fmt.Sprintf("%d/%dus", len(r.times), takes.Microseconds())
	return nil
}

// logged makes the run end with the log, in its order.
func (o *order) logged(f *runFlags) error {
	switch {
	case o.one == nil:
		return errors.New("-R log: it works in a single run; remove the list and --repeats")
	case f.feed != nil || f.load.from.once:
		return errors.New("-R log: the log has order and number of the requests; remove --feed and --once")
	case o.one.Requests != 0:
		return errors.New("-R log: the log ends the run; remove -n, and give -d for its beginning")
	case f.changed("warmup") || f.changed("arrivals"):
		return errors.New("-R log: the log has its times; remove --warmup and --arrivals")
	}
	o.one.Requests, o.one.Warmup, o.one.Duration, o.one.Arrivals = uint64(len(f.replay.times)), 0, 0, spec.Logged
	o.compose = func(mix []load.Request, threads int, _ uint64) (*load.Composing, error) {
		return data.Replay(mix, f.replay.order, f.replay.times, threads)
	}
	return o.one.Check()
}
