package chart

import (
	"cmp"
	"slices"
)

// Interrupt is one interrupt line of the network interface over the measured window, usually one
// queue.
type Interrupt struct {
	IRQ  int
	Name string
	// PerS is interrupts per second on all CPUs; CPUs are those that handled any, busiest first,
	// with their shares.
	PerS float64
	CPUs []InterruptShare
}

// InterruptShare is the share of an interrupt that a CPU handled, 0 to 1.
type InterruptShare struct {
	CPU   int
	Share float64
}

// Interrupts returns a host's interrupts in the window, by number.
func Interrupts(run *Run, host string) []Interrupt {
	type key struct {
		irq  int
		name string
	}
	counts, seconds := map[key]map[int]float64{}, 0.0
	for _, row := range run.observed().IRQs {
		if row.Host != host || row.TNs <= 0 || row.WidthNs <= 0 {
			continue
		}
		seconds += float64(row.WidthNs) / 1e9
		for _, line := range row.Lines {
			k := key{line.IRQ, line.Name}
			if counts[k] == nil {
				counts[k] = map[int]float64{}
			}
			for _, cpu := range line.CPUs {
				counts[k][cpu.CPU] += float64(cpu.Count)
			}
		}
	}
	var list []Interrupt
	for k, by := range counts {
		one, total := Interrupt{IRQ: k.irq, Name: k.name}, 0.0
		for _, n := range by {
			total += n
		}
		if total == 0 {
			continue
		}
		one.PerS = total / seconds
		for cpu, n := range by {
			one.CPUs = append(one.CPUs, InterruptShare{cpu, n / total})
		}
		slices.SortFunc(one.CPUs, func(a, b InterruptShare) int { return cmp.Or(cmp.Compare(b.Share, a.Share), a.CPU-b.CPU) })
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Interrupt) int { return cmp.Or(a.IRQ-b.IRQ, cmp.Compare(a.Name, b.Name)) })
	return list
}
