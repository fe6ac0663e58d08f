package selftest

import (
	"context"
	"fmt"
	"strconv"

	"ceiling/internal/unit"
	"ceiling/measure/netns"
)

// A link is a veth pair into a network namespace of its own, shaped where the
// server's bytes leave it by a token bucket: tc-tbf(8). One of its two numbers
// is set.
type link struct {
	bitsPerS float64
	// packetsPerS holds for packets up to packetBytes: the bucket charges each
	// of them as much as one of that size (mpu of tc-tbf(8), Linux 5.18 and
	// later: net/sched/sch_generic.c, psched_ratecfg_precompute).
	packetsPerS float64
}

const packetBytes = 1514

func (l link) String() string {
	if l.packetsPerS > 0 {
		return unit.FormatSI(l.packetsPerS) + " packets/s"
	}
	return unit.FormatSI(l.bitsPerS) + "bit/s"
}

// shape is what tc is told. The burst is the least that a whole offloaded
// segment of 64 KiB fits in; the queue is as long as 50 ms.
func (l link) shape() []string {
	rate, extra := l.bitsPerS, []string(nil)
	if l.packetsPerS > 0 {
		rate = l.packetsPerS * packetBytes * 8
		extra = []string{"mpu", strconv.Itoa(packetBytes)}
	}
	return append([]string{"root", "tbf", "rate", strconv.FormatInt(int64(rate), 10) + "bit", "burst", "66000", "latency", "50ms"}, extra...)
}

// newNamespace makes a network namespace whose way out is shaped. What it has made it
// removes again where it fails.
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
