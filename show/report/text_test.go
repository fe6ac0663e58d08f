package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/layout"
)

func fleetRun() *record.Run {
	agent := func(name string, conns int, rate float64) record.Agent {
		return record.Agent{
			Name: name, Loads: true, Share: record.AgentShare{Count: 1, Of: 3},
			Load: record.Load{Connections: 20_000, Established: conns}, Rate: record.Rate{CompletedPerS: rate},
			Latency:   record.Latency{Response: record.Quantiles{Count: 9, P50Ns: 4_290_000, P99Ns: 999_000_000}},
			Generator: record.Generator{BusiestWorker: .97, Headroom: 12},
			Clock:     record.AgentClock{ErrorNs: 60_000, Pings: 40}, StartSkewNs: 400_000,
		}
	}
	lost := agent("load2", 20_000, 1_234_567)
	lost.Lost, lost.LostAtNs, lost.StartSkewNs, lost.Requests.Sent = "nothing came of it for 10 s", 4_200_000_000, -1, 9
	bare := agent("a-name-that-has-no-end-at-all", 19_999, 0)
	bare.Latency, bare.Generator, bare.Clock, bare.StartSkewNs = record.Latency{}, record.Generator{}, record.AgentClock{}, -1
	return &record.Run{
		Target: "http://10.0.0.1/", Load: record.Load{Connections: 60_000, Established: 60_000, Mode: "closed", Engine: "uring", Threads: 3},
		Agents: []record.Agent{{Name: "web1", Observes: true, Clock: record.AgentClock{ErrorNs: 110_000, Pings: 40}}, lost, bare,
			agent("load1", 20_000, 4_667)},
		Fleet: &record.Fleet{Bed: "bed", AllowLoss: true}, Verdict: record.Verdict{Outcome: record.Valid, Bottleneck: "server CPU", Because: recordtest.Says("b")},
	}
}

// TestAgentsInText: the table stays within the screen.
func TestAgentsInText(t *testing.T) {
	var b strings.Builder
	if err := Text(&b, fleetRun(), Layout{Output: layout.Output{Columns: 100, Screen: true}, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(b.String(), "generator       not measured\n\n")
	got, _, _ := strings.Cut(after, "\nbottleneck")
	want := `agent               share       connections  req/s      p50     p99  busy  room     clock      began
a-name-that-ha…     33.3%  19,999 of 20,000      0        -       -     -     -         -  not begun
load1               33.3%            20,000  4.67k  4.29 ms  999 ms   97%    1×  ±60.0 µs    +400 µs
load2               33.3%            20,000  1.23M  4.29 ms  999 ms   97%    1×  ±60.0 µs          -
web1             observes                                                         ±110 µs
lost            load2, 4.20 s into the window: nothing came of it for 10 s`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(b.String(), "uring, 3 threads · 3 agents\n") {
		t.Errorf("no word of the agents above the table:\n%s", b.String())
	}
}

// TestTextWithoutAgents has no word of them.
func TestTextWithoutAgents(t *testing.T) {
	r := fleetRun()
	r.Agents, r.Fleet = nil, nil
	var b strings.Builder
	if err := Text(&b, r, Layout{Output: layout.Output{Columns: 1000}, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "agent") {
		t.Errorf("agents where there are none:\n%s", b.String())
	}
}

func TestDiskLine(t *testing.T) {
	d := record.DiskUse{Device: "sda", Server: true, WritesPerS: 640, WrittenBytesPerS: 1.3e6,
		FlushesPerS: 320, FlushNs: 3e6, Busy: .97, Queue: 1.4}
	const want = "sda (of the server) · 0 reads/s, 0 B/s · 640 writes/s, 1.30 MB/s · 320 flushes/s × 3.00 ms = 96% of the time · " +
		"busy 97%, 1.4 under way"
	if got := diskLine(&d); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d = record.DiskUse{Device: "sdb", ReadsPerS: 1e4, ReadBytesPerS: 4e7, Busy: .5, Queue: 12}
	if got, want := diskLine(&d), "sdb · 10.0k reads/s, 40.0 MB/s · 0 writes/s, 0 B/s · busy 50%, 12 under way"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLoneLine: what unloaded requests took, and how many are served at a time
// where they tell.
func TestLoneLine(t *testing.T) {
	run := &record.Run{Unloaded: record.LoneOf([]int64{30e6, 10e6, 10e6, 11e6, 10e6, 12e6, 10e6, 10e6, 10e6}, 4)}
	run.Unloaded.Sent = 9
	const took = "9 requests one at a time before the load, over 4 connections: p50 10.0 ms, 10.0 ms–12.0 ms without the first 4"
	check := func(want string) {
		t.Helper()
		var text strings.Builder
		if err := Text(&text, run, Layout{Output: layout.Output{Columns: 1000}, Verbose: true}); err != nil {
			t.Fatal(err)
		}
		if got := unloadedLine(run); got != want || !strings.Contains(text.String(), "unloaded        "+want+"\n") {
			t.Errorf("%q, want %q, in\n%s", got, want, text.String())
		}
	}
	check(took)
	run.Verdict.Concurrency = &record.ServedAtOnce{Requests: 4.836, Low: 4.743, High: 4.927, Of: 64, LoneNs: 10.3e6, Means: record.InTurn}
	check(took + " · effective concurrency 4.84 of 64 (95% CI 4.74–4.93)")
	run.Unloaded = nil
	if got := unloadedLine(run); got != "" {
		t.Errorf("without unloaded requests: %q", got)
	}
}

// TestCaution: what voids the figures is above the bottleneck; the first byte has a row where it is
// another time than the response.
func TestCaution(t *testing.T) {
	run := wordyRun()
	redirects := record.State("caveat.redirects", record.Values{"all": true, "status": 302, "to": "/x"})
	run.Verdict.Caveats = append(run.Verdict.Caveats, redirects)
	text := func() string {
		return written(t, func(b *strings.Builder) error {
			return Text(b, run, Layout{Output: layout.Output{Columns: 80, Screen: true}})
		})
	}
	got := text()
	caution, bottleneck := strings.Index(got, "caution "), strings.Index(got, "bottleneck ")
	if caution < 0 || caution > bottleneck || !strings.Contains(got, "this measures the") {
		t.Errorf("%d, %d\n%s", caution, bottleneck, got)
	}
	same := run.Latency.Response
	run.Latency.FirstByte = &same
	if strings.Contains(text(), "first byte") {
		t.Error("the first byte as late as the response")
	}
	run.Latency.FirstByte = &record.Quantiles{Count: 9, P50Ns: same.P50Ns / 2, P90Ns: same.P90Ns, P99Ns: same.P99Ns, MeanNs: 1e6}
	run.Latency.Waiting = &record.Waiting{FirstByte: &record.Waited{Count: 1, MeanNs: 2e9, OldestNs: 2e9, TimedOut: 1}}
	if _, after, found := strings.Cut(text(), "first byte "); !found || strings.Count(strings.SplitN(after, "\n", 2)[0], "≥ ") != 1 {
		t.Errorf("the first byte, of whose mean those that timed out are a part: %s", text())
	}
}
