package selftest

import (
	"fmt"
	"strconv"
	"time"

	"ceiling/server/planted"
	"ceiling/spec"
	"ceiling/verdict"
)

// RealScenarios plant bottlenecks in real software, as it comes from Debian.
// Each has a second form with twice the planted resource, by which a client
// that is not this program shows that it is the bottleneck (confirm.go).
func RealScenarios() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{pythonPlants(), nodePlants(), javaPlants(), phpPlants(), nginxPlants(), haproxyPlants(), databasePlants()} {
		all = append(all, group...)
	}
	return all
}

// confirmedBy says what shows that the plant is the bottleneck: the same plan
// with more of the resource.
func (p plan) confirmedBy(more string, relieved plan) plan {
	p.more, p.relieved = more, &relieved
	return p
}

// saying has the explanation contain one of the patterns, whichever right
// ceiling is named.
func (p plan) saying(patterns ...string) plan {
	p.patterns = patterns
	return p
}

// atATime is how a text may give the number that is served at once: a word of
// its own, with what is counted. "python3 (3 processes)" only counts processes.
func atATime(n int) string {
	const things = `at a time|at once|in parallel|servers?\b|slots?\b|places?\b|connections?\b|workers?\b|processes\b|threads?\b|children\b|requests? (at|in|inside)`
	return fmt.Sprintf(`(^|[^\d.,(])%d(\.\d)? (of \d+ )?(busy )?(%s)|(pool|limit|maximum) of %d\b|(keeps|serves|served|before) %d\b`, n, things, n, n)
}

// delay is a duration in whole milliseconds, as commands take it.
func millis(d time.Duration) string { return strconv.Itoa(int(d.Milliseconds())) }

func (d *dice) wholeMs(low, high int) time.Duration {
	return time.Duration(d.whole(low, high)) * time.Millisecond
}

// served is a plan of a program under a closed loop of some connections.
func (d *dice) served(p program, connections int, says string) plan {
	return plan{says: says, subject: host{program: &p}, spec: d.run(connections)}
}

// twiceConnections confirms that nothing is shared: more requests under way
// are answered in the same time.
func (p plan) twiceConnections() plan {
	more := p
	more.spec.Connections *= 2
	return p.confirmedBy("twice the connections", more)
}

func pythonPlants() []Scenario {
	server := func(plant string, n, processes int) program {
		return program{dir: "python", command: fmt.Sprintf("exec {python} server.py {addr} %s %d %d", plant, n, processes)}
	}
	return []Scenario{
		{"python-gil", "Python's threaded server, interpreted work under the global lock", need{twoCPUs: true, software: "python"}, func(d *dice) plan {
			// 10,000 steps are about a millisecond.
			steps, c := d.whole(10_000, 20_000), d.whole(24, 48)
			p := d.served(server("cpu", steps, 1), c, fmt.Sprintf("%d steps", steps))
			p.accept = only(verdict.ServerThread)
			return p.or(verdict.ServerWait).saying(`\bgil\b`, `interpreter`, `lock`, `(one|1) at a time`).
				confirmedBy("two processes, each with a lock of its own", d.served(server("cpu", steps, 2), c, ""))
		}},
		{"python-sleep", "Python's threaded server, each request sleeps in its own thread", need{software: "python"}, func(d *dice) plan {
			delay := d.wholeMs(20, 60)
			p := d.served(server("sleep", int(delay.Milliseconds()), 1), d.whole(8, 24), delay.String())
			p.accept = only(verdict.Slots)
			return p.twiceConnections()
		}},
		{"python-sqlite", "Python's threaded server, a SQLite transaction each, which reaches the disk", need{software: "python-sqlite"}, func(d *dice) plan {
			c := d.whole(16, 40)
			fsync := server("fsync", 2, 1)
			fsync.command = "exec {python-sqlite}" + fsync.command[len("exec {python}"):]
			relaxed := fsync
			relaxed.command = "exec {python-sqlite} server.py {addr} fsync 0 1"
			p := d.served(fsync, c, "synchronous = FULL")
			p.accept = only(verdict.ServerWait)
			return p.saying(`fsync|fdatasync|\bdisk\b|jbd2|journal|\bdevice\b|writeback`).confirmedBy("SQLite without fsync", d.served(relaxed, c, ""))
		}},
		{"gunicorn-workers", "gunicorn with n sync workers, each request waits in one", need{software: "python-gunicorn"}, func(d *dice) plan {
			n, delay, c := d.whole(2, 5), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-gunicorn} -m gunicorn -b {addr} -w %d --backlog 512 app:app", n)}, c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the workers", pool(2*n))
		}},
		{"gunicorn-threads", "gunicorn with one worker of n threads", need{software: "python-gunicorn"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 8), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-gunicorn} -m gunicorn -b {addr} -k gthread -w 1 --threads %d --backlog 512 app:app", n)}, c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"waitress-threads", "waitress with n threads, each request waits in one", need{software: "python-waitress"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "python", env: []string{"PLANT_MS=" + millis(delay)},
					command: fmt.Sprintf("exec {python-waitress} app.py {addr} %d", n)}, c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
	}
}

