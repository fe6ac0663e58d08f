package selftest

import (
	"fmt"
	"strings"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/server/planted"
)

// remoteServers plant a distance.
func remoteServers() []Scenario {
	return []Scenario{
		{"h2-window", "uploads over HTTP/2 to a server that is far away, with a small window", need{}, func(d *params) plan {
			p := planted.Params{Sleep: d.wholeMs(4, 10), Bytes: 64 << d.whole(10, 11)}
			s := d.run(d.whole(2, 8))
			s.HTTP = "2"
			return plan{says: fmt.Sprintf("%d KiB, %v each way", p.Bytes>>10, p.Sleep), subject: host{kind: "far", params: p}, spec: s,
				method: "POST", body: strings.Repeat("upload", 100_000), accept: only(record.HTTP2Window)}
		}},
	}
}

// idleServers plant waiting: in the server, or for a backend.
func idleServers() []Scenario {
	return []Scenario{
		{"mutex-sleep", "one global lock, held while sleeping", need{}, func(d *params) plan {
			p := planted.Params{Sleep: d.ms(2, 9)}
			return plan{says: p.Sleep.String(), subject: host{kind: "mutex", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked)}
		}},
		{"mutex-work", "one lock for all requests, held at work", need{twoCPUs: true}, func(d *params) plan {
			// One core's worth in total, on whichever thread holds the lock: a lock, and also the
			// effect of a single thread.
			p := planted.Params{CPU: d.us(100, 300)}
			return plan{says: p.CPU.String(), subject: host{kind: "mutex", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked)}.or(record.ServerThread)
		}},
		{"pool", "a pool of n, each place kept asleep", need{}, func(d *params) plan {
			p := planted.Params{N: d.whole(3, 9), Sleep: d.ms(8, 30)}
			return plan{says: fmt.Sprintf("%d × %v", p.N, p.Sleep), subject: host{kind: "pool", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked)}
		}},
		{"downstream-delay", "a server behind it that takes its time, for as many as come", need{}, func(d *params) plan {
			// More connections would carry more, so concurrency is scarce, and the time passes in
			// a wait of the server's. The first responses, which distinguish a queue from a
			// delay, are slow here: they open the downstream connections.
			delay := d.ms(20, 60)
			return plan{says: delay.String(), helpers: []host{{kind: "sleep", params: planted.Params{Sleep: delay}}},
				subject: host{kind: "forward", toHelper: true}, spec: d.run(d.whole(12, 64)),
				accept: only(record.Concurrency)}.or(record.ServerBlocked).orInconclusive("too few slots")
		}},
		{"slow-for-all", "too few connections for a path on which each request takes its time", need{}, func(d *params) plan {
			p := planted.Params{Sleep: d.ms(20, 80)}
			c := d.whole(8, 64)
			return plan{says: fmt.Sprintf("%v, %d connections", p.Sleep, c), subject: host{kind: "sleep", params: p}, spec: d.run(c),
				accept: only(record.Concurrency)}
		}},
		{"delayed-ack", "responses in two writes, the second held until the first is acknowledged", need{}, func(d *params) plan {
			return plan{says: "two writes", subject: host{kind: "halves"}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked, "tcp_nodelay")}
		}},
		{"one-connection", "one connection to a server that has nothing to do", need{twoCPUs: true}, func(d *params) plan {
			return plan{says: "1 connection", subject: host{kind: "cpu"}, spec: d.run(1), accept: only(record.Concurrency)}
		}},
		{"asked-rate", "an open loop asks for less than there is", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(80, 200)}
			s := open(d.run(64), d.share(.15, .4)*d.capacity(p.CPU))
			return plan{says: fmt.Sprintf("%v, asked %s", p.CPU, s.Rate), subject: host{kind: "cpu", params: p}, spec: s,
				accept: only(record.TargetRate)}
		}},
		{"asked-rate-slow", "open loop below capacity, slow server", need{}, func(d *params) plan {
			p := planted.Params{Sleep: d.ms(10, 50)}
			s := open(d.run(64), d.share(100, 500))
			return plan{says: fmt.Sprintf("%v, asked %s", p.Sleep, s.Rate), subject: host{kind: "sleep", params: p}, spec: s,
				accept: only(record.TargetRate)}
		}},
		{"pause-asked-rate", "open loop below capacity, the server stalls once a second", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(80, 160), Sleep: d.ms(120, 220), Period: d.ms(800, 1100)}
			s := open(d.run(128), d.share(.05, .15)*d.capacity(p.CPU))
			return plan{says: fmt.Sprintf("%v every %v, asked %s", p.Sleep, p.Period, s.Rate), subject: host{kind: "pause", params: p}, spec: s,
				accept: only(record.TargetRate)}
		}},
		{"pause-breaks-slo", "open loop below capacity with an SLO, the server stalls once a second", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(80, 160), Sleep: d.ms(150, 220), Period: d.ms(800, 1100)}
			s := open(d.run(128), d.share(.05, .15)*d.capacity(p.CPU))
			s.SLO = spec.SLO{{Metric: spec.MetricResponse, Quantile: .95, Less: true, Limit: 60e6}}
			return plan{says: fmt.Sprintf("%v every %v, asked %s", p.Sleep, p.Period, s.Rate), subject: host{kind: "pause", params: p}, spec: s,
				accept: only(record.TargetRate, "stalled in")}
		}},
	}
}

