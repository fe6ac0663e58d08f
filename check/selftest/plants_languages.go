package selftest

import (
	"fmt"
	"strconv"
	"time"

	"ceiling/record"
)

func nodePlants() []Scenario {
	server := func(plant string, n int, delay time.Duration) program {
		return program{dir: "node", command: fmt.Sprintf("exec {node} server.js {addr} %s %d %s", plant, n, millis(delay))}
	}
	return []Scenario{
		{"node-cpu", "Node, PBKDF2 on its one thread", need{twoCPUs: true, software: "node"}, func(d *params) plan {
			// 1,000 rounds are about half a millisecond.
			rounds, c := d.whole(2000, 5000), d.whole(24, 48)
			p := d.served(server("cpu", rounds, 0), c, fmt.Sprintf("%d rounds", rounds))
			p.accept = only(record.ServerThread)
			return p.confirmedBy("half the work", d.served(server("cpu", rounds/2, 0), c, ""))
		}},
		{"node-delay", "Node, a timer for each request", need{software: "node"}, func(d *params) plan {
			delay := d.wholeMs(20, 60)
			p := d.served(server("delay", 0, delay), d.whole(8, 24), delay.String())
			p.accept = only(record.Concurrency)
			return p.twiceConnections()
		}},
		{"node-pool", "Node, a pool of n places for asynchronous work", need{software: "node"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(10, 30), d.whole(24, 48)
			pool := func(n int) plan { return d.served(server("pool", n, delay), c, fmt.Sprintf("%d × %v", n, delay)) }
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the pool", pool(2*n))
		}},
		{"node-uv-thread", "Node, PBKDF2 on a libuv pool of one thread", need{twoCPUs: true, software: "node"}, func(d *params) plan {
			rounds, c := d.whole(2000, 5000), d.whole(24, 48)
			pool := func(n int) plan {
				p := server("uv", rounds, 0)
				p.env = []string{fmt.Sprintf("UV_THREADPOOL_SIZE=%d", n)}
				return d.served(p, c, fmt.Sprintf("%d rounds", rounds))
			}
			p := pool(1)
			p.accept = only(record.ServerThread)
			return p.confirmedBy("two threads", pool(2))
		}},
		{"node-quota", "Node, PBKDF2 under a cgroup's quota of CPU time", need{cgroup: true, software: "node"}, func(d *params) plan {
			rounds, quota, c := d.whole(2000, 5000), d.share(.2, .4), d.whole(24, 48)
			under := func(quota float64) plan {
				p := d.served(server("cpu", rounds, 0), c, fmt.Sprintf("%d rounds, %.2f cores", rounds, quota))
				p.quota = quota
				return p
			}
			p := under(quota)
			p.accept = only(record.ServerCPU, "throttl", "quota", "cgroup")
			return p.confirmedBy("twice the quota", under(2*quota))
		}},
	}
}

func javaPlants() []Scenario {
	server := func(options, plant string, threads, n int) program {
		return program{dir: "java", command: fmt.Sprintf("{javac} -d . Plant.java && exec {java} %s -cp . Plant {addr} %s %d %d", options, plant,
			threads, n)}
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
		{"java-pool", "the JDK's server on a fixed pool of n threads, each request waits in one", need{software: software}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(10, 30), d.whole(32, 48)
			pool := func(n int) plan {
				return warm(d.served(server(nodelay, "sleep", n, int(delay.Milliseconds())), c, fmt.Sprintf("%d × %v", n, delay)))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"java-pool-40", "the same with 40 threads", need{software: software}, func(d *params) plan {
			delay, c := d.wholeMs(40, 80), d.whole(110, 140)
			pool := func(n int) plan {
				return warm(d.served(server(nodelay, "sleep", n, int(delay.Milliseconds())), c, fmt.Sprintf("%d × %v", n, delay)))
			}
			p := pool(40)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(39), atATime(40), atATime(41)).confirmedBy("twice the threads", pool(80))
		}},
		{"java-lock", "the JDK's server on 40 threads, one monitor kept for 3 ms", need{software: software}, func(d *params) plan {
			c := d.whole(24, 36)
			p := warm(d.served(server(nodelay, "lock", 40, 1), c, "one monitor"))
			p.accept = only(record.ServerBlocked)
			return p.saying(`lock|monitor`, atATime(1)).confirmedBy("four monitors", warm(d.served(server(nodelay, "lock", 40, 4), c, "")))
		}},
		{"java-cpu", "the JDK's server on 40 threads, SHA-256 on all cores", need{twoCPUs: true, software: software}, func(d *params) plan {
			rounds, c := d.whole(4000, 8000), d.whole(24, 36)
			p := warm(d.served(server(nodelay, "cpu", 40, rounds), c, fmt.Sprintf("%d rounds", rounds)))
			p.accept = only(record.ServerCPU)
			return p.confirmedBy("a quarter of the work", warm(d.served(server(nodelay, "cpu", 40, rounds/4), c, "")))
		}},
		{"java-gc", "the JDK's server, a heap that is nearly full, and the serial collector", need{twoCPUs: true, software: software},
			func(d *params) plan {
				c := d.whole(8, 16)
				heap := func(mb int) plan {
					return warm(d.served(server(fmt.Sprintf("%s -XX:+UseSerialGC -Xmn8m -Xmx%dm", nodelay, mb), "gc", 8, 40), c,
						fmt.Sprintf("-Xmx%dm", mb)))
				}
				p := heap(64)
				p.accept = only(record.ServerThread)
				return p.or(record.ServerBlocked).or(record.ServerCPU).saying(`\bgc\b|garbage|collect|vm thread`).confirmedBy("eight times the heap",
					heap(512))
			}},
		{"java-nagle", "the JDK's server as it is: two small writes, Nagle and delayed acknowledgements", need{software: software},
			func(d *params) plan {
				c := d.whole(8, 16)
				p := warm(d.served(server("", "split", 40, 1), c, "no TCP_NODELAY"))
				p.accept = only(record.Concurrency)
				return p.or(record.ServerBlocked).orInconclusive("nodelay", "nagle", "delayed").saying(`nodelay|nagle|delayed ack`).
					confirmedBy("TCP_NODELAY", warm(d.served(server(nodelay, "split", 40, 1), c, "")))
			}},
	}
}