func nodePlants() []Scenario {
	server := func(plant string, n int, delay time.Duration) program {
		return program{dir: "node", command: fmt.Sprintf("exec {node} server.js {addr} %s %d %s", plant, n, millis(delay))}
	}
	return []Scenario{
		{"node-cpu", "Node, PBKDF2 on its one thread", need{twoCPUs: true, software: "node"}, func(d *dice) plan {
			// 1,000 rounds are about half a millisecond.
			rounds, c := d.whole(2000, 5000), d.whole(24, 48)
			p := d.served(server("cpu", rounds, 0), c, fmt.Sprintf("%d rounds", rounds))
			p.accept = only(verdict.ServerThread)
			return p.confirmedBy("half the work", d.served(server("cpu", rounds/2, 0), c, ""))
		}},
		{"node-delay", "Node, a timer for each request", need{software: "node"}, func(d *dice) plan {
			delay := d.wholeMs(20, 60)
			p := d.served(server("delay", 0, delay), d.whole(8, 24), delay.String())
			p.accept = only(verdict.Slots)
			return p.twiceConnections()
		}},
		{"node-pool", "Node, a pool of n places for asynchronous work", need{software: "node"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(10, 30), d.whole(24, 48)
			pool := func(n int) plan { return d.served(server("pool", n, delay), c, fmt.Sprintf("%d × %v", n, delay)) }
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the pool", pool(2*n))
		}},
	}
}

