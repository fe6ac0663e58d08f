package selftest

import (
	"context"
	"fmt"
	"strconv"

	"ceiling/internal/unit"
	"ceiling/measure/netns"
)

// A link is a veth pair into its own network namespace, with the server's outgoing bytes shaped
// by a token bucket: tc-tbf(8). Exactly one of its two numbers is set.
type link struct {
	bitsPerS float64
	// packetsPerS applies to packets up to packetBytes: the bucket charges each as one of that
	// size (mpu of tc-tbf(8), Linux 5.18 and later: net/sched/sch_generic.c,
	// psched_ratecfg_precompute).
	packetsPerS float64
}

const packetBytes = 1514

func (l link) String() string {
	if l.packetsPerS > 0 {
		return unit.FormatSI(l.packetsPerS) + " packets/s"
	}
	return unit.FormatSI(l.bitsPerS) + "bit/s"
}

// shape returns tc's arguments. The burst is the smallest that a whole offloaded segment of 64
// KiB fits in; the queue is 50 ms long.
func (l link) shape() []string {
	rate, extra := l.bitsPerS, []string(nil)
	if l.packetsPerS > 0 {
		rate = l.packetsPerS * packetBytes * 8
		extra = []string{"mpu", strconv.Itoa(packetBytes)}
	}
	return append([]string{"root", "tbf", "rate", strconv.FormatInt(int64(rate), 10) + "bit", "burst", "66000", "latency", "50ms"}, extra...)
}

// newNamespace creates a network namespace with shaped egress. If it fails, it removes what it
// has created.
func newNamespace(ctx context.Context, number int, l link) (*netns.Namespace, error) {
	n, err := netns.New(ctx, number, 1)
	if err != nil {
		return nil, err
	}
	if err := n.Do(ctx, "tc", append([]string{"qdisc", "add", "dev", netns.Interface}, l.shape()...)...); err != nil {
		if removed := n.Remove(); removed != nil {
			err = fmt.Errorf("%w; and then %w", err, removed)
		}
		return nil, err
	}
	return n, nil
}
