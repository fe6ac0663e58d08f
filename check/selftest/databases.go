package selftest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ceiling/record"
	"ceiling/server/planted"
)

// databaseServers plant a limit in the PostgreSQL behind the subject, or in front of it. The run
// queries the database's sessions and the server's pool; postgres-pool and the other real plants
// have the same limits, observed from outside.
func databaseServers() []Scenario {
	planting := func(d *params, p planted.Params, says string) plan {
		return plan{says: says, subject: host{kind: "database", params: p}, spec: d.run(d.whole(24, 40)), path: "/db/plant",
			accept: only(record.ServerBlocked)}
	}
	const software = "initdb"
	return []Scenario{
		{"database-pool", "a pool of n connections to PostgreSQL, each query of which sleeps", need{software: software}, func(d *params) plan {
			pool := planted.Params{N: d.whole(3, 9), Sleep: d.ms(8, 25), Fault: planted.FaultQuery}
			p := planting(d, pool, fmt.Sprintf("%d × %v", pool.N, pool.Sleep))
			more := p
			more.subject.params.N *= 2
			p.patterns = []string{fmt.Sprintf(`(?s)all %d connections of the pool to postgresql.* holds one for .*give the pool %d connections: .* 2× this rate`, pool.N, 2*pool.N)}
			return p.confirmedBy("twice the pool", more)
		}},
		{"database-row", "every request changes the same row of PostgreSQL, and keeps it", need{software: software}, func(d *params) plan {
			row := planted.Params{N: d.whole(6, 12), Sleep: d.ms(3, 9), Fault: planted.FaultRow}
			p := planting(d, row, fmt.Sprintf("%d connections, %v", row.N, row.Sleep))
			more := p
			more.subject.params.Sleep /= 3
			p.patterns = []string{`one row of the table hot that other sessions hold \(begin; update hot set n = n \+ \?`}
			p.bare = []string{`sessions of postgresql wait for a lock that other sessions hold \(most in update\)`}
			return p.confirmedBy("a third of the time", more)
		}},
		{"database-commit", "every request commits to PostgreSQL, and waits for the sync of its log",
			need{software: software}, func(d *params) plan {
				p := planting(d, planted.Params{N: d.whole(1, 2), Fault: planted.FaultCommit}, "")
				p.says = fmt.Sprintf("%d connections", p.subject.params.N)
				p.patterns = []string{`fsyncs? of (the log|their commit)`}
				return p
			}},
		{"database-work", "each query costs PostgreSQL CPU, on any core", need{twoCPUs: true, software: software}, func(d *params) plan {
			work := planted.Params{N: 20, Every: d.whole(40, 90), Fault: planted.FaultWork}
			p := planting(d, work, fmt.Sprintf("%d,000 rows", work.Every))
			p.accept = only(record.ServerCPU)
			more := p
			more.subject.params.Every /= 2
			p.patterns = []string{`postgresql used [0-9.]+ of these [0-9.]+ cores`}
			return p.confirmedBy("half the work", more)
		}},
	}
}

// callingServers plant policies that amplify a failing service's load.
func callingServers() []Scenario {
	serving := func(d *params, faults, policy string, perS float64) plan {
		p := plan{subject: host{serve: []string{"nethttp", "--downstream", faults}}, path: "/call/" + policy,
			spec: open(d.run(256), perS)}
		p.says = fmt.Sprintf("%s, asked %s", faults, p.spec.Rate)
		return p
	}
	return []Scenario{
		{"retries", "three attempts at a service that can do less than is asked", need{}, func(d *params) plan {
			p := serving(d, fmt.Sprintf("work=10ms,slots=%d,timeout=60ms", d.whole(3, 5)), "retry", d.share(600, 800))
			p.accept = only(record.Failures, "retries multiply the load")
			return p
		}},
		{"metastable", "a service of 400 calls/s stalls for 0.7 s, and three attempts at it keep it down", need{}, func(d *params) plan {
			p := serving(d, "work=10ms,slots=4,timeout=60ms,outage=700ms", "retry", d.share(180, 240))
			p.spec.Duration = 6 * time.Second
			p.during = []action{{.2, stall}}
			p.accept = only(record.Failures, "metastable")
			return p
		}},
	}
}

// stall makes the service behind the subject freeze for a while.
func stall(st *fixture) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+st.addr+"/call/outage", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("begin an outage: %s", answer.Status)
	}
	return nil
}
