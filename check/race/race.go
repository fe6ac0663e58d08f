// Package race runs reverse proxies against each other on one machine: the same
// requests, the same backend, the same number of workers, the same fields added
// and the same lines logged, in turns, each as a process of its own. What is
// compared is CPU per request, by pairs from the same round; the rest of a row
// says whether that was bought with something else. Other cases take away the
// backend or the site, and count what still fails afterwards.
package race

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/text"
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
func Cases() (list []Case) {
	text, err := configurations.ReadFile("cases.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		panic(err) // the file is part of the program
	}
	return list
}

func casesOf(names []string) ([]*Case, error) {
	return chosen("case", Cases(), func(k *Case) string { return k.Name }, names)
}

// Run races. An error that wraps ErrUnknown names what the person has to change;
// any other means that nothing could be measured. What goes wrong with one
// contestant stands in its row.
func Run(ctx context.Context, c Config) (res *Result, err error) {
	cases, err := casesOf(c.Cases)
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
	r := &race{Config: c, dir: dir, result: &Result{
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
	for _, k := range cases {
		if err := r.do(ctx, k); err != nil {
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
	dir     string
	backend *run.Child
	site    *site
	result  *Result
	samples []Sample
}

func (r *race) say(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// A runner is a contestant that runs.
type runner struct {
	*Contestant
	row   *Row
	child *run.Child
	addr  string
	dir   string
}

// do races one case: start all, look whether they do the same, then in turns.
func (r *race) do(ctx context.Context, k *Case) error {
	r.result.Cases = append(r.result.Cases, CaseResult{Case: *k})
	result := &r.result.Cases[len(r.result.Cases)-1]
	result.Rows = make([]Row, len(r.result.Entrants)) // rows do not move: runners point to them
	var runners []*runner
	defer func() {
		for _, n := range runners {
			n.child.Stop()
		}
	}()
	for i, e := range r.result.Entrants {
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
		if err != nil {
			row.NotRaced = err.Error()
			continue
		}
		runners = append(runners, n)
	}
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
	return nil
}

// enter checks a contestant against the recording backend and starts it for the
// race. What it answers has to be stopped.
func (r *race) enter(ctx context.Context, e *Contestant, k *Case, row *Row) (n *runner, err error) {
	s := Setup{Case: *k, Workers: r.Workers}
	if row.Configuration, row.Hash, err = e.Canonical(s); err != nil {
		return nil, err
	}
	recorder, err := newRecording(k.Bytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = recorder.close() }() // its connections are gone either way
	s.Backend = recorder.addr
	if n, err = r.start(ctx, e, s, "-check"); err != nil {
		return nil, err
	}
	c, err := r.dial(ctx, k, n.addr)
	if err == nil {
		if k.Files {
			err = checkFile(c, k, n.addr)
		} else {
			row.Forwards, err = check(c, e, k, n.addr, recorder)
			row.Forwards = strings.ReplaceAll(row.Forwards, n.addr, "127.0.0.1:8080")
		}
		err = errors.Join(err, c.Close())
	}
	if err == nil && k.Forward {
		err = checkLog(ctx, n.dir)
	}
	n.child.Stop()
	if err != nil {
		return nil, fmt.Errorf("check failed: %w", err)
	}
	s.Backend = r.backend.Addr
	if n, err = r.start(ctx, e, s, ""); err == nil {
		n.row = row
	}
	return n, err
}

// startTries: somebody may take a port between our looking and a start.
const startTries = 3

// start writes a contestant's configuration into a directory of the race, and starts it.
func (r *race) start(ctx context.Context, e *Contestant, s Setup, use string) (n *runner, err error) {
	s.Dir = filepath.Join(r.dir, s.Name+use+"-"+strings.ReplaceAll(e.Name, " ", ""))
	if err := os.MkdirAll(filepath.Join(s.Dir, "site"), 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(s.Dir, "site", "page.html"), servedFile(), 0o644), r.site.write(s.Dir)); err != nil {
		return nil, err
	}
	for range startTries {
		if n, err = r.startOnce(ctx, e, s); err == nil || ctx.Err() != nil {
			break
		}
	}
	return n, err
}

func (r *race) startOnce(ctx context.Context, e *Contestant, s Setup) (*runner, error) {
	var err error
	if s.Listen, err = run.FreeAddress(); err != nil {
		return nil, err
	}
	config, err := e.render(&s)
	if err == nil && config.File != "" {
		err = os.WriteFile(filepath.Join(s.Dir, config.File), []byte(config.Text), 0o644)
	}
	if err != nil {
		return nil, err
	}
	// As many files as the hard limit allows: shells hand down a smaller one.
	command := "ulimit -n $(ulimit -H -n); " + strings.ReplaceAll(config.Command, "{program}", text.Word(e.path))
	child, _, err := run.StartServerAt(ctx, &spec.Server{Name: e.Name, Serve: command}, s.Listen)
	if err != nil {
		return nil, err
	}
	return &runner{Contestant: e, child: child, addr: s.Listen, dir: s.Dir}, nil
}

// answered asks the backend how many answers it has made.
func (r *race) answered() (n uint64, err error) {
	c, err := net.DialTimeout("tcp", r.backend.Addr, checkPatience)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, body, err := exchange(c, requestBytes(question{"GET", "/answered", ""}, r.backend.Addr), checkPatience)
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
