package spec

import (
	"cmp"
	"slices"
	"time"

	"ceiling/internal/unit"
)

// Condition is what the runs of an experiment's load differ in; with a Rate an open loop.
type Condition struct {
	// Connections in total, over all threads. 1 or more.
	Connections int `json:"connections,omitempty"`
	// Threads of the load engine; 0 for automatic.
	Threads int `json:"threads,omitempty"`
	// Pipelining is the number of requests in flight on each connection. 1 or more.
	Pipelining int `json:"pipelining,omitempty"`
	// Rate makes the loop open: requests leave on schedule. The zero value is a closed loop.
	Rate unit.Rate `json:"rate,omitzero"`
}

// Lists are the values of a Condition that an experiment measures with. More than one make a
// dimension of a sweep.
type Lists struct {
	Connections List[Count]     `json:"connections,omitempty" yaml:"connections,omitempty"`
	Pipelining  List[Count]     `json:"pipelining,omitempty" yaml:"pipelining,omitempty" jsonschema:"requests in flight on each connection"`
	Rate        List[unit.Rate] `json:"rate,omitempty" yaml:"rate,omitempty" jsonschema:"open loop: requests per second in all, as in 10k, a ramp 1k:5k or steps 1k+5k+1k"`
	Threads     List[Count]     `json:"threads,omitempty" yaml:"threads,omitempty" jsonschema:"of the generator; 0 chooses"`
}

// Dimension is a field of Lists, by its key in files.
type Dimension string

// The dimensions of a sweep.
const (
	OverConnections Dimension = "connections"
	OverPipelining  Dimension = "pipelining"
	OverRate        Dimension = "rate"
	OverThreads     Dimension = "threads"
)

// dimension describes a Dimension.
type dimension struct {
	Dimension
	// flag sets it; unit names what its values count, one a single of them.
	flag, unit, one string
	// values counts those that a load has.
	values func(*Lists) int
	of     func(*Condition) float64
	clear  func(*Condition)
}

// dimensions in the order in which the first with several values becomes a curve's axis.
var dimensions = [...]dimension{
	{OverConnections, "-c", "connections", "connection", func(l *Lists) int { return len(l.Connections) },
		func(c *Condition) float64 { return float64(c.Connections) }, func(c *Condition) { c.Connections = 0 }},
	{OverPipelining, "-p", "requests in flight on each connection", "request in flight on each connection",
		func(l *Lists) int { return len(l.Pipelining) },
		func(c *Condition) float64 { return float64(c.Pipelining) }, func(c *Condition) { c.Pipelining = 0 }},
	{OverRate, "-R", "target requests/s", "target request/s", func(l *Lists) int { return len(l.Rate) },
		func(c *Condition) float64 { return c.Rate.PerSecond() }, func(c *Condition) { c.Rate = unit.Rate{} }},
	{OverThreads, "-t", "generator threads", "generator thread", func(l *Lists) int { return len(l.Threads) },
		func(c *Condition) float64 { return float64(c.Threads) }, func(c *Condition) { c.Threads = 0 }},
} // read-only

func (d Dimension) row() *dimension {
	for i := range dimensions {
		if dimensions[i].Dimension == d {
			return &dimensions[i]
		}
	}
	return &dimensions[0]
}

// Flag returns the flag that sets the dimension: -c; "" for another name.
func (d Dimension) Flag() string {
	if r := d.row(); r.Dimension == d {
		return r.flag
	}
	return ""
}

// Unit returns what its values count: connections.
func (d Dimension) Unit() string { return d.row().unit }

// Count returns a value with its unit: 1 connection, 64 connections.
func (d Dimension) Count(value float64) string {
	return unit.Plural(int(value+0.5), d.row().one, d.row().unit)
}

// Of returns a condition's value.
func (d Dimension) Of(c *Condition) float64 { return d.row().of(c) }

// Without returns a condition with no value of the dimension: what a whole curve has in common.
func (c Condition) Without(d Dimension) Condition {
	if d != "" {
		d.row().clear(&c)
	}
	return c
}

// Over returns the dimension of the curves: the first with more than one value, "" if there is none.
func (l *Lists) Over() Dimension {
	for i := range dimensions {
		if dimensions[i].values(l) > 1 {
			return dimensions[i].Dimension
		}
	}
	return ""
}

// Conditions returns every combination of the values. An empty list leaves its field to its zero
// value.
func (l *Lists) Conditions() []Condition {
	all := []Condition{{}}
	all = cross(all, l.Pipelining, func(c *Condition, n Count) { c.Pipelining = int(n) })
	all = cross(all, l.Threads, func(c *Condition, n Count) { c.Threads = int(n) })
	all = cross(all, l.Connections, func(c *Condition, n Count) { c.Connections = int(n) })
	return cross(all, l.Rate, func(c *Condition, r unit.Rate) { c.Rate = r })
}

// First returns the first value of each list except the threads, which do not differ between its runs.
// Empty lists give 64 connections, one request in flight on each, and a closed loop.
func (l *Lists) First() Condition {
	c := l.over(Condition{Connections: 64, Pipelining: 1})
	c.Threads = 0
	return c
}

// over returns a condition with the first values in place of its own.
func (l *Lists) over(c Condition) Condition {
	if len(l.Connections) > 0 {
		c.Connections = int(l.Connections[0])
	}
	if len(l.Pipelining) > 0 {
		c.Pipelining = int(l.Pipelining[0])
	}
	if len(l.Rate) > 0 {
		c.Rate = l.Rate[0]
	}
	c.Threads = cmp.Or(l.threads(), c.Threads)
	return c
}

// MostThreads returns the largest number of threads; 0: the engine chooses.
func (l *Lists) MostThreads() int {
	if len(l.Threads) == 0 {
		return 0
	}
	return int(slices.Max(l.Threads))
}

// threads returns the first number of threads; 0: the engine chooses.
func (l *Lists) threads() int {
	if len(l.Threads) == 0 {
		return 0
	}
	return int(l.Threads[0])
}

// cross returns every condition with each of the values, which set puts in.
func cross[T any](conditions []Condition, values []T, set func(*Condition, T)) []Condition {
	if len(values) == 0 {
		return conditions
	}
	var all []Condition
	for _, c := range conditions {
		for _, v := range values {
			set(&c, v)
			all = append(all, c)
		}
	}
	return all
}

// Open reports whether it is an open loop.
func (c *Condition) Open() bool { return !c.Rate.IsZero() }

// Slots is the concurrency of a closed loop.
func (c *Condition) Slots() int { return c.Connections * c.Pipelining }

// timeout is the default for a load: the requests in flight divided by a rate that nearly every
// server reaches, 5,000 requests/s, and 2 s at least. With 5,000 connections of 100 requests each
// a fast server, too, answers a request only after seconds.
func (c *Condition) timeout() time.Duration {
	const each = time.Second / 5000
	return min(max(2*time.Second, time.Duration(c.Slots())*each).Round(time.Second), TimeoutMax)
}
