package selftest

import (
	"fmt"
	"time"

	"ceiling/record"
)

// databasePlants have the bottleneck in the database, or in front of it.
func databasePlants() []Scenario {
	postgres := func(d *params, plant string, pool, n, c int, says string) plan {
		p := d.served(program{dir: "postgres", command: fmt.Sprintf(
			"exec {python-psycopg2} server.py {addr} %s %d %d 'postgresql://plant@{helper}/postgres'", plant, pool, n)}, c, says)
		p.helpers = []host{{program: &program{dir: "postgres", command: "exec sh start.sh $(dirname {initdb}) {user}"}}}
		p.accept = only(record.ServerBlocked)
		return p
	}
	redis := func(d *params, plant string, n, c int, says string) plan {
		p := d.served(program{dir: "redis", command: fmt.Sprintf("exec {python} server.py {addr} {helper} %s %d", plant, n)}, c, says)
		p.helpers = []host{{program: &program{dir: "redis",
			command: "exec {redis-server} --port {port} --bind {host} --save '' --daemonize no --enable-debug-command yes"}}}
		p.accept = only(record.ServerBlocked)
		return p
	}
	const software = "initdb python-psycopg2"
	return []Scenario{
		{"postgres-pool", "a pool of n connections to PostgreSQL, each query sleeps", need{software: software}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return postgres(d, "query", n, int(delay.Milliseconds()), c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			return p.saying(atATime(n)).confirmedBy("twice the pool", pool(2*n))
		}},
		{"postgres-cpu", "each query of 20 connections costs PostgreSQL CPU, on any core", need{twoCPUs: true, software: software},
			func(d *params) plan {
				rows, c := d.whole(40_000, 80_000), d.whole(20, 32)
				p := postgres(d, "cpu", 20, rows, c, fmt.Sprintf("%d rows", rows))
				return p.or(record.ServerCPU).or(record.SharedCPU).saying(`postgres`, `{helper}`).confirmedBy("half the work",
					postgres(d, "cpu", 20, rows/2, c, ""))
			}},
		{"postgres-row", "every request updates the same row of PostgreSQL, and keeps its lock for 3 ms", need{software: software},
			func(d *params) plan {
				c := d.whole(12, 20)
				p := postgres(d, "row", 20, 1, c, "one row")
				return p.saying(`postgres`, `{helper}`, atATime(1)).confirmedBy("five rows", postgres(d, "row", 20, 5, c, ""))
			}},
		{"postgres-commit", "every request commits, which reaches the disk", need{software: software}, func(d *params) plan {
			c := d.whole(12, 20)
			p := postgres(d, "commit", 2, 1, c, "synchronous_commit")
			return p.saying(`postgres`, `{helper}`, `fsync|fdatasync|\bdisk\b`, atATime(2)).confirmedBy("synchronous_commit off",
				postgres(d, "commit", 2, 0, c, ""))
		}},
		{"redis-script", "Redis runs a script for each request on its one thread", need{twoCPUs: true, software: "python redis-server"},
			func(d *params) plan {
				steps, c := d.whole(60_000, 100_000), d.whole(12, 24)
				script := func(steps int) plan { return redis(d, "script", steps, c, fmt.Sprintf("%d steps", steps)) }
				p := script(steps)
				return p.saying(`redis`, `{helper}`).confirmedBy("half the work", script(steps/2))
			}},
		{"redis-stall", "Redis sleeps for each request (DEBUG SLEEP), and all others wait", need{software: "python redis-server"},
			func(d *params) plan {
				delay, c := d.wholeMs(4, 8), d.whole(12, 24)
				stall := func(delay time.Duration) plan {
					return redis(d, "sleep", int(delay.Microseconds()), c, delay.String())
				}
				p := stall(delay)
				return p.saying(`redis`, `{helper}`).confirmedBy("half the sleep", stall(delay/2))
			}},
	}
}