// askedServers plant a limit in a server that the subject calls, or in front of it.
func askedServers() []Scenario {
	return []Scenario{
		{"downstream-pool", "a slow server behind it, over n connections", need{}, func(d *params) plan {
			delay, n := d.ms(8, 30), d.whole(3, 9)
			return plan{says: fmt.Sprintf("%d × %v", n, delay), helpers: []host{{kind: "sleep", params: planted.Params{Sleep: delay}}},
				subject: host{kind: "forward", params: planted.Params{N: n}, toHelper: true}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked, fmt.Sprintf("%d connections to", n))}
		}},
		{"downstream-busy", "a server behind it with one busy thread", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(400, 900)}
			return plan{says: p.CPU.String(), helpers: []host{{kind: "thread", params: p}},
				subject: host{kind: "forward", toHelper: true}, spec: d.run(d.connections()), accept: only(record.ServerBlocked, "out of cpu")}
		}},
		{"downstream-sync", "a server behind it that has every request synced to its disk", need{slowDisk: true}, func(d *params) plan {
			n, sync := d.whole(3, 9), d.ms(2, 8)
			return plan{says: fmt.Sprintf("%d connections, %v a sync", n, sync),
				helpers: []host{{kind: "sync", params: planted.Params{Sleep: sync}}},
				subject: host{kind: "forward", params: planted.Params{N: n}, toHelper: true}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked, "waits for its disk")}
		}},
		{"flush", "every request is flushed to a slow block device", need{slowDevice: true}, func(d *params) plan {
			p := planted.Params{Sleep: d.ms(3, 9), N: d.whole(1, 4)}
			return plan{says: fmt.Sprintf("%v a flush, %d at a time", p.Sleep, p.N), subject: host{kind: "flush", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked), patterns: flushed(), bare: flushed()}
		}},
		{"downstream-flush", "a server behind it that has every request flushed to a slow block device", need{slowDevice: true}, func(d *params) plan {
			n, p := d.whole(3, 9), planted.Params{Sleep: d.ms(3, 9), N: d.whole(1, 3)}
			return plan{says: fmt.Sprintf("%d connections, %v a flush, %d at a time", n, p.Sleep, p.N), helpers: []host{{kind: "flush", params: p}},
				subject: host{kind: "forward", params: planted.Params{N: n}, toHelper: true}, spec: d.run(d.connections()),
				accept: only(record.ServerBlocked, "waits for its disk"), patterns: flushed(), bare: flushed()}
		}},
	}
}

// flushed are patterns for the loop device of a plant.
func flushed() []string {
	return []string{`disk loop\d+ was busy [\d.]+% of the time: \d+ flushes/s × [\d.]+ ms = [\d.]+% of it`}
}

