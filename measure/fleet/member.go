package fleet

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/measure/fleet/clock"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// member is the driver's view of an agent's part in a run. It belongs to the goroutine that runs the
// job.
type member struct {
	present
	load   bool // else it observes
	share  load.Share
	number int // in the Merger, if it loads

	inlet  frameReader
	heard  int64 // the last message, driver's clock
	ready  *readiness
	result *load.Result
	done   *run.ShareResult
	end    *ending
	rows   []record.LoadRow
	lost   string // why its reports are no longer taken
	saidIt bool   // it has been told to stop

	clock clock.Clock
}

// over reports whether nothing more is awaited from it.
func (m *member) over() bool { return m.lost != "" || m.end != nil }

// environment describes the agent's host from what it reported when it joined.
func (m *member) environment() record.Environment {
	return record.Environment{
		Host: m.About.Host, BootID: m.About.BootID, CPUModel: m.About.CPUModel, Kernel: m.About.Kernel,
		Version: m.About.Version, CoresAllowed: int(m.About.Cores), MemoryBytes: m.About.MemoryBytes,
	}
}

// Agents lists the participants before they have done anything.
func (j *job) Agents() []record.Agent {
	var list []record.Agent
	for _, m := range j.members {
		list = append(list, m.named(record.Agent{Environment: m.environment()}))
	}
	return list
}

// named adds to the entry in the record who the agent is, and its part.
func (m *member) named(a record.Agent) record.Agent {
	a.Name, a.Loads, a.Observes, a.Share = m.Name, m.load, !m.load, record.AgentShare(m.share)
	return a
}

// account is the agent's entry in the record.
func (m *member) account(j *job, own *load.Result) record.Agent {
	d := m.done
	if d == nil { // lost: only what it reported of its host before is known
		d = &run.ShareResult{
			Connections: int(m.share.Part(uint64(j.spec.Connections))),
			Environment: m.environment(),
		}
	}
	d.Result = own
	a := m.named(run.AgentOf(j.spec, m.share, d, m.rows))
	a.Lost = m.lost
	until := max(j.endedAt, j.startAt)
	if m.lost != "" {
		if n := len(m.rows); n > 0 { // the last that was taken
			a.LostAtNs = m.rows[n-1].TNs
		}
		until = max(j.windowAt+a.LostAtNs, j.startAt) // what its clock did afterwards affects no figure
	}
	a.Clock = clockOf(&m.clock, j.windowAt, j.startAt, until)
	return a
}

// clockOf is what is known of an agent's clock at a time, and its largest error between two.
func clockOf(c *clock.Clock, at, from, to int64) record.AgentClock {
	offset, _ := c.At(at)
	return record.AgentClock{
		OffsetNs: offset, WallOffsetNs: c.WallOffsetNs(), ErrorNs: c.ErrorNs(from, to), DriftPPM: c.Drift() * 1e6,
		Pings: c.Pings(), RTTMinNs: c.RTTMinNs(),
	}
}

// describeMembers says in one line which agents do what.
func describeMembers(all []*member) string {
	equal := !slices.ContainsFunc(all, func(m *member) bool { return m.load && m.share.Count != all[0].share.Count })
	var loads, observes []string
	for _, m := range all {
		switch {
		case !m.load:
			observes = append(observes, m.Name)
		case equal:
			loads = append(loads, m.Name)
		default:
			loads = append(loads, fmt.Sprintf("%s %d/%d", m.Name, m.share.Count, m.share.Of))
		}
	}
	text := they(loads, "load")
	if len(loads) > 1 && equal {
		text += fmt.Sprintf(", 1/%d each", len(loads))
	}
	if len(observes) > 0 {
		text += "; " + they(observes, "observe")
	}
	return text
}

func they(names []string, do string) string {
	if len(names) == 1 {
		do += "s"
	}
	return strings.Join(names, ", ") + " " + do
}
