// Package clock relates another process's clock to this one's, from exchanges over a network: its
// offset, its drift, and the error bounds of both. It assumes nothing about a single direction: one
// way may take all of the round trip.
//
// Both clocks are monotonic (nanoseconds since a start of each process), so setting a wall clock
// changes nothing here. The offset of the wall clocks is only reported.
package clock

import "math"

// DriftMax is the largest relative drift of two clocks: the kernel slews CLOCK_MONOTONIC by at most
// that (MAXFREQ, 500 ppm, kernel/time/ntp.c), and a quartz is within 100 ppm.
const DriftMax = 500e-6

// Ping is one exchange, nanoseconds.
type Ping struct {
	// Sent and Received on this clock; There is a reading of the other clock in between.
	Sent, Received, There int64
	// WallHere and WallThere are wall clocks (Unix time), read with Received
	// and with There.
	WallHere, WallThere int64
}

// rtt returns the round-trip time.
func (p *Ping) rtt() int64 { return p.Received - p.Sent }

// middle returns the middle of the exchange, on this clock.
func (p *Ping) middle() int64 { return p.Sent + p.rtt()/2 }

// offset returns the other clock's offset, if both ways took equally long.
func (p *Ping) offset() int64 { return p.There - p.middle() }

// band returns what the exchange proves about the offset at a time of this clock, however the round
// trip divides: There was read after Sent and before Received, and the drift is within its limit.
func (p *Ping) band(here int64) (low, high int64) {
	half := (p.rtt()+1)/2 + drift(p.rtt())
	wide := half + drift(abs(here-p.middle()))
	return p.offset() - wide, p.offset() + wide
}

func drift(ns int64) int64 { return int64(math.Ceil(float64(ns) * DriftMax)) }

func abs(n int64) int64 { return max(n, -n) }

// pingsMost bounds the exchanges kept: at one a second, the last half hour is complete.
const pingsMost = 2048

// Clock is another process's clock as its exchanges show it. The zero value has none.
type Clock struct {
	pings []Ping // in the order they were received
	count int
}

// Add adds an exchange. It rejects an impossible one: the answer before the question.
func (c *Clock) Add(p Ping) bool {
	if p.Received < p.Sent || len(c.pings) > 0 && p.Received < c.pings[len(c.pings)-1].Received {
		return false
	}
	if len(c.pings) == pingsMost {
		c.thin()
	}
	c.pings = append(c.pings, p)
	c.count++
	return true
}

// thin keeps the faster of every two neighbours.
func (c *Clock) thin() {
	kept := c.pings[:0]
	for i := 0; i+1 < len(c.pings); i += 2 {
		p := c.pings[i]
		if c.pings[i+1].rtt() < p.rtt() {
			p = c.pings[i+1]
		}
		kept = append(kept, p)
	}
	c.pings = kept
}

// Pings returns how many exchanges were added.
func (c *Clock) Pings() int { return c.count }

// RTTMinNs returns the shortest round trip; 0 without any.
func (c *Clock) RTTMinNs() int64 {
	if len(c.pings) == 0 {
		return 0
	}
	return best(c.pings).rtt()
}

// best returns the fastest exchange: it queued least, and proves most.
func best(pings []Ping) *Ping {
	b := &pings[0]
	for i := range pings {
		if pings[i].rtt() < b.rtt() {
			b = &pings[i]
		}
	}
	return b
}

// ends returns the fastest exchange of the first quarter of the time and that of the last: many
// fast ones precede and follow a run.
func (c *Clock) ends() (first, last *Ping) {
	begin, end := c.pings[0].middle(), c.pings[len(c.pings)-1].middle()
	i, j := 0, len(c.pings)
	for i < len(c.pings) && c.pings[i].middle() <= begin+(end-begin)/4 {
		i++
	}
	for j > 0 && c.pings[j-1].middle() >= end-(end-begin)/4 {
		j--
	}
	return best(c.pings[:max(i, 1)]), best(c.pings[min(j, len(c.pings)-1):])
}

// driftNeeds is the least time between two exchanges whose difference says more about the clocks
// than about the network.
const driftNeeds = int64(1e9)

// Drift returns how much faster the other clock runs (1e-6: a microsecond a second), from the ends
// of the exchanges; 0 if they are too close.
func (c *Clock) Drift() float64 {
	if len(c.pings) == 0 {
		return 0
	}
	first, last := c.ends()
	apart := last.middle() - first.middle()
	if apart < driftNeeds {
		return 0
	}
	d := float64(last.offset()-first.offset()) / float64(apart)
	return min(max(d, -DriftMax), DriftMax)
}

// At returns how far the other clock is ahead at a time of this one, and the error bound, either
// way. The estimate is on the line through the ends; the bound is what all exchanges prove
// together. If they contradict each other (a machine was suspended, a clock drifted beyond the
// limit) the bound covers them all. Without an exchange nothing is known.
func (c *Clock) At(here int64) (offset, errorNs int64) {
	if len(c.pings) == 0 {
		return 0, math.MaxInt64
	}
	low, high := c.band(here)
	first, _ := c.ends()
	line := first.offset() + int64(float64(here-first.middle())*c.Drift())
	offset = min(max(line, low), high)
	return offset, max(high-offset, offset-low)
}

// band returns what all exchanges prove together.
func (c *Clock) band(here int64) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	least, most := high, low
	for i := range c.pings {
		l, h := c.pings[i].band(here)
		low, high = max(low, l), min(high, h)
		least, most = min(least, l), max(most, h)
	}
	if low > high {
		return least, most
	}
	return low, high
}

// ErrorNs returns the largest bound of At between two times of this clock. It grows with the
// distance from an exchange, so it is largest at an end, or where the bounds growing from two
// neighbouring exchanges meet.
func (c *Clock) ErrorNs(from, to int64) int64 {
	_, most := c.At(from)
	check := func(t int64) {
		if t > from && t <= to {
			_, e := c.At(t)
			most = max(most, e)
		}
	}
	check(to)
	for i := range c.pings {
		b := c.pings[i].middle()
		check(b)
		if i == 0 || b < from || c.pings[i-1].middle() > to {
			continue
		}
		a := c.pings[i-1].middle()
		lowA, highA := c.band(a)
		lowB, highB := c.band(b)
		for _, more := range []int64{highB - highA, lowA - lowB} {
			check(a + (b-a)/2 + int64(float64(more)/(2*DriftMax)))
		}
	}
	return most
}

// There converts a time of this clock to the other one.
func (c *Clock) There(here int64) int64 {
	offset, _ := c.At(here)
	return here + offset
}

// WallOffsetNs returns how far the other wall clock is ahead, from the fastest of the last
// exchanges; its error is at most half of RTTMinNs, plus any step of the wall clocks in between.
func (c *Clock) WallOffsetNs() int64 {
	if len(c.pings) == 0 {
		return 0
	}
	_, last := c.ends()
	return last.WallThere - (last.WallHere - last.rtt()/2)
}
