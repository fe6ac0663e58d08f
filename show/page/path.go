package page

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
)

// Path is the way of a request from the generator through the server and back: six
// boxes below the bar that shows their shares to scale.
type Path struct {
	Says  string
	Boxes []PathBox
}

// PathBox is a place on the way. Time is of the mean request, Busy how busy who works
// there is; Href is the anchor of what shows it over time.
type PathBox struct {
	Name, Tone, Time, Share, Busy, Href string
	// Limits tells that the bottleneck is here.
	Limits bool
}

// Kind implements Block.
func (Path) Kind() string { return "path" }

func (p Path) markdown(m *markdown) {
	m.line("| place | time | share | busy |")
	m.line("|---|--:|--:|---|")
	for _, b := range p.Boxes {
		name := escape(b.Name)
		if b.Limits {
			name = "**" + name + "** (bottleneck)"
		}
		m.line("| %s | %s | %s | %s |", name, escape(b.Time), escape(b.Share), escape(b.Busy))
	}
}

// pathBlock is the path of one run's requests.
func pathBlock(run *chart.Run) Path {
	p := Path{Says: "The path of a request, from left to right"}
	mean, busy := run.Latency.Service.MeanNs, busyAt(run)
	for _, st := range run.Verdict.Stations {
		b := PathBox{Name: st.Name, Tone: stationTone(st.Name), Share: unit.Percent(st.Share), Busy: busy[st.Name],
			Limits: slices.Contains(limitsAt(run.Verdict.Bottleneck), st.Name), Href: pathHref(st.Name)}
		if mean > 0 {
			b.Time = unit.FormatNs(int64(st.Share * mean))
		}
		p.Boxes = append(p.Boxes, b)
	}
	return p
}

// pathHref is the section that shows a place over time.
func pathHref(name string) string {
	return map[string]string{"generator": "#figures", "network to server": "#link", "network to client": "#link",
		"server receive queue": "#queues", "generator receive queue": "#queues", "server": "#processes"}[name]
}

// limitsAt are the places where a bottleneck holds requests up; nil where it is at
// none, as that of too few connections.
func limitsAt(b record.Bottleneck) []string {
	switch b {
	case record.LoadGenerator:
		return []string{"generator"}
	case record.ServerCPU, record.ServerThread, record.ServerBlocked, record.Uneven, record.Subscribers:
		return []string{"server"}
	case record.SharedCPU:
		return []string{"generator", "server"}
	case record.Bandwidth, record.Packets:
		return []string{"network to server", "network to client"}
	case record.AcceptQueue:
		return []string{"server receive queue"}
	}
	return nil
}

// busyAt is how busy the two ends and the link are, as far as they are known.
func busyAt(run *chart.Run) map[string]string {
	busy := map[string]string{}
	if n := len(run.Generator.Workers); n > 0 {
		busy["generator"] = fmt.Sprintf("busiest of %s %s busy", unit.Plural(n, "thread", "threads"), unit.Percent(run.Generator.BusiestWorker))
		if n == 1 {
			busy["generator"] = fmt.Sprintf("its thread is %s busy", unit.Percent(run.Generator.BusiestWorker))
		}
	}
	if run.Subject != nil && run.ElapsedS > 0 {
		used := int64(0)
		for i := range run.Subject.Processes {
			used += run.Subject.Processes[i].CPUNs
		}
		busy["server"] = fmt.Sprintf("%.2f cores used", float64(used)/1e9/run.ElapsedS)
	}
	links := chart.Links(run, 1)
	for i := range links {
		l := &links[i]
		ours := l.Side == record.SideGenerator || l.Side == "" && l.Host == run.Environment.Host
		for name, way := range map[string]*chart.Way{"network to server": &l.Sent, "network to client": &l.Received} {
			if ours && way.Limit > 0 {
				busy[name] = fmt.Sprintf("%s %s full", l.Iface, unit.Percent(way.BitsPerS/way.Limit))
			}
		}
	}
	return busy
}
