package report

import (
	"fmt"
	"path"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// ProfileName is a display name of a kind of profile.
func ProfileName(kind string) string {
	if name := map[string]string{
		record.ProfileOnCPU: "on-CPU time", record.ProfileOffCPU: "off-CPU time", record.ProfileGoCPU: "CPU time by Go's profile",
		record.ProfileGoBlock: "goroutines blocked", record.ProfileGoMutex: "mutex contention", record.ProfileAllocs: "bytes allocated",
		record.ProfileHeap: "heap in use", record.ProfileGoroutine: "goroutines",
	}[kind]; name != "" {
		return name
	}
	return kind
}

// ProfileAmount formats a profile's value in its unit.
func ProfileAmount(v int64, of string) string {
	switch of {
	case "nanoseconds":
		return unit.FormatNs(v)
	case "bytes":
		return unit.FormatBytesIEC(v)
	}
	return unit.FormatCount(v)
}

// FunctionPlace formats a function with its file and line, as far as known.
func FunctionPlace(name, file string, line int) string {
	name = shortName(name)
	switch {
	case file == "" || !strings.ContainsRune(file, '.') && line == 0:
		return name
	case line == 0:
		return fmt.Sprintf("%s (%s)", name, path.Base(file))
	}
	return fmt.Sprintf("%s (%s:%d)", name, path.Base(file), line)
}

// shortName drops type arguments and a long path.
func shortName(name string) string {
	if i := strings.Index(name, "[go.shape."); i > 0 {
		name = name[:i] + "[…]"
	}
	if r := []rune(name); len(r) > 100 {
		name = string(r[:99]) + "…"
	}
	return name
}

// profileLinesMost limits the functions on a line.
const profileLinesMost = 3

func profiling(p *printer, r *record.Run) {
	g := r.Profiling
	if g == nil {
		return
	}
	p.line("")
	p.fact("profiles", ProfilingLine(g))
	for i := range g.Profiles {
		one := &g.Profiles[i]
		p.fact(one.Kind, profileLine(one))
		if text := SpreadLine(one); text != "" {
			p.fact("", text)
		}
	}
	if text := GCLine(g.GC); text != "" {
		p.fact("gc", text)
	}
	if text := SchedulerLine(g.Scheduler); text != "" {
		p.fact("scheduler", text)
	}
	p.facts("missing", MissingProfiles(r))
}

// MissingProfiles explains each requested profile that is missing, or lacks names.
func MissingProfiles(r *record.Run) []string {
	var list []string
	for _, n := range r.NotMeasured {
		for _, word := range []string{"pprof", "profile", "stacks", "GC pauses", "scheduler latency"} {
			if strings.Contains(n.What, word) {
				list = append(list, n.What+": "+n.Why)
				break
			}
		}
	}
	if r.Stacks != nil {
		list = append(list, r.Stacks.Missing...)
	}
	if r.Subject == nil {
		list = append(list, "on-CPU and off-CPU profiles: the server's processes are not visible from here; run this on the server's host, as root or as its user")
	}
	return list
}

// ProfilingLine states how much of the run was profiled, and the overhead.
func ProfilingLine(g *record.Profiling) string {
	n := 0
	for _, b := range g.Blocks {
		if b.Profiled {
			n++
		}
	}
	text := fmt.Sprintf("taken in %d of %s", n, unit.Plural(len(g.Blocks), "stretch", "stretches"))
	if g.Cost != nil {
		text += " · " + prose.ProfileCost(g.Cost)
	}
	return text
}

func profileLine(one *record.ProfileOf) string {
	if one.Total == 0 {
		return "nothing recorded"
	}
	text := ProfileAmount(one.Total, one.Unit)
	for i, f := range one.Functions[:min(len(one.Functions), profileLinesMost)] {
		if f.Self <= 0 {
			break
		}
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + unit.Percent(float64(f.Self)/float64(one.Total)) + " " +
			FunctionPlace(f.Name, f.File, f.Line)
		if f.Through != "" {
			text += " in " + shortName(f.Through)
		}
	}
	return text
}

// SpreadLine states how a profile is distributed over several processes.
func SpreadLine(one *record.ProfileOf) string {
	n := len(one.Processes)
	if n < 2 || one.Total <= 0 {
		return ""
	}
	share := func(p record.ProcessPart) string {
		return fmt.Sprintf("%s in %s", unit.Percent(float64(p.Value)/float64(one.Total)), p.Process)
	}
	return fmt.Sprintf("over %d processes: %s to %s", n, share(one.Processes[n-1]), share(one.Processes[0]))
}

// GCLine describes the activity of Go's garbage collector.
func GCLine(gc *record.GoGC) string {
	if gc == nil {
		return ""
	}
	text := fmt.Sprintf("%s in %s", unit.Plural(int(gc.Collections), "collection", "collections"), unit.Plural(gc.Processes, "process", "processes"))
	if gc.Pauses > 0 {
		text += fmt.Sprintf(" · pauses p50 %s, max %s, sum %s", unit.FormatNs(gc.P50Ns), unit.FormatNs(gc.MaxNs), unit.FormatNs(gc.PauseNs))
	}
	if gc.Pauses < gc.Collections {
		text += fmt.Sprintf(" (of the last %s)", unit.FormatCount(gc.Pauses))
	}
	return text + fmt.Sprintf(" · %s of CPU since the start", unit.Percent(gc.CPUShare))
}

// SchedulerLine describes how long runnable goroutines waited for a thread.
func SchedulerLine(s *record.GoScheduler) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("goroutines waited for a thread: p50 %s, p99 %s, max %s (%s in a trace of %s)", unit.FormatNs(s.P50Ns),
		unit.FormatNs(s.P99Ns), unit.FormatNs(s.MaxNs), unit.FormatCount(s.Waits), unit.FormatNs(s.TraceNs))
}

// differencesShown limits the functions per kind in a text.
const differencesShown = 8

func profileDifference(out *printer, d *record.ProfileDifference) {
	out.line("")
	out.text(0, prose.ProfileDifference(d))
	out.table(FunctionTable(d, differencesShown))
}

// FunctionTable has a row for each of the first most functions that a profile found to differ.
func FunctionTable(d *record.ProfileDifference, most int) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Long: "decision"}, {Name: "A", Right: true, Drop: 1}, {Name: "B", Right: true, Drop: 1},
		{Name: "B − A, with its interval"}, {Name: ProfileName(d.Kind) + " of a request", Least: 20},
		{Name: "place", Drop: layout.Hidden}}}
	for i := range d.Functions[:min(len(d.Functions), most)] {
		f := &d.Functions[i]
		t.Rows = append(t.Rows, []string{f.Decision, prose.Cost(f.A, d.Unit), prose.Cost(f.B, d.Unit), differenceText(f, d.Unit),
			FunctionPlace(f.Name, f.File, f.Line), strings.TrimSuffix(fmt.Sprintf("%s:%d", f.File, f.Line), ":0")})
	}
	return t
}

// differenceText is "+1.20 µs (0.9 to 1.5)", without the interval if there is none.
func differenceText(f *record.FunctionDifference, of string) string {
	signed := func(v float64) string {
		if v < 0 {
			return "−" + prose.Cost(-v, of)
		}
		return "+" + prose.Cost(v, of)
	}
	if f.Low == 0 && f.High == 0 {
		return signed(f.B - f.A)
	}
	return fmt.Sprintf("%s (%s to %s)", signed(f.B-f.A), signed(f.Low), signed(f.High))
}
