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
		{"on the loopback, with 20 ms of work", each(halfSent(watched(63e6, .05)), func(r *record.SocketsRow) {
			r.Server.Unacked, r.Server.UnackedBytes = 43, 43*130
		}), true},
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
	n := 0
	rarely := each(shaped, func(r *record.NetDevRow) {
		if n++; n%3 > 0 { // nothing waits in most samples
			r.QdiscBacklogBytes = 0
		}
	})
	if v := rarely.judge(); v.Bottleneck == record.Bandwidth {
		t.Errorf("a shaper on the loopback that holds nothing most of the time: %s", sayings(v))
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

// heldBack makes a share of the time of each response the wait for a delayed ACK, as the sampled
// sockets of both ends show it, and sends unloaded requests before the load.
func heldBack(w *watchedRun, held float64, loneNs, restNs []int64) *watchedRun {
	l := &w.run.Latency
	l.ServiceBins = []record.Bin{{Ns: l.Service.P50Ns, Count: l.Service.Count}}
	if loneNs != nil {
		w.run.Unloaded = record.LoneOf(loneNs, 1)
		w.run.Unloaded.RestNs, w.run.Unloaded.Sent = restNs, len(loneNs)
	}
	return each(w, func(r *record.SocketsRow) {
		r.Moments = 10
		r.Server.Unacked, r.Server.UnackedBytes = held, held*130
		r.ToServer = record.Transit{Pairs: 20}
		r.ToClient = record.Transit{Pairs: 20, Connections: held, Bytes: held * 20, UnsentBytes: held * 20, HeldBack: held}
	})
}

// The wait for delayed ACKs is taken out before requests are said to wait for each other, and said
// whatever the response time is. The figures are those of Python's http.server, which writes head
// and body in two parts: it sleeps, or holds a lock.
func TestDelayedAckIsNoLock(t *testing.T) {
	const ms = int64(1e6)
	sleeps := []int64{54 * ms, 50 * ms, 50 * ms, 50 * ms, 93 * ms, 50 * ms, 50 * ms, 50 * ms}
	rests := []int64{0, 0, 0, 0, 43 * ms, 0, 0, 0}
	locked := []int64{8 * ms, 35e5, 35e5, 45 * ms, 35e5, 35e5, 34e5, 33 * ms}
	lockedRests := []int64{0, 0, 0, 41 * ms, 0, 0, 0, 29 * ms} // the last one's beginning was seen late
	withLone := func(w *watchedRun, lone []int64) *watchedRun {
		w.run.Unloaded = record.LoneOf(lone, 1)
		w.run.Latency.ServiceBins = []record.Bin{{Ns: w.run.Latency.Service.P50Ns, Count: w.run.Latency.Service.Count}}
		return w
	}
	for _, c := range []struct {
		name  string
		w     *watchedRun
		is    record.Bottleneck
		says  []string
		never string
	}{
		{"sleeps for 50 ms", heldBack(watched(93e6, .05), 29, sleeps, rests), record.Concurrency,
			[]string{"42.1 ms of each response (45% of its time) waits for a delayed ACK", "TCP_NODELAY", "up to 1.83× this rate", "-c 128"}, "lock"},
		{"without an unloaded request that waited", heldBack(watched(93e6, .05), 29, []int64{50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms},
			make([]int64, 6)), record.Concurrency, []string{"delayed ACK"}, "wait for each other"},
		{"all unloaded requests waited", heldBack(watched(93e6, .05), 29, []int64{93 * ms, 93 * ms, 93 * ms, 93 * ms, 93 * ms, 93 * ms},
			[]int64{42 * ms, 42 * ms, 42 * ms, 42 * ms, 42 * ms, 42 * ms}), record.Concurrency, []string{"delayed ACK"}, "wait for each other"},
		{"sleeps for 200 ms", heldBack(watched(243e6, .05), 11, []int64{200 * ms, 200 * ms}, []int64{0, 0}), record.Concurrency,
			[]string{"of each response (17% of its time) waits for a delayed ACK", "up to 1.21×"}, "wait for each other"},
		{"sleeps for 5 ms", heldBack(watched(48e6, .05), 56, []int64{5 * ms, 5 * ms, 47 * ms, 5 * ms}, []int64{0, 0, 42 * ms, 0}),
			record.ServerBlocked, []string{"42.0 ms of each response (88% of its time) waits for a delayed ACK", "TCP_NODELAY"}, "wait for each other"},
		{"a lock of 3 ms", heldBack(watched(224e6, .05), 11, locked, lockedRests), record.ServerBlocked,
			[]string{"wait for each other", "effective concurrency about 1 ", "delayed ACK"}, "effective concurrency about 5 "},
		{"a lock without Nagle", withLone(watched(224e6, .05), []int64{35e5, 35e5, 35e5, 35e5, 35e5, 35e5, 35e5, 35e5}), record.ServerBlocked,
			[]string{"wait for each other", "effective concurrency about 1 "}, "delayed ACK"},
		{"a pause between head and body, no Nagle", withLone(watched(93e6, .05), []int64{93 * ms, 93 * ms, 93 * ms, 93 * ms}), record.Concurrency,
			nil, "delayed ACK"},
	} {
		v := c.w.judge()
		text := sayings(v)
		if v.Bottleneck != c.is || strings.Contains(text, c.never) {
			t.Errorf("%s: %s", c.name, text)
		}
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: lacks %q: %s", c.name, says, text)
			}
		}
	}
}

