package selftest

import (
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/server/planted"
)

// starvedGenerators plant the bottleneck in the generator. Their server is an event loop with
// prepared responses; cut into hundreds of chunks, these cost the reader several times what they
// cost the writer.
func starvedGenerators() []Scenario {
	starved := func(d *params, says string, chunks int, s spec.Spec) plan {
		p := planted.Params{N: 1, Bytes: max(chunks, 16), Chunks: chunks}
		return plan{says: says, subject: host{kind: "loop", params: p}, spec: s, accept: only(record.LoadGenerator), generator: true}
	}
	return []Scenario{
		{"generator-busy-core", "others keep the generator's only CPU busy", need{twoCPUs: true}, func(d *params) plan {
			n := d.whole(2, 4)
			p := starved(d, fmt.Sprintf("%d neighbours", n), 0, d.apart(d.run(d.connections())))
			p.helpers = []host{{kind: "neighbour", params: planted.Params{N: n, CPUs: d.cpus[:1]}}}
			return p
		}},
		{"generator-own-threads", "too many threads of the generator on one CPU", need{twoCPUs: true}, func(d *params) plan {
			s := d.apart(d.run(d.connections()))
			s.Threads = d.whole(6, 16)
			return starved(d, fmt.Sprintf("%d threads", s.Threads), d.whole(500, 1500), s)
		}},
		{"generator-dear-answers", "answers that cost the reader more than the server", need{twoCPUs: true}, func(d *params) plan {
			chunks := d.whole(1000, 2500)
			return starved(d, fmt.Sprintf("%d chunks", chunks), chunks, d.apart(d.run(d.connections())))
		}},
		{"generator-one-thread", "one thread for a server that could do more", need{twoCPUs: true}, func(d *params) plan {
			s, chunks := d.run(d.connections()), d.whole(1000, 2500)
			s.Threads = 1
			return starved(d, fmt.Sprintf("%d chunks", chunks), chunks, s)
		}},
		{"generator-asked-more", "an open loop asks more than the generator can send", need{twoCPUs: true}, func(d *params) plan {
			s := open(d.apart(d.run(d.connections())), d.share(3e5, 2e6))
			return starved(d, "asked "+s.Rate.String(), d.whole(1000, 2500), s)
		}},
		{"generator-quota", "a cgroup gives the generator a part of a core", need{cgroup: true}, func(d *params) plan {
			quota := d.share(.15, .35)
			p := starved(d, fmt.Sprintf("%.2f cores", quota), 0, d.run(d.connections()))
			p.generatorQuota = quota
			return p.orInconclusive("throttl", "quota")
		}},
		{"generator-crowded", "more busy threads of others than cores, and a server that costs little", need{twoCPUs: true}, func(d *params) plan {
			n := 2 * len(d.cpus)
			p := starved(d, fmt.Sprintf("%d neighbours", n), d.whole(1000, 2500), d.run(d.connections()))
			p.helpers = []host{{kind: "neighbour", params: planted.Params{N: n}}}
			return p.orInconclusive("other", "foreign")
		}},
	}
}

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	var all []Scenario
	groups := [][]Scenario{busyServers(), starvedServers(), idleServers(), remoteServers(), askedServers(), databaseServers(),
		callingServers(),
		paths(), failures(), starvedGenerators(), replicatedServers()}
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}
