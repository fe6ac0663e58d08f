package faces

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tools whose command lines are read, and whose output is not printed: the run is ceiling's own.

const (
	asOurs       = "Measure what its command line asks for, and report as ceiling run does"
	noRedirects  = "ceiling follows no redirects: a redirect is a response"
	notOutput    = "ceiling prints its own report; ceiling export has other formats"
	gzipByHeader = "ceiling asks for no compression, unless -H 'Accept-Encoding: gzip'"
)

// field makes a flag of a header field.
func field(name string) func(*CommandLine, string) error {
	return func(f *CommandLine, text string) error { return pass("-H")(f, name+": "+text) }
}

// file makes a flag of the body's file.
func file(f *CommandLine, text string) error { return pass("-b")(f, "@"+text) }

func basic(f *CommandLine, text string) error {
	if !strings.Contains(text, ":") {
		return errors.New("not user:password")
	}
	return pass("-H")(f, "Authorization: Basic "+base64of(text))
}

// forTime ends a run by its time alone.
func forTime(f *CommandLine, d time.Duration) {
	f.Duration, f.timed = d, true
	f.put("-d", d.String())
}

func forRequests(f *CommandLine, text string) error {
	if _, err := whole(text); err != nil {
		return err
	}
	f.requests = text
	return nil
}

// perClient sets the rate of each connection.
func perClient(f *CommandLine, text string) (err error) {
	f.perClient, err = strconv.ParseFloat(text, 64)
	if err != nil || f.perClient <= 0 {
		return errors.New("not a rate")
	}
	return nil
}

// ended adds what follows from several flags: the end, and the rate of all clients.
func ended(f *CommandLine) error {
	if f.perClient > 0 {
		n, err := strconv.Atoi(f.connections)
		if err != nil {
			return fmt.Errorf("connections: %s is not a number", f.connections)
		}
		f.Own = append(f.Own, "-R", strconv.FormatFloat(f.perClient*float64(n), 'f', -1, 64))
	}
	if f.requests != "" && !f.timed {
		f.Own = append(f.Own, "-n", f.requests)
	}
	return nil
}

func heyFace() *Tool {
	return &Tool{
		Name: "hey", Short: asOurs, single: true, Example: "hey -n 2000 -c 50 http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "50", "--timeout", "20s"}, connections: "50", requests: "200"}, check: ended,
		options: func() []Option {
			return []Option{
				{names: []string{"n"}, value: "N", set: forRequests}, {names: []string{"c"}, value: "N", set: setConnections},
				{names: []string{"z"}, value: "TIME", set: timeIn(0, forTime)},
				{names: []string{"q"}, value: "RATE", differs: "of each worker: -R is that times the connections", set: perClient},
				{names: []string{"m"}, value: "METHOD", set: pass("-m")}, {names: []string{"H"}, value: "FIELD", set: pass("-H")},
				{names: []string{"t"}, value: "SECONDS", set: timeIn(time.Second, setTimeout)},
				{names: []string{"A"}, value: "TYPE", set: field("Accept")}, {names: []string{"d"}, value: "BODY", set: pass("-b")},
				{names: []string{"D"}, value: "FILE", set: file}, {names: []string{"T"}, value: "TYPE", set: field("Content-Type")},
				{names: []string{"a"}, value: "USER:PASSWORD", set: basic}, {names: []string{"host"}, value: "HOST", set: field("Host")},
				{names: []string{"h2"}, set: over("2")}, {names: []string{"disable-keepalive"}, set: on("--new-connections")},
				{names: []string{"disable-compression"}, differs: gzipByHeader, set: ignored},
				{names: []string{"disable-redirects"}, set: ignored}, {names: []string{"cpus"}, value: "N", set: pass("-t")},
				{names: []string{"x"}, value: "PROXY", set: pass("--proxy")}, {names: []string{"o"}, value: "csv", differs: notOutput},
				{names: []string{"h", "help"}, set: askHelp},
			}
		},
	}
}