func javaPlants() []Scenario {
	server := func(options, plant string, threads, n int) program {
		return program{dir: "java", command: fmt.Sprintf("{javac} -d . Plant.java && exec {java} %s -cp . Plant {addr} %s %d %d", options, plant, threads, n)}
	}
	// Until its code is compiled a JVM gets faster from second to second.
	warm := func(p plan) plan {
		p.spec.Warmup, p.warm = 2*time.Second, 2*time.Second
		return p
	}
	const (
		software = "java javac"
		nodelay  = "-Dsun.net.httpserver.nodelay=true"
	)
	return []Scenario{
		{"java-pool", "the JDK's server on a fixed pool of n threads, each request waits in one", need{software: software}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(10, 30), d.whole(32, 48)
			pool := func(n int) plan {
				return warm(d.served(server(nodelay, "sleep", n, int(delay.Milliseconds())), c, fmt.Sprintf("%d × %v", n, delay)))
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"java-pool-40", "the same with 40 threads", need{software: software}, func(d *dice) plan {
			delay, c := d.wholeMs(40, 80), d.whole(110, 140)
			pool := func(n int) plan {
				return warm(d.served(server(nodelay, "sleep", n, int(delay.Milliseconds())), c, fmt.Sprintf("%d × %v", n, delay)))
			}
			p := pool(40)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(39), atATime(40), atATime(41)).confirmedBy("twice the threads", pool(80))
		}},
		{"java-lock", "the JDK's server on 40 threads, one monitor kept for 3 ms", need{software: software}, func(d *dice) plan {
			c := d.whole(24, 36)
			p := warm(d.served(server(nodelay, "lock", 40, 1), c, "one monitor"))
			p.accept = only(verdict.ServerWait)
			return p.saying(`lock|monitor`, `(one|1) at a time`).confirmedBy("four monitors", warm(d.served(server(nodelay, "lock", 40, 4), c, "")))
		}},
		{"java-cpu", "the JDK's server on 40 threads, SHA-256 on all cores", need{twoCPUs: true, software: software}, func(d *dice) plan {
			rounds, c := d.whole(4000, 8000), d.whole(24, 36)
			p := warm(d.served(server(nodelay, "cpu", 40, rounds), c, fmt.Sprintf("%d rounds", rounds)))
			p.accept = only(verdict.ServerCPU)
			return p.confirmedBy("a quarter of the work", warm(d.served(server(nodelay, "cpu", 40, rounds/4), c, "")))
		}},
		{"java-gc", "the JDK's server, a heap that is nearly full, and the serial collector", need{twoCPUs: true, software: software}, func(d *dice) plan {
			c := d.whole(8, 16)
			heap := func(mb int) plan {
				return warm(d.served(server(fmt.Sprintf("%s -XX:+UseSerialGC -Xmn8m -Xmx%dm", nodelay, mb), "gc", 8, 40), c, fmt.Sprintf("-Xmx%dm", mb)))
			}
			p := heap(64)
			p.accept = only(verdict.ServerThread)
			return p.or(verdict.ServerWait).or(verdict.ServerCPU).saying(`\bgc\b|garbage|collect|vm thread`).confirmedBy("eight times the heap", heap(512))
		}},
		{"java-nagle", "the JDK's server as it is: two small writes, Nagle and delayed acknowledgements", need{software: software}, func(d *dice) plan {
			c := d.whole(8, 16)
			p := warm(d.served(server("", "split", 40, 1), c, "no TCP_NODELAY"))
			p.accept = only(verdict.Slots)
			return p.or(verdict.ServerWait).orUndetermined("nodelay", "nagle", "delayed").saying(`nodelay|nagle|delayed ack`).
				confirmedBy("TCP_NODELAY", warm(d.served(server(nodelay, "split", 40, 1), c, "")))
		}},
	}
}

func phpPlants() []Scenario {
	return []Scenario{
		{"php-workers", "PHP's own server with n workers, each request waits in one", need{software: "php"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 6), d.ms(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "php", command: "exec {php} -q -S {addr} wait.php",
					env: []string{fmt.Sprintf("PHP_CLI_SERVER_WORKERS=%d", n), fmt.Sprintf("PLANT_US=%d", delay.Microseconds())}}, c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			// The parent serves as well: n+1 at a time.
			return p.saying(atATime(n), atATime(n+1)).confirmedBy("twice the workers", pool(2*n))
		}},
		{"php-cpu", "PHP's own server with one worker, SHA-256 in it", need{twoCPUs: true, software: "php"}, func(d *dice) plan {
			rounds, c := d.whole(4000, 8000), d.whole(24, 40)
			work := func(rounds int) plan {
				return d.served(program{dir: "php", command: "exec {php} -q -S {addr} work.php", env: []string{fmt.Sprintf("PLANT_N=%d", rounds)}}, c, fmt.Sprintf("%d rounds", rounds))
			}
			p := work(rounds)
			p.accept = only(verdict.ServerThread)
			return p.confirmedBy("half the work", work(rounds/2))
		}},
		{"php-fpm-children", "nginx before php-fpm with n children, each request waits in one", need{software: "php-fpm nginx"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 8), d.ms(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				p := d.served(program{dir: "php-fpm", command: "exec {nginx} -p {dir} -c {dir}/nginx.conf",
					values: map[string]string{"us": strconv.Itoa(int(delay.Microseconds()))}}, c, fmt.Sprintf("%d × %v", n, delay))
				p.helpers = []host{{program: &program{dir: "php-fpm", command: "exec {php-fpm} -R -y {dir}/fpm.conf", values: map[string]string{"n": strconv.Itoa(n), "us": ""}}}}
				return p
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(`php-fpm`, `{helper}`, atATime(n)).confirmedBy("twice the children", pool(2*n))
		}},
	}
}