// paths plant a narrow link, and a short accept queue.
func paths() []Scenario {
	return []Scenario{
		{"bandwidth", "a link of known speed", need{namespaces: true}, func(d *params) plan {
			p, l := planted.Params{N: 1, Bytes: d.whole(8_000, 40_000)}, link{bitsPerS: d.share(60e6, 250e6)}
			s := d.run(d.connections())
			s.LinkBitsPerSecond = l.bitsPerS
			return plan{says: fmt.Sprintf("%s, bodies of %s", l, unit.FormatSI(float64(p.Bytes))), subject: host{kind: "loop", params: p}, link: &l,
				spec: s, accept: only(record.Bandwidth)}
		}},
		{"bandwidth-untold", "a link that is slower than its interface says", need{namespaces: true}, func(d *params) plan {
			p, l := planted.Params{N: 1, Bytes: d.whole(8_000, 40_000)}, link{bitsPerS: d.share(60e6, 250e6)}
			return plan{says: fmt.Sprintf("%s, bodies of %s", l, unit.FormatSI(float64(p.Bytes))), subject: host{kind: "loop", params: p}, link: &l,
				spec: d.run(d.connections()), accept: only(record.Bandwidth)}.orInconclusive("link", "path", "speed")
		}},
		{"packets", "a link that carries so many packets a second, however small", need{namespaces: true}, func(d *params) plan {
			p, l := planted.Params{N: 1, Bytes: d.whole(10, 200)}, link{packetsPerS: d.share(4_000, 10_000)}
			s := d.run(d.connections())
			s.LinkBitsPerSecond = 1e9
			return plan{says: fmt.Sprintf("%s, bodies of %d", l, p.Bytes), subject: host{kind: "loop", params: p}, link: &l, spec: s,
				accept: only(record.Packets)}
		}},
		{"accept-queue", "a short queue for connections, accepted slowly, and a new connection each time", need{}, func(d *params) plan {
			p := planted.Params{N: d.whole(1, 4), Sleep: d.ms(3, 12)}
			s := d.run(d.whole(24, 64))
			s.NewConnections, s.Timeout = 1, 10_000_000_000
			return plan{says: fmt.Sprintf("backlog %d, one every %v", p.N, p.Sleep), subject: host{kind: "backlog", params: p}, spec: s,
				accept: only(record.AcceptQueue)}
		}},
	}
}

// failures plant failures.
func failures() []Scenario {
	faulty := func(d *params, fault string, low, high int) plan {
		p := planted.Params{Fault: fault, Every: d.whole(low, high), CPU: d.us(20, 80)}
		return plan{says: fmt.Sprintf("1 of %d", p.Every), subject: host{kind: "faulty", params: p}, spec: d.run(d.connections()),
			accept: only(record.Failures)}
	}
	return []Scenario{
		{"errors-503", "a tenth of the answers are a 503", need{}, func(d *params) plan { return faulty(d, planted.FaultUnavailable, 10, 10) }},
		{"errors-reset", "some connections are reset in place of an answer", need{},
			func(d *params) plan { return faulty(d, planted.FaultReset, 8, 30) }},
		{"errors-silence", "some requests never get an answer", need{}, func(d *params) plan {
			p := faulty(d, planted.FaultSilence, 10, 40)
			p.spec.Timeout = d.ms(200, 400)
			return p
		}},
		{"server-exits", "the server is killed half-way", need{}, func(d *params) plan {
			at := d.share(.35, .6)
			return plan{says: fmt.Sprintf("at %.0f%%", at*100), subject: host{kind: "cpu", params: planted.Params{CPU: d.us(50, 150)}},
				spec:   d.run(d.connections()),
				during: []action{{at, (*fixture).kill}}, accept: only(record.Failures)}
		}},
		{"nobody-listens", "a closed port", need{}, func(d *params) plan {
			return plan{says: "no server", spec: d.run(d.whole(4, 32)), accept: only(record.Failures)}.orInconclusive("connect")
		}},
		{"frozen", "the server is stopped half-way, and goes on later", need{}, func(d *params) plan {
			from := d.share(.3, .45)
			to := from + d.share(.3, .45)
			return plan{says: fmt.Sprintf("from %.0f to %.0f%%", from*100, to*100),
				subject: host{kind: "cpu", params: planted.Params{CPU: d.us(50, 150)}}, spec: d.run(d.connections()),
				during: []action{{from, signal(syscall.SIGSTOP)}, {to, signal(syscall.SIGCONT)}},
				accept: only(record.ServerBlocked)}.orInconclusive("still", "stopped", "stall", "froze", "no answer")
		}},
		{"pause", "the server stalls once a second, and is busy otherwise", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(100, 200), Sleep: d.ms(180, 260), Period: d.ms(800, 1100)}
			return plan{says: fmt.Sprintf("%v every %v, else %v", p.Sleep, p.Period, p.CPU), subject: host{kind: "pause", params: p},
				spec:   d.run(d.connections()),
				accept: only(record.ServerBlocked)}.or(record.ServerCPU, "still", "pause", "stall", "no answer").orInconclusive("still", "pause",
				"stall", "no answer")
		}},
	}
}