// A record of before first bytes were recorded does not tell whether its unloaded requests waited: what
// depends on that is left open.
func TestDelayedAckOfOldLoneRequests(t *testing.T) {
	lone := []int64{46e6, 46e6, 46e6, 46e6, 46e6, 46e6}
	v := heldBack(watched(224e6, .05), 11, lone, nil).judge()
	if text := sayings(v); v.Concurrency == nil || v.Concurrency.Low > 1 || v.Concurrency.High < 12 || strings.Contains(text, "pool of") {
		t.Errorf("%+v %s", v.Concurrency, text)
	}
}

// TestPacketsOfAShaper: a shaper that charges each small packet as a full one limits packets, and is full at its
// number of them, whatever the server's CPU did meanwhile. Behind its queue nothing waits for a delayed ACK.
func TestPacketsOfAShaper(t *testing.T) {
	shaped := func(perS, backlog int64) *watchedRun {
		return each(onLink(watched(2e6, .99)), func(r *record.NetDevRow) {
			r.TxPackets, r.TxBytes = perS*r.WidthNs/1e9, 190*perS*r.WidthNs/1e9
			r.RxPackets, r.RxBytes = r.TxPackets, r.TxBytes/2
			r.Qdisc, r.QdiscRateBitsPerS, r.QdiscPacketBytes, r.QdiscOverlimits, r.QdiscBacklogBytes = "tbf", 33_000*1514*8, 1514, 100, backlog
		})
	}
	v := shaped(32_900, 0).judge()
	if text := sayings(v); v.Bottleneck != record.Packets || !strings.Contains(text, "sent 32.9k packets/s of 33.0k") {
		t.Errorf("at its limit: %s: %s", v.Bottleneck, text)
	}
	received := each(shaped(10_000, 0), func(r *record.NetDevRow) { r.RxPackets, r.RxBytes = r.TxPackets*33/10, r.TxBytes*33/10 })
	if v := received.judge(); v.Bottleneck == record.Packets {
		t.Errorf("it does not limit what is received: %s", sayings(v))
	}
	if v := shaped(10_000, 0).judge(); v.Bottleneck == record.Packets || v.Bottleneck == record.Bandwidth {
		t.Errorf("at a third of it: %s: %s", v.Bottleneck, sayings(v))
	}
	held := each(heldBack(onLink(watched(7e6, .3)), 40, nil, nil), func(r *record.NetDevRow) {
		r.Qdisc, r.QdiscRateBitsPerS, r.QdiscOverlimits, r.QdiscBacklogBytes = "tbf", 400e6, 100, 150_000
	})
	if text := sayings(held.judge()); strings.Contains(text, "delayed ACK") {
		t.Errorf("behind a queue: %s", text)
	}
	if text := sayings(heldBack(onLink(watched(7e6, .3)), 40, nil, nil).judge()); !strings.Contains(text, "delayed ACK") {
		t.Errorf("without the queue: %s", text)
	}
}
