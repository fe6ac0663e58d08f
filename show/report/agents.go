package report

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
)

// AgentTable has a row per agent: its share of the run, the connections it
// established, its own rate and response times, utilisation of its busiest worker, its headroom
// by calibration, the uncertainty of its clock, and its delay after the common start. Agents with
// load come first, each group by name.
func AgentTable(r *record.Run) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: "agent", Least: 8}, {Name: "share", Right: true, Drop: 1}, {Name: "connections", Right: true, Drop: 2},
		{Name: "req/s", Right: true}, {Name: "p50", Right: true, Drop: 4}, {Name: "p99", Right: true}, {Name: "busy", Right: true, Drop: 6},
		{Name: "room", Right: true, Drop: 7}, {Name: "clock", Right: true, Drop: 8}, {Name: "began", Right: true, Drop: 9}}}
	for _, a := range Agents(r) {
		row := []string{a.Name, "observes", "", "", "", "", "", "", clock(a), ""}
		if a.Loads {
			row = []string{a.Name, unit.PercentDigits(a.Share.Fraction(), 3), established(&a.Load), unit.FormatSI(a.Rate.CompletedPerS),
				missing, missing, missing, missing, clock(a), began(a)}
			if l := &a.Latency.Response; l.Count > 0 {
				row[4], row[5] = l.Text(.5), l.Text(.99)
			}
			if g := &a.Generator; g.BusiestWorker > 0 {
				row[6] = fmt.Sprintf("%.0f%%", 100*g.BusiestWorker)
			}
			if h := a.Headroom(); h > 0 {
				row[7] = unit.Digits(h, 2) + "×"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Agents returns a run's agents in display order: those with load first, each group by name.
func Agents(r *record.Run) []*record.Agent {
	var list []*record.Agent
	for i := range r.Agents {
		list = append(list, &r.Agents[i])
	}
	slices.SortStableFunc(list, func(a, b *record.Agent) int {
		if a.Loads != b.Loads {
			return map[bool]int{true: -1, false: 1}[a.Loads]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// Loading returns the number of agents that generate load; 0 if only this machine did.
func Loading(r *record.Run) int {
	n := 0
	for i := range r.Agents {
		if r.Agents[i].Loads {
			n++
		}
	}
	return n
}

func established(l *record.Load) string {
	if l.Established == l.Connections {
		return unit.FormatCount(int64(l.Established))
	}
	return fmt.Sprintf("%s of %s", unit.FormatCount(int64(l.Established)), unit.FormatCount(int64(l.Connections)))
}

// clock formats the uncertainty of an agent's clock.
func clock(a *record.Agent) string {
	if a.Clock.Pings <= 0 {
		return missing
	}
	return "±" + unit.FormatNs(a.Clock.ErrorNs)
}

// began formats the delay of its first request after the common start. A lost agent may have sent
// requests without reporting when.
func began(a *record.Agent) string {
	switch {
	case a.StartSkewNs >= 0:
		return "+" + unit.FormatNs(a.StartSkewNs)
	case a.Requests.Sent == 0:
		return "not begun"
	}
	return missing
}

// LostLines lists the lost agents, and the time of each loss.
func LostLines(r *record.Run) []string {
	var lines []string
	for _, a := range Agents(r) {
		switch {
		case a.Lost == "":
		case a.LostAtNs <= 0:
			lines = append(lines, fmt.Sprintf("%s, before the window opened: %s", a.Name, a.Lost))
		default:
			lines = append(lines, fmt.Sprintf("%s, %s into the window: %s", a.Name, unit.FormatNs(a.LostAtNs), a.Lost))
		}
	}
	return lines
}

// agents writes a table with a row per agent, and the lost agents.
func agents(p *printer, r *record.Run) {
	if len(r.Agents) == 0 {
		return
	}
	p.line("")
	p.table(AgentTable(r))
	for i, text := range LostLines(r) {
		p.fact([]string{"lost", ""}[min(i, 1)], text)
	}
}
