package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ceiling/show/importer"
)

// Names of the tools that have targets.
const (
	ours       = "ceiling"
	wrk        = "wrk"
	h2load     = "h2load"
	autocannon = "autocannon"
	gcannon    = "gcannon" // github.com/MDA2AV/gcannon, on io_uring
	zrk        = "zrk"     // github.com/zoxy-io/zrk, on io_uring
	// The floor, with waits for one completion and for eight.
	floorOne   = "floor"
	floorEight = "floor, 8 at once"
)

// A job is the closed loop that a tool generates.
type job struct {
	URL         string
	Connections int
	Pipelining  int
	Threads     int           // those of ceiling and wrk; 0: one
	Duration    time.Duration // whole seconds
	// HTTP2 over TLS, with Pipelining streams per connection.
	HTTP2 bool
	// CPUs of the tool; nil: all.
	CPUs []int
}

// secure reports whether the job uses TLS, with an untrusted certificate.
func (j *job) secure() bool { return strings.HasPrefix(j.URL, "https:") }

// A tool is an installed load generator.
type tool struct {
	Name    string
	Path    string
	Version string
	// asks is the argument that prints the version, matched by the pattern. hey and gcannon have none.
	asks, pattern string
	// Arguments over HTTP/1.1, with more than one request in flight on a connection, and over HTTP/2; "": it cannot. In
	// them {c}, {p}, {t} and {s} are connections, requests in flight, threads and seconds; {dir} is a directory of the
	// tool's own, and {insecure} accepts a certificate.
	http1, pipelined, http2 string
	most                    int  // requests in flight; 0: any number
	noTLS                   bool // it has no TLS
	parse                   func([]byte) (answer, error)
}

// Every tool gets one thread if that can be configured, and on the works with more only ceiling and
// wrk take part. oha cannot: it uses every CPU. autocannon uses one thread by default. Ours omits the
// warm-up: the whole process's CPU is divided by the whole process's requests. ab gets -l, since the
// responses of /read differ in length, and a number of requests that no run here reaches: it would end
// at 50,000, and it reserves 32 bytes of address space for each.
func kinds() []tool {
	const own = "run --json -t {t} -c {c} -p {p} -d {s}s --warmup 0s -o {dir}/record {insecure} {url}"
	const cannon = "{url} -t 1 -c {c} -d {s}s -p {p} --json"
	const auto = "--json -c {c} -p {p} -d {s} {url}"
	return []tool{
		{Name: ours, asks: "--version", pattern: `version (\S+)`, http1: own, pipelined: own, http2: own + " --http 2", parse: parseOurs},
		{Name: wrk, asks: "-v", pattern: `wrk (\S+)`, http1: "-t{t} -c{c} -d{s}s {url}",
			pipelined: "-t{t} -c{c} -d{s}s -s {dir}/" + pipelineName + " {url} -- {p}", parse: peer(importer.Wrk)},
		{Name: h2load, asks: "--version", pattern: `nghttp2/(\S+)`, http1: "--h1 -t1 -c{c} -D{s} {url}", http2: "-t1 -c{c} -m{p} -D{s} {url}",
			parse: peer(importer.H2load)},
		{Name: gcannon, http1: cannon, pipelined: cannon, most: 64, noTLS: true, parse: parseGcannon},
		// Its loop is open: of a rate that nobody reaches, each connection has a request at a time.
		{Name: zrk, asks: "--version", pattern: `zrk (\S+)`, http1: "-t1 -c{c} -d{s}s -R 100000000 --format json {url}", noTLS: true, parse: parseZrk},
		{Name: "ab", asks: "-V", pattern: `Version (\S+)`, http1: "-k -l -q -c {c} -t {s} -n 50000000 {url}", parse: peer(importer.Ab)},
		{Name: "oha", asks: "--version", pattern: `oha (\S+)`, http1: "--no-tui --output-format json -c {c} -z {s}s {insecure} {url}",
			parse: peer(importer.Oha)},
		{Name: "hey", http1: "-cpus 1 -c {c} -z {s}s {url}", parse: peer(importer.Hey)},
		{Name: autocannon, asks: "--version", pattern: `autocannon v(\S+)`, http1: auto, pipelined: auto, parse: parseAutocannon},
	}
}