func nginxPlants() []Scenario {
	nginx := func(conf string, values map[string]string, text int) program {
		return program{dir: "nginx", command: "exec {nginx} -p {dir} -c {dir}/" + conf, values: values, text: text}
	}
	return []Scenario{
		{"nginx-gzip", "one nginx worker that compresses", need{twoCPUs: true, software: "nginx"}, func(d *dice) plan {
			size, c := d.whole(40_000, 90_000), d.whole(24, 48)
			zip := func(level int) plan {
				p := d.served(nginx("gzip.conf", map[string]string{"workers": "1", "level": strconv.Itoa(level)}, size), c, fmt.Sprintf("%d bytes", size))
				p.path, p.header = "/text.txt", []spec.Field{{Name: "Accept-Encoding", Value: "gzip"}}
				return p
			}
			p := zip(9)
			p.accept = only(verdict.ServerThread)
			return p.confirmedBy("gzip level 1 in place of 9", zip(1))
		}},
		{"nginx-limit-req", "nginx lets a number of requests a second pass (limit_req)", need{software: "nginx"}, func(d *dice) plan {
			rate, c := d.whole(200, 600), d.whole(24, 48)
			limit := func(rate int) plan {
				return d.served(nginx("limit.conf", map[string]string{"rate": strconv.Itoa(rate)}, 5), c, fmt.Sprintf("%d requests/s", rate))
			}
			p := limit(rate)
			p.accept = only(verdict.ServerWait)
			return p.confirmedBy("twice the limit", limit(2*rate))
		}},
		{"nginx-limit-rate", "nginx sends each answer at a limited rate (limit_rate)", need{software: "nginx"}, func(d *dice) plan {
			rate := d.whole(150, 300)
			p := d.served(nginx("drip.conf", map[string]string{"kbytes": strconv.Itoa(rate)}, 12_000), d.whole(12, 32), fmt.Sprintf("%d kB/s each", rate))
			p.path, p.accept = "/text.txt", only(verdict.Slots)
			return p.twiceConnections()
		}},
		{"nginx-proxy-pool", "nginx before a server with a pool of n", need{software: "nginx"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.ms(10, 30), d.whole(24, 48)
			pool := func(n int) plan {
				p := d.served(nginx("proxy.conf", nil, 0), c, fmt.Sprintf("%d × %v", n, delay))
				p.helpers = []host{{kind: "pool", params: planted.Params{N: n, Sleep: delay}}}
				return p
			}
			p := pool(n)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n), `{helper}`).confirmedBy("twice the pool", pool(2*n))
		}},
		{"nginx-proxy-thread", "nginx before a server with one busy thread", need{twoCPUs: true, software: "nginx"}, func(d *dice) plan {
			work, c := d.us(500, 1000), d.whole(24, 48)
			behind := func(work time.Duration) plan {
				p := d.served(nginx("proxy.conf", nil, 0), c, work.String())
				p.helpers = []host{{kind: "thread", params: planted.Params{CPU: work}}}
				return p
			}
			p := behind(work)
			p.accept = only(verdict.ServerWait)
			return p.saying(`{helper}`, `(one|1) at a time`).confirmedBy("half the work", behind(work/2))
		}},
		{"nginx-connections", "nginx has fewer worker_connections than clients come", need{software: "nginx"}, func(d *dice) plan {
			// Of n connections some are its own; a client takes two, one of them to
			// the server behind.
			n, delay, c := d.whole(24, 32), d.ms(10, 20), d.whole(40, 56)
			limit := func(n int) plan {
				p := d.served(nginx("connections.conf", map[string]string{"n": strconv.Itoa(n)}, 0), c, fmt.Sprintf("%d for %d clients", n, c))
				p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
				return p
			}
			p := limit(n)
			p.accept = only(verdict.Errors)
			return p.or(verdict.AcceptQueue).or(verdict.ServerWait).saying(`worker_connections`, `connections?`).confirmedBy("1,024 worker_connections", limit(1024))
		}},
	}
}

