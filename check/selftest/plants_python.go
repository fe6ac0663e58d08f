package selftest

import (
	"fmt"
	"time"

	"ceiling/record"
)

func pythonPlants() []Scenario {
	server := func(plant string, n, processes int) program {
		return program{dir: "python", command: fmt.Sprintf("exec {python} server.py {addr} %s %d %d", plant, n, processes)}
	}
	return []Scenario{
		{"python-gil", "Python's threaded server, interpreted work under the global lock", need{twoCPUs: true, software: "python"},
			func(d *params) plan {
				// 10,000 steps are about a millisecond.
				steps, c := d.whole(10_000, 20_000), d.whole(24, 48)
				p := d.served(server("cpu", steps, 1), c, fmt.Sprintf("%d steps", steps))
				p.accept = only(record.ServerThread)
				return p.or(record.ServerBlocked).saying(`\bgil\b`, `interpreter`, `lock`, atATime(1)).
					confirmedBy("two processes, each with a lock of its own", d.served(server("cpu", steps, 2), c, ""))
			}},
		{"python-sleep", "Python's threaded server, each request sleeps in its own thread", need{software: "python"}, func(d *params) plan {
			delay := d.wholeMs(20, 60)
			p := d.served(server("sleep", int(delay.Milliseconds()), 1), d.whole(8, 24), delay.String())
			p.accept = only(record.Concurrency)
			return p.twiceConnections()
		}},
		{"python-sqlite", "Python's threaded server, a SQLite transaction each, which reaches the disk", need{software: "python-sqlite"},
			func(d *params) plan {
				c := d.whole(16, 40)
				fsync := server("fsync", 2, 1)
				fsync.command = "exec {python-sqlite}" + fsync.command[len("exec {python}"):]
				relaxed := fsync
				relaxed.command = "exec {python-sqlite} server.py {addr} fsync 0 1"
				p := d.served(fsync, c, "synchronous = FULL")
				p.accept = only(record.ServerBlocked)
				return p.saying(`fsync|fdatasync|\bdisk\b|jbd2|journal|\bdevice\b|writeback`).confirmedBy("SQLite without fsync",
					d.served(relaxed, c, ""))
			}},
		{"python-lock", "Python's threaded server, one lock kept for 3 ms", need{software: "python"}, func(d *params) plan {
			c := d.whole(12, 32)
			p := d.served(server("lock", 1, 1), c, "one lock")
			p.accept = only(record.ServerBlocked)
			return p.saying(`lock`, atATime(1)).confirmedBy("four locks", d.served(server("lock", 4, 1), c, ""))
		}},
		{"python-gc", "Python's threaded server, a full collection of a large heap every n requests", need{twoCPUs: true, software: "python"},
			func(d *params) plan {
				every, c := d.whole(20, 40), d.whole(12, 32)
				p := d.served(server("gc", every, 1), c, fmt.Sprintf("every %d requests", every))
				p.accept = only(record.ServerThread)
				return p.or(record.ServerBlocked).saying(`\bgc\b|gc_collect|garbage`, `\bgil\b`, `interpreter`, atATime(1)).
					confirmedBy("no collection", d.served(server("gc", 0, 1), c, ""))
			}},
		{"sqlite-writer", "Python processes that write to one SQLite file, each transaction kept for 3 ms", need{software: "python-sqlite"},
			func(d *params) plan {
				n, c := d.whole(3, 5), d.whole(16, 32)
				write := func(plant string) plan {
					p := server(plant, 3, n)
					p.command = "exec {python-sqlite}" + p.command[len("exec {python}"):]
					return d.served(p, c, fmt.Sprintf("%d processes", n))
				}
				p := write("shared")
				p.accept = only(record.ServerBlocked)
				return p.saying(`lock`, `\.db\b`, atATime(1)).confirmedBy("a file for each process", write("apart"))
			}},
	}
}

// pythonPools are servers with a fixed concurrency.
func pythonPools() []Scenario {
	loop := func(plant string, n int, delay time.Duration) program {
		return program{dir: "python", command: fmt.Sprintf("exec {python} loop.py {addr} %s %d %s", plant, n, millis(delay))}
	}
	return []Scenario{
		{"gunicorn-workers", "gunicorn with n sync workers, each request waits in one", need{software: "python-gunicorn"}, func(d *params) plan {
			n, delay, c := d.whole(2, 5), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-gunicorn} -m gunicorn -b {addr} -w %d --backlog 512 app:app", n)}, c,
					fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the workers", pool(2*n))
		}},
		{"gunicorn-threads", "gunicorn with one worker of n threads", need{software: "python-gunicorn"}, func(d *params) plan {
			n, delay, c := d.whole(3, 8), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-gunicorn} -m gunicorn -b {addr} -k gthread -w 1 --threads %d --backlog 512 app:app", n)}, c,
					fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"waitress-threads", "waitress with n threads, each request waits in one", need{software: "python-waitress"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-waitress} app.py {addr} %d", n)}, c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"asyncio-blocks", "asyncio, each request blocks the event loop while it waits", need{software: "python"}, func(d *params) plan {
			delay, c := d.wholeMs(3, 8), d.whole(16, 32)
			p := d.served(loop("block", 0, delay), c, delay.String())
			p.accept = only(record.ServerBlocked)
			return p.saying(`event loop`, atATime(1), `its (only|one) thread`).confirmedBy("awaiting in place of blocking",
				d.served(loop("await", 0, delay), c, ""))
		}},
		{"asyncio-pool", "asyncio, a semaphore of n", need{software: "python"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(10, 30), d.whole(24, 40)
			pool := func(n int) plan { return d.served(loop("pool", n, delay), c, fmt.Sprintf("%d × %v", n, delay)) }
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the semaphore", pool(2*n))
		}},
	}
}