func abFace() *Tool {
	const cosmetic = "of its HTML output; ceiling report makes a page"
	return &Tool{
		Name: "ab", Short: asOurs, Example: "ab -n 2000 -c 50 -k http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "1", "--timeout", "30s"}, connections: "1", requests: "1", fresh: true}, check: endedAB,
		options: func() []Option {
			return []Option{
				{names: []string{"n"}, value: "N", set: forRequests}, {names: []string{"c"}, value: "N", set: setConnections},
				{names: []string{"t"}, value: "SECONDS", set: timeIn(time.Second, forTime)},
				{names: []string{"k"}, differs: "same; without it each request has a connection of its own, in HTTP/1.1",
					set: func(f *CommandLine, _ string) error { f.fresh = false; return nil }},
				{names: []string{"s"}, value: "SECONDS", set: timeIn(time.Second, setTimeout)},
				{names: []string{"p"}, value: "FILE", set: file},
				{names: []string{"u"}, value: "FILE", set: func(f *CommandLine, text string) error {
					f.Own = append(f.Own, "-m", "PUT")
					return file(f, text)
				}},
				{names: []string{"T"}, value: "TYPE", set: field("Content-Type")}, {names: []string{"i"}, set: method("HEAD")},
				{names: []string{"m"}, value: "METHOD", set: pass("-m")}, {names: []string{"C"}, value: "COOKIE", set: field("Cookie")},
				{names: []string{"H"}, value: "FIELD", set: pass("-H")}, {names: []string{"A"}, value: "USER:PASSWORD", set: basic},
				{names: []string{"B"}, value: "ADDRESS", set: pass("--source-ips")}, {names: []string{"Z"}, value: "SUITES", set: pass("--ciphers")},
				{names: []string{"E"}, value: "FILE", set: pass("--cert")}, {names: []string{"r"}, set: ignored}, {names: []string{"l"}, set: ignored},
				{names: []string{"q"}, set: ignored}, {names: []string{"d"}, set: ignored}, {names: []string{"S"}, set: ignored},
				{names: []string{"v"}, value: "N", differs: "ceiling run -v prints all of the text", set: ignored},
				{names: []string{"f"}, value: "PROTOCOL", differs: "--tls-version sets one"}, {names: []string{"b"}, value: "BYTES", differs: "the kernel sizes windows"},
				{names: []string{"I"}, differs: "a server name is always sent; --sni sets it"},
				{names: []string{"g"}, value: "FILE", differs: notOutput}, {names: []string{"e"}, value: "FILE", differs: notOutput},
				{names: []string{"w"}, differs: cosmetic}, {names: []string{"x"}, value: "ATTRIBUTES", differs: cosmetic},
				{names: []string{"y"}, value: "ATTRIBUTES", differs: cosmetic}, {names: []string{"z"}, value: "ATTRIBUTES", differs: cosmetic},
				{names: []string{"P"}, value: "USER:PASSWORD", differs: "in the proxy's URL: -X http://USER:PASSWORD@HOST:PORT"},
				{names: []string{"X"}, value: "PROXY", set: pass("--proxy")},
				{names: []string{"V"}, set: askVersion}, {names: []string{"h"}, set: askHelp},
			}
		},
	}
}

// endedAB adds ab's connection for each request.
func endedAB(f *CommandLine) error {
	if f.fresh {
		f.Own = append(f.Own, "--new-connections")
	}
	return ended(f)
}