func haproxyPlants() []Scenario {
	before := func(d *dice, conf string, n, c int, delay time.Duration) plan {
		p := d.served(program{dir: "haproxy", command: "exec {haproxy} -f {dir}/" + conf, values: map[string]string{"n": strconv.Itoa(n)}}, c, fmt.Sprintf("maxconn %d, %v", n, delay))
		p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
		return p
	}
	return []Scenario{
		{"haproxy-server-maxconn", "HAProxy passes n requests at once to the server behind it", need{software: "haproxy"}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.ms(10, 30), d.whole(24, 48)
			p := before(d, "server.cfg", n, c, delay)
			p.accept = only(verdict.ServerWait)
			return p.saying(atATime(n)).confirmedBy("twice the maxconn", before(d, "server.cfg", 2*n, c, delay))
		}},
		{"haproxy-maxconn", "HAProxy takes n clients, the others stay in the kernel's queue", need{software: "haproxy"}, func(d *dice) plan {
			n, delay, c := d.whole(6, 12), d.ms(10, 30), d.whole(32, 48)
			p := before(d, "clients.cfg", n, c, delay)
			p.accept = only(verdict.AcceptQueue)
			return p.or(verdict.ServerWait).or(verdict.Slots, "accept").saying(atATime(n), `accept`, `never (taken|served|answered)`).
				confirmedBy("twice the maxconn", before(d, "clients.cfg", 2*n, c, delay))
		}},
	}
}

// databasePlants have the bottleneck in the database, or before it.
func databasePlants() []Scenario {
	postgres := func(d *dice, plant string, pool, n, c int, says string) plan {
		p := d.served(program{dir: "postgres", command: fmt.Sprintf(
			"exec {python-psycopg2} server.py {addr} %s %d %d 'postgresql://plant@{helper}/postgres'", plant, pool, n)}, c, says)
		p.helpers = []host{{program: &program{dir: "postgres", command: "exec sh start.sh $(dirname {initdb}) {user}"}}}
		p.accept = only(verdict.ServerWait)
		return p
	}
	redis := func(d *dice, steps, c int) plan {
		p := d.served(program{dir: "redis", command: fmt.Sprintf("exec {python} server.py {addr} {helper} %d", steps)}, c, fmt.Sprintf("%d steps", steps))
		p.helpers = []host{{program: &program{dir: "redis", command: "exec {redis-server} --port {port} --bind {host} --save '' --daemonize no"}}}
		p.accept = only(verdict.ServerWait)
		return p
	}
	const software = "initdb python-psycopg2"
	return []Scenario{
		{"postgres-pool", "a pool of n connections to PostgreSQL, each query sleeps", need{software: software}, func(d *dice) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return postgres(d, "query", n, int(delay.Milliseconds()), c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			return p.saying(atATime(n)).confirmedBy("twice the pool", pool(2*n))
		}},
		{"postgres-row", "every request updates the same row of PostgreSQL, and keeps its lock for 3 ms", need{software: software}, func(d *dice) plan {
			c := d.whole(12, 20)
			p := postgres(d, "row", 20, 1, c, "one row")
			return p.saying(`postgres`, `{helper}`, `(one|1) at a time`).confirmedBy("five rows", postgres(d, "row", 20, 5, c, ""))
		}},
		{"postgres-commit", "every request commits, which reaches the disk", need{software: software}, func(d *dice) plan {
			c := d.whole(12, 20)
			p := postgres(d, "commit", 2, 1, c, "synchronous_commit")
			return p.saying(`postgres`, `{helper}`, `fsync|fdatasync|\bdisk\b`, atATime(2)).confirmedBy("synchronous_commit off", postgres(d, "commit", 2, 0, c, ""))
		}},
		{"redis-script", "Redis runs a script for each request on its one thread", need{twoCPUs: true, software: "python redis-server"}, func(d *dice) plan {
			steps, c := d.whole(60_000, 100_000), d.whole(12, 24)
			p := redis(d, steps, c)
			return p.saying(`redis`, `{helper}`).confirmedBy("half the work", redis(d, steps/2, c))
		}},
	}
}
