// Package regimes measures what kinds of work cost on this machine: the same server answers from memory, computes, reads
// from a database and writes to it, and the ladder of their rates says what a million requests per second is a number of.
//
// Each regime is measured by closed-loop runs on CPUs that the generator does not use, and by an open loop at 70% of
// their median, whose p99 is what a service at a sensible load would show.
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
	Name   string // unique, for a person to choose
	Source string // of --db; "" is none
	Faults string // of --downstream; "" is none
	Bucket string // of --kv; "" is none
	Push   string // of --push; "" is none. The unit is then events received, and all connections subscribe
	Flags  []string
	Method string
	Path   string
	About  string // what a request does

	// Connections that saturate it without a queue that takes seconds.
	Connections int
	// Outage: not the highest rate is asked for, but what is answered after an outage.
	Outage bool
	// Trips is the number of round trips to the database's process that a request makes by its statements; of a group
	// it is divided by the writes of a commit. 0: there is no other process.
	Trips float64
}

const (
	usual = 64
	few   = 8 // where a request takes milliseconds of CPU

	// callFaults is a service of 10,000 calls/s of which one in ten fails, outageFaults one of 400/s that stalls once.
	callFaults   = "fail=10%,slow=1%:20ms,timeout=500ms"
	outageFaults = "work=10ms,slots=4,timeout=60ms,outage=700ms"
)

// All returns the regimes in the order in which they are measured: those of one server follow each other.
func All() []Regime {
	list := []Regime{
		{Name: "memory-16B", Path: "/simple", About: "answer 16 bytes from memory", Connections: usual},
		{Name: "memory-4.5KB", Path: "/read", About: "answer one of 500 products from memory, 4.5 KB", Connections: usual},
		{Name: "memory-110KB", Path: "/list", About: "answer 20 to 30 products from memory, 110 KB", Connections: usual},
		{Name: "compute", Path: "/compute", About: "sort and sum up 100 prices", Connections: usual},
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
	for _, n := range []int{100, 1000} {
		list = append(list, Regime{
			Name: fmt.Sprintf("push-%d", n), Push: pushOptions("max", n), Path: "/events", Connections: n,
			About: fmt.Sprintf("one event of 200 bytes to %d subscribers, as many events as can be", n),
		})
	}
	for i := range list {
		if list[i].Method == "" {
			list[i].Method = "GET"
		}
	}
	return list
}

// pushOptions publish at a rate once n have subscribed; slow subscribers hold the publisher up, so none misses an event.
func pushOptions(rate string, n int) string {
	return fmt.Sprintf("rate=%s,slow=block,queue=8,await=%d", rate, n)
}

// calls are the regimes of a service that fails.
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

// quorumName and delayedName are two regimes that differ by their delay alone.
const (
	quorumName  = "kv-quorum"
	delayedName = "kv-quorum-1ms"
	delayed     = time.Millisecond
)

// buckets are the regimes of replicas. So few connections do not hide the time that a quorum takes.
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

// ErrUnknown wraps the name of a regime or server that there is not.
var ErrUnknown = errors.New("unknown")

// Config says how to measure. All fields but Progress have to be set.
type Config struct {
	Program  string // this program, which serves too
	Server   string // kind of server: nethttp, fasthttp, fiber
	Only     []string
	Rounds   int           // closed-loop runs of each regime
	Duration time.Duration // of each run
	Keep     string        // directory for the records of all runs; "" keeps none
	Version  string
	Progress func(line string) // nil: nobody watches
}

// What is measured, in the words of the ladder.
type (
	Result = ladder.Ladder
	Row    = ladder.Row
)

// headroomLeast is what a generator needs for its own limit to be out of the way.
const headroomLeast = 2

// Measure measures the regimes, one after the other. It leaves nothing running.
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

// chosen are the regimes that Only names, or all.
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

// Names of all regimes.
func Names() []string {
	var names []string
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return names
}

// available says why a regime cannot be measured here, or "".
func available(r *Regime) string {
	if r.Source == "postgres" {
		if _, err := store.Installed(); err != nil {
			return "PostgreSQL's server is not installed: apt-get install postgresql"
		}
	}
	return ""
}
