package doctor

import (
	"fmt"

	"ceiling/internal/unit"
)

const (
	// stealWarn and stealBad are shares of all CPU time taken by the hypervisor. 2 % affects a
	// comparison of two runs, 10 % the tail of one.
	stealWarn = 0.02
	stealBad  = 0.10

	// foreignWarn (of a core) and foreignWarnShare (of all) are more than a shell and an editor
	// use; foreignBad is half a core, or a tenth of all.
	foreignWarn, foreignWarnShare = 0.15, 0.05
	foreignBad, foreignBadShare   = 0.5, 0.10
	// foreignShown is the number of processes named.
	foreignShown = 4
)

func checkSteal(f *Facts) Finding {
	a := &f.Activity
	if a.Err != "" || a.Cores == 0 {
		return unknown(a.why(), "")
	}
	share := a.Steal / a.Cores
	what := fmt.Sprintf("%.1f%% of the CPU time was taken by the hypervisor, over %.1f s", 100*share, a.WidthS)
	fix := "wait until the neighbours are quiet, or use a dedicated machine"
	switch {
	case share >= stealBad:
		return bad(what, fix)
	case share >= stealWarn:
		return warn(what, fix)
	}
	return ok(what)
}

func (a *Activity) why() string {
	if a.Err != "" {
		return a.Err
	}
	return "the host's CPUs were not read"
}

func checkOtherProcesses(f *Facts) Finding {
	a := &f.Activity
	if a.Err != "" || a.Cores == 0 {
		return unknown(a.why(), "")
	}
	foreign := max(a.Busy-a.Own-a.Server, 0)
	what := fmt.Sprintf("%.2f of %.0f cores used by others, over %.1f s", foreign, a.Cores, a.WidthS)
	var names []string
	seen := 0.0
	for _, p := range a.Foreign {
		names = append(names, fmt.Sprintf("%s (%d) %.2f", p.Comm, p.PID, p.Cores))
		seen += p.Cores
	}
	if len(names) > 0 {
		what += ": " + list(names, foreignShown)
	}
	// Interrupts belong to no process; processes that lived shorter than the interval are not
	// seen.
	if foreign-seen >= foreignWarn {
		what += fmt.Sprintf("; %.2f by interrupts, short-lived or hidden processes", foreign-seen)
	}
	fix := "stop these processes during the run: kill -STOP PID, later kill -CONT PID"
	switch {
	case foreign >= max(foreignBad, foreignBadShare*a.Cores):
		return bad(what, fix)
	case foreign >= max(foreignWarn, foreignWarnShare*a.Cores):
		return warn(what, fix)
	}
	return ok(what)
}

const (
	// memoryBad and memoryWarn are shares of available memory: below them, the kernel evicts the
	// page cache and then swaps programs out.
	memoryBad  = 0.05
	memoryWarn = 0.15
	// swapWarn is more than a long uptime leaves in swap without memory pressure.
	swapWarn = 64 << 20
)

func checkMemory(f *Facts) Finding {
	total, left := f.Files.MemTotal, f.Files.MemAvailable
	if total <= 0 || left < 0 {
		return unknown("available memory unknown", "")
	}
	share := float64(left) / float64(total)
	what := fmt.Sprintf("%s of %s available", unit.FormatBytesIEC(left), unit.FormatBytesIEC(total))
	fix := "end what holds it: ps aux --sort=-rss | head"
	switch {
	case share < memoryBad:
		return bad(what, fix)
	case share < memoryWarn:
		return warn(what, fix)
	}
	return ok(what)
}

func checkSwap(f *Facts) Finding {
	used := f.Files.SwapTotal - f.Files.SwapFree
	switch {
	case f.Files.SwapTotal < 0 || f.Files.SwapFree < 0:
		return unknown("swap use unknown", "")
	case f.Activity.SwapPages > 0:
		return bad(fmt.Sprintf("%d pages were swapped in or out in %.1f s", f.Activity.SwapPages, f.Activity.WidthS),
			"free memory, then: swapoff -a && swapon -a (as root)")
	case used > swapWarn:
		return warn(unit.FormatBytesIEC(used)+" are swapped out: pages come back from disk on demand",
			"swapoff -a && swapon -a (as root), once there is room in memory")
	case f.Files.SwapTotal == 0:
		return ok("none")
	}
	return ok(fmt.Sprintf("%s of %s in use, none moved", unit.FormatBytesIEC(used), unit.FormatBytesIEC(f.Files.SwapTotal)))
}
