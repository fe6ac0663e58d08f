package live

import (
	"cmp"
	"maps"
	"math"
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
	// Busiest is the share of its time that the busiest thread ran, -1 if unknown.
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
	// Bad is set if its rows do not add up and were discarded.
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

func parts(c *record.CoreTicks) [CoreParts]float64 {
	return [...]float64{float64(c.User) + float64(c.Nice), float64(c.System), float64(c.IRQ) + float64(c.SoftIRQ),
		float64(c.Steal), float64(c.IOWait), float64(c.Idle)}
}

func endsOf(r *rows, home string) Hosts {
	var e Hosts
	after := r.latestNs - overNs
	e.Generator, e.Server = endOf(r, record.RoleGenerator, after), endOf(r, record.RoleSubject, after)
	e.Hosts = hostsOf(since(r.observed.CPU, after), home)
	return e
}

// endOf adds up CPU use of the processes of one role.
func endOf(r *rows, role string, after int64) End {
	e := End{Busiest: -1}
	var seen []*record.ProcessRow
	threads := map[record.ProcessID]float64{}
	for _, row := range since(r.observed.Processes, after) {
		if row.Role != role || row.WidthNs <= 0 {
			continue
		}
		seen = append(seen, row)
		for _, t := range row.Busiest {
			threads[record.ProcessID{Host: row.Host, PID: t.TID}] += math.Max(float64(t.RunNs), 0)
		}
		e.Host = row.Host
		switch e.Name {
		case "", row.Comm:
			e.Name = row.Comm
		default:
			e.Name = "several programs"
		}
	}
	use := record.ProcessCPUOf(seen)
	for id := range use.UsedNs {
		e.Cores += use.Cores(id)
	}
	for _, ran := range threads {
		e.Busiest = math.Max(e.Busiest, math.Min(ran/use.WholeNs, 1))
	}
	e.Processes, e.Known = len(use.UsedNs), len(use.UsedNs) > 0
	return e
}

// hostsOf adds up the CPU rows by host and core. It discards rows that do not add up.
func hostsOf(cpu []*record.CPURow, home string) []Host {
	type core struct {
		ticks [CoreParts]float64
		bad   bool
	}
	by := map[string]map[int]*core{}
	for _, row := range cpu {
		if by[row.Host] == nil {
			by[row.Host] = map[int]*core{}
		}
		for i := range row.Cores {
			t := &row.Cores[i]
			c := by[row.Host][t.CPU]
			if c == nil {
				c = &core{}
				by[row.Host][t.CPU] = c
			}
			all := parts(t)
			if t.Bad != "" || slices.Min(all[:]) < 0 {
				c.bad = true
				continue
			}
			for p := range all {
				c.ticks[p] += all[p]
			}
		}
	}
	var hosts []Host
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a, home), rank(b, home)), cmp.Compare(a, b))
	}) {
		h := Host{Name: name}
		for _, n := range slices.Sorted(maps.Keys(by[name])) {
			c := by[name][n]
			h.Cores = append(h.Cores, coreOf(n, c.ticks, c.bad))
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

func coreOf(n int, ticks [CoreParts]float64, bad bool) Core {
	c := Core{CPU: n, Bad: bad}
	sum := 0.0
	for _, t := range ticks {
		sum += t
	}
	if sum <= 0 {
		c.Bad = true
		return c
	}
	c.Bad = false // only some of its rows were discarded
	for p, t := range ticks {
		c.Shares[p] = t / sum
	}
	return c
}

// Link is an interface between the two ends, over the last second.
type Link struct {
	Host, Side, Iface string
	Received, Sent    Direction
}

// Direction is one direction of a link.
type Direction struct {
	// BitsPerS is what counts against Limit: it includes Ethernet framing if the limit is the
	// link's own speed.
	BitsPerS, PacketsPerS float64
	// Limit is in bits per second, 0 if unknown, and its source.
	Limit float64
	From  string
}

// linksOf reads the interfaces between the ends. given is the link speed set by the user, 0 if
// none.
func linksOf(r *rows, given float64) []Link {
	type sums struct {
		rx, tx, rxPackets, txPackets, seconds float64
		last                                  *record.NetDevRow
	}
	type key struct{ host, side, iface string }
	by := map[key]*sums{}
	for _, row := range since(r.observed.NetDevs, r.latestNs-overNs) {
		if !row.Target || row.WidthNs <= 0 || row.Bad != "" {
			continue
		}
		k := key{row.Host, row.Side, row.Iface}
		if by[k] == nil {
			by[k] = &sums{last: row}
		}
		s := by[k]
		s.rx += math.Max(float64(row.RxBytes), 0)
		s.tx += math.Max(float64(row.TxBytes), 0)
		s.rxPackets += math.Max(float64(row.RxPackets), 0)
		s.txPackets += math.Max(float64(row.TxPackets), 0)
		s.seconds += float64(row.WidthNs) / 1e9
	}
	var links []Link
	for k, s := range by {
		received, sent := limitsOf(s.last, given)
		received.fill(s.rx, s.rxPackets, s.seconds)
		sent.fill(s.tx, s.txPackets, s.seconds)
		links = append(links, Link{Host: k.host, Side: k.side, Iface: k.iface, Received: received, Sent: sent})
	}
	slices.SortFunc(links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Side, b.Side), cmp.Compare(a.Iface, b.Iface))
	})
	return links
}

// fromKernel is the source of a limit that is the link's own speed.
const fromKernel = "the link's speed"

// limitsOf determines the link speed: the user's setting takes precedence over the kernel's, and
// a traffic shaper's lower rate over both.
func limitsOf(row *record.NetDevRow, given float64) (received, sent Direction) {
	switch {
	case given > 0:
		received = Direction{Limit: given, From: "given (--link-speed)"}
	case row.SpeedMbit > 0 && !row.SpeedNominal:
		received = Direction{Limit: float64(row.SpeedMbit) * 1e6, From: fromKernel}
	}
	sent = received
	if shaped := float64(row.QdiscRateBitsPerS); shaped > 0 && (sent.Limit == 0 || shaped < sent.Limit) {
		sent = Direction{Limit: shaped, From: row.Qdisc}
	}
	return received, sent
}

func (w *Direction) fill(bytes, packets, seconds float64) {
	if w.From == fromKernel {
		bytes += packets * record.WirePerPacket
	}
	w.BitsPerS, w.PacketsPerS = bytes*8/seconds, packets/seconds
}
