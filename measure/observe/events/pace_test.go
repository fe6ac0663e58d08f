//go:build linux

package events

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A burst that uses the budget up is followed by a pause twice as long at half the effort.
func TestEffortLengthensThePause(t *testing.T) {
	every := func(effort float64) time.Duration {
		p := newPace(effort, rand.New(rand.NewPCG(1, 2)))
		var sum time.Duration
		for range 100 {
			p.plan(outcome{width: shortestBurst, events: 5000, connections: 64, requests: 800, bpfNs: 1e6, ownNs: 3e6, fixedNs: 1e6})
			sum += p.width + p.pause
		}
		return sum
	}
	if whole, half := every(1), every(0.5); half < whole*19/10 || half > whole*21/10 {
		t.Errorf("100 bursts take %v, and %v at half the effort", whole, half)
	}
}
