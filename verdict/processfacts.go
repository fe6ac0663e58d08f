package verdict

import (
	"cmp"
	"math"
	"slices"

	"ceiling/record"
)

// processFacts is what the observed processes of one role used over the window.
type processFacts struct {
	known     bool
	host      string
	processes []processUse // by PID
	cores     float64      // CPU of all, in cores
	queue     figure       // time runnable without a CPU, of all threads, in cores
	threads   []threadUse  // by descending share
	// peak is the mean over the samples of the busiest thread's share, whichever thread that was:
	// if one job hops between threads, it is higher than any single thread's share.
	peak    figure
	samples []float64 // total cores, sample by sample
	allowed string    // CPU list common to all of them, "" if unknown or different
	stolen  float64   // share of their CPUs' time that the hypervisor took
	quota   quota
	lost    []string // what happened to them during the window
}

// processUse is one process.
type processUse struct {
	pid, parent int
	comm        string
	cores       float64
	listens     bool
	busiest     float64 // share of its busiest thread
	connections figure
}

// threadUse is one thread, shares of the window.
type threadUse struct {
	pid, tid int
	comm     string
	run      float64
	queue    figure
}

// quota is a CPU bandwidth limit and its effect.
type quota struct {
	cores     figure // allowed
	throttled figure // share of the enforcement periods in which the group was throttled
}

// processesOf sums the rows of one role, on one host or, with "", on the host that has most of
// them.
func processesOf(f *runFacts, series *record.Series, role, host string) processFacts {
	return processesAmong(f, series, role, host, func(int) bool { return true })
}

// processesAmong is processesOf for a subset of processes.
func processesAmong(f *runFacts, series *record.Series, role, host string, among func(pid int) bool) processFacts {
	var p processFacts
	var rows []*record.ProcessRow
	for _, row := range observed(f, series.Observed.Processes) {
		if row.Role == role && row.WidthNs > 0 && (host == "" || row.Host == host) && among(row.PID) {
			rows = append(rows, row)
		}
	}
	if host == "" {
		host = hostWithMost(rows)
	}
	p.nameThem(f, series, role, host, among)
	if len(rows) == 0 {
		return p
	}
	p.known, p.host = true, host
	rows = slices.DeleteFunc(rows, func(r *record.ProcessRow) bool { return r.Host != p.host })
	p.sum(rows)
	p.bySample(rows)
	p.throttling(f, series, role)
	p.connectionsOf(f, series)
	return p
}

// hostWithMost returns the host with the most rows.
func hostWithMost(rows []*record.ProcessRow) string {
	n := map[string]int{}
	for _, row := range rows {
		n[row.Host]++
	}
	best := ""
	for host, count := range n {
		if n[best] < count || n[best] == count && host < best {
			best = host
		}
	}
	return best
}

// nameThem reads the processes' names and events. Each agent names its own.
func (p *processFacts) nameThem(f *runFacts, series *record.Series, role, host string, among func(pid int) bool) {
	end := f.run.WindowEndNs()
	first := true
	for _, row := range chosen(series.Observed.Subjects, func(*record.ObservedHead) bool { return true }) {
		if row.Role != role || !among(row.PID) || row.TNs > end || len(f.run.Agents) > 0 && host != "" && row.Host != host {
			continue
		}
		switch row.Event {
		case record.SubjectFound:
			if first {
				p.allowed, first = row.CPUsAllowed, false
			} else if p.allowed != row.CPUsAllowed {
				p.allowed = ""
			}
			if p.find(row.PID) == nil {
				p.processes = append(p.processes, processUse{pid: row.PID, parent: row.ParentPID, comm: row.Comm, listens: len(row.Listeners) > 0})
			}
		case record.SubjectGone, record.SubjectRestarted:
			if row.TNs >= 0 {
				p.lost = append(p.lost, row.Comm+" "+row.Event)
			}
		}
	}
}

func (p *processFacts) find(pid int) *processUse {
	for i := range p.processes {
		if p.processes[i].pid == pid {
			return &p.processes[i]
		}
	}
	return nil
}

