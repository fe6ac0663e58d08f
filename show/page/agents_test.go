//go:build linux

package page

import (
	"slices"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/show/chart"
)

// sampleFleet is the sample run as two agents on one machine and an observer
// would have made it; the second was lost on the way.
func sampleFleet() chart.Run {
	run := sampleRun(3, 2)
	run.Environment.Host = "driver"
	for _, name := range []string{"load2", "load1"} {
		a := record.Agent{
			Name: name, Loads: true, Share: record.AgentShare{Count: 1, Of: 2}, Load: run.Load, Rate: record.Rate{CompletedPerS: 612},
			Latency: run.Latency, Generator: run.Generator, Environment: record.Environment{Host: name, BootID: "one", CPUModel: "Agent CPU"},
			Clock: record.AgentClock{ErrorNs: 60_000, Pings: 9},
		}
		if name == "load2" {
			a.Lost, a.LostAtNs = "its host is gone", 1_500_000_000
		}
		run.Agents = append(run.Agents, a)
		for _, row := range run.Series.Load {
			row.Kind, row.Host, row.Completed = record.KindAgent, name, row.Completed/2
			if name == "load1" || row.TNs <= 1_500_000_000 {
				run.Series.Agents = append(run.Series.Agents, row)
			}
		}
	}
	for _, row := range run.Series.Observed.All() {
		if cpu, ok := row.(*record.CPURow); ok && cpu.Host == "load1" {
			own := *cpu
			own.Host = "load2"
			run.Series.Observed.Add(&own)
		}
	}
	run.Agents = append(run.Agents, record.Agent{Name: "web1", Observes: true, Environment: record.Environment{Host: "web1", BootID: "two"}})
	run.Fleet = &record.Fleet{Bed: "bed", AllowLoss: true, LostShare: .5, LostFromNs: 1_500_000_000}
	return run
}

// TestAgents: each agent has its row, its line and its host; a machine with two
// agents has its cores drawn once.
func TestAgents(t *testing.T) {
	run := sampleFleet()
	html, text := htmlOf(t, run), markdownOf(t, run)
	for _, want := range []string{"The agents", "Rate of each agent over time", "Lost: load2, 1.50 s into the window: its host is gone",
		"The host of load1",
		"load1, load2 on one machine, generator", "web1, server", "Host that started the run", "2 agents"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %q", want)
		}
		if !strings.Contains(text, want) {
			t.Errorf("the Markdown has no %q", want)
		}
	}
	if !strings.Contains(text, "| load1 | 50% | 64 | 612 |") || !strings.Contains(text, "| web1 | observes |") {
		t.Errorf("no row for each agent:\n%s", text)
	}
	if n := strings.Count(text, "on one machine"); n != 1 {
		t.Errorf("the cores of one machine are there %d times", n)
	}
	if strings.Contains(markdownOf(t, sampleRun(3, 2)), "agent") {
		t.Error("a run without agents speaks of them")
	}
}

// TestAgentDifferences: what differs between the agents of two runs is listed;
// another boot is no difference.
func TestAgentDifferences(t *testing.T) {
	a, b := sampleFleet(), sampleFleet()
	b.Agents = slices.Clone(b.Agents)
	b.Agents[1].Environment.BootID, b.Environment.BootID = "later", "later"
	b.Agents[1].Environment.CPUModel = "Another CPU"
	rows := differences([]chart.Run{a, b})
	var t2 Table
	for _, block := range rows.Blocks {
		if table, ok := block.(Table); ok {
			t2 = table
		}
	}
	if len(t2.Rows) != 1 || t2.Rows[0][0].Text != "agents.load1.environment.cpu_model" {
		t.Errorf("differences %+v", t2.Rows)
	}
}