func bombardierFace() *Tool {
	return &Tool{
		Name: "bombardier", Short: asOurs, Example: "bombardier -c 125 -d 10s http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "125", "--timeout", "2s"}, connections: "125"}, check: ended,
		options: func() []Option {
			return []Option{
				{names: []string{"c", "connections"}, value: "N", set: setConnections}, {names: []string{"n", "requests"}, value: "N", set: forRequests},
				{names: []string{"d", "duration"}, value: "TIME", set: timeIn(0, setDuration)},
				{names: []string{"t", "timeout"}, value: "TIME", set: timeIn(0, setTimeout)}, {names: []string{"r", "rate"}, value: "N", set: pass("-R")},
				{names: []string{"m", "method"}, value: "METHOD", set: pass("-m")}, {names: []string{"H", "header"}, value: "FIELD", set: pass("-H")},
				{names: []string{"b", "body"}, value: "BODY", set: pass("-b")}, {names: []string{"f", "body-file"}, value: "FILE", set: file},
				{names: []string{"cert"}, value: "FILE", set: pass("--cert")}, {names: []string{"key"}, value: "FILE", set: pass("--key")},
				{names: []string{"k", "insecure"}, set: on("--insecure")}, {names: []string{"a", "disableKeepAlives"}, set: on("--new-connections")},
				{names: []string{"http1"}, set: over("1.1")}, {names: []string{"http2"}, set: over("2")}, {names: []string{"fasthttp"}, set: ignored},
				{names: []string{"l", "latencies"}, differs: "quantiles are always printed", set: ignored},
				{names: []string{"s", "stream"}, differs: "bodies are sent with their length"},
				{names: []string{"p", "print"}, value: "PARTS", differs: notOutput}, {names: []string{"q", "no-print"}, differs: notOutput},
				{names: []string{"o", "format"}, value: "FORMAT", differs: notOutput},
				{names: []string{"version"}, set: askVersion}, {names: []string{"h", "help"}, set: askHelp},
			}
		},
	}
}

func ohaFace() *Tool {
	const (
		rendered = "requests are prepared before the run, from a list: ceiling run --targets FILE"
		screen   = "of its screen"
	)
	return &Tool{
		Name: "oha", Short: asOurs, Example: "oha -z 10s -c 50 http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "50"}, connections: "50", requests: "200"}, check: ended,
		options: func() []Option {
			return []Option{
				{names: []string{"n"}, value: "N", set: forRequests}, {names: []string{"c"}, value: "N", set: setConnections},
				{names: []string{"p"}, value: "N", differs: "same: streams of each connection", set: pass("-p")},
				{names: []string{"z"}, value: "TIME", set: timeIn(0, forTime)}, {names: []string{"q"}, value: "RATE", set: pass("-R")},
				{names: []string{"latency-correction"}, differs: "with -q times always count from when a request was due", set: ignored},
				{names: []string{"w", "wait-ongoing-requests-after-deadline"}, differs: "always so: what is in flight at the end is awaited, but not counted"},
				{names: []string{"burst-delay"}, value: "TIME", differs: "--arrivals poisson is uneven"},
				{names: []string{"burst-rate"}, value: "N", differs: "--arrivals poisson is uneven"},
				{names: []string{"m", "method"}, value: "METHOD", set: pass("-m")}, {names: []string{"H"}, value: "FIELD", set: pass("-H")},
				{names: []string{"t"}, value: "TIME", set: timeIn(0, setTimeout)},
				{names: []string{"connect-timeout"}, value: "TIME", differs: "--timeout is that of connects too", set: ignored},
				{names: []string{"A"}, value: "TYPE", set: field("Accept")}, {names: []string{"d"}, value: "BODY", set: pass("-b")},
				{names: []string{"D"}, value: "FILE", set: file}, {names: []string{"Z"}, value: "FILE", differs: rendered},
				{names: []string{"F", "form"}, value: "FORM", differs: "give the body as it is sent: -D FILE -T TYPE"},
				{names: []string{"T"}, value: "TYPE", set: field("Content-Type")}, {names: []string{"a", "basic-auth"}, value: "USER:PASSWORD", set: basic},
				{names: []string{"http-version"}, value: "VERSION", set: pass("--http")}, {names: []string{"http2"}, set: over("2")},
				{names: []string{"host"}, value: "HOST", set: field("Host")}, {names: []string{"disable-compression"}, differs: gzipByHeader, set: ignored},
				{names: []string{"r", "redirect"}, value: "N", differs: noRedirects, set: ignored},
				{names: []string{"disable-keepalive"}, set: on("--new-connections")}, {names: []string{"cacert"}, value: "FILE", set: pass("--cacert")},
				{names: []string{"cert"}, value: "FILE", set: pass("--cert")}, {names: []string{"key"}, value: "FILE", set: pass("--key")},
				{names: []string{"insecure"}, set: on("--insecure")}, {names: []string{"unix-socket"}, value: "PATH", set: pass("--unix")},
				{names: []string{"connect-to"}, value: "A:B", differs: "--resolve HOST:PORT:ADDRESS"},
				{names: []string{"urls-from-file"}, differs: rendered}, {names: []string{"rand-regex-url"}, differs: rendered},
				{names: []string{"max-repeat"}, value: "N", differs: rendered}, {names: []string{"dump-urls"}, value: "N", differs: rendered},
				{names: []string{"no-tui"}, set: ignored}, {names: []string{"fps"}, value: "N", differs: screen, set: ignored},
				{names: []string{"no-color", "disable-color"}, differs: screen, set: ignored},
				{names: []string{"stats-success-breakdown"}, differs: "ceiling run -v has the errors by kind", set: ignored},
				{names: []string{"ipv4"}, differs: "--resolve sets the address"}, {names: []string{"ipv6"}, differs: "--resolve sets the address"},
				{names: []string{"no-pre-lookup"}, differs: "names are looked up once, at the start"},
				{names: []string{"x"}, value: "PROXY", set: pass("--proxy")},
				{names: []string{"proxy-header"}, value: "FIELD", differs: "the proxy gets a password, from its URL, and no other field"},
				{names: []string{"j", "json"}, differs: "ceiling run --json has another document"}, {names: []string{"o", "output"}, value: "FILE", differs: notOutput},
				{names: []string{"output-format"}, value: "FORMAT", differs: notOutput}, {names: []string{"db-url"}, value: "FILE", differs: notOutput},
				{names: []string{"u", "time-unit"}, value: "UNIT", differs: "times have the unit that suits them", set: ignored},
				{names: []string{"debug"}, differs: "curl -v shows one request"},
				{names: []string{"V", "version"}, set: askVersion}, {names: []string{"h", "help"}, set: askHelp},
			}
		},
	}
}

