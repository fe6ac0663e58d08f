//go:build linux

package events

import (
	"math"
	"math/rand/v2"
	"time"
)

// What bursts may cost, and what they must see.
const (
	// usualBudget is the share of one core that they may use on average, in the kernel and here.
	usualBudget = 0.006
	// followedPerSecond bounds the events of the followed connections during a burst: 150 ns each
	// in the programs and as much here make 1.5 % of a core.
	followedPerSecond = 50_000
	// fewestConnections are followed even if they have more events.
	fewestConnections = 8
	// cyclesInBurst: a connection that is silent throughout a burst does not show where its request
	// is, so a burst lasts several times as long as a request.
	cyclesInBurst = 4

	shortestBurst = 10 * time.Millisecond
	longestBurst  = time.Second
	// everyBurst is the interval between bursts if the budget allows it.
	everyBurst = 200 * time.Millisecond
	// statsFirst and statsEvery select the bursts in which the kernel measures the programs' time,
	// which itself costs 40 ns per event.
	statsFirst, statsEvery = 3, 8
)

// pace decides when bursts begin, how long they last, and how many connections they follow. It is
// pure except for its random numbers.
type pace struct {
	random    *rand.Rand
	budget    float64 // share of one core
	bursts    int
	width     time.Duration // of the next burst
	threshold uint32        // of the next burst
	seed      uint32        // of the next burst
	joined    bool          // the next burst begins where the last one ended
	pause     time.Duration // before it
	// bpfPerSecond is the programs' CPU time per second of burst at the last measurement, and
	// ofEvents the events per second then.
	bpfPerSecond, ofEvents float64
}

func newPace(effort float64, random *rand.Rand) *pace {
	p := &pace{random: random, budget: usualBudget * effort, width: shortestBurst, threshold: math.MaxUint32}
	p.seed = p.newSeed()
	return p
}

// newSeed chooses which connections are followed, if not all are.
func (p *pace) newSeed() uint32 { return p.random.Uint32() | 1 }

// stats reports whether the next burst measures the programs' time.
func (p *pace) stats() bool { return p.bursts < statsFirst || p.bursts%statsEvery == 0 }

// share returns the fraction of the connections that are followed.
func (p *pace) share() float64 { return (float64(p.threshold) + 1) / (1 << 32) }

// outcome is the result of a burst.
type outcome struct {
	width       time.Duration
	events      int
	connections int
	requests    int64 // or batches of them if pipelined
	bpfNs       int64 // −1: not measured
	ownNs       int64 // CPU time of attaching, detaching, reading and following
	fixedNs     int64 // the part of it that does not grow with the width
	lost        bool
}

// plan takes a burst's outcome and plans the next. bpfNs is the programs' time in it, estimated if
// not measured.
func (p *pace) plan(o outcome) (bpfNs int64) {
	before := p.threshold
	seconds := max(o.width.Seconds(), 1e-6)
	events := float64(o.events) / seconds
	if o.bpfNs >= 0 {
		p.bpfPerSecond, p.ofEvents = float64(o.bpfNs)/seconds, events
		bpfNs = o.bpfNs
	} else if p.ofEvents > 0 {
		bpfNs = int64(p.bpfPerSecond * seconds * events / p.ofEvents)
	}
	p.bursts++
	fixed := float64(o.fixedNs) / 1e9
	cost := (float64(bpfNs+o.ownNs)/1e9 - fixed) / seconds // of a second of burst
	connections := float64(o.connections) / p.share()
	all := events / p.share()
	wasShare := p.share()
	if all > 0 {
		p.follow(max(followedPerSecond/all, fewestConnections/max(connections, 1)))
	}
	p.width = p.wanted(o, seconds, connections)
	if o.lost {
		p.width = max(o.width/2, shortestBurst/4)
	}
	next := fixed + p.width.Seconds()*cost*max(p.share()/wasShare, 0.5)
	every := max(everyBurst.Seconds(), next/p.budget)
	if !o.lost && (cost <= p.budget/2 || cost <= p.budget && (p.joined || p.width.Seconds() >= every/2)) {
		// It may run continuously, cut into bursts of equal length. A change of the followed
		// connections takes a gap.
		p.width, p.pause, p.joined = everyBurst, 0, p.threshold == before
		return bpfNs
	}
	if !o.lost {
		p.seed = p.newSeed()
	}
	p.joined = false
	p.pause = time.Duration(float64(time.Second) * max(every-p.width.Seconds(), 0.01) * (0.5 + p.random.Float64()))
	return bpfNs
}

// follow sets the fraction of the connections that the next burst follows. It ignores changes
// within a factor of two, because state exists for connections followed again.
func (p *pace) follow(share float64) {
	if now := p.share(); share < now/2 || share > now*2 {
		p.threshold = uint32(min(math.Ceil(min(share, 1)*(1<<32))-1, math.MaxUint32))
	}
}

// wanted returns how long the next burst should be to see each connection's request come and go.
func (p *pace) wanted(o outcome, seconds, connections float64) time.Duration {
	followed := connections * p.share()
	switch {
	case o.connections == 0:
		return min(2*o.width, longestBurst)
	case o.requests == 0 || followed == 0:
		return min(2*o.width, longestBurst)
	}
	cycle := seconds * float64(o.connections) / float64(o.requests)
	return min(max(time.Duration(cyclesInBurst*cycle*float64(time.Second)), shortestBurst), longestBurst)
}