// floorTools are the floor, as if it were two tools.
func floorTools(path string) []tool {
	floor := func(name string, gather int) tool {
		args := fmt.Sprintf("{port} {path} {c} {p} {s} %d", gather)
		return tool{Name: name, Path: path, Version: "floor.c", http1: args, pipelined: args, noTLS: true, parse: parseFloor}
	}
	return []tool{floor(floorOne, 1), floor(floorEight, 8)}
}

// arguments returns the command line of a job; false if the tool cannot do it. dir is the tool's
// own for this job.
func (t *tool) arguments(j job, dir string) ([]string, bool) {
	text := t.http1
	switch {
	case j.HTTP2:
		text = t.http2
	case j.Pipelining > 1:
		text = t.pipelined
	}
	to, err := url.Parse(j.URL)
	if text == "" || err != nil || j.secure() && t.noTLS || t.most > 0 && j.Pipelining > t.most {
		return nil, false
	}
	insecure := ""
	if j.secure() {
		insecure = "--insecure"
	}
	return strings.Fields(strings.NewReplacer("{c}", strconv.Itoa(j.Connections), "{p}", strconv.Itoa(j.Pipelining),
		"{t}", strconv.Itoa(max(j.Threads, 1)), "{s}", strconv.Itoa(int(j.Duration/time.Second)), "{dir}", dir, "{url}", j.URL,
		"{port}", to.Port(), "{path}", to.Path, "{insecure}", insecure).Replace(text)), true
}

// findTools looks for the other tools in PATH. Ours is the binary, which must exist.
func findTools(ctx context.Context, binary string) ([]tool, error) {
	var list []tool
	for _, t := range kinds() {
		name := t.Name
		if t.Name == ours {
			name = binary
		}
		path, err := exec.LookPath(name)
		if err != nil && t.Name == ours {
			return nil, fmt.Errorf("%w; make build makes it", err)
		}
		if err != nil {
			continue
		}
		if t.Path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		t.Version = t.ask(ctx)
		list = append(list, t)
	}
	return list, nil
}

// ask returns the tool's version, or "unknown". It ignores the exit code: wrk exits with 1 after
// printing it.
func (t *tool) ask(ctx context.Context) string {
	if t.asks != "" {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		out, _ := exec.CommandContext(limited, t.Path, t.asks).CombinedOutput()
		if m := regexp.MustCompile(t.pattern).FindSubmatch(out); m != nil {
			return string(m[1])
		}
	}
	return "unknown"
}

// requestLength returns the length in bytes of the tool's requests for /simple: it captures one
// and stops the tool. The server's address has as many digits as any other here: free ports have
// five. Others may come earlier, and on the same connection: ceiling checks whether the server offers profiles.
func requestLength(ctx context.Context, t *tool) (int, error) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	var length atomic.Int64
	type key struct{}
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := r.Context().Value(key{}).(*counted).read.Swap(0); r.URL.Path == "/simple" && length.CompareAndSwap(0, n) {
				cancel()
			}
			_, _ = w.Write([]byte(`{"message":"hi"}`)) // the tool may have been stopped
		}),
	}
	go func() { _ = s.Serve(counting{l}) }() // until it is closed
	_, err = t.run(limited, job{URL: "http://" + l.Addr().String() + "/simple", Connections: 1, Pipelining: 1, Duration: time.Second})
	if length.Load() == 0 {
		return 0, errors.Join(errors.New("no request was seen"), err, s.Close())
	}
	return int(length.Load()), s.Close() // the tool's error only says that it was stopped early
}

// counting counts what is read from each connection.
type counting struct{ net.Listener }

type counted struct {
	net.Conn
	read atomic.Int64 // bytes since the last request
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &counted{Conn: c}, err
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}
