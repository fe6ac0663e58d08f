package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ceiling/measure/cores"
)

// madeCells are three rounds of three tools at one work; the second round is
// one in which everything costs twice as much.
func madeCells() []cell {
	var cells []cell
	for round, factor := range []int64{1, 2, 1} {
		for i, ns := range []int64{3000, 6000, 12000} {
			tool := []string{ours, wrk, autocannon}[i]
			own := &ownFigures{UserNs: 100 * 1000 * factor, WindowNs: 2000 * 1000 * factor, Outcome: "valid"}
			if tool != ours {
				own = nil
			}
			cells = append(cells, cell{
				work: "/simple", tool: tool, round: round, requests: 1000, elapsedS: 2, generatorNs: ns * 1000 * factor,
				serverNs: 5000 * 1000, hostNs: (ns*factor + 5000) * 1000, seen: 1064, inFlight: 64, own: own,
			})
		}
	}
	return cells
}

func TestSummarise(t *testing.T) {
	rows, targets := summarise(madeCells(), []string{ours, wrk, "ab", autocannon})
	if len(rows) != 3 || rows[0].Tool != ours || rows[1].Tool != wrk || rows[2].Tool != autocannon {
		t.Fatalf("rows %+v", rows)
	}
	if want := (Spread{3000, 3000, 6000, 3}); rows[0].GeneratorNsPerRequest != want || rows[0].OursToThis != nil {
		t.Errorf("ours: %+v", rows[0])
	}
	if want := (Spread{2000, 2000, 4000, 3}); *rows[0].WindowNsPerRequest != want || rows[1].WindowNsPerRequest != nil {
		t.Errorf("in our window: %+v", rows[0].WindowNsPerRequest)
	}
	if want := (Spread{1, 1, 2, 3}); *rows[0].OutsideMs != want {
		t.Errorf("outside our window: %+v", rows[0].OutsideMs)
	}
	if want := (Spread{1. / 3, 1. / 3, 1. / 3, 3}); *rows[1].WindowToThis != want {
		t.Errorf("our window / wrk: %+v", *rows[1].WindowToThis)
	}
	if want := (Spread{0.5, 0.5, 0.5, 3}); *rows[1].OursToThis != want {
		t.Errorf("ours / wrk: %+v", *rows[1].OursToThis)
	}
	if want := (Spread{0.25, 0.25, 0.25, 3}); *rows[2].OursToThis != want {
		t.Errorf("ours / autocannon: %+v", *rows[2].OursToThis)
	}
	if r := rows[1]; r.ServerNsPerRequest.Median != 5000 || r.HostNsPerRequest.Median != 11000 || r.PerS.Median != 500 ||
		r.SeenByServer.Median != 1.064 {
		t.Errorf("wrk: %+v", r)
	}
	// autocannon has a target at -p 100 alone.
	if len(targets) != 1 || targets[0].Value != 0.5 || targets[0].Limit != 0.58 || !targets[0].Met {
		t.Errorf("targets %+v", targets)
	}
}

func TestSummariseWithoutOurs(t *testing.T) {
	var cells []cell
	for _, c := range madeCells() {
		if c.tool != ours {
			cells = append(cells, c)
		}
	}
	rows, targets := summarise(cells, []string{ours, wrk})
	if len(rows) != 1 || rows[0].OursToThis != nil || len(targets) != 0 {
		t.Errorf("%+v %+v", rows, targets)
	}
}

