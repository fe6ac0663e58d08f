package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"ceiling/internal/unit"
)

// Link is the link to the servers of an experiment, which are started in a network namespace at its
// other end: a veth pair, with a token bucket at either end where it has a rate.
type Link struct {
	// Rate in each direction, as in 400Mbit/s; "": as fast as the CPUs.
	Rate string `json:"rate,omitempty" yaml:"rate,omitempty" jsonschema:"in each direction, as in 400Mbit/s; as fast as the CPUs where none is given"`
	// Packets per second in each direction, in place of a rate; 0: no limit.
	Packets Count `json:"packets,omitempty" yaml:"packets,omitempty" jsonschema:"packets per second in each direction, in place of a rate, as in 30k"`
	// Burst is the size of the bucket in bytes; 0: the largest segment's size, 66 kB, or what the rate sends in
	// a millisecond if that is more.
	Burst Count `json:"burst,omitempty" yaml:"burst,omitempty" jsonschema:"bytes of a burst above the rate, as in 100k; 66k, or a millisecond of the rate"`
	// Delay is added to every packet, in each direction.
	Delay Time `json:"delay,omitempty" yaml:"delay,omitempty" jsonschema:"added to every packet, each way, as in 1ms"`
	// Queues to receive and to send at either end; 0: 1.
	Queues int `json:"queues,omitempty" yaml:"queues,omitempty" jsonschema:"of its interfaces, for RPS, RFS and XPS; 1 where none is given"`
}

const (
	// queuesMax is more queues than any host has CPUs.
	queuesMax = 256
	// linkBurstLeast holds a packet; a smaller bucket would let nothing through.
	linkBurstLeast = 2000
	linkDelayMax   = 10 * time.Second
)

// Linked reports whether the servers are at the other end of a link, in a namespace.
func (e *Experiment) Linked() bool {
	return e.Link != (Link{}) || slices.ContainsFunc(e.Factorial.Factors, func(f Factor) bool {
		return slices.ContainsFunc(f.Levels, func(l Level) bool { return l.Link != Link{} })
	})
}

// Limited reports whether the link, or a level's, has a rate or a delay.
func (e *Experiment) Limited() bool {
	limits := func(l *Link) bool { return l.Rate != "" || l.Packets > 0 || l.Delay > 0 }
	return limits(&e.Link) || slices.ContainsFunc(e.Factorial.Factors, func(f Factor) bool {
		return slices.ContainsFunc(f.Levels, func(l Level) bool { return limits(&l.Link) })
	})
}

// BitsPerS returns the rate; 0 if there is no limit.
func (l *Link) BitsPerS() (unit.BitsPerSecond, error) {
	if l.Rate == "" {
		return 0, nil
	}
	rate, err := unit.ParseBits(l.Rate)
	if err != nil {
		return 0, fmt.Errorf("link.rate: %w", err)
	}
	return rate, nil
}

// with returns the link with what a level sets.
func (l Link) with(o Link) Link {
	if o.Rate != "" || o.Packets != 0 {
		l.Rate, l.Packets = o.Rate, o.Packets
	}
	return Link{l.Rate, l.Packets, cmp.Or(o.Burst, l.Burst), cmp.Or(o.Delay, l.Delay), l.Queues}
}

// given returns what the link sets: 400 Mbit/s, 1 ms each way.
func (l *Link) given() (list []given) {
	if rate, err := l.BitsPerS(); err != nil {
		list = append(list, given{"link.rate", l.Rate}) // refused by check
	} else if rate > 0 {
		list = append(list, given{"link.rate", unit.FormatBits(rate)})
	}
	if l.Packets > 0 {
		list = append(list, given{"link.rate", unit.FormatSI(float64(l.Packets)) + " packets/s"})
	}
	if l.Burst > 0 {
		list = append(list, given{"link.burst", unit.FormatBytesSI(int64(l.Burst)) + " bursts"})
	}
	if l.Delay > 0 {
		list = append(list, given{"link.delay", unit.FormatDuration(time.Duration(l.Delay)) + " each way"})
	}
	if l.Queues > 0 {
		list = append(list, given{"link.queues", unit.Plural(l.Queues, "queue", "queues")})
	}
	return list
}

// LinkSays describes the link to the servers; "": there is none of the experiment's own.
func (e *Experiment) LinkSays() string {
	if !e.Linked() {
		return ""
	}
	text := "a veth pair to a network namespace"
	for _, g := range e.Link.given() {
		text += ", " + g.label
	}
	return text
}

func (l *Link) check() error {
	rate, err := l.BitsPerS()
	switch {
	case err != nil:
		return err
	case l.Rate != "" && rate < 8000:
		return fmt.Errorf("link.rate: %s: must be 8 kbit/s or more; without it the link has no limit", l.Rate)
	case l.Rate != "" && l.Packets != 0:
		return errors.New("link: it has a rate and a number of packets; give one of them")
	case l.Packets < 0 || l.Packets > 1e9:
		return fmt.Errorf("link.packets: %d per second: must be 1–1,000,000,000", l.Packets)
	case l.Burst != 0 && l.Rate == "" && l.Packets == 0:
		return errors.New("link.burst: it needs a rate; give link.rate as well")
	case l.Burst < 0 || l.Burst > 0 && l.Burst < linkBurstLeast || l.Burst > 1<<31:
		return fmt.Errorf("link.burst: %d bytes: must be %d, a packet, to 2 GB", l.Burst, linkBurstLeast)
	case l.Delay < 0 || time.Duration(l.Delay) > linkDelayMax:
		return fmt.Errorf("link.delay: %s: must be 0s–%s", time.Duration(l.Delay), linkDelayMax)
	case l.Queues < 0 || l.Queues > queuesMax:
		return fmt.Errorf("link.queues: %d: must be 1–%d", l.Queues, queuesMax)
	}
	return nil
}

// checkLink rejects a link that no load would cross.
func (e *Experiment) checkLink() error {
	if !e.Linked() {
		return nil
	}
	if i := slices.IndexFunc(e.Servers, func(s Server) bool { return s.URL != "" }); i >= 0 {
		return fmt.Errorf("link: %s runs already and is not at the other end of this experiment's link; give the command that serves",
			quoteShort(e.Servers[i].URL))
	}
	switch {
	case e.Load.Link != "":
		return errors.New("load.link: it is for a link of unknown speed; this experiment's speed is link.rate")
	case e.Load.Unix != "":
		return errors.New("load.unix: a unix socket crosses no link; remove one of them")
	case e.Factorial.Interface != "" || e.Prove.Interface != "":
		return errors.New("interface: with link the interface is the namespace's; remove one of them")
	}
	return e.Link.check()
}