func h2loadFace() *Tool {
	const tuned = "ceiling sizes windows and frames itself"
	return &Tool{
		Name: "h2load", Short: asOurs, Example: "h2load -n 100000 -c 100 -m 16 https://127.0.0.1:8443/read",
		defaults: CommandLine{Own: []string{"-c", "1", "--http", "2"}, connections: "1", requests: "1"},
		check: func(f *CommandLine) error {
			if strings.HasPrefix(f.URL, "https://") {
				f.Own = append(f.Own, "--insecure") // it verifies nothing
			}
			return ended(f)
		},
		options: func() []Option {
			return []Option{
				{names: []string{"n", "requests"}, value: "N", set: forRequests}, {names: []string{"c", "clients"}, value: "N", set: setConnections},
				{names: []string{"t", "threads"}, value: "N", set: pass("-t")}, {names: []string{"m", "max-concurrent-streams"}, value: "N", set: pass("-p")},
				{names: []string{"D", "duration"}, value: "TIME", set: timeIn(time.Second, forTime)},
				{names: []string{"warm-up-time"}, value: "TIME", set: timeIn(time.Second, func(f *CommandLine, d time.Duration) { f.Own = append(f.Own, "--warmup", d.String()) })},
				{names: []string{"rps"}, value: "N", differs: "of each client: -R is that times the clients", set: perClient},
				{names: []string{"H", "header"}, value: "FIELD", set: pass("-H")}, {names: []string{"d", "data"}, value: "FILE", set: file},
				{names: []string{"h1"}, set: over("1.1")}, {names: []string{"ciphers"}, value: "SUITES", set: pass("--ciphers")},
				{names: []string{"groups"}, value: "GROUPS", set: pass("--curves")}, {names: []string{"sni"}, value: "NAME", set: pass("--sni")},
				{names: []string{"N", "connection-inactivity-timeout"}, value: "TIME", set: timeIn(time.Second, setTimeout)},
				{names: []string{"i", "input-file"}, value: "FILE", differs: "ceiling run --targets FILE, with METHOD before each URL"},
				{names: []string{"B", "base-uri"}, value: "URI", differs: "give whole URLs"},
				{names: []string{"alpn-list", "npn-list"}, value: "LIST", differs: "--http 1.1, 2 or 3"}, {names: []string{"p", "no-tls-proto"}, value: "ID", differs: "--http 1.1 or 2"},
				{names: []string{"r", "rate"}, value: "N", differs: "opens connections; --connect-ramp TIME does"},
				{names: []string{"rate-period"}, value: "TIME", differs: "opens connections; --connect-ramp TIME does"},
				{names: []string{"T", "connection-active-timeout"}, value: "TIME", differs: "ceiling keeps its connections"},
				{names: []string{"timing-script-file"}, value: "FILE", differs: "-R 1k:5k is a ramp, -R 1k+5k+1k are steps"},
				{names: []string{"connect-to"}, value: "HOST:PORT", differs: "--resolve HOST:PORT:ADDRESS"}, {names: []string{"f", "max-frame-size"}, value: "N", differs: tuned},
				{names: []string{"w", "window-bits"}, value: "N", differs: tuned}, {names: []string{"W", "connection-window-bits"}, value: "N", differs: tuned},
				{names: []string{"header-table-size"}, value: "N", differs: tuned}, {names: []string{"encoder-header-table-size"}, value: "N", differs: tuned},
				{names: []string{"ktls"}, differs: "ceiling encrypts itself"}, {names: []string{"log-file"}, value: "FILE", differs: notOutput},
				{names: []string{"v", "verbose"}, set: on("-v")}, {names: []string{"version"}, set: askVersion}, {names: []string{"h", "help"}, set: askHelp},
			}
		},
	}
}

