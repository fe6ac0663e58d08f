package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	// The floor, with waits for one completion and for eight.
	floorOne   = "floor"
	floorEight = "floor, 8 at once"
)

// A job is the load that a tool generates.
type job struct {
	URL         string
	Connections int
	Pipelining  int
	Duration    time.Duration // whole seconds
	// PerS is the rate of an open loop, requests per second; 0: closed.
	PerS int
	// HTTP2 over TLS, with Pipelining streams per connection.
	HTTP2 bool
	// CPUs of the tool; nil: all.
	CPUs []int
}

// secure reports whether the job uses TLS, with an untrusted certificate.
func (j *job) secure() bool { return strings.HasPrefix(j.URL, "https:") }

func (j *job) seconds() string { return strconv.Itoa(int(j.Duration / time.Second)) }

// A tool is an installed load generator.
type tool struct {
	Name    string
	Path    string
	Version string
	arguments
	parse func([]byte) (answer, error)
}

// arguments returns the command line of a job; false if the tool cannot do it. dir is the tool's
// own for this job.
type arguments func(j job, dir string) ([]string, bool)

// kind is what is known about a tool before it is found.
type kind struct {
	name string
	// version is the argument that prints the version, matched by the pattern. hey has none.
	version string
	pattern *regexp.Regexp
	arguments
	parse func([]byte) (answer, error)
}

func kinds() []kind {
	return []kind{
		{ours, "--version", regexp.MustCompile(`version (\S+)`), ourArguments, parseOurs},
		{wrk, "-v", regexp.MustCompile(`wrk (\S+)`), onlyHTTP1(wrkArguments), peer(importer.Wrk)},
		{h2load, "--version", regexp.MustCompile(`nghttp2/(\S+)`), h2loadArguments, peer(importer.H2load)},
		{gcannon, "", nil, onlyHTTP1(gcannonArguments), parseGcannon},
		{"ab", "-V", regexp.MustCompile(`Version (\S+)`), onlyHTTP1(abArguments), parseAb},
		{"oha", "--version", regexp.MustCompile(`oha (\S+)`), onlyHTTP1(ohaArguments), peer(importer.Oha)},
		{"hey", "", nil, onlyHTTP1(heyArguments), peer(importer.Hey)},
		{autocannon, "--version", regexp.MustCompile(`autocannon v(\S+)`), onlyHTTP1(autocannonArguments), parseAutocannon},
	}
}

// onlyHTTP1 restricts a tool to HTTP/1.1.
func onlyHTTP1(of arguments) arguments {
	return func(j job, dir string) ([]string, bool) {
		args, able := of(j, dir)
		return args, able && !j.HTTP2
	}
}

// findTools looks for the other tools in PATH. Ours is the binary, which must exist.
func findTools(ctx context.Context, binary string) ([]tool, error) {
	var list []tool
	for _, k := range kinds() {
		name := k.name
		if k.name == ours {
			name = binary
		}
		path, err := exec.LookPath(name)
		if err != nil && k.name == ours {
			return nil, fmt.Errorf("%w; make build makes it", err)
		}
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		list = append(list, tool{k.name, path, k.ask(ctx, path), k.arguments, k.parse})
	}
	return list, nil
}

// ask returns the tool's version, or "unknown". It ignores the exit code: wrk exits with 1 after
// printing it.
func (k *kind) ask(ctx context.Context, path string) string {
	if k.version != "" {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		out, _ := exec.CommandContext(limited, path, k.version).CombinedOutput()
		if m := k.pattern.FindSubmatch(out); m != nil {
			return string(m[1])
		}
	}
	return "unknown"
}

// Every tool gets one thread if that can be configured. oha cannot: it uses every CPU. autocannon
// uses one thread by default.

// ourArguments omits the warm-up: the whole process's CPU is divided by the whole process's
// requests.
func ourArguments(j job, dir string) ([]string, bool) {
	args := []string{"run", "--json", "-t", "1", "-c", strconv.Itoa(j.Connections), "-p", strconv.Itoa(j.Pipelining),
		"-d", j.Duration.String(), "--warmup", "0s", "-o", filepath.Join(dir, "record")}
	if j.PerS > 0 {
		args = append(args, "-R", strconv.Itoa(j.PerS))
	}
	if j.secure() {
		args = append(args, "--insecure")
	}
	if j.HTTP2 {
		args = append(args, "--http", "2")
	}
	return append(args, j.URL), true
}

