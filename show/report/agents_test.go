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
