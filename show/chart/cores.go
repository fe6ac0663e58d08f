package chart

import (
	"maps"
	"math"
	"slices"

	"ceiling/record"
)

// Cores is CPU use of one host, per core, over time and over the measured window.
type Cores struct {
	Host string
	// From and To bound the time axis of the heat maps, in seconds.
	From, To float64
	// Heats: busy first, then every category of /proc/stat.
	Heats []Heat
	// PerCore is each core's time shares over the window, by ascending CPU.
	PerCore []CoreShares
	// Samples counts the rows of the record; Refused counts single-core rows discarded because
	// their ticks do not add up.
	Samples, Refused int
}

// CoreShares is one core's time over the window, as shares that add up to 1.
type CoreShares struct {
	CPU int
	// Ticks is the time accounted for, in ticks of 10 ms; 0 if the window has none.
	Ticks  float64
	Shares []float64 // by category, in the order of CategoryNames
}

// CategoryNames are the columns of CoreShares and, after "busy", the heat maps. The kernel
// includes guest time in user and nice.
func CategoryNames() []string {
	return []string{"user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"}
}

// firstLost and idleAt are indexes into CategoryNames: categories before firstLost are work done
// on this host.
const firstLost, idleAt = 5, 7

func categories(c *record.CoreTicks) ticks {
	return ticks{float64(c.User), float64(c.Nice), float64(c.System), float64(c.IRQ), float64(c.SoftIRQ),
		float64(c.Steal), float64(c.IOWait), float64(c.Idle)}
}

// columnsMost is the number of columns of a heat map.
const columnsMost = 240

// CoresOf computes the CPU use of every core of a host. ok is false if nothing was recorded for
// it.
func CoresOf(run *Run, host string) (c Cores, ok bool) {
	c.Host = host
	var rows []*record.CPURow
	numbers := map[int]bool{}
	c.From, c.To = math.Inf(1), math.Inf(-1)
	for _, r := range run.observed().CPU {
		if r.Host != host || r.WidthNs <= 0 {
			continue
		}
		rows = append(rows, r)
		from, to := interval(r.TNs, r.WidthNs)
		c.From, c.To = min(c.From, from), max(c.To, to)
		for i := range r.Cores {
			numbers[r.Cores[i].CPU] = true
		}
	}
	c.Samples = len(rows)
	if len(rows) == 0 || len(numbers) == 0 || !(c.To > c.From) {
		return c, false
	}
	cpus := slices.Sorted(maps.Keys(numbers))
	columns := min(columnsMost, len(rows))
	grid := make([][]ticks, len(cpus)) // by core and column
	sums := make([]ticks, len(cpus))
	for i := range grid {
		grid[i] = make([]ticks, columns)
	}
	for _, r := range rows {
		c.spread(run, r, cpus, grid, sums)
	}
	c.heats(grid, sums)
	for i, cpu := range cpus {
		c.PerCore = append(c.PerCore, CoreShares{cpu, sums[i].total(), sums[i].shares()})
	}
	return c, true
}

// ticks is time by category.
type ticks [8]float64

func (t *ticks) add(of *ticks, share float64) {
	for i := range t {
		t[i] += of[i] * share
	}
}

func (t *ticks) total() float64 {
	sum := 0.0
	for _, v := range t {
		sum += v
	}
	return sum
}

// shares returns each category's share of the total; nil if the total is 0.
func (t *ticks) shares() []float64 {
	total := t.total()
	if !(total > 0) {
		return nil
	}
	list := make([]float64, len(t))
	for i, v := range t {
		list[i] = v / total
	}
	return list
}

// spread distributes one sample over the columns that it covers, in proportion, and adds it to
// the sums if it lies in the window.
func (c *Cores) spread(run *Run, r *record.CPURow, cpus []int, grid [][]ticks, sums []ticks) {
	from, to := interval(r.TNs, r.WidthNs)
	counts := run.InWindow(&r.ObservedHead)
	columns := len(grid[0])
	width := (c.To - c.From) / float64(columns)
	first := min(max(int((from-c.From)/width), 0), columns-1)
	last := min(max(int(math.Ceil((to-c.From)/width))-1, first), columns-1)
	for i := range r.Cores {
		core := &r.Cores[i]
		all := categories(core)
		if core.Bad != "" || slices.Min(all[:]) < 0 {
			c.Refused++
			continue
		}
		at, _ := slices.BinarySearch(cpus, core.CPU)
		for col := first; col <= last; col++ {
			left, right := c.From+float64(col)*width, c.From+float64(col+1)*width
			if part := min(to, right) - max(from, left); part > 0 {
				grid[at][col].add(&all, part/(to-from))
			}
		}
		if counts {
			sums[at].add(&all, 1)
		}
	}
}

// heats builds the maps: busy (all work done on this host), then each category.
func (c *Cores) heats(grid [][]ticks, sums []ticks) {
	names := append([]string{"busy"}, CategoryNames()...)
	var all ticks
	for i := range sums {
		all.add(&sums[i], 1)
	}
	for n, name := range names {
		h := Heat{Name: name, Height: len(grid), Columns: len(grid[0]), Cells: make([]float64, 0, len(grid)*len(grid[0]))}
		of := func(shares []float64) float64 {
			if shares == nil {
				return math.NaN()
			}
			if n > 0 {
				return shares[n-1]
			}
			sum := 0.0
			for _, v := range shares[:firstLost] {
				sum += v
			}
			return min(sum, 1)
		}
		switch {
		case n-1 == idleAt:
			h.Kind = Idle
		case n-1 >= firstLost:
			h.Kind = Lost
		}
		h.Mean = of(all.shares())
		for i := range grid {
			for col := range grid[i] {
				h.Cells = append(h.Cells, of(grid[i][col].shares()))
			}
		}
		c.Heats = append(c.Heats, h)
	}
}

// Hosts returns the hosts with recorded CPUs: the generator's, the server's, then others by name.
func Hosts(run *Run) []string {
	seen := map[string]bool{}
	for _, r := range run.observed().CPU {
		seen[r.Host] = true
	}
	var list []string
	first := []string{run.Environment.Host}
	for i := range run.Agents {
		if run.Agents[i].Loads {
			first = append(first, run.Agents[i].Name)
		}
	}
	if run.Subject != nil {
		first = append(first, run.Subject.Host)
	}
	for _, host := range append(first, slices.Sorted(maps.Keys(seen))...) {
		if seen[host] {
			list = append(list, host)
			delete(seen, host)
		}
	}
	return list
}

// Busy is the share of time spent on work on this host.
func (c *CoreShares) Busy() float64 {
	sum := 0.0
	for i, share := range c.Shares {
		if i < firstLost {
			sum += share
		}
	}
	return min(sum, 1)
}

// Across returns the labels of the time axis below the maps, positioned in per cent.
func (c *Cores) Across() []Tick {
	a := timeAxis(c.From, c.To)
	var list []Tick
	for _, t := range a.Ticks {
		list = append(list, Tick{round(100 * a.At(t.At)), t.Label})
	}
	return list
}
