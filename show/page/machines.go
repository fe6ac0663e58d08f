package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// coresSection shows both ends' cores as heat maps.
func coresSection(run *chart.Run) Section {
	s := of(run, "cores", "Cores")
	var shown []string
	for _, host := range chart.Hosts(run) {
		if sameMachine(run, host, shown) {
			continue // another namespace of the same host: the same CPUs
		}
		shown = append(shown, host)
		c, ok := chart.CoresOf(run, host)
		if !ok {
			continue
		}
		t := coreTable(&c)
		h := HeatMaps{Title: hostTitle(run, host), Cores: &c, Table: &t, Note: heatNote(&c)}
		for i := range c.Heats {
			h.Missing = h.Missing || c.Heats[i].Missing()
		}
		s.Blocks = append(s.Blocks, h)
		if list := chart.Interrupts(run, host); len(list) > 0 {
			s.Blocks = append(s.Blocks, interruptTable(list))
		}
	}
	if len(s.Blocks) == 0 {
		s.Blocks = []Block{notMeasured(run, "The cores", "cpu")}
	} else if run.Subject == nil {
		s.Blocks = append(s.Blocks, notMeasured(run, "The server's cores", "subject"))
	}
	return s
}

// sameMachine reports whether a host shares its kernel with one of others.
func sameMachine(run *chart.Run, host string, others []string) bool {
	a := run.Agent(host)
	return a != nil && slices.ContainsFunc(others, func(other string) bool {
		b := run.Agent(other)
		return b != nil && a.Environment.SameMachine(&b.Environment)
	})
}

// agentsOn returns the agents that generate load from a host's machine.
func agentsOn(run *chart.Run, host string) []string {
	var names []string
	for _, a := range report.Agents(run.Run) {
		if a.Loads && (a.Name == host || sameMachine(run, host, []string{a.Name})) {
			names = append(names, a.Name)
		}
	}
	return names
}

func hostTitle(run *chart.Run, host string) string {
	server := run.Subject != nil && (host == run.Subject.Host || sameMachine(run, run.Subject.Host, []string{host}))
	generator := host == run.Environment.Host
	if len(run.Agents) > 0 {
		names := agentsOn(run, host)
		generator = len(names) > 0
		if len(names) > 1 {
			host = strings.Join(names, ", ") + " on one machine"
		}
	}
	switch {
	case generator && server:
		return host + ", generator and server"
	case generator:
		return host + ", generator"
	case server:
		return host + ", server"
	}
	return host
}

func heatNote(c *chart.Cores) string {
	h := &c.Heats[0]
	text := fmt.Sprintf("%s in %d columns; one line for each of %s. The percentages are means over the measured window.",
		unit.Plural(c.Samples, "sample", "samples"), h.Columns, unit.Plural(h.Height, "core", "cores"))
	if c.Refused > 0 {
		text += fmt.Sprintf(" %d per-core samples were discarded: their categories do not add up.", c.Refused)
	}
	return text
}