func phpPlants() []Scenario {
	return []Scenario{
		{"php-workers", "PHP's own server with n workers, each request waits in one", need{software: "php"}, func(d *params) plan {
			n, delay, c := d.whole(3, 6), d.ms(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(program{dir: "php", command: "exec {php} -q -S {addr} wait.php",
					env: []string{fmt.Sprintf("PHP_CLI_SERVER_WORKERS=%d", n), fmt.Sprintf("PLANT_US=%d", delay.Microseconds())}}, c,
					fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			// The parent serves as well: n+1 at a time.
			return p.saying(atATime(n), atATime(n+1)).confirmedBy("twice the workers", pool(2*n))
		}},
		{"php-cpu", "PHP's own server with one worker, SHA-256 in it", need{twoCPUs: true, software: "php"}, func(d *params) plan {
			rounds, c := d.whole(4000, 8000), d.whole(24, 40)
			work := func(rounds int) plan {
				return d.served(program{dir: "php", command: "exec {php} -q -S {addr} work.php", env: []string{fmt.Sprintf("PLANT_N=%d", rounds)}}, c,
					fmt.Sprintf("%d rounds", rounds))
			}
			p := work(rounds)
			p.accept = only(record.ServerThread)
			return p.confirmedBy("half the work", work(rounds/2))
		}},
		{"php-fpm-children", "nginx before php-fpm with n children, each request waits in one", need{software: "php-fpm nginx"},
			func(d *params) plan {
				n, delay, c := d.whole(3, 8), d.ms(15, 30), d.whole(24, 40)
				pool := func(n int) plan {
					p := d.served(program{dir: "php-fpm", command: "exec {nginx} -p {dir} -c {dir}/nginx.conf",
						values: map[string]string{"script": "wait.php", "us": strconv.Itoa(int(delay.Microseconds())), "rounds": "0"}}, c,
						fmt.Sprintf("%d × %v", n, delay))
					p.helpers = []host{{program: &program{dir: "php-fpm", command: "exec {php-fpm} -R -y {dir}/fpm.conf",
						values: map[string]string{"n": strconv.Itoa(n)}}}}
					return p
				}
				p := pool(n)
				p.accept = only(record.ServerBlocked)
				return p.saying(`php-fpm`, `{helper}`, atATime(n)).confirmedBy("twice the children", pool(2*n))
			}},
		{"php-one-worker", "PHP's own server with its one worker, each request waits in it", need{software: "php"}, func(d *params) plan {
			delay, c := d.ms(4, 12), d.whole(16, 32)
			wait := func(delay time.Duration) plan {
				return d.served(program{dir: "php", command: "exec {php} -q -S {addr} wait.php",
					env: []string{fmt.Sprintf("PLANT_US=%d", delay.Microseconds())}}, c, delay.String())
			}
			p := wait(delay)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(1), `its (only|one) thread`).confirmedBy("half the wait", wait(delay/2))
		}},
		{"php-fpm-cpu", "nginx before php-fpm with one child, SHA-256 in it", need{twoCPUs: true, software: "php-fpm nginx"}, func(d *params) plan {
			rounds, c := d.whole(4000, 8000), d.whole(24, 40)
			pool := func(n int) plan {
				p := d.served(program{dir: "php-fpm", command: "exec {nginx} -p {dir} -c {dir}/nginx.conf",
					values: map[string]string{"script": "work.php", "us": "0", "rounds": strconv.Itoa(rounds)}}, c, fmt.Sprintf("%d rounds", rounds))
				p.helpers = []host{{program: &program{dir: "php-fpm", command: "exec {php-fpm} -R -y {dir}/fpm.conf",
					values: map[string]string{"n": strconv.Itoa(n)}}}}
				return p
			}
			p := pool(1)
			p.accept = only(record.ServerBlocked)
			return p.saying(`php-fpm`, `{helper}`).confirmedBy("two children", pool(2))
		}},
	}
}

func rubyPlants() []Scenario {
	puma := func(plant string, workers, threads, n int) program {
		return program{dir: "ruby", env: []string{"PLANT=" + plant, fmt.Sprintf("PLANT_N=%d", n)},
			command: fmt.Sprintf("exec {puma} -q -w %d -t %d:%d -b tcp://{addr} config.ru", workers, threads, threads)}
	}
	return []Scenario{
		{"puma-threads", "Puma with n threads, each request waits in one", need{software: "puma"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.wholeMs(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				return d.served(puma("sleep", 0, n, int(delay.Milliseconds())), c, fmt.Sprintf("%d × %v", n, delay))
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the threads", pool(2*n))
		}},
		{"puma-gvl", "Puma with 5 threads, interpreted work under Ruby's global lock", need{twoCPUs: true, software: "puma"}, func(d *params) plan {
			steps, c := d.whole(20_000, 40_000), d.whole(16, 32)
			p := d.served(puma("cpu", 0, 5, steps), c, fmt.Sprintf("%d steps", steps))
			p.accept = only(record.ServerThread)
			return p.or(record.ServerBlocked).saying(`\bgvl\b`, `interpreter`, `lock`, atATime(1)).
				confirmedBy("two processes, each with a lock of its own", d.served(puma("cpu", 2, 5, steps), c, ""))
		}},
	}
}
