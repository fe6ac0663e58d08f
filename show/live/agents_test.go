package live

import (
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// fleetBoard is a board of three agents at 12 s: two load, the second has been
// silent for 4 s, the third has sent nothing; web observes.
func fleetBoard() *Board {
	b := NewBoard()
	b.Began(record.Start{ID: "a", Spec: spec.Spec{Condition: spec.Condition{Connections: 30, Pipelining: 1}, Duration: 60e9},
		Agents: []record.Agent{
			{Name: "load1", Loads: true}, {Name: "load2", Loads: true}, {Name: "load3", Loads: true}, {Name: "web", Observes: true},
		}})
	for i := range int64(120) {
		row := record.LoadRow{TNs: (i + 1) * 1e8, WidthNs: 1e8, Completed: 300, Sent: 300, InFlight: 20, Connected: 20, P50Ns: 2e6, P99Ns: 4e6,
			MeanNs: 2e6, Busy: .97}
		b.Interval(row, nil, 0)
		row.Host, row.Completed, row.Connected = "load1", 200, 10
		b.Agent(row)
		if row.Host, row.Completed, row.Busy = "load2", 100, .2; row.TNs <= 8e9 {
			b.Agent(row)
		}
	}
	return b
}

// TestAgents: each agent has its own figures, and one that is silent is told.
func TestAgents(t *testing.T) {
	s := fleetBoard().Snapshot()
	if len(s.Agents) != 4 {
		t.Fatalf("agents %+v", s.Agents)
	}
	for i, want := range []string{
		"2,000 req/s · p50 2.00 ms · p99 4.00 ms · 10 connections · busy 97%",
		"nothing new for 4.00 s · 1,000 req/s · p50 2.00 ms · p99 4.00 ms · 10 connections · busy 20%",
		"nothing yet",
		"observes",
	} {
		if got := s.Agents[i].Says(); got != want {
			t.Errorf("%s: %q, want %q", s.Agents[i].Name, got, want)
		}
	}
	b := NewBoard()
	b.Began(record.Start{ID: "b"})
	if s := b.Snapshot(); s.Agents != nil {
		t.Errorf("a run without agents has %+v", s.Agents)
	}
}

// TestFullAgentWhileItRuns: the verdict that forms names the agent that is full.
func TestFullAgentWhileItRuns(t *testing.T) {
	b := fleetBoard()
	if !b.Form() {
		t.Fatal("no verdict")
	}
	v := b.Snapshot().Formed.Verdict
	if v.Bottleneck != "generator" || prose.Sentence(v.Because) != "agent load1 is saturated: its busiest worker ran 97% of the time; this number describes agent load1, not the server" {
		t.Errorf("%s: %s", v.Bottleneck, v.Because)
	}
}
