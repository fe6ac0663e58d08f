// Package race runs reverse proxies against each other on one machine: the same
// requests, the same backend, the same number of workers, the same fields added
// and the same lines logged, in turns, each as a process of its own. What is
// compared is CPU per request, by pairs from the same round; the rest of a row
// says whether that was bought with something else. Other cases take away the
// backend or the site, and count what still fails afterwards.
package race

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/ring"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// ErrUnknown marks a name of a contestant or a case that is none.
var ErrUnknown = errors.New("unknown")

// Config of a race. All of it has to be given but where a zero is explained.
type Config struct {
	// Rounds that count; one more goes before them and is thrown away.
	Rounds int
	// Duration of the closed loop of each contestant in each round, and of the
	// open loop.
	Duration time.Duration
	// Workers of each contestant; the backend and the generator have one thread.
	Workers     int
	Connections int
	// PerS is the rate of the open loops, requests per second.
	PerS int
	Seed uint64
	// Only are names of contestants, Cases of cases; none are all.
	Only, Cases []string
	// Program is this one, with the verbs serve, baseline and, of another program, proxy; Version is its.
	Program, Version string
	// Keep is a directory for configurations, logs of errors and raw samples; ""
	// keeps none.
	Keep string
	// Hold is how many idle connections are held; 0: 20,000, or as many as the limit
	// of open files allows.
	Hold int
	// Progress is called with what begins; nil: not called.
	Progress func(text string)
}

// A Case is what the contestants are raced at.
type Case struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Path  string `json:"path,omitempty"`
	// Bytes of the response's body.
	Bytes int `json:"bytes,omitempty"`
	// Forward: the three forwarding fields are added, and a log is written.
	Forward bool `json:"forward"`
	// Files: a file is served, and no backend is behind.
	Files bool `json:"files"`
	// GoWrk: the load is Go's own client, one goroutine a connection, as go-wrk
	// makes it.
	GoWrk bool `json:"go_wrk"`
	// Idle: connections are held, and what they take is measured.
	Idle bool `json:"idle"`
	// Outage names what happens to the backend or the site while requests go on; "": nothing.
	Outage string `json:"outage,omitempty"`
	// TLS: clients speak TLS 1.3. Handshakes: each request has a connection of its own.
	TLS        bool `json:"tls"`
	Handshakes bool `json:"handshakes"`
	// Streams at a time on each connection, of HTTP/2; 0: HTTP/1.1.
	Streams int `json:"streams,omitempty"`
	// PerS is the rate of its open loop where the race's would be too much; 0: it is not.
	PerS int `json:"open_per_s,omitempty"`
	// Limit of our CPU per request to nginx's, aimed at; 0 none.
	Limit float64 `json:"limit,omitempty"`
}

// Names of the outages.
const (
	outageKilled     = "killed"
	outageRestarted  = "restarted"
	outageCrash      = "crashing-page"
	outageRedeployed = "redeployed"
)

// Cases are all that there are.
func Cases() []Case {
	return []Case{
		{Name: "16", About: "16-byte answer, three forwarding fields and an access log", Path: "/bytes/16", Bytes: 16, Forward: true,
			Limit: 0.55},
		{Name: "4500", About: "4,500-byte answer, three forwarding fields and an access log", Path: "/bytes/4500", Bytes: 4500, Forward: true,
			Limit: 0.58},
		{Name: "16-bare", About: "16-byte response, no added headers, no log", Path: "/bytes/16", Bytes: 16, Limit: 0.52},
		{Name: "4500-bare", About: "4,500-byte response, no added headers, no log", Path: "/bytes/4500", Bytes: 4500, Limit: 0.52},
		{Name: "file", About: "a file of 268 bytes, no log", Path: "/page.html", Bytes: 268, Files: true, Limit: 0.40},
		{Name: "file-go-wrk", About: "the same file under a load like go-wrk's", Path: "/page.html", Bytes: 268, Files: true, GoWrk: true},
		{Name: "idle", About: "connections held idle while others are served", Path: "/bytes/16", Bytes: 16, Idle: true},
		{Name: "tls", About: "16-byte answer over TLS 1.3, no log", Path: "/bytes/16", Bytes: 16, TLS: true, Limit: 0.65},
		{Name: "tls-100k", About: "100,000-byte answer over TLS 1.3, no log", Path: "/bytes/100000", Bytes: 100_000, TLS: true, PerS: 1000,
			Limit: 0.9},
		{Name: "tls-handshakes", About: "16-byte answer over TLS 1.3, a connection for each request", Path: "/bytes/16", Bytes: 16, TLS: true,
			Handshakes: true, PerS: 200, Limit: 1.2},
		{Name: "h2", About: "16-byte answer over HTTP/2 and TLS 1.3, 16 streams, no log", Path: "/bytes/16", Bytes: 16, TLS: true, Streams: 16,
			Limit: 0.8},
		{Name: outageKilled, About: "the backend is killed, and is back after 2 s", Path: "/bytes/16", Bytes: 16, Outage: outageKilled},
		{Name: outageRestarted, About: "the backend restarts in order, and is back after 200 ms", Path: "/bytes/16", Bytes: 16,
			Outage: outageRestarted},
		{Name: outageCrash, About: "one page crashes the backend's worker, fifty times a second", Path: "/bytes/16", Bytes: 16, Outage: outageCrash},
		{Name: outageRedeployed, About: "a site is replaced: link swapped, directory moved, directory made again", Path: "/page.html", Bytes: 268,
			Files: true, Outage: outageRedeployed},
	}
}