func k6Face() *Tool {
	const script = "of a script, which ceiling does not run: several loads are an experiment (docs/experiments.md)"
	return &Tool{
		Name: "k6", verb: "run", Short: "Say what k6's flags are here: ceiling runs no scripts", Example: "k6 run --vus 50 --duration 10s http://127.0.0.1:8080/read",
		defaults: CommandLine{Own: []string{"-c", "1"}, connections: "1"}, check: func(f *CommandLine) error {
			if !strings.Contains(f.URL, "://") {
				return fmt.Errorf("%s: ceiling runs no scripts; give the URL that it loads, with --vus and --duration", f.URL)
			}
			return ended(f)
		},
		options: func() []Option {
			return []Option{
				{names: []string{"u", "vus"}, value: "N", set: setConnections}, {names: []string{"d", "duration"}, value: "TIME", set: timeIn(0, setDuration)},
				{names: []string{"i", "iterations"}, value: "N", set: forRequests}, {names: []string{"rps"}, value: "N", set: pass("-R")},
				{names: []string{"s", "stage"}, value: "TIME:VUS", differs: "-R 1k:5k is a ramp, -R 1k+5k+1k are steps, -c 10,100 a list of runs"},
				{names: []string{"insecure-skip-tls-verify"}, set: on("--insecure")}, {names: []string{"no-connection-reuse"}, set: on("--new-connections")},
				{names: []string{"user-agent"}, value: "TEXT", set: field("User-Agent")}, {names: []string{"local-ips"}, value: "LIST", set: pass("--source-ips")},
				{names: []string{"max-redirects"}, value: "N", differs: noRedirects, set: ignored}, {names: []string{"q", "quiet"}, set: on("--quiet")},
				{names: []string{"o", "out"}, value: "OUTPUT", differs: "--prometheus and --otlp send figures as they come; ceiling export has formats"},
				{names: []string{"summary-export"}, value: "FILE", differs: "ceiling run --json > FILE"}, {names: []string{"w", "web"}, differs: "ceiling run --live"},
				{names: []string{"e", "env"}, value: "NAME=VALUE", differs: script}, {names: []string{"c", "config"}, value: "FILE", differs: script},
				{names: []string{"tag"}, value: "NAME=VALUE", differs: script}, {names: []string{"paused"}, differs: script},
				{names: []string{"h", "help"}, set: askHelp},
			}
		},
	}
}
