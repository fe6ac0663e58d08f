package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"ceiling/measure/fleet/clock"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// member is the driver's view of an agent's part in a run. All but the clock belongs to the
// goroutine that runs the job.
type member struct {
	present
	load, observe bool
	share         load.Share
	number        int // in the Merger; -1: does not load

	inlet  frameReader
	heard  int64 // the last message, driver's clock
	ready  *readiness
	result *load.Result
	done   *run.ShareResult
	end    *ending
	rows   []record.LoadRow
	lost   string // why its reports are no longer taken
	lostAt int64  // run's clock
	saidIt bool   // it has been told to stop
	failed error  // its failure to start

	mu    sync.Mutex
	clock clock.Clock
}

// over reports whether nothing more is awaited from it.
func (m *member) over() bool { return m.lost != "" || m.end != nil }

func (m *member) addPing(p clock.Ping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.Add(p)
}

// lastNs returns the end of the last row received.
func (m *member) lastNs() int64 {
	if len(m.rows) == 0 {
		return 0
	}
	return m.rows[len(m.rows)-1].TNs
}

// readEnd takes the last frame.
func (m *member) readEnd(body []byte) error {
	var e ending
	if err := readMessage(body, &e); err != nil {
		return err
	}
	if len(e.Done) > 0 {
		var d run.ShareResult
		if err := json.Unmarshal(e.Done, &d); err != nil {
			return err
		}
		d.Result = m.result
		m.done = &d
	}
	m.end = &e
	return nil
}

// environment describes the agent's host from what it reported when it joined.
func (m *member) environment() record.Environment {
	return record.Environment{
		Host: m.about.Host, BootID: m.about.BootID, CPUModel: m.about.CPUModel, Kernel: m.about.Kernel,
		Version: m.about.Version, CoresAllowed: int(m.about.Cores), MemoryBytes: m.about.MemoryBytes,
	}
}

// Agents lists the participants before they have done anything.
func (j *job) Agents() []record.Agent {
	var list []record.Agent
	for _, m := range j.members {
		list = append(list, record.Agent{
			Name: m.name, Loads: m.load, Observes: m.observe, Environment: m.environment(),
			Share: record.AgentShare{First: m.share.First, Count: m.share.Count, Of: m.share.Of},
		})
	}
	return list
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
	a := run.AgentOf(j.spec, m.share, d, m.rows)
	a.Name, a.Loads, a.Observes = m.name, m.load, m.observe
	a.Share = record.AgentShare{First: m.share.First, Count: m.share.Count, Of: m.share.Of}
	a.Lost, a.LostAtNs = m.lost, m.lostAt
	m.mu.Lock()
	defer m.mu.Unlock()
	offset, _ := m.clock.At(j.windowAt)
	until := max(j.endedAt, j.startAt)
	if m.lost != "" { // what its clock did afterwards affects no figure
		until = max(j.windowAt+m.lostAt, j.startAt)
	}
	a.Clock = record.AgentClock{
		OffsetNs: offset, WallOffsetNs: m.clock.WallOffsetNs(), ErrorNs: m.clock.ErrorNs(j.startAt, until),
		DriftPPM: m.clock.Drift() * 1e6, Pings: m.clock.Pings(), RTTMinNs: m.clock.RTTMinNs(),
	}
	return a
}

// describeMembers says in one line which agents do what.
func describeMembers(all []*member) string {
	var loads, observes []string
	equal := true
	for _, m := range all {
		if m.load {
			loads = append(loads, fmt.Sprintf("%s %d/%d", m.name, m.share.Count, m.share.Of))
			equal = equal && m.share.Count == all[0].share.Count
		}
		if m.observe {
			observes = append(observes, m.name)
		}
	}
	if equal {
		for i := range loads {
			loads[i], _, _ = strings.Cut(loads[i], " ")
		}
	}
	text := strings.Join(loads, ", ") + " load"
	if len(loads) == 1 {
		text += "s"
	}
	if len(loads) > 1 && equal {
		text += fmt.Sprintf(", 1/%d each", len(loads))
	}
	if len(observes) > 0 {
		text += "; " + strings.Join(observes, ", ") + " observe"
		if len(observes) == 1 {
			text += "s"
		}
	}
	return text
}

// clocksWithin returns the largest error of their clocks at now.
func clocksWithin(all []*member, now int64) int64 {
	var most int64
	for _, m := range all {
		m.mu.Lock()
		_, e := m.clock.At(now)
		m.mu.Unlock()
		most = max(most, e)
	}
	return most
}
