package selftest

import (
	"context"
	"fmt"

	"ceiling/internal/unit"
	"ceiling/measure/netns"
)

// A link is a veth pair into its own network namespace, with the server's outgoing bytes shaped
// by a token bucket: tc-tbf(8). Exactly one of its two numbers is set.
type link struct {
	bitsPerS    float64
	packetsPerS float64
}

func (l link) String() string {
	if l.packetsPerS > 0 {
		return unit.FormatSI(l.packetsPerS) + " packets/s"
	}
	return unit.FormatSI(l.bitsPerS) + "bit/s"
}

// shape is what the link lets through.
func (l link) shape() netns.Shape {
	s := netns.Shape{BitsPerS: l.bitsPerS}
	if l.packetsPerS > 0 {
		s.LimitPackets(l.packetsPerS)
	}
	return s
}

// newNamespace creates a network namespace with shaped egress. If it fails, it removes what it
// has created.
func newNamespace(ctx context.Context, number int, l link) (*netns.Namespace, error) {
	n, err := netns.New(ctx, number, 1)
	if err != nil {
		return nil, err
	}
	if err := n.ShapeInside(ctx, l.shape()); err != nil {
		if removed := n.Remove(); removed != nil {
			err = fmt.Errorf("%w; and then %w", err, removed)
		}
		return nil, err
	}
	return n, nil
}
