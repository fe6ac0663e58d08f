package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// A thread of the server that is runnable most of the time and seldom runs has
// lost its CPU to others. Nothing of the server is full then, and no core is idle.

// neighbour is what processes of one name used of a host's CPU.
type neighbour struct {
	comm  string
	pids  []int
	cores float64
}

// neighboursOf are the processes beside the server and the generator that used
// CPU on a host in the window, most first. One that last ran on another CPU than
// these took none of them away, as far as a look tells.
func neighboursOf(f *facts, series *record.Series, host string, cpus []int) []neighbour {
	var list []neighbour
	width := 0.0
	for _, row := range observed(f, series.Observed.Neighbours) {
		if row.Host != host || row.WidthNs <= 0 {
			continue
		}
		width += float64(row.WidthNs)
		for _, one := range row.Neighbours {
			if one.CPU >= 0 && len(cpus) > 0 && !slices.Contains(cpus, one.CPU) {
				continue
			}
			i := slices.IndexFunc(list, func(n neighbour) bool { return n.comm == one.Comm })
			if i < 0 {
				i = len(list)
				list = append(list, neighbour{comm: one.Comm})
			}
			if !slices.Contains(list[i].pids, one.PID) {
				list[i].pids = append(list[i].pids, one.PID)
			}
			list[i].cores += positive(float64(one.CPUNs))
		}
	}
	for i := range list {
		list[i].cores /= width
	}
	slices.SortFunc(list, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.cores, a.cores), cmp.Compare(a.comm, b.comm))
	})
	return slices.DeleteFunc(list, func(n neighbour) bool { return n.cores < neighbourMatters })
}

// says names one.
func (n *neighbour) says() string {
	who := fmt.Sprintf("%s (%d processes)", n.comm, len(n.pids))
	if len(n.pids) == 1 {
		who = fmt.Sprintf("%s (process %d)", n.comm, n.pids[0])
	}
	return fmt.Sprintf("%s %.2f", who, n.cores)
}

// whoElse names those that used most CPU on a host; "" where none is known.
func whoElse(list []neighbour) string {
	var parts []string
	for i := range list[:min(len(list), neighboursSaid)] {
		parts = append(parts, list[i].says())
	}
	return strings.Join(parts, ", ")
}

// starvedThread is the server's thread that lost most time to others: runnable or
// running nearly all the time, without a CPU for a good part of it, while no core
// that it may use is idle.
func (f *facts) starvedThread() *threadUse {
	if !f.subject.known || !f.host.known || !f.coresTaken() {
		return nil
	}
	var worst *threadUse
	for i := range f.subject.threads {
		t := &f.subject.threads[i]
		if t.queue.known && t.queue.value >= starvedDelay && t.run+t.queue.value >= threadWants &&
			(worst == nil || t.queue.value > worst.queue.value) {
			worst = t
		}
	}
	return worst
}

// ruleNeighbours asks whether the server wanted CPU that others had.
func ruleNeighbours(f *facts) finding {
	out := finding{bottleneck: record.SharedCPU}
	foreign := f.foreign()
	if !foreign.known || foreign.value < neighbourTakes || f.fightForCores() && foreign.value < f.generator.cores.value+f.subject.cores {
		return out
	}
	t := f.starvedThread()
	wants := f.serverFull() && f.subject.queue.known && f.subject.queue.value >= starvedThreads && foreign.value > f.subject.cores
	if t == nil && !wants || f.together && f.generator.cores.value > foreign.value {
		return out
	}
	if free, missing := f.generatorFree(); missing != nil || !free && !f.together {
		return out
	}
	cores := unit.Plural(len(f.serverCPUs), "core", "cores")
	out.pro = append(f.cpuEvidence(), record.NewEvidence("series.cpu", foreign.value, "cores", "other processes used %.2f of the server's %s",
		foreign.value, cores))
	starved := fmt.Sprintf("threads of %s waited for a CPU: %.2f of them at any time", f.subjectName(), f.subject.queue.value)
	if t != nil {
		starved = fmt.Sprintf("thread %s of %s ran %s of the time and was runnable without a CPU for %s", t.comm, f.subjectName(),
			unit.Percent(t.run), unit.Percent(t.queue.value))
		out.pro = append(out.pro, record.NewEvidence("series.process.busiest.queue_ns", t.queue.value, "share", "%s", starved))
	}
	out.answer = yes
	out.because = fmt.Sprintf("server starved: %s, while other processes used %.2f of %s", starved, foreign.value, cores)
	out.next = "stop other processes on the server's CPUs, or give the server CPUs of its own (taskset, cpuset); see who they are: top, pidstat 1"
	if who := whoElse(f.neighbours); who != "" {
		out.pro = append(out.pro, record.NewEvidence("series.neighbours", f.neighbours[0].cores, "cores",
			"CPU of other processes on the server's host, in cores: %s", who))
		out.because += fmt.Sprintf(" (%s)", who)
		out.next = fmt.Sprintf("stop %s, or keep it off the server's CPUs (taskset, cpuset, CPUWeight=)", f.neighbours[0].comm)
	}
	return out
}
