package verdict

import (
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// halfSent makes every response lie written and unacknowledged at the server,
// as Nagle's algorithm and delayed acknowledgements do.
func halfSent(w *watchedRun) *watchedRun {
	each(w, func(r *record.SocketsRow) {
		r.Server.Unacked, r.Server.UnackedBytes = 62, 62*130
	})
	return each(w, func(r *record.TCPInfoRow) { r.Server.RTTp50Us, r.Server.UnackedSegs = 40_000, 62 })
}

func onLink(w *watchedRun) *watchedRun {
	return each(w, func(r *record.NetDevRow) { r.Iface = "eth0" })
}

func TestDelayedAck(t *testing.T) {
	const named = "TCP_NODELAY"
	for _, c := range []struct {
		name  string
		w     *watchedRun
		named bool
	}{
		{"on the loopback", halfSent(watched(43e6, .05)), true},
		{"on the loopback, with 20 ms of work", halfSent(watched(63e6, .05)), true},
		{"on a link", onLink(halfSent(watched(43e6, .05))), true},
		{"with the bytes that did not leave", each(halfSent(watched(43e6, .05)), func(r *record.SocketsRow) {
			r.ToClient = record.Transit{Pairs: 64, Connections: 62, Bytes: 62 * 30, UnsentBytes: 62 * 30}
			r.ToServer = record.Transit{Pairs: 64}
		}), true},
		{"all of them left", each(halfSent(watched(43e6, .05)), func(r *record.SocketsRow) {
			r.ToClient = record.Transit{Pairs: 64, Connections: 62, Bytes: 62 * 30}
			r.ToServer = record.Transit{Pairs: 64}
		}), false},
		{"a server that takes 43 ms", watched(43e6, .05), false},
		{"its requests unacknowledged meanwhile",
			each(watched(43e6, .05), func(r *record.SocketsRow) { r.Client.Unacked, r.Client.UnackedBytes = 64, 64*60 }), false},
		{"a path of 43 ms", each(onLink(halfSent(watched(43e6, .05))), func(r *record.TCPInfoRow) { r.Server.RTTMinUs = 42_000 }), false},
		{"a narrow link", each(onLink(halfSent(watched(60e6, .05))), func(r *record.TCPInfoRow) { r.Server.UnackedSegs = 64 * 6 }), false},
		{"a shaper", each(onLink(halfSent(watched(43e6, .05))), func(r *record.NetDevRow) {
			r.Qdisc, r.QdiscOverlimits, r.QdiscBacklogBytes = "tbf", 100, 9000
		}), false},
		{"the head alone was flushed", each(halfSent(watched(43e6, .05)), func(r *record.SocketsRow) { r.Server.UnackedBytes = 62 * 50 }), false},
		{"answers unread with the generator", each(halfSent(watched(43e6, .05)),
			func(r *record.SocketsRow) { r.Client.Unread, r.Client.UnreadBytes = 60, 60*130 }), false},
		{"half a second", halfSent(watched(500e6, .05)), false},
	} {
		v := c.w.judge()
		if text := sayings(v); strings.Contains(text, named) != c.named {
			t.Errorf("%s: %s", c.name, text)
		}
		if c.named && (v.Bottleneck != record.ServerBlocked || !strings.Contains(prose.Sentence(v.Next), named) || station(v, "network to client") > .01) {
			t.Errorf("%s: %s, network to client %.2f", c.name, sayings(v), station(v, "network to client"))
		}
	}
}

func station(v record.Verdict, name string) float64 {
	for _, s := range v.Stations {
		if s.Name == name {
			return s.Share
		}
	}
	return -1
}

// TestLoopbackIsNoPath: no limit of a path is named on the loopback, whatever its
// counters and round trips say; a shaper that was put there is one.
func TestLoopbackIsNoPath(t *testing.T) {
	path := func(v record.Verdict) bool {
		return v.Bottleneck == record.Bandwidth || v.Bottleneck == record.Packets ||
			mentions(v.Caveats, "bandwidth.full", "path.queues", "packets.one-core", "packets.dropped")
	}
	grown := halfSent(watched(30e6, .05))
	lost := each(halfSent(watched(30e6, .05)), func(r *record.TCPInfoRow) { r.Server.RetransSegs = r.Server.SentSegs / 50 })
	speed := watched(30e6, .05)
	speed.run.Spec.LinkBitsPerSecond = 8e6 // others' traffic, in the same counters
	dropped := each(each(watched(30e6, .05), func(r *record.TCPInfoRow) { r.Server.RetransSegs = r.Server.SentSegs / 50 }),
		func(r *record.NetDevRow) { r.RxDrop = 900 })
	soft := each(watched(30e6, .05), func(r *record.CPURow) { r.Cores[0] = record.CoreTicks{CPU: 0, SoftIRQ: 90, Idle: 10} })
	for name, w := range map[string]*watchedRun{"grown": grown, "lost": lost, "speed": speed, "dropped": dropped, "softirq": soft} {
		if v := w.judge(); path(v) {
			t.Errorf("%s: %s", name, sayings(v))
		}
	}
	shaped := each(halfSent(watched(30e6, .05)), func(r *record.NetDevRow) {
		r.Qdisc, r.QdiscRateBitsPerS, r.QdiscOverlimits, r.QdiscBacklogBytes = "tbf", 8e6, 100, 9000
	})
	if v := shaped.judge(); v.Bottleneck != record.Bandwidth {
		t.Errorf("a shaper on the loopback: %s", sayings(v))
	}
}

// TestDelayIsOnBothWays: on a path of 20 ms each way a response is unacknowledged
// until the next request has arrived, and the way back is half of that.
func TestDelayIsOnBothWays(t *testing.T) {
	w := onLink(halfSent(watched(41e6, .05)))
	each(w, func(r *record.TCPInfoRow) { r.Server.RTTp50Us, r.Server.RTTMinUs = 40_000, 40_000 })
	v := w.judge()
	in, back := station(v, "network to server"), station(v, "network to client")
	if in < .4 || in > .55 || back < .4 || back > .55 {
		t.Errorf("network to server %.2f, network to client %.2f, both were to be half: %s", in, back, sayings(v))
	}
}
