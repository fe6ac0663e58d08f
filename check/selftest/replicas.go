package selftest

import (
	"fmt"
	"strings"

	"ceiling/record"
)

// replicatedServers plant the costs of a quorum of replicas: the round trip of every write, and
// the leader that every write passes through.
func replicatedServers() []Scenario {
	return []Scenario{
		{"quorum-link", "every write waits for a round trip between replicas, and no CPU is short", need{}, func(d *params) plan {
			delay := d.wholeMs(10, 25)
			p := plan{says: fmt.Sprintf("%v each way", delay), spec: d.run(d.whole(4, 8)), method: "PUT", path: "/kv/*",
				subject: host{serve: []string{"fasthttp", "--kv", fmt.Sprintf("replicas=3,delay=%v", delay)}}}
			const link = "is the round trip from the quorum's leader"
			p.accept = only(record.Concurrency, link)
			return p.or(record.ServerBlocked, link).orInconclusive(link)
		}},
		{"quorum-leader", "replicas share a CPU, and the leader sends each value twice", need{twoCPUs: true}, func(d *params) plan {
			bytes := d.whole(40_000, 60_000)
			p := plan{says: fmt.Sprintf("%d bytes", bytes), spec: d.apart(d.run(d.whole(12, 20))), method: "PUT", path: "/kv/*",
				body: strings.Repeat("x", bytes), subject: host{serve: []string{"fasthttp", "--kv", "replicas=3"}}}
			const leader = "used more of it than any other process"
			p.accept = only(record.ServerCPU, leader)
			return p.or(record.SharedCPU, leader).or(record.ServerThread, leader)
		}},
	}
}
