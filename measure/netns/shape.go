package netns

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Shape is what a link lets through, in one direction.
type Shape struct {
	// BitsPerS with Ethernet headers; 0: no limit.
	BitsPerS float64
	// BurstBytes is the size of the token bucket; 0: burstLeast, or a millisecond of the rate if that is more.
	BurstBytes int64
	// ChargedBytes is what a smaller packet counts as (mpu of tc-tbf(8), Linux 5.18 and later:
	// net/sched/sch_generic.c, psched_ratecfg_precompute). 0: its own size.
	ChargedBytes int
	// Delay of every packet.
	Delay time.Duration
}

const (
	// burstLeast is the smallest bucket that a whole offloaded segment of 64 KiB fits in.
	burstLeast = 66_000
	// queueTime is what the bucket's queue holds at its rate.
	queueTime = "50ms"
	// delayedPackets is the most that a delay holds: 100 ms at a million a second.
	delayedPackets = 100_000

	bucketHandle, delayHandle = "1:", "10:"
)

// fullPacketBytes is the size of the largest packet, with its Ethernet header.
const fullPacketBytes = 1514

// LimitPackets limits packets per second instead of bits: the bucket charges each as a full one. A segment that
// leaves the stack whole is charged its bytes, that is, the packets that a real link would carry.
func (s *Shape) LimitPackets(perS float64) {
	s.BitsPerS, s.ChargedBytes = perS*fullPacketBytes*8, fullPacketBytes
}

// ErrNoDelay says that this kernel cannot delay packets.
var ErrNoDelay = errors.New("this kernel has no netem (CONFIG_NET_SCH_NETEM), which delays packets; remove the delay, or load it: modprobe sch_netem")

// Shape limits or delays both directions of the link, or takes that away again.
func (n *Namespace) Shape(ctx context.Context, s Shape) error {
	if s == n.shape {
		return nil
	}
	for _, end := range [][]string{{"qdisc"}, {"-n", n.Name, "qdisc"}} {
		device := n.veth
		if len(end) > 1 {
			device = Interface
		}
		if err := n.discipline(ctx, end, device, s); err != nil {
			return err
		}
	}
	n.shape = s
	return nil
}

// ShapeInside limits or delays what is sent from inside.
func (n *Namespace) ShapeInside(ctx context.Context, s Shape) error {
	return n.discipline(ctx, []string{"-n", n.Name, "qdisc"}, Interface, s)
}

// discipline replaces the root discipline of one end. The bucket is the root, where a run may
// change its rate, and the delay is below it.
func (n *Namespace) discipline(ctx context.Context, end []string, device string, s Shape) error {
	do := func(args ...string) error { return tool(ctx, "tc", append(append([]string(nil), end...), args...)...) }
	if n.shape != (Shape{}) {
		if err := do("delete", "dev", device, "root"); err != nil {
			return err
		}
	}
	parent := []string{"root"}
	if s.BitsPerS > 0 {
		bucket := []string{"add", "dev", device, "root", "handle", bucketHandle, "tbf", "rate", strconv.FormatInt(int64(s.BitsPerS), 10) + "bit",
			"burst", strconv.FormatInt(s.burst(), 10), "latency", queueTime}
		if s.ChargedBytes > 0 {
			bucket = append(bucket, "mpu", strconv.Itoa(s.ChargedBytes))
		}
		if err := do(bucket...); err != nil {
			return err
		}
		parent = []string{"parent", bucketHandle + "1"}
	}
	if s.Delay == 0 {
		return nil
	}
	err := do(append(append([]string{"add", "dev", device}, parent...), "handle", delayHandle, "netem", "delay",
		strconv.FormatInt(s.Delay.Microseconds(), 10)+"us", "limit", strconv.Itoa(delayedPackets))...)
	if err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
		return fmt.Errorf("%w (%w)", ErrNoDelay, err)
	}
	return err
}

func (s *Shape) burst() int64 {
	if s.BurstBytes > 0 {
		return s.BurstBytes
	}
	return max(burstLeast, int64(s.BitsPerS/8/1000))
}
