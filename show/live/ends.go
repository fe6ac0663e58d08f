package live

import (
	"cmp"
	"maps"
	"slices"

	"ceiling/record"
)

// overNs is the period that the figures of ends and links cover: the last second of rows.
const overNs = 1e9

// Hosts is the state of both ends' machines over the last second.
type Hosts struct {
	Generator, Server End
	// Hosts are the observed hosts, the generator's first.
	Hosts []Host
}

// End is the processes of one end.
type End struct {
	Known bool
	Host  string
	Name  string
	// Processes is their number, Cores the cores that they used: CPU time / time.
	Processes int
	Cores     float64
	// Busiest is the share of its time that the busiest thread ran.
	Busiest float64
}

// Host is one machine's CPUs.
type Host struct {
	Name  string
	Cores []Core
}

// Core is one CPU's time as shares that add up to 1.
type Core struct {
	CPU    int
	Shares [CoreParts]float64
	// Bad is set if no row of it adds up.
	Bad bool
}

// CoreParts is the number of parts of a core's time: the categories of /proc/stat, related ones
// combined.
const CoreParts = 6

// CorePartNames are the parts in order. Those before "steal" are work done on this host.
func CorePartNames() [CoreParts]string {
	return [...]string{"user", "system", "interrupts", "steal", "disk wait", "idle"}
}

// Busy is the share of work done on this host.
func (c *Core) Busy() float64 { return c.Shares[0] + c.Shares[1] + c.Shares[2] }

func endsOf(r *rows, home string) Hosts {
	var e Hosts
	after := r.latestNs - overNs
	e.Generator, e.Server = endOf(r, record.RoleGenerator, after), endOf(r, record.RoleSubject, after)
	e.Hosts = hostsOf(since(r.observed.CPU, after), home)
	return e
}

// endOf adds up CPU use of the processes of one role.
func endOf(r *rows, role string, after int64) End {
	var e End
	var seen []*record.ProcessRow
	for _, row := range since(r.observed.Processes, after) {
		if row.Role != role || row.WidthNs <= 0 {
			continue
		}
		seen = append(seen, row)
		e.Host = row.Host
		switch e.Name {
		case "", row.Comm:
			e.Name = row.Comm
		default:
			e.Name = "several programs"
		}
	}
	use := record.ProcessUsageOf(seen)
	for id, p := range use.By {
		e.Cores += use.Cores(id)
		e.Busiest = max(e.Busiest, p.Busiest())
	}
	e.Processes, e.Known = len(use.By), len(use.By) > 0
	return e
}

// hostsOf adds up the CPU rows by host and core. It discards rows that do not add up.
func hostsOf(cpu []*record.CPURow, home string) []Host {
	by := map[string]map[int]*record.CPUSum{}
	for _, row := range cpu {
		if by[row.Host] == nil {
			by[row.Host] = map[int]*record.CPUSum{}
		}
		for i := range row.Cores {
			t := &row.Cores[i]
			sum := cmp.Or(by[row.Host][t.CPU], new(record.CPUSum))
			sum.AddTicks(t, 1)
			by[row.Host][t.CPU] = sum
		}
	}
	var hosts []Host
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a, home), rank(b, home)), cmp.Compare(a, b))
	}) {
		h := Host{Name: name}
		for _, n := range slices.Sorted(maps.Keys(by[name])) {
			h.Cores = append(h.Cores, coreOf(n, by[name][n].ByCategory()))
		}
		hosts = append(hosts, h)
	}
	return hosts
}

func rank(host, home string) int {
	if host == home {
		return 0
	}
	return 1
}

// coreOf combines a core's categories.
func coreOf(n int, time record.CPUTime) Core {
	c := Core{CPU: n}
	total := time.Total()
	if c.Bad = total <= 0; c.Bad {
		return c
	}
	c.Shares = [...]float64{time[record.CPUUser] + time[record.CPUNice], time[record.CPUSystem],
		time[record.CPUIRQ] + time[record.CPUSoftIRQ], time[record.CPUSteal], time[record.CPUIOWait], time[record.CPUIdle]}
	for p := range c.Shares {
		c.Shares[p] /= total
	}
	return c
}

// Link is an interface between the two ends, over the last second.
type Link struct {
	record.LinkID
	Received, Sent record.LinkWay
}

// linksOf reads the interfaces between the ends. given is the link speed set by the user, 0 if
// none.
func linksOf(r *rows, given float64) (links []Link) {
	for _, s := range record.LinksOf(since(r.observed.NetDevs, r.latestNs-overNs)) {
		if s.Seconds > 0 {
			links = append(links, Link{s.LinkID, s.Against(record.WayReceived, s.Limit(record.WayReceived, given)),
				s.Against(record.WaySent, s.Limit(record.WaySent, given))})
		}
	}
	return links
}
