package regimes

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/stat"
	"ceiling/record"
	"ceiling/server"
	"ceiling/server/downstream"
	"ceiling/server/quorum"
	"ceiling/server/store"
	"ceiling/show/ladder"
	"ceiling/show/page"
)

// Every regime asks for a route that the servers have, by the method that it takes.
func TestRegimesAreRoutes(t *testing.T) {
	writes := map[string]bool{"/kv/*": true}
	for _, r := range server.Routes() {
		writes[r.Path] = r.Writes
	}
	for _, r := range slices.Concat(store.Routes(nil), downstream.Routes(nil)) {
		writes[r.Path] = r.Writes
	}
	seen := map[string]bool{}
	for _, r := range All() {
		writes, known := writes[r.Path]
		if !known || seen[r.Name] || r.About == "" || r.Connections < 1 {
			t.Errorf("%+v", r)
		}
		if (r.Method == "POST") != writes && r.Bucket == "" {
			t.Errorf("%s: %s %s", r.Name, r.Method, r.Path)
		}
		if strings.HasPrefix(r.Path, "/db/") != (r.Source != "") || strings.HasPrefix(r.Path, "/call/") != (r.Faults != "") ||
			strings.HasPrefix(r.Path, "/kv/") != (r.Bucket != "") {
			t.Errorf("%s: %s from %q", r.Name, r.Path, r.Source)
		}
		seen[r.Name] = true
	}
}

