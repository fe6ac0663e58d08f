package chart

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// agentsMost is the number of agents that one figure can show distinctly.
const agentsMost = 16

// AgentRates plots completions per second over time, one line per agent, labelled by name. ok is
// false if the run has no agents or no rows for them. With more than agentsMost agents it draws
// the first ones.
func AgentRates(run *Run, names []string, most int) (Plot, bool) {
	p := Plot{Title: "Rate of each agent over time"}
	if run.Series == nil {
		return p, false
	}
	if n := len(names); n > agentsMost {
		names = names[:agentsMost]
		p.Title += fmt.Sprintf(", %d of %d", agentsMost, n)
	}
	for i, name := range names {
		var rows []row
		for k := range run.Series.Agents {
			r := &run.Series.Agents[k]
			if r.Host == name && r.WidthNs > 0 {
				from, to := interval(r.TNs, r.WidthNs)
				rows = append(rows, row{from, to, r.Late, []float64{float64(r.Completed) / (float64(r.WidthNs) / 1e9)}})
			}
		}
		g := timed(run, thin(name, rows, []Line{{Name: name, Tone: tone(i, len(names)), Dashed: i >= Tones}}, most))
		if g.Points() > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	_, high, ok := bounds(p.Groups)
	if !ok {
		return p, false
	}
	p.axes(fromZero(perSecond(run), PerSecond, high))
	p.Says = fmt.Sprintf(counted(run)+" per second of each agent, at most %s.", unit.FormatSI(high))
	return p, true
}

// queuesOfHosts is Queues for runs whose ends were sampled on their own hosts: one line for the
// server's unread requests and one per agent for its unread responses.
func queuesOfHosts(run *Run, p Plot, most int) Plot {
	add := func(host, name string, i int, of func(*record.SocketsRow) float64) {
		rows := observed(run.observed().Sockets, func(r *record.SocketsRow) bool { return r.Host == host },
			func(r *record.SocketsRow, _ float64) []float64 {
				return []float64{of(r)}
			})
		if g := timed(run, thin(name, rows, []Line{{Name: name, Tone: i % Tones, Dashed: i >= Tones}}, most)); g.Points() > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	if run.Subject != nil {
		add(run.Subject.Host, "requests unread by the server", 1, func(r *record.SocketsRow) float64 { return float64(r.Server.Unread) })
	}
	for i := range run.Agents {
		if a := &run.Agents[i]; a.Loads && i < agentsMost {
			add(a.Name, "responses unread by "+a.Name, i+2, func(r *record.SocketsRow) float64 { return float64(r.Client.Unread) })
		}
	}
	return p
}