// coreTable shows every category of every core over the window.
func coreTable(c *chart.Cores) Table {
	t := Table{Caption: "Time of each core over the window, every category",
		Columns: []Column{{Name: "core", Figure: true}, {Name: "busy", Figure: true}}, Fold: len(c.PerCore) > 8}
	for _, name := range record.CPUCategories() {
		t.Columns = append(t.Columns, Column{Name: name, Figure: true})
	}
	for _, core := range c.PerCore {
		row := []Cell{{Text: fmt.Sprint(core.CPU)}}
		if core.Shares == nil {
			row = append(row, Cell{Text: "not measured"})
			for range record.CPUCategories() {
				row = append(row, Cell{Text: "–"})
			}
			t.Rows = append(t.Rows, row)
			continue
		}
		row = append(row, Cell{Text: unit.Percent(core.Busy())})
		for _, share := range core.Shares {
			row = append(row, Cell{Text: unit.Percent(share)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// interruptCPUs limits the CPUs listed per interrupt.
const interruptCPUs = 4

// interruptTable shows which CPUs handled the network interface's interrupts.
func interruptTable(list []chart.Interrupt) Table {
	t := Table{Caption: "Interrupts of the network interface over the window, by queue", Fold: len(list) > processRows,
		Columns: []Column{{Name: "interrupt", Figure: true}, {Name: "queue"}, {Name: "per second", Figure: true}, {Name: "taken by"}}}
	for i := range list {
		irq := &list[i]
		var by []string
		for _, c := range irq.CPUs[:min(len(irq.CPUs), interruptCPUs)] {
			by = append(by, fmt.Sprintf("CPU %d %s", c.CPU, unit.Percent(c.Share)))
		}
		if more := len(irq.CPUs) - len(by); more > 0 {
			by = append(by, fmt.Sprintf("%d more", more))
		}
		t.Rows = append(t.Rows, []Cell{{Text: fmt.Sprint(irq.IRQ)}, {Text: irq.Name}, {Text: perSecond(irq.PerS)}, {Text: strings.Join(by, ", ")}})
	}
	return t
}

// processesSection shows the processes of subject and generator.
func processesSection(run *chart.Run) Section {
	s := of(run, "processes", "Processes")
	if list := chart.Processes(run); len(list) > 0 {
		s.Blocks = append(s.Blocks, processTable(run, list))
	} else {
		s.Blocks = append(s.Blocks, notMeasured(run, "Processes", "process"))
	}
	if run.Subject == nil {
		s.Blocks = append(s.Blocks, notMeasured(run, "The server's processes", "subject"))
	}
	if len(run.Generator.Workers) > 0 {
		s.Blocks = append(s.Blocks, workerTable(run))
	}
	if t, ok := peerTable(run); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if len(run.Verdict.Hosts) > 0 {
		s.Blocks = append(s.Blocks, HostTable(run.Verdict.Hosts))
	}
	if len(run.Verdict.Disks) > 0 {
		s.Blocks = append(s.Blocks, diskTable(run.Verdict.Disks))
	}
	for i, p := range chart.Behind(run, chart.Most) {
		s.Blocks = append(s.Blocks, figure(fmt.Sprintf("behind-%d", i+1), p))
	}
	for _, p := range run.Profiles {
		s.Blocks = append(s.Blocks, profileTable(&p))
	}
	return s
}

// processRows is the number of processes from which the table is collapsed.
const processRows = 24

// roleOf returns a process's role; with several agents, also its host.
func roleOf(run *chart.Run, p *chart.Process) string {
	role := p.Role
	if role == record.RoleSubject {
		role = "server"
	}
	if len(run.Agents) > 0 {
		return role + " on " + p.Host
	}
	return role
}

func processTable(run *chart.Run, list []chart.Process) Table {
	caption := "Processes over the window; CPU in cores, the line shows it over time on one scale"
	if n, addr := chart.SharedListeners(run); n > 0 {
		caption += fmt.Sprintf("; %d listening sockets share %s by SO_REUSEPORT", n, addr)
	}
	held := chart.ConnectionsOf(run)
	t := Table{Caption: caption, Fold: len(list) > processRows,
		Columns: []Column{{Name: "role"}, {Name: "process"}, {Name: "CPU", Figure: true}, {Name: "over time"}, {Name: "user", Figure: true},
			{Name: "system", Figure: true}, {Name: "runnable", Figure: true}, {Name: "busiest thread", Figure: true},
			{Name: "threads", Figure: true}, {Name: "memory", Figure: true}, {Name: "context switches/s, voluntary", Figure: true},
			{Name: "involuntary", Figure: true}, {Name: "threads blocked in"}}}
	for i := range list {
		p := &list[i]
		t.Rows = append(t.Rows, []Cell{{Text: roleOf(run, p)}, {Text: fmt.Sprintf("%s (%d)", p.Comm, p.PID)}, {Text: cores(p.Cores)},
			{Spark: &p.Over},
			{Text: cores(p.User)}, {Text: cores(p.System)}, {Text: cores(p.Queue)}, {Text: unit.Percent(p.Busiest)}, {Text: fmt.Sprint(p.Threads)},
			{Text: unit.FormatBytesIEC(p.RSS)}, {Text: perSecond(p.Voluntary)}, {Text: perSecond(p.Involuntary)}, {Text: sleeps(p.Waits)}})
	}
	if len(held) > 0 {
		t.connections(list, held)
	}
	return t
}

// connections adds a column with the server's connections per process, "–" for processes that are
// not the server's.
func (t *Table) connections(list []chart.Process, held map[int]int) {
	const at = 3 // after the CPU
	t.Columns = slices.Insert(t.Columns, at, Column{Name: "connections", Figure: true})
	for i := range t.Rows {
		text := "–"
		if list[i].Role == record.RoleSubject {
			text = unit.FormatCount(int64(held[list[i].PID]))
		}
		t.Rows[i] = slices.Insert(t.Rows[i], at, Cell{Text: text})
	}
}

func cores(v float64) string {
	if math.IsNaN(v) {
		return "not known"
	}
	return fmt.Sprintf("%.2f", v)
}

func perSecond(v float64) string {
	if math.IsNaN(v) {
		return "not known"
	}
	return unit.FormatSI(math.Round(v*10) / 10)
}

func sleeps(waits []chart.Wait) string {
	var parts []string
	for _, w := range waits {
		parts = append(parts, fmt.Sprintf("%s %.1f", w.Wchan, w.Threads))
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// HostTable shows both ends' CPU time by category, which adds up to 100 %, and what their links carried.
func HostTable(list []record.HostUse) Table {
	t := Table{Caption: "CPU time of both ends over the window",
		Columns: []Column{{Name: "end"}, {Name: "CPUs"}, {Name: "usr", Figure: true}, {Name: "sys", Figure: true}, {Name: "irq", Figure: true},
			{Name: "softirq", Figure: true}, {Name: "steal", Figure: true}, {Name: "idle", Figure: true}, {Name: "link"}, {Name: "in", Figure: true},
			{Name: "out", Figure: true}}}
	way := func(u *record.HostUse, bytes, packets float64) Cell {
		if u.Link == "" {
			return Cell{Text: "–"}
		}
		return Cell{Text: unit.FormatBytesSI(int64(bytes+.5)) + "/s, " + unit.FormatSI(packets) + " packets/s"}
	}
	for i := range list {
		u := &list[i]
		row := []Cell{{Text: u.Name()}, {Text: u.CPUs}}
		for _, share := range []float64{u.User, u.System, u.IRQ, u.SoftIRQ, u.Steal, u.Idle} {
			row = append(row, Cell{Text: unit.PercentFixed(share)})
		}
		t.Rows = append(t.Rows, append(row, Cell{Text: cmp.Or(u.Link, "loopback or not watched")}, way(u, u.RxBytesPerS, u.RxPacketsPerS),
			way(u, u.TxBytesPerS, u.TxPacketsPerS)))
	}
	return t
}

// diskTable shows the block devices of the server's host.
func diskTable(list []record.DiskUse) Table {
	t := Table{Caption: "Disks of the server's host over the window",
		Columns: []Column{{Name: "disk"}, {Name: "busy", Figure: true}, {Name: "requests under way", Figure: true}, {Name: "reads/s", Figure: true},
			{Name: "read", Figure: true}, {Name: "writes/s", Figure: true}, {Name: "written", Figure: true}, {Name: "flushes/s", Figure: true},
			{Name: "per flush", Figure: true}, {Name: "time in flushes", Figure: true}}}
	bytes := func(perS float64) Cell { return Cell{Text: unit.FormatBytesSI(int64(perS)) + "/s"} }
	for i := range list {
		d := &list[i]
		each, share := "–", "–"
		if d.FlushesPerS > 0 {
			each, share = unit.FormatNs(int64(d.FlushNs)), unit.Percent(d.Flushing())
		}
		t.Rows = append(t.Rows, []Cell{{Text: d.Device + report.DiskOf(d)}, {Text: unit.Percent(d.Busy)}, {Text: fmt.Sprintf("%.2f", d.Queue)},
			{Text: perSecond(d.ReadsPerS)}, bytes(d.ReadBytesPerS), {Text: perSecond(d.WritesPerS)}, bytes(d.WrittenBytesPerS),
			{Text: perSecond(d.FlushesPerS)}, {Text: each}, {Text: share}})
	}
	return t
}

func workerTable(run *chart.Run) Table {
	t := Table{Caption: "The generator's workers", Fold: len(run.Generator.Workers) > processRows,
		Columns: []Column{{Name: "thread", Figure: true}, {Name: "connections", Figure: true}, {Name: "completed", Figure: true},
			{Name: "running", Figure: true}, {Name: "runnable (waiting for CPU)", Figure: true}}}
	for _, w := range run.Generator.Workers {
		delay := "not measured"
		if w.RunDelay >= 0 {
			delay = unit.Percent(w.RunDelay)
		}
		t.Rows = append(t.Rows, []Cell{{Text: fmt.Sprint(w.Thread)}, {Text: unit.FormatCount(int64(w.Connections))},
			{Text: unit.FormatCount(int64(w.Completed))}, {Text: unit.Percent(w.Busy)}, {Text: delay}})
	}
	return t
}

// peerTable shows the subject's peers, averaged over the samples that found any.
func peerTable(run *chart.Run) (Table, bool) {
	t := Table{Caption: "Connections that the server keeps to others, mean numbers",
		Columns: []Column{{Name: "address"}, {Name: "connections", Figure: true}, {Name: "waiting for an answer", Figure: true},
			{Name: "unread", Figure: true}}}
	for _, p := range chart.Peers(run) {
		awaiting := "not known"
		if !math.IsNaN(p.Awaiting) {
			awaiting = fmt.Sprintf("%.1f", p.Awaiting)
		}
		t.Rows = append(t.Rows, []Cell{{Text: p.Addr, Code: true}, {Text: fmt.Sprintf("%.1f", p.Sockets)}, {Text: awaiting},
			{Text: fmt.Sprintf("%.1f", p.Unread)}})
	}
	return t, len(t.Rows) > 0
}

func profileTable(p *record.Profile) Table {
	what := map[string]string{record.ProfileCPU: "CPU time", record.ProfileMutex: "time waited for mutexes",
		record.ProfileBlock: "time blocked"}[p.Kind]
	t := Table{Caption: fmt.Sprintf("Profile of the server (%s): %s in all", p.Kind, unit.FormatNs(p.TotalNs)),
		Columns: []Column{{Name: "function"}, {Name: what, Figure: true}, {Name: "share", Figure: true}, {Name: "through"}, {Name: "place"}}}
	if p.TotalNs == 0 {
		t.Caption = fmt.Sprintf("Profile of the server (%s): nothing recorded", p.Kind)
	}
	for _, f := range p.Frames {
		t.Rows = append(t.Rows, []Cell{{Text: f.Function, Code: true}, {Text: unit.FormatNs(f.Ns)}, {Text: unit.Percent(f.Share)},
			{Text: f.Through, Code: true}, {Text: fmt.Sprintf("%s:%d", f.File, f.Line), Code: true}})
	}
	return t
}

// linkSection shows the link between both ends and its utilisation.
func linkSection(run *chart.Run, most int) Section {
	s := of(run, "link", "The link")
	links := chart.Links(run, most)
	for i := range links {
		l := &links[i]
		s.Blocks = append(s.Blocks, Heading{linkTitle(l)}, linkTable(l))
		id := fmt.Sprintf("%s-%d", s.ID, i+1)
		s.Blocks = append(s.Blocks, Columns{[][]Block{{figure(id+"-bits", l.Bits)}, {figure(id+"-packets", l.Packets)}}})
	}
	if len(links) == 0 {
		s.Blocks = append(s.Blocks, notMeasured(run, "The link", "netdev"))
	}
	if t, ok := tcpTable(run); ok {
		s.Blocks = append(s.Blocks, t)
	}
	return s
}

func linkTitle(l *chart.Link) string {
	text := l.Iface + " on " + l.Host
	if l.Side != "" {
		text += ", the " + l.Side + "'s side"
	}
	return text
}

func linkTable(l *chart.Link) Table {
	t := Table{Caption: "What the link carried over the window", Columns: []Column{{Name: "direction"}, {Name: "throughput", Figure: true},
		{Name: "peak", Figure: true}, {Name: "link speed", Figure: true}, {Name: "utilisation", Figure: true}, {Name: "packets", Figure: true},
		{Name: "bytes/packet", Figure: true}}}
	for _, way := range []struct {
		name string
		of   *chart.Direction
	}{{"received", &l.Received}, {"sent", &l.Sent}} {
		w := way.of
		limit, share := "unknown", "–"
		if w.Limit.BitsPerS > 0 {
			limit, share = fmt.Sprintf("%s, %s", unit.FormatBits(unit.BitsPerSecond(w.Limit.BitsPerS)), w.Limit.Says()), unit.Percent(w.Share())
			if w.Limit.Framed() {
				limit += "; with Ethernet framing"
			}
		}
		t.Rows = append(t.Rows, Cells(way.name, unit.FormatBits(unit.BitsPerSecond(w.BitsPerS)),
			unit.FormatBits(unit.BitsPerSecond(w.PeakBitsPerS)), limit, share, unit.FormatSI(w.PacketsPerS)+"/s", fmt.Sprintf("%.0f", w.BytesPerPacket)))
	}
	t.Caption += fmt.Sprintf("; %s dropped or damaged at the interface, %s at its queueing discipline", unit.FormatCount(l.Dropped),
		unit.FormatCount(l.QueueDropped))
	if l.Refused > 0 {
		t.Caption += fmt.Sprintf("; %s discarded: a counter went backwards", unit.Plural(l.Refused, "row", "rows"))
	}
	return t
}

// tcpTable shows the TCP counters that changed, and round-trip times.
func tcpTable(run *chart.Run) (Table, bool) {
	t := Table{Caption: "What TCP counted over the window" + map[bool]string{true: ", all hosts together"}[len(run.Agents) > 0],
		Columns: []Column{{Name: "counter"}, {Name: "count", Figure: true}}}
	for _, c := range chart.TCPCounters(run) {
		t.Rows = append(t.Rows, []Cell{{Text: c.Name}, {Text: c.Text}})
	}
	return t, len(t.Rows) > 0
}
