package selftest

import (
	"fmt"
	"strconv"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/server/planted"
)

// nginx is a program with one of the plant's configurations, and that many bytes of text to
// serve.
func nginx(conf string, values map[string]string, text int) program {
	return program{dir: "nginx", command: "exec {nginx} -p {dir} -c {dir}/" + conf, values: values, text: text}
}

func nginxPlants() []Scenario {
	return []Scenario{
		{"nginx-gzip", "one nginx worker that compresses", need{twoCPUs: true, software: "nginx"}, func(d *params) plan {
			size, c := d.whole(40_000, 90_000), d.whole(24, 48)
			zip := func(level int) plan {
				p := d.served(nginx("gzip.conf", map[string]string{"workers": "1", "level": strconv.Itoa(level)}, size), c,
					fmt.Sprintf("%d bytes", size))
				p.path, p.header = "/text.txt", []spec.Field{{Name: "Accept-Encoding", Value: "gzip"}}
				return p
			}
			p := zip(9)
			p.accept = only(record.ServerThread)
			return p.confirmedBy("gzip level 1 in place of 9", zip(1))
		}},
		{"nginx-proxy-pool", "nginx before a server with a pool of n", need{software: "nginx"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.ms(10, 30), d.whole(24, 48)
			pool := func(n int) plan {
				p := d.served(nginx("proxy.conf", nil, 0), c, fmt.Sprintf("%d × %v", n, delay))
				p.helpers = []host{{kind: "pool", params: planted.Params{N: n, Sleep: delay}}}
				return p
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n), `{helper}`).confirmedBy("twice the pool", pool(2*n))
		}},
		{"nginx-proxy-thread", "nginx before a server with one busy thread", need{twoCPUs: true, software: "nginx"}, func(d *params) plan {
			work, c := d.us(500, 1000), d.whole(24, 48)
			behind := func(work time.Duration) plan {
				p := d.served(nginx("proxy.conf", nil, 0), c, work.String())
				p.helpers = []host{{kind: "thread", params: planted.Params{CPU: work}}}
				return p
			}
			p := behind(work)
			p.accept = only(record.ServerBlocked)
			return p.saying(`{helper}`, atATime(1)).confirmedBy("half the work", behind(work/2))
		}},
	}
}

// nginxLimits are limits configured in nginx.
func nginxLimits() []Scenario {
	return []Scenario{
		{"nginx-limit-req", "nginx lets a number of requests a second pass (limit_req)", need{software: "nginx"}, func(d *params) plan {
			rate, c := d.whole(200, 600), d.whole(24, 48)
			limit := func(rate int) plan {
				return d.served(nginx("limit.conf", map[string]string{"rate": strconv.Itoa(rate)}, 5), c, fmt.Sprintf("%d requests/s", rate))
			}
			p := limit(rate)
			p.accept = only(record.ServerBlocked)
			return p.confirmedBy("twice the limit", limit(2*rate))
		}},
		{"nginx-limit-rate", "nginx sends each answer at a limited rate (limit_rate)", need{software: "nginx"}, func(d *params) plan {
			rate := d.whole(150, 300)
			p := d.served(nginx("drip.conf", map[string]string{"kbytes": strconv.Itoa(rate)}, 12_000), d.whole(12, 32),
				fmt.Sprintf("%d kB/s each", rate))
			p.path, p.accept = "/text.txt", only(record.Concurrency)
			return p.twiceConnections()
		}},
		{"nginx-limit-conn", "nginx serves n connections at a time and refuses the others (limit_conn)", need{software: "nginx"},
			func(d *params) plan {
				n, delay, c := d.whole(3, 8), d.ms(10, 20), d.whole(24, 40)
				limit := func(n int) plan {
					p := d.served(nginx("refuse.conf", map[string]string{"n": strconv.Itoa(n)}, 0), c, fmt.Sprintf("%d for %d clients", n, c))
					p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
					return p
				}
				p := limit(n)
				p.accept = only(record.Failures)
				return p.saying(`503`).confirmedBy("1,024 connections", limit(1024))
			}},
		{"nginx-static-quota", "nginx with a static file, under a cgroup's quota of CPU time", need{cgroup: true, software: "nginx"},
			func(d *params) plan {
				quota, c := d.share(.08, .16), d.whole(24, 48)
				under := func(quota float64) plan {
					p := d.served(nginx("static.conf", nil, 1000), c, fmt.Sprintf("%.2f cores", quota))
					p.path, p.quota = "/text.txt", quota
					return p
				}
				p := under(quota)
				p.accept = only(record.ServerCPU, "throttl", "quota", "cgroup")
				return p.confirmedBy("twice the quota", under(2*quota))
			}},
		{"nginx-connections", "nginx has fewer worker_connections than clients come", need{software: "nginx"}, func(d *params) plan {
			// Of n connections some are nginx's own; a client takes two, one of them to the
			// upstream server.
			n, delay, c := d.whole(24, 32), d.ms(10, 20), d.whole(40, 56)
			limit := func(n int) plan {
				p := d.served(nginx("connections.conf", map[string]string{"n": strconv.Itoa(n)}, 0), c, fmt.Sprintf("%d for %d clients", n, c))
				p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
				return p
			}
			p := limit(n)
			p.accept = only(record.Failures)
			return p.or(record.AcceptQueue).or(record.ServerBlocked).saying(`worker_connections`,
				`connections?`).confirmedBy("1,024 worker_connections", limit(1024))
		}},
	}
}