func (k *Case) setup(workers int) Setup {
	return Setup{Workers: workers, Forward: k.Forward, Files: k.Files, TLS: k.TLS}
}

// chosen are the cases of these names.
func chosen(names []string) ([]Case, error) {
	var list []Case
	var known []string
	for _, k := range Cases() {
		known = append(known, k.Name)
		if len(names) == 0 || slices.Contains(names, k.Name) {
			list = append(list, k)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: no case %q; there are %s", ErrUnknown, name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// Run races. An error that wraps ErrUnknown names what the person has to change;
// any other means that nothing could be measured. What goes wrong with one
// contestant stands in its row.
func Run(ctx context.Context, c Config) (res *Result, err error) {
	cases, err := chosen(c.Cases)
	if err != nil {
		return nil, err
	}
	entrants, err := find(ctx, &c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ceiling-race-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Workers of nginx and h2o that root has started run as user nobody.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	r := &race{Config: c, dir: dir, entrants: entrants, result: &Result{
		Schema: Schema, Time: time.Now().UTC().Truncate(time.Second), Environment: record.ReadEnvironment(c.Version),
		Settings: Settings{Rounds: c.Rounds, DurationS: c.Duration.Seconds(), Workers: c.Workers, Connections: c.Connections, PerS: c.PerS,
			Seed: c.Seed},
		Entrants: entrants,
	}}
	if r.backend, err = run.StartChild(ctx, c.Program, "serve", "floor", "--addr", "127.0.0.1:0", "--workers", "1"); err != nil {
		return nil, err
	}
	defer r.backend.Stop()
	if r.site, err = newSite(); err != nil {
		return nil, err
	}
	begin := time.Now()
	for i := range cases {
		if err := r.do(ctx, &cases[i]); err != nil {
			return nil, err
		}
	}
	r.result.TookS = time.Since(begin).Seconds()
	r.result.conclude()
	return r.result, r.keep()
}

// race is one under way.
type race struct {
	Config
	dir      string
	entrants []*Entrant
	backend  *run.Child
	site     *site
	result   *Result
	samples  []Sample
}

func (r *race) say(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// A runner is a contestant that runs.
type runner struct {
	*Entrant
	row    *Row
	child  *run.Child
	addr   string
	dir    string
	target ring.Sockaddr
}

// do races one case: start all, look whether they do the same, then in turns.
func (r *race) do(ctx context.Context, k *Case) error {
	r.result.Cases = append(r.result.Cases, CaseResult{Case: *k})
	result := &r.result.Cases[len(r.result.Cases)-1]
	result.Rows = make([]Row, len(r.entrants)) // rows do not move: runners point to them
	var runners []*runner
	defer func() {
		for _, n := range runners {
			n.child.Stop()
		}
	}()
	for i, e := range r.entrants {
		row := &result.Rows[i]
		row.Name = e.Name
		if e.Missing != "" {
			row.NotRaced = e.Missing
			continue
		}
		r.say("%s: %s is started and checked", k.Name, e.Name)
		n, err := r.enter(ctx, e, k, row)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n != nil {
			runners = append(runners, n)
		}
		if err != nil {
			row.NotRaced = err.Error()
		}
	}
	runners = slices.DeleteFunc(runners, func(n *runner) bool {
		if n.row.NotRaced != "" {
			n.child.Stop()
		}
		return n.row.NotRaced != ""
	})
	switch {
	case k.Idle:
		return r.hold(ctx, k, runners)
	case k.Outage != "":
		return r.endure(ctx, k, runners)
	}
	from := len(r.samples)
	if err := r.rounds(ctx, k, runners); err != nil {
		return err
	}
	result.samples = r.samples[from:]
	return r.after(ctx, k, runners)
}

// errCannot is why a contestant is not raced at a case.
func (s *Setup) errCannot() error {
	if s.TLS {
		return errors.New("it is not configured for TLS here")
	}
	return errors.New("it serves no files")
}

// enter checks a contestant against the recording backend and starts it for the
// race. What it answers has to be stopped.
func (r *race) enter(ctx context.Context, e *Entrant, k *Case, row *Row) (*runner, error) {
	s := k.setup(r.Workers)
	config, hash, ok := e.Canonical(s)
	if !ok {
		return nil, s.errCannot()
	}
	row.Hash, row.Configuration = hash, config
	recorder, err := newRecording(k.Bytes)
	if err != nil {
		return nil, err
	}
	defer recorder.close()
	s.Backend = recorder.address()
	n, err := r.start(ctx, e, s, k.Name+"-check-"+strings.ReplaceAll(e.Name, " ", ""))
	if err != nil {
		return nil, err
	}
	if k.Files {
		err = checkFile(ctx, k, n.addr)
	} else {
		row.Forwards, err = check(ctx, e, k, r.dial(k), n.addr, recorder)
		row.Forwards = strings.ReplaceAll(row.Forwards, n.addr, "127.0.0.1:8080")
	}
	if err == nil && k.Forward {
		err = checkLog(ctx, n.dir)
	}
	n.child.Stop()
	if err != nil {
		return nil, fmt.Errorf("check failed: %w", err)
	}
	s.Backend = r.backend.Addr
	if n, err = r.start(ctx, e, s, k.Name+"-"+strings.ReplaceAll(e.Name, " ", "")); err != nil {
		return nil, err
	}
	n.row = row
	return n, nil
}

// startTries: somebody may take a port between our looking and a start.
const startTries = 3

// start writes a contestant's configuration and starts it.
func (r *race) start(ctx context.Context, e *Entrant, s Setup, name string) (n *runner, err error) {
	for range startTries {
		if n, err = r.startOnce(ctx, e, s, name); err == nil || ctx.Err() != nil {
			return n, err
		}
	}
	return nil, err
}

func (r *race) startOnce(ctx context.Context, e *Entrant, s Setup, name string) (*runner, error) {
	var err error
	s.Dir = filepath.Join(r.dir, name)
	if s.Listen, err = run.FreeAddress(); err != nil {
		return nil, err
	}
	if s.Files {
		s.Backend = ""
		if err := os.MkdirAll(filepath.Join(s.Dir, "site"), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(s.Dir, "site", "page.html"), servedFile(), 0o644); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if s.TLS {
		if err := r.site.write(s.Dir); err != nil {
			return nil, err
		}
	}
	config, ok := e.contestant.render(&s)
	if !ok {
		return nil, s.errCannot()
	}
	if config.File != "" {
		if err := os.WriteFile(filepath.Join(s.Dir, config.File), []byte(config.Text), 0o644); err != nil {
			return nil, err
		}
	}
	// As many files as the hard limit allows: shells hand down a smaller one.
	command := "ulimit -n $(ulimit -H -n); " + strings.ReplaceAll(config.Command, "{program}", "'"+strings.ReplaceAll(e.path, "'", `'\''`)+"'")
	child, _, err := run.StartServerAt(ctx, &spec.Server{Name: e.Name, Serve: command}, s.Listen)
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(s.Listen)
	if err != nil {
		child.Stop()
		return nil, err
	}
	return &runner{Entrant: e, child: child, addr: s.Listen, dir: s.Dir, target: ring.TCPAddr(at)}, nil
}

// answered asks the backend how many answers it has made.
func (r *race) answered() (n uint64, err error) {
	c, err := net.DialTimeout("tcp", r.backend.Addr, checkPatience)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(checkPatience)); err != nil {
		return 0, err
	}
	if _, err := c.Write(requestBytes(question{"GET", "/answered", ""}, r.backend.Addr)); err != nil {
		return 0, err
	}
	_, body, err := readAnswer(newReader(c), "GET")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(body), 10, 64)
}

// quiet hears an engine's reports and keeps none.
type quiet struct{}

func (quiet) Connected(int, int, time.Time) {}
func (quiet) Window(bool, time.Time)        {}
func (quiet) Interval(*load.Tally, bool)    {}
