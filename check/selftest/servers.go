package selftest

import (
	"fmt"
	"strconv"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/server/planted"
)

func cpuList(cpu int) string { return strconv.Itoa(cpu) }

// busyServers plant work: on all cores, on one, on one thread.
func busyServers() []Scenario {
	return []Scenario{
		{"server-cpu", "each request costs CPU, on any core", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(100, 260)}
			return plan{says: p.CPU.String(), subject: host{kind: "cpu", params: p}, spec: d.run(d.connections()), accept: only(record.ServerCPU)}
		}},
		{"server-cpu-apart", "each request costs CPU, server and generator on cores of their own", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(40, 150)}
			return plan{says: p.CPU.String(), subject: host{kind: "cpu", params: p}, spec: d.apart(d.run(d.connections())),
				accept: only(record.ServerCPU)}
		}},
		{"server-cpu-asked-more", "an open loop asks for more than the server's cores can do", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(150, 300)}
			s := open(d.run(d.connections()), d.share(1.4, 2.5)*d.capacity(p.CPU))
			return plan{says: fmt.Sprintf("%v, asked %s", p.CPU, s.Rate), subject: host{kind: "cpu", params: p}, spec: s,
				accept: only(record.ServerCPU)}
		}},
		{"server-cpu-pipelined", "each request costs CPU, and several are sent at once", need{}, func(d *params) plan {
			p, s := planted.Params{CPU: d.us(100, 260)}, d.run(d.connections()/2)
			s.Pipelining = d.whole(2, 16)
			return plan{says: fmt.Sprintf("%v, %d at once", p.CPU, s.Pipelining), subject: host{kind: "cpu", params: p}, spec: s,
				accept: only(record.ServerCPU)}
		}},
		{"slows-down", "each request costs more than those before it", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(80, 150), N: d.whole(2_000, 6_000)}
			return plan{says: fmt.Sprintf("%v, twice as much after %d", p.CPU, p.N), subject: host{kind: "grows", params: p},
				spec: d.apart(d.run(d.connections())), accept: only(record.ServerCPU, "slows down")}
		}},
		{"one-core", "the server is bound to one CPU", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(100, 250), CPUs: d.cpus[len(d.cpus)-1:]}
			return plan{says: fmt.Sprintf("%v on CPU %d", p.CPU, p.CPUs[0]), subject: host{kind: "cpu", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerCPU)}
		}},
		{"one-processor", "the server runs one thread at a time (GOMAXPROCS)", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(100, 250), Threads: 1}
			return plan{says: p.CPU.String(), subject: host{kind: "cpu", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerThread)}.or(record.ServerCPU)
		}},
		{"one-thread", "one busy thread among many does the work", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(150, 400)}
			return plan{says: p.CPU.String(), subject: host{kind: "thread", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerThread)}
		}},
		{"event-loop", "one thread reads, works and writes", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(60, 200), N: 1}
			return plan{says: p.CPU.String(), subject: host{kind: "loop", params: p}, spec: d.run(d.connections()),
				accept: only(record.ServerThread)}
		}},
		{"prefork-one", "several processes share the port and one gets every connection", need{twoCPUs: true}, func(d *params) plan {
			p := planted.Params{CPU: d.us(100, 250), N: d.whole(2, 4)}
			return plan{says: fmt.Sprintf("%d processes, %v", p.N, p.CPU), subject: host{kind: "prefork", params: p}, spec: d.run(d.connections()),
				accept: only(record.Uneven)}
		}},
		{"shared-cpu", "a cheap server and the generator fill the same cores", need{}, func(d *params) plan {
			p := planted.Params{CPU: d.us(0, 3)}
			return plan{says: p.CPU.String(), subject: host{kind: "cpu", params: p}, spec: d.run(d.connections()), accept: only(record.SharedCPU)}
		}},
	}
}

// starvedServers plant a server that gets less CPU than the host has.
func starvedServers() []Scenario {
	return []Scenario{
		{"server-quota", "a cgroup gives the server a part of a core", need{cgroup: true}, func(d *params) plan {
			p, quota := planted.Params{CPU: d.us(100, 250)}, d.share(.2, .6)
			return plan{says: fmt.Sprintf("%v, %.2f cores", p.CPU, quota), subject: host{kind: "cpu", params: p}, quota: quota,
				spec:   d.run(d.connections()),
				accept: only(record.ServerCPU, "throttl", "quota", "cgroup")}.orInconclusive("throttl")
		}},
		{"crowded-server", "others keep the server's only CPU busy", need{twoCPUs: true}, func(d *params) plan {
			p, n := planted.Params{CPU: d.us(60, 150)}, d.whole(1, 3)
			return plan{says: fmt.Sprintf("%v, %d neighbours", p.CPU, n),
				helpers: []host{{kind: "neighbour", params: planted.Params{N: n, CPUs: d.cpus[1:2]}}},
				subject: host{kind: "cpu", params: p}, spec: d.apart(d.run(d.connections())),
				accept: only(record.ServerCPU)}.or(record.SharedCPU).orInconclusive("other", "foreign")
		}},
	}
}

// capacity is the rate at which requests that cost cpu would use all cores, per second.
func (d *params) capacity(cpu time.Duration) float64 { return float64(len(d.cpus)) / cpu.Seconds() }

// open turns s into an open loop, at whole requests per second.
func open(s spec.Spec, perSecond float64) spec.Spec {
	f := unit.Frequency{Count: uint64(perSecond), PerNs: uint64(time.Second)}
	s.Rate, s.Arrivals = unit.Rate{From: f, To: f}, spec.Constant
	return s
}