func haproxyPlants() []Scenario {
	before := func(d *params, conf string, n, c int, delay time.Duration) plan {
		p := d.served(program{dir: "haproxy", command: "exec {haproxy} -f {dir}/" + conf, values: map[string]string{"n": strconv.Itoa(n)}}, c,
			fmt.Sprintf("maxconn %d, %v", n, delay))
		p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
		return p
	}
	return []Scenario{
		{"haproxy-server-maxconn", "HAProxy passes n requests at once to the server behind it", need{software: "haproxy"}, func(d *params) plan {
			n, delay, c := d.whole(3, 9), d.ms(10, 30), d.whole(24, 48)
			p := before(d, "server.cfg", n, c, delay)
			p.accept = only(record.ServerBlocked)
			return p.saying(atATime(n)).confirmedBy("twice the maxconn", before(d, "server.cfg", 2*n, c, delay))
		}},
		{"haproxy-maxconn", "HAProxy takes n clients, the others stay in the kernel's queue", need{software: "haproxy"}, func(d *params) plan {
			n, delay, c := d.whole(6, 12), d.ms(10, 30), d.whole(32, 48)
			p := before(d, "clients.cfg", n, c, delay)
			p.accept = only(record.AcceptQueue)
			return p.or(record.ServerBlocked).or(record.Concurrency, "accept").saying(atATime(n), `accept`, `never (taken|served|answered)`).
				confirmedBy("twice the maxconn", before(d, "clients.cfg", 2*n, c, delay))
		}},
	}
}

func apachePlants() []Scenario {
	return []Scenario{
		{"apache-workers", "Apache with n workers before a server that takes its time", need{software: "apache2"}, func(d *params) plan {
			n, delay, c := d.whole(3, 8), d.ms(15, 30), d.whole(24, 40)
			pool := func(n int) plan {
				p := d.served(program{dir: "apache", command: "exec {apache2} -DFOREGROUND -f {dir}/apache.conf",
					values: map[string]string{"n": strconv.Itoa(n)}}, c, fmt.Sprintf("%d × %v", n, delay))
				p.helpers = []host{{kind: "sleep", params: planted.Params{Sleep: delay}}}
				return p
			}
			p := pool(n)
			p.accept = only(record.ServerBlocked)
			return p.or(record.AcceptQueue).saying(atATime(n)).confirmedBy("twice the workers", pool(2*n))
		}},
	}
}