func TestChosen(t *testing.T) {
	for _, test := range []struct {
		only []string
		want int
	}{{nil, len(All())}, {[]string{"memory"}, 3}, {[]string{"compute", "sqlite-row"}, 2}, {[]string{"sqlite"}, 9}} {
		if list, err := (&Config{Only: test.only}).chosen(); len(list) != test.want || err != nil {
			t.Errorf("%v: %d regimes, %v", test.only, len(list), err)
		}
	}
	for _, name := range []string{"", "mem", "sqlite-ro", "memory-16b"} {
		if _, err := (&Config{Only: []string{name}}).chosen(); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func runAt(perS, headroom float64, outcome record.Outcome, b record.Bottleneck) *record.Run {
	return &record.Run{
		Rate: record.Rate{CompletedPerS: perS}, Requests: record.Requests{Completed: 10}, Bytes: record.Bytes{Read: 1430},
		Generator: record.Generator{Headroom: headroom}, Subject: &record.Subject{CPUNsPerRequest: perS},
		Verdict: record.Verdict{Outcome: outcome, Bottleneck: b},
	}
}

// The rate is the median of all runs; what explains it is of the run that had it.
func TestRowIsOfTheRunInTheMiddle(t *testing.T) {
	runs := []*record.Run{
		runAt(300, 9, record.Valid, record.ServerBlocked), runAt(100, 9, record.Invalid, record.LoadGenerator),
		runAt(200, 1.5, record.Valid, record.ServerCPU),
	}
	var row Row
	if err := judge(&row, runs); err != nil {
		t.Fatal(err)
	}
	if row.PerS.Value != 200 || row.PerS.Low != 100 || row.PerS.High != 300 || row.Bottleneck != string(record.ServerCPU) || row.Failed != 1 {
		t.Errorf("%+v", row)
	}
	if row.Cost.Bytes != 143 || row.Cost.ServerCPUNs != 200 {
		t.Errorf("%+v", row.Cost)
	}
	if row.Headroom != 1.5 || !strings.Contains(row.Caveat, "1.5×, below 2×") {
		t.Errorf("headroom %v: %s", row.Headroom, row.Caveat)
	}
	row = Row{}
	busy := runAt(1, 0, record.Valid, record.ServerCPU)
	busy.Generator.BusiestWorker = 0.25
	if headroom(&row, busy); row.Headroom != 4 || row.Caveat != "" {
		t.Errorf("by the busiest thread %v: %s", row.Headroom, row.Caveat)
	}
	row = Row{}
	if headroom(&row, runAt(1, 0, record.Valid, record.ServerCPU)); row.Caveat == "" {
		t.Error("an unknown headroom goes unsaid")
	}
}

func TestCostOfDatabase(t *testing.T) {
	off := store.About{Settings: []store.Setting{{Name: "synchronous", Value: "OFF"}}}
	first := store.Status{Commits: 10, Writes: 100, WALSyncs: 1000}
	for _, test := range []struct {
		name          string
		r             Regime
		last          store.Status
		fsyncs, trips float64 // NaN: none
	}{
		{"sqlite write", Regime{Source: "sqlite", Method: "POST"}, store.Status{Commits: 20, Writes: 120}, 0.5, math.NaN()},
		{"sqlite without sync", Regime{Source: "sqlite", Method: "POST"}, store.Status{About: off, Commits: 20, Writes: 120}, 0, math.NaN()},
		{"postgres group", Regime{Source: "postgres", Method: "POST", Trips: 1}, store.Status{Commits: 11, Writes: 110, WALSyncs: 1005}, 0.5, 0.1},
		{"postgres read", Regime{Source: "postgres", Method: "GET", Trips: 1}, first, math.NaN(), 1},
		{"sqlite read", Regime{Source: "sqlite", Method: "GET"}, first, math.NaN(), math.NaN()},
	} {
		var row Row
		row.PerS.Value = 1000
		costOfDatabase(&row, &test.r, &first, &test.last)
		figure := func(p *float64) float64 {
			if p == nil {
				return math.NaN()
			}
			return *p
		}
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if got := figure(row.Cost.Fsyncs); !same(got, test.fsyncs) || !same(figure(row.Cost.FsyncsPer), 1000*test.fsyncs) {
			t.Errorf("%s: %v fsyncs a request, want %v", test.name, got, test.fsyncs)
		}
		if got := figure(row.Cost.RoundTrips); !same(got, test.trips) {
			t.Errorf("%s: %v round trips, want %v", test.name, got, test.trips)
		}
	}
}

func TestCostOfBucket(t *testing.T) {
	var row Row
	costOfBucket(&row, &quorum.Status{Writes: 10, Reads: 5, Commits: 12, Trips: 20, CommitNs: 1000},
		&quorum.Status{Writes: 30, Reads: 25, Commits: 42, Trips: 60, CommitNs: 7000})
	if c := row.Cost; *c.Commits != 0.75 || *c.RoundTrips != 1 || *c.CommitNs != 200 {
		t.Errorf("%v commits, %v trips, %v ns", *c.Commits, *c.RoundTrips, *c.CommitNs)
	}
	row = Row{}
	if costOfBucket(&row, &quorum.Status{}, &quorum.Status{}); row.Cost.Commits != nil {
		t.Error("a cost of no requests")
	}
}

// A quorum's round trip of 2 ms is predicted from the same work without the delay.
func TestPredict(t *testing.T) {
	perS := func(low, high float64) stat.Estimate {
		return stat.Estimate{Value: (low + high) / 2, Interval: stat.Interval{Low: low, High: high}}
	}
	for _, test := range []struct {
		measured stat.Estimate
		holds    bool
	}{{perS(1800, 2200), true}, {perS(3900, 4200), true}, {perS(4100, 4200), false}, {perS(1000, 1900), false}} {
		r := Result{Rows: []Row{{Regime: delayedName, PerS: test.measured}, {Regime: quorumName, PerS: perS(4000, 4400)}}}
		predict(&r)
		p := r.Rows[0].Predicted
		if p == nil || p.Low != 2000 || p.High != 4000 || p.Holds(&r.Rows[0].PerS) != test.holds {
			t.Errorf("%+v: %+v", test.measured, p)
		}
	}
	r := Result{Rows: []Row{{Regime: delayedName, PerS: perS(1, 2)}}}
	if predict(&r); r.Rows[0].Predicted != nil {
		t.Error("predicted from nothing")
	}
}

// An outage is named by what is answered long after it, and not by what it costs while it lasts.
func TestNameOutage(t *testing.T) {
	for _, test := range []struct {
		late int64 // of 300 requests
		want string
	}{{0, metastable}, {140, metastable}, {160, recovered}, {300, recovered}} {
		at := [4]downstream.Status{{}, {Requests: 200, Answered: 200, Calls: 200}, {Requests: 700, Answered: 200, Calls: 1700},
			{Requests: 1000, Answered: 200 + test.late, Calls: 2600}}
		var row Row
		costOfCalls(&row, &at[2], &at[3])
		if err := nameOutage(&row, at); err != nil {
			t.Fatal(err)
		}
		if row.Bottleneck != test.want || *row.Cost.RoundTrips != 3 || row.PerS.Value != float64(test.late)/1.5 {
			t.Errorf("%d answered: %+v", test.late, row)
		}
		if !strings.HasPrefix(row.Reason, "100% of the requests were answered before the outage") {
			t.Error(row.Reason)
		}
	}
	var ill Row
	if err := nameOutage(&ill, [4]downstream.Status{{}, {Requests: 200, Answered: 10}, {Requests: 700}, {Requests: 1000}}); err != nil ||
		ill.Bottleneck != string(record.Inconclusive) {
		t.Errorf("a service that was down before: %s, %v", ill.Bottleneck, err)
	}
}

// A server that does not start is no ladder; where others do it is a row that says why.
func TestServerDoesNotStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the disk is full >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Config{Program: program, Server: "nethttp", Only: []string{"compute", "sqlite-row"}, Rounds: 1, Duration: time.Second, Keep: t.TempDir()}
	if _, err := Measure(t.Context(), c); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%v", err)
	}
	m := &measurement{Config: c, result: &Result{}}
	list, err := c.chosen()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := m.regime(t.Context(), &list[i], i, len(list)); err != nil {
			t.Fatal(err)
		}
	}
	if rows := m.result.Rows; len(rows) != 2 || !strings.Contains(rows[1].NotMeasured, "the disk is full") {
		t.Errorf("%+v", rows)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.regime(ended, &list[0], 0, 1); err == nil {
		t.Error("it goes on after its end")
	}
}

