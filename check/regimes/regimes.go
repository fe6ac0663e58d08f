// Package regimes measures the cost of kinds of work on this machine: the same server responds
// from memory, computes, reads from a database and writes to it. The ladder of their rates puts a
// million requests per second into perspective.
//
// Each regime is measured by closed-loop runs on CPUs that the generator does not use, and by an
// open loop at 70% of their median, whose p99 is that of a service at a sensible load.
package regimes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ceiling/measure/run"
	"ceiling/server/downstream"
	"ceiling/server/store"
	"ceiling/show/ladder"
)

// A Regime is a kind of work.
type Regime struct {
	Name   string // unique, for selection
	Source string // of --db; "" for none
	Faults string // of --downstream; "" for none
	Bucket string // of --kv; "" for none
	Flags  []string
	Method string
	Path   string
	About  string // what a request does

	// Connections is enough to saturate it without queueing for seconds.
	Connections int
	// Outage marks a regime that measures recovery from an outage instead of the highest rate.
	Outage bool
	// Trips is the number of round trips to the database process per request; for a group commit,
	// divided by the writes per commit. 0: no separate process.
	Trips float64
}

const (
	usual = 64
	few   = 8 // for requests that take milliseconds of CPU

	// callFaults is a service of 10,000 calls/s with a 10% failure rate, outageFaults one of
	// 400/s that stalls once.
	callFaults   = "fail=10%,slow=1%:20ms,timeout=500ms"
	outageFaults = "work=10ms,slots=4,timeout=60ms,outage=700ms"
)

// All returns the regimes in measurement order: those of one server are consecutive.
func All() []Regime {
	list := []Regime{
		{Name: "memory-16B", Path: "/simple", About: "answer 16 bytes from memory", Connections: usual},
		{Name: "memory-4.5KB", Path: "/read", About: "answer one of 500 products from memory, 4.5 KB", Connections: usual},
		{Name: "memory-110KB", Path: "/list", About: "answer 20 to 30 products from memory, 110 KB", Connections: usual},
		{Name: "compute", Path: "/compute", About: "sort, count and encode 100 products", Connections: usual},
	}
	for _, db := range []struct {
		name, source string
		trips        float64
	}{{"sqlite", "sqlite", 0}, {"postgres", "postgres", 1}} {
		add := func(name, method, path, about string, connections int, flags ...string) {
			list = append(list, Regime{
				Name: db.name + "-" + name, Source: db.source, Flags: flags, Method: method, Path: "/db/" + path, About: about,
				Connections: connections, Trips: db.trips,
			})
		}
		add("row", "GET", "row", "SELECT by primary key, 4.5 KB", usual)
		add("range", "GET", "range", "SELECT of 20 neighbours by primary key, 80 KB", usual)
		add("scan", "GET", "scan", "aggregate over all 10,000 rows", few)
		add("insert", "POST", "insert", "INSERT, durable", usual)
		add("counter", "POST", "counter", "UPDATE of one row for all, durable", usual)
		add("group", "POST", "group", "INSERT, durable, 64 or 2 ms a commit", usual)
		add("async", "POST", "async", "INSERT, answered before it is durable", usual)
		add("unprepared", "GET", "row", "SELECT by primary key, parsed each time", usual, "--db-unprepared")
		add("nosync", "POST", "insert", "INSERT, without waiting for the disk", usual, "--db-nosync")
	}
	list = append(append(list, calls()...), buckets()...)
	for i := range list {
		if list[i].Method == "" {
			list[i].Method = "GET"
		}
	}
	return list
}

// calls are the regimes of a failing service.
func calls() (list []Regime) {
	for _, p := range downstream.Policies() {
		list = append(list, Regime{
			Name: "call-" + p.Name, Faults: callFaults, Path: "/call/" + p.Name, Connections: usual, About: p.About + "; 10% of the calls fail",
		})
	}
	for _, policy := range []string{"retry", "budget"} {
		list = append(list, Regime{
			Name: "outage-" + policy, Faults: outageFaults, Path: "/call/" + policy, Connections: usual, Outage: true,
			About: "200 requests/s to a service of 400/s, after it stalled for 0.7 s",
		})
	}
	return list
}

