package live

import (
	"maps"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Agent is the state of one of several agents over the last second.
type Agent struct {
	Name string
	// PerS is the rate of completed requests. P50Ns and P99Ns are of the last interval, valid if
	// Answered.
	PerS         float64
	P50Ns, P99Ns int64
	Answered     bool
	// Busy is the share of the last interval that its busiest worker ran, -1 if unknown.
	Busy      float64
	Connected int
	// BehindS is how long it has sent no samples while other agents did, in seconds.
	BehindS float64
	// Observes is set if it only observes: it generates no load.
	Observes bool
}

// agentsNow returns each agent's last second, including agents that have started but sent
// nothing.
func (r *rows) agentsNow(begun []record.Agent) []Agent {
	by := map[string]*Agent{}
	for i := range begun {
		by[begun[i].Name] = &Agent{Name: begun[i].Name, Busy: -1, Observes: !begun[i].Loads}
	}
	type sums struct {
		completed, width float64
		last             *record.LoadRow
	}
	own := map[string]*sums{}
	for i := len(r.agents) - 1; i >= 0; i-- {
		row := &r.agents[i]
		if own[row.Host] == nil {
			own[row.Host] = &sums{last: row}
		}
		s := own[row.Host]
		if row.TNs > s.last.TNs-overNs {
			s.completed += float64(row.Completed)
			s.width += float64(row.WidthNs)
		}
	}
	for name, s := range own {
		last := s.last
		by[name] = &Agent{
			Name: name, PerS: s.completed * 1e9 / math.Max(s.width, 1), P50Ns: last.P50Ns, P99Ns: last.P99Ns,
			Answered: last.Completed+last.Failed > 0,
			Busy:     last.Busy, Connected: last.Connected, BehindS: math.Max(float64(r.latestNs-last.TNs)/1e9, 0),
		}
	}
	var list []Agent
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, *by[name])
	}
	return list
}

// silentS is how long an agent may be silent before the view reports it: agents send samples
// every second.
const silentS = 3

// Says formats an agent in one line.
func (a *Agent) Says() string {
	if a.Observes {
		return "observes"
	}
	if a.Connected == 0 && a.PerS == 0 && !a.Answered {
		return "nothing yet"
	}
	text := ""
	if a.BehindS >= silentS { // first: the rest may not fit
		text = "nothing new for " + unit.FormatNs(int64(a.BehindS*1e9)) + " · "
	}
	text += unit.FormatRate(a.PerS) + " · p50 " + Quantile(a.Answered, a.P50Ns) + " · p99 " + Quantile(a.Answered, a.P99Ns) + " · " +
		unit.Plural(a.Connected, "connection", "connections")
	if a.Busy >= 0 {
		text += " · busy " + unit.Percent(a.Busy)
	}
	return text
}

// agents returns the run's agents, with the data that their rows in the window provide.
func (e *evidence) agents(series *record.Series, elapsedS float64) []record.Agent {
	list := slices.Clone(e.start.Agents)
	at := map[string]int{}
	for i := range list {
		list[i].Generator, list[i].ElapsedS = record.Generator{RunDelay: -1}, elapsedS
		at[list[i].Name] = i
	}
	for i := range series.Agents {
		row := &series.Agents[i]
		n, there := at[row.Host]
		if !there {
			n = len(list)
			at[row.Host] = n
			list = append(list, record.Agent{Name: row.Host, Loads: true, ElapsedS: elapsedS, Generator: record.Generator{RunDelay: -1}})
		}
		a := &list[n]
		a.Load.Established, a.Load.Pipelining = max(a.Load.Established, row.Connected), e.start.Spec.Pipelining
		a.Requests.Completed += row.Completed
		a.Rate.CompletedPerS = float64(a.Requests.Completed) / elapsedS
		a.Generator.BatchMeanNs = e.batchMeanNs
		if q := &a.Latency.Response; row.Completed > 0 {
			q.MeanNs += (row.MeanNs - q.MeanNs) * float64(row.Completed) / float64(q.Count+row.Completed)
			q.Count += row.Completed
		}
	}
	return list
}
