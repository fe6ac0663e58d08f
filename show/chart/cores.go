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
	Shares []float64 // by category, in the order of record.CPUCategories
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
	grid := make([][]record.CPUSum, len(cpus)) // by core and column
	sums := make([]record.CPUSum, len(cpus))
	for i := range grid {
		grid[i] = make([]record.CPUSum, columns)
	}
	for _, r := range rows {
		c.spread(run, r, cpus, grid, sums)
	}
	c.heats(grid, sums)
	for i, cpu := range cpus {
		time := sums[i].ByCategory()
		c.PerCore = append(c.PerCore, CoreShares{cpu, time.Total(), time.Shares()})
	}
	return c, true
}

// spread distributes one sample over the columns that it covers, in proportion, and adds it to
// the sums if it lies in the window.
func (c *Cores) spread(run *Run, r *record.CPURow, cpus []int, grid [][]record.CPUSum, sums []record.CPUSum) {
	from, to := interval(r.TNs, r.WidthNs)
	counts := run.InWindow(&r.ObservedHead)
	columns := len(grid[0])
	width := (c.To - c.From) / float64(columns)
	first := min(max(int((from-c.From)/width), 0), columns-1)
	last := min(max(int(math.Ceil((to-c.From)/width))-1, first), columns-1)
	for i := range r.Cores {
		core := &r.Cores[i]
		at, _ := slices.BinarySearch(cpus, core.CPU)
		if !new(record.CPUSum).AddTicks(core, 1) {
			c.Refused++
			continue
		}
		for col := first; col <= last; col++ {
			left, right := c.From+float64(col)*width, c.From+float64(col+1)*width
			if part := min(to, right) - max(from, left); part > 0 {
				grid[at][col].AddTicks(core, part/(to-from))
			}
		}
		if counts {
			sums[at].AddTicks(core, 1)
		}
	}
}

// heats builds the maps: busy (all work done on this host), then each category.
func (c *Cores) heats(grid [][]record.CPUSum, sums []record.CPUSum) {
	names := append([]string{"busy"}, record.CPUCategories()...)
	var all record.CPUTime
	for i := range sums {
		time := sums[i].ByCategory()
		for n, share := range time.Shares() {
			all[n] += share
		}
	}
	for n, name := range names {
		h := Heat{Name: name, Height: len(grid), Columns: len(grid[0]), Cells: make([]float64, 0, len(grid)*len(grid[0]))}
		of := func(time record.CPUTime) float64 {
			total := time.Total()
			switch {
			case !(total > 0):
				return math.NaN()
			case n > 0:
				return time[n-1] / total
			}
			return min(time.Busy()/total, 1)
		}
		switch {
		case n-1 == record.CPUIdle:
			h.Kind = Idle
		case n-1 >= record.CPUSteal:
			h.Kind = Lost
		}
		h.Mean = of(all)
		for i := range grid {
			for col := range grid[i] {
				h.Cells = append(h.Cells, of(grid[i][col].ByCategory()))
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
	if c.Shares == nil {
		return 0
	}
	shares := record.CPUTime(c.Shares)
	return min(shares.Busy(), 1)
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