// quorumName and delayedName are two regimes that differ only in their delay.
const (
	quorumName  = "kv-quorum"
	delayedName = "kv-quorum-1ms"
	delayed     = time.Millisecond
)

// buckets are the regimes of replicas. They use few connections, so that the quorum's latency is
// not hidden.
func buckets() []Regime {
	return []Regime{
		{Name: "kv-one", Bucket: "own", Method: "PUT", Path: "/kv/*", Connections: few, About: "write of a key, one replica"},
		{Name: "kv-mirror", Bucket: "mirror=yes", Method: "PUT", Path: "/kv/*", Connections: few,
			About: "write of a key, one replica, mirrored asynchronously"},
		{Name: quorumName, Bucket: "replicas=3", Method: "PUT", Path: "/kv/*", Connections: few, About: "write of a key, two of three replicas have it"},
		{Name: "kv-read", Bucket: "replicas=3", Path: "/kv/*", Connections: few, About: "linearizable read of a key, confirmed by two of three replicas"},
		{Name: delayedName, Bucket: "replicas=3,delay=" + delayed.String(), Method: "PUT", Path: "/kv/*", Connections: few,
			About: "the same write, with 1 ms from replica to replica"},
	}
}

// ErrUnknown wraps the name of an unknown regime or server.
var ErrUnknown = errors.New("unknown")

// Config configures the measurement. All fields but Progress are required.
type Config struct {
	Program  string // this program, which also serves
	Server   string // kind of server: nethttp, fasthttp, fiber
	Only     []string
	Rounds   int           // closed-loop runs of each regime
	Duration time.Duration // of each run
	Keep     string        // directory for the records of all runs; "" for none
	Version  string
	Progress func(line string) // may be nil
}

// The types of the ladder.
type (
	Result = ladder.Ladder
	Row    = ladder.Row
)

// headroomLeast is the headroom at which the generator's own limit does not matter.
const headroomLeast = 2

// Measure measures the regimes in sequence. It leaves nothing running.
func Measure(ctx context.Context, c Config) (*Result, error) {
	list, err := c.chosen()
	if err != nil {
		return nil, err
	}
	records := c.Keep
	if records == "" {
		if records, err = os.MkdirTemp("", "ceiling-regimes-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(records)
	}
	m := &measurement{Config: c, records: records, result: &Result{
		Schema: ladder.Schema, Created: time.Now(), Version: c.Version, Server: c.Server, Rounds: c.Rounds, DurationS: c.Duration.Seconds(),
		Databases: map[string]string{},
	}}
	split, err := run.SplitForOwn(usual)
	m.result.CPUs = "generator and server share their CPUs"
	if err == nil {
		m.split, m.result.CPUs = split, split.String()
	}
	defer m.stop()
	for i := range list {
		if err := m.regime(ctx, &list[i], i, len(list)); err != nil {
			return nil, err
		}
	}
	predict(m.result)
	sortRows(m.result)
	if first := &m.result.Rows[0]; first.NotMeasured != "" {
		return nil, fmt.Errorf("no regime can be measured: %s: %s", first.Regime, first.NotMeasured)
	}
	return m.result, nil
}

// chosen returns the regimes in Only, or all.
func (c *Config) chosen() ([]Regime, error) {
	if len(c.Only) == 0 {
		return All(), nil
	}
	var list []Regime
	for _, name := range c.Only {
		found := false
		for _, r := range All() {
			if r.Name == name || strings.HasPrefix(r.Name, name+"-") {
				list, found = append(list, r), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%w regime %q; there are %s", ErrUnknown, name, strings.Join(Names(), ", "))
		}
	}
	return list, nil
}

// Names returns the names of all regimes.
func Names() []string {
	var names []string
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return names
}

// available returns why a regime cannot be measured here, or "".
func available(r *Regime) string {
	if r.Source == "postgres" {
		if _, err := store.Installed(); err != nil {
			return "PostgreSQL's server is not installed: apt-get install postgresql"
		}
	}
	return ""
}
