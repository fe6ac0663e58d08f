package page

import (
	"slices"
	"strings"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// agentsSection shows each agent's part of a run with several agents.
func agentsSection(run *chart.Run) Section {
	s := of(run, "agents", "The agents")
	if len(run.Agents) == 0 {
		return s
	}
	s.Blocks = append(s.Blocks, tableOf("Each agent's own measurements; the run's figures come from the merged counts and histograms", report.AgentTable(run.Run)))
	for _, text := range report.LostLines(run.Run) {
		s.Blocks = append(s.Blocks, Notice{"Lost: " + text})
	}
	var names []string
	for _, a := range report.Agents(run.Run) {
		if a.Loads {
			names = append(names, a.Name)
		}
	}
	if p, ok := chart.AgentRates(run, names, chart.MostEach(max(len(names), 1))); ok {
		s.Blocks = append(s.Blocks, figure(s.ID+"-rate", p))
	}
	for _, a := range report.Agents(run.Run) {
		list, err := flat("environment", a.Environment)
		if err != nil {
			return s.failed(err)
		}
		env := fieldTable("The host of "+a.Name, list)
		env.Fold = true
		s.Blocks = append(s.Blocks, env)
	}
	return s
}

// agentConditions are the fields of each agent in which two runs should not differ: its roles,
// its share, its setup, and its host.
func agentConditions(run *chart.Run) ([]entry, error) {
	var list []entry
	for _, a := range report.Agents(run.Run) {
		one, err := flat("agents."+a.Name, struct {
			Loads       bool               `json:"loads"`
			Observes    bool               `json:"observes"`
			Share       record.AgentShare  `json:"share"`
			Established int                `json:"established"`
			Threads     int                `json:"threads"`
			Engine      string             `json:"engine"`
			Lost        string             `json:"lost,omitempty"`
			Environment record.Environment `json:"environment"`
		}{a.Loads, a.Observes, a.Share, a.Load.Established, a.Load.Threads, a.Load.Engine, a.Lost, a.Environment})
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	return slices.DeleteFunc(list, func(e entry) bool { return strings.HasSuffix(e.path, ".environment.boot_id") }), nil
}