func sample(t *testing.T) *Result {
	t.Helper()
	r := &Result{Server: "fasthttp", CPUs: "generator on CPU 0, server on CPU 1", Rounds: 1, DurationS: 1,
		Databases: map[string]string{"sqlite": "SQLite 3"}}
	for _, perS := range []float64{10, 1000, 100} {
		row := Row{Regime: "slow", Request: "GET /", About: "wait"}
		if err := judge(&row, []*record.Run{runAt(perS, 1, record.Valid, record.ServerCPU)}); err != nil {
			t.Fatal(err)
		}
		row.At70 = &ladder.Latency{P99Ns: 5e6, Caveat: "the queue grew"}
		r.Rows = append(r.Rows, row)
	}
	r.Rows = append([]Row{{Regime: "none", Request: "GET /db/row", NotMeasured: "not installed"}}, r.Rows...)
	sortRows(r)
	return r
}

// The ladder has the fastest first, what was not measured last, and every caveat.
func TestLadder(t *testing.T) {
	r := sample(t)
	for i, want := range []float64{1000, 100, 10, 0} {
		if r.Rows[i].PerS.Value != want {
			t.Errorf("row %d has %v", i, r.Rows[i].PerS.Value)
		}
	}
	var text, markdown strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := page.Markdown(&markdown, r.Page()); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{text.String(), markdown.String()} {
		for _, want := range []string{"1,000", "143 B", "5.00 ms", "not measured: not installed", "the queue grew", "below 2×", "SQLite 3"} {
			if !strings.Contains(b, want) {
				t.Errorf("no %q in\n%s", want, b)
			}
		}
	}
	if err := page.HTML(&markdown, r.Page()); err != nil {
		t.Error(err)
	}
}