func TestCaveats(t *testing.T) {
	check := func(want string, change func(*cell)) {
		t.Helper()
		cells := madeCells()
		if change != nil {
			change(&cells[0])
		}
		got := caveatsOf(cells)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check("", nil)
	check("", func(c *cell) { c.seen = 0 })
	check("", func(c *cell) { c.seen = c.requests })
	check("the server saw 900", func(c *cell) { c.seen = 900 })
	check("the server saw 1200", func(c *cell) { c.seen = 1200 })
	check("other processes", func(c *cell) { c.hostNs *= 2 })
	check("1 of its 3 runs invalid (so)", func(c *cell) { c.own = &ownFigures{Outcome: "invalid", Because: "so"} })
}

func TestTarget(t *testing.T) {
	for value, met := range map[float64]bool{0.64: true, 0.65: true, 0.66: false, math.NaN(): false} {
		if got := target("x", value, 0.65, "ratio"); got.Met != met {
			t.Errorf("%v: %+v", value, got)
		}
	}
}

func TestOrder(t *testing.T) {
	b := &bench{options: options{seed: 7, connections: 64, rounds: 1}, tools: kinds(),
		servers: map[transport]*served{plain: {base: "http://127.0.0.1:1"}, overTLS: {base: "https://127.0.0.1:2"}, overH2: {base: "https://127.0.0.1:3"}}}
	text := func(round int) string {
		var names []string
		for _, s := range b.order(round) {
			names = append(names, s.work.name+" "+s.tool.Name)
		}
		return strings.Join(names, "\n")
	}
	first := text(3)
	if text(3) != first || text(4) == first {
		t.Error("an order is not its seed's and round's")
	}
	b.seed = 8
	if text(3) == first {
		t.Error("another seed, the same order")
	}
	count, changes, last := map[string]int{}, 0, ""
	for _, s := range b.order(0) {
		count[s.work.name]++
		if s.work.name != last {
			changes++
		}
		last = s.work.name
	}
	// Pipelining is what h2load --h1, ab, hey and oha do not have.
	if count["/simple"] != 9 || count["/simple -p 16"] != 4 || count["/simple -p 64"] != 4 || count["/simple -p 100"] != 3 || count["/read"] != 9 ||
		count["/read TLS"] != 7 || count["/simple h2"] != 2 || count["/simple h2 -p 100"] != 2 || count["/simple -t 4"] != 2 || changes != 12 {
		t.Errorf("%v, %d changes of work", count, changes)
	}
	// nginx may not be there.
	b.servers[nginxH2] = &served{base: "https://127.0.0.1:5"}
	with := 0
	for _, s := range b.order(0) {
		if s.work.over == nginxH2 {
			with++
		}
	}
	if with != 6 {
		t.Errorf("%d measurements against nginx, want 6", with)
	}
}

// TestFloorTargets: the floor is compared in the window, at both ends and in its rate, gcannon in the
// window, and nothing else has such targets.
func TestFloorTargets(t *testing.T) {
	cells := madeCells()
	for i := range cells {
		switch c := &cells[i]; c.tool {
		case ours:
			c.serverNs, c.elapsedS = c.serverNs/2, c.elapsedS/4
		case wrk:
			c.tool = floorEight
		case autocannon:
			c.tool = gcannon
		}
	}
	rows, targets := summarise(cells, []string{ours, floorEight, gcannon})
	if r := rows[1]; r.ServerToThis.Median != 0.5 || r.PerSToThis.Median != 4 {
		t.Errorf("%+v", r)
	}
	var values []float64
	for _, k := range targets {
		values = append(values, k.Value)
	}
	// Window, server and rate of the floor, window of gcannon.
	if want := []float64{1. / 3, 0.5, 0.25, 1. / 6}; !slices.Equal(values, want) {
		t.Errorf("targets %v, want %v", values, want)
	}
}

// TestApartJob: of a workload with separate CPUs, the tools get those that the server does not have.
func TestApartJob(t *testing.T) {
	b := &bench{servers: map[transport]*served{plain: {}, apart: {}}, split: cores.Split{Generator: []int{0}, Server: []int{1}}}
	if j := b.job(work{over: apart}); !slices.Equal(j.CPUs, []int{0}) {
		t.Errorf("CPUs %v", j.CPUs)
	}
	if j := b.job(work{}); j.CPUs != nil {
		t.Errorf("CPUs %v of a workload without", j.CPUs)
	}
}