// sum adds up each process's CPU over the observed time, and that of its threads.
func (p *processFacts) sum(rows []*record.ProcessRow) {
	for _, row := range rows {
		if p.find(row.PID) == nil {
			p.processes = append(p.processes, processUse{pid: row.PID, comm: row.Comm})
		}
	}
	slices.SortFunc(p.processes, func(a, b processUse) int { return cmp.Compare(a.pid, b.pid) })
	all, queueNs := record.ProcessUsageOf(rows), 0.0
	for i := range p.processes {
		u := &p.processes[i]
		id := record.ProcessID{Host: p.host, PID: u.pid}
		u.cores = all.Cores(id)
		p.cores += u.cores
		if use := all.By[id]; use != nil {
			u.busiest, queueNs = use.Busiest(), queueNs+use.QueueNs
			p.threadsOf(u.pid, use)
		}
	}
	if !math.IsNaN(queueNs) {
		p.queue = some(queueNs / all.WholeNs)
	}
	slices.SortFunc(p.threads, func(a, b threadUse) int {
		return cmp.Or(cmp.Compare(b.run, a.run), cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
	})
}

// threadsOf takes the shares of a process's threads.
func (p *processFacts) threadsOf(pid int, use *record.ProcessUse) {
	for _, t := range use.Threads {
		one := threadUse{pid: pid, tid: t.TID, comm: t.Comm, run: float64(t.RunNs) / use.ObservedNs}
		if t.QueueNs >= 0 {
			one.queue = some(float64(t.QueueNs) / use.ObservedNs)
		}
		p.threads = append(p.threads, one)
	}
}

// bySample computes figures per sample. The processes of one sample end their interval together.
func (p *processFacts) bySample(rows []*record.ProcessRow) {
	peaks, n := 0.0, 0.0
	for i := 0; i < len(rows); {
		at, cpu, peak, listed := rows[i].TNs, 0.0, 0.0, false
		for ; i < len(rows) && rows[i].TNs == at; i++ {
			width := float64(rows[i].WidthNs)
			cpu += math.Max(float64(rows[i].CPUNs), 0) / width
			for _, t := range rows[i].Busiest {
				peak, listed = math.Max(peak, float64(t.RunNs)/width), true
			}
		}
		p.samples = append(p.samples, cpu)
		if listed {
			peaks += peak
		}
		n++
	}
	if len(p.threads) > 0 {
		p.peak = some(peaks / n)
	}
}

// throttling finds the tightest CPU limit on the processes' cgroups.
func (p *processFacts) throttling(f *runFacts, series *record.Series, role string) {
	groups := map[string]bool{}
	for _, row := range series.Observed.Subjects {
		if row.Role == role && row.Host == p.host && row.Cgroup != "" {
			groups[row.Cgroup] = true
		}
	}
	var periods, throttled float64
	for _, row := range observed(f, series.Observed.Throttles) {
		if row.Host != p.host || !groups[row.Cgroup] {
			continue
		}
		periods += math.Max(float64(row.Periods), 0)
		throttled += math.Max(float64(row.Throttled), 0)
		if row.QuotaUs > 0 && row.PeriodUs > 0 {
			allowed := float64(row.QuotaUs) / float64(row.PeriodUs)
			if !p.quota.cores.known || allowed < p.quota.cores.value {
				p.quota.cores = some(allowed)
			}
		}
	}
	if periods > 0 {
		p.quota.throttled = some(throttled / periods)
	}
}

// connectionsOf takes the last sample of how the connections are distributed.
func (p *processFacts) connectionsOf(f *runFacts, series *record.Series) {
	for _, row := range observed(f, series.Observed.Listeners) {
		if row.Host != p.host || len(row.Connections) == 0 {
			continue
		}
		for i := range p.processes {
			p.processes[i].connections = some(0)
		}
		for _, c := range row.Connections {
			if u := p.find(c.PID); u != nil {
				u.connections = some(float64(c.Connections))
			}
		}
	}
}

// fullThreads counts the threads that ran all the time.
func (p *processFacts) fullThreads() int {
	n := 0
	for _, t := range p.threads {
		if t.full(p.stolen) {
			n++
		}
	}
	return n
}

// full reports whether it ran, or wanted to, whenever the hypervisor left its CPUs to this host.
// A thread's time does not include what was stolen (CONFIG_PARAVIRT_TIME_ACCOUNTING).
func (t *threadUse) full(stolen float64) bool {
	had := 1 - stolen
	return t.run >= threadFull*had || t.queue.known && t.run >= threadRuns*had && t.run+t.queue.value >= threadWanting*had
}
