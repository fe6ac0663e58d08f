package report

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
)

// AgentColumns are the columns of AgentRows.
func AgentColumns() []string {
	return []string{"agent", "share", "connections", "req/s", "p50", "p99", "busy", "room", "clock", "began"}
}

// unknown is the placeholder for a missing figure.
const unknown = "–"

// AgentRows returns a row of texts per agent: its share of the run, the connections it
// established, its own rate and response times, utilisation of its busiest worker, its headroom
// by calibration, the uncertainty of its clock, and its delay after the common start. Agents with
// load come first, each group by name.
func AgentRows(r *record.Run) [][]string {
	var rows [][]string
	for _, a := range Agents(r) {
		row := []string{a.Name, "observes", "", "", "", "", "", "", clock(a), ""}
		if a.Loads {
			row = []string{a.Name, unit.PercentDigits(a.Share.Fraction(), 3), established(&a.Load), unit.FormatSI(a.Rate.CompletedPerS),
				unknown, unknown, unknown, unknown, clock(a), began(a)}
			if l := &a.Latency.Response; l.Count > 0 {
				row[4], row[5] = unit.FormatNs(l.P50Ns), unit.FormatNs(l.P99Ns)
			}
			if g := &a.Generator; g.BusiestWorker > 0 {
				row[6] = fmt.Sprintf("%.0f%%", 100*g.BusiestWorker)
			}
			if h := a.Headroom(); h > 0 {
				row[7] = unit.Digits(h, 2) + "×"
			}
		}
		rows = append(rows, row)
	}
	return rows
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
		return unknown
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
	return unknown
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
	t := layout.Table{Rows: AgentRows(r)}
	for i, name := range AgentColumns() {
		c := layout.Column{Name: name, Right: i > 0}
		switch name {
		case "agent":
			c.Least = 8
		case "req/s", "p99":
		default:
			c.Drop = i
		}
		t.Columns = append(t.Columns, c)
	}
	p.table(&t)
	for i, text := range LostLines(r) {
		p.fact([]string{"lost", ""}[min(i, 1)], text)
	}
}