// wrkArguments expects the pipelining script in dir, where run puts it.
func wrkArguments(j job, dir string) ([]string, bool) {
	args := []string{"-t1", "-c" + strconv.Itoa(j.Connections), "-d" + j.seconds() + "s"}
	if j.Pipelining > 1 {
		args = append(args, "-s", filepath.Join(dir, pipelineName), j.URL, "--", strconv.Itoa(j.Pipelining))
	} else {
		args = append(args, j.URL)
	}
	return args, j.PerS == 0
}

func h2loadArguments(j job, _ string) ([]string, bool) {
	if j.HTTP2 {
		return []string{"-t1", "-c" + strconv.Itoa(j.Connections), "-m" + strconv.Itoa(j.Pipelining), "-D" + j.seconds(), j.URL}, j.PerS == 0
	}
	return []string{"--h1", "-t1", "-c" + strconv.Itoa(j.Connections), "-D" + j.seconds(), j.URL}, j.Pipelining == 1 && j.PerS == 0
}

// abArguments sets -l, since the responses of /read differ in length, and a number of requests
// that no run here reaches: ab would end at 50,000, and it reserves 32 bytes of address space for
// each.
func abArguments(j job, _ string) ([]string, bool) {
	args := []string{"-k", "-l", "-q", "-c", strconv.Itoa(j.Connections), "-t", j.seconds(), "-n", "50000000", j.URL}
	return args, j.Pipelining == 1 && j.PerS == 0
}

// gcannonArguments pipelines at most 64 requests, its limit.
func gcannonArguments(j job, _ string) ([]string, bool) {
	args := []string{j.URL, "-t", "1", "-c", strconv.Itoa(j.Connections), "-d", j.seconds() + "s", "-p", strconv.Itoa(j.Pipelining), "--json"}
	return args, j.Pipelining <= 64 && j.PerS == 0 && !j.secure()
}

func ohaArguments(j job, _ string) ([]string, bool) {
	args := []string{"--no-tui", "--output-format", "json", "-c", strconv.Itoa(j.Connections), "-z", j.seconds() + "s"}
	if j.PerS > 0 {
		args = append(args, "-q", strconv.Itoa(j.PerS))
	}
	if j.secure() {
		args = append(args, "--insecure")
	}
	return append(args, j.URL), j.Pipelining == 1
}

// heyArguments divides the rate: hey's is per connection.
func heyArguments(j job, _ string) ([]string, bool) {
	args := []string{"-cpus", "1", "-c", strconv.Itoa(j.Connections), "-z", j.seconds() + "s"}
	if j.PerS > 0 {
		args = append(args, "-q", strconv.Itoa(j.PerS/j.Connections))
	}
	return append(args, j.URL), j.Pipelining == 1 && j.PerS%j.Connections == 0
}

func autocannonArguments(j job, _ string) ([]string, bool) {
	args := []string{"--json", "-c", strconv.Itoa(j.Connections), "-p", strconv.Itoa(j.Pipelining), "-d", j.seconds()}
	if j.PerS > 0 {
		args = append(args, "-R", strconv.Itoa(j.PerS))
	}
	return append(args, j.URL), true
}

// floorTools are the floor, as if it were two tools.
func floorTools(path string) []tool {
	return []tool{
		{floorOne, path, "floor.c", floorArguments(1), parseFloor},
		{floorEight, path, "floor.c", floorArguments(8), parseFloor},
	}
}

func floorArguments(gather int) arguments {
	return onlyHTTP1(func(j job, _ string) ([]string, bool) {
		to, err := url.Parse(j.URL)
		if err != nil || j.PerS > 0 || j.secure() {
			return nil, false
		}
		return []string{
			to.Port(), to.Path, strconv.Itoa(j.Connections), strconv.Itoa(j.Pipelining), j.seconds(), strconv.Itoa(gather),
		}, true
	})
}
