package main

import (
	"fmt"
	"math"
)

// summarise computes the table's rows and their targets.
func summarise(cells []cell, names []string) ([]Row, []Target) {
	var rows []Row
	var targets []Target
	for _, w := range works() {
		for _, name := range names {
			row := rowOf(cells, w.name, name)
			if row.GeneratorNsPerRequest.N == 0 {
				continue
			}
			rows = append(rows, row)
			if row.OursToThis == nil || row.OursToThis.N == 0 {
				continue
			}
			if limit, ok := w.limits[name]; ok {
				targets = append(targets, target(fmt.Sprintf("%s: CPU per request, ours / %s", w.name, name), row.OursToThis.Median, limit, "ratio"))
			}
			targets = append(targets, floorTargets(w.name, &row)...)
		}
	}
	return rows, targets
}

// rowOf is one tool on one work.
func rowOf(cells []cell, work, name string) Row {
	row := Row{
		Work: work, Tool: name,
		GeneratorNsPerRequest: of(cells, work, name, (*cell).generatorNsPerRequest),
		ServerNsPerRequest:    of(cells, work, name, (*cell).serverNsPerRequest),
		HostNsPerRequest:      of(cells, work, name, (*cell).hostNsPerRequest),
		PerS:                  of(cells, work, name, (*cell).perS),
	}
	if seen := of(cells, work, name, func(c *cell) float64 { return c.seen / c.requests }); seen.Min > 0 {
		row.SeenByServer = &seen
	}
	if name == ours {
		in, out := of(cells, work, ours, (*cell).windowNsPerRequest), of(cells, work, ours, (*cell).outsideMs)
		row.WindowNsPerRequest, row.OutsideMs = &in, &out
		return row
	}
	compared := func(our, this figure) *Spread {
		own := byRound(cells, work, ours, our)
		if len(own) == 0 {
			return nil
		}
		r := spreadOf(ratios(own, byRound(cells, work, name, this)))
		return &r
	}
	row.OursToThis = compared((*cell).generatorNsPerRequest, (*cell).generatorNsPerRequest)
	row.WindowToThis = compared((*cell).windowNsPerRequest, (*cell).generatorNsPerRequest)
	row.ServerToThis = compared((*cell).serverNsPerRequest, (*cell).serverNsPerRequest)
	row.PerSToThis = compared((*cell).perS, (*cell).perS)
	return row
}

// Targets against the floor with waits for eight, and against gcannon, on every work.
const (
	windowToFloor = 1.10
	serverToFloor = 1.02
	floorToOurs   = 1 / .97 // of the rates
	windowToPeer  = 1
)

func floorTargets(work string, row *Row) []Target {
	switch row.Tool {
	case floorEight:
		return []Target{
			target(work+": CPU per request in the window, ours / "+floorEight, row.WindowToThis.Median, windowToFloor, "ratio"),
			target(work+": server's CPU per request, under ours / under "+floorEight, row.ServerToThis.Median, serverToFloor, "ratio"),
			target(work+": requests/s, "+floorEight+" / ours", 1/row.PerSToThis.Median, floorToOurs, "ratio"),
		}
	case gcannon:
		return []Target{target(work+": CPU per request in the window, ours / "+gcannon, row.WindowToThis.Median, windowToPeer, "ratio")}
	}
	return nil
}

// target checks a value against its limit.
func target(name string, value, limit float64, unit string) Target {
	return Target{Name: name, Value: value, Limit: limit, Unit: unit, Met: value <= limit}
}

func byRound(cells []cell, work, tool string, f figure) map[int]float64 {
	m := map[int]float64{}
	for i := range cells {
		if c := &cells[i]; c.work == work && c.tool == tool {
			m[c.round] = f(c)
		}
	}
	return m
}

func of(cells []cell, work, tool string, f figure) Spread {
	var list []float64
	for _, v := range byRound(cells, work, tool, f) {
		list = append(list, v)
	}
	return spreadOf(list)
}

// Limits beyond which a cell gets a caveat.
const (
	// othersShare is the share of the host's CPU used by neither generator nor server. The host's
	// is counted by the tick, 250 times a second here: 1,000 samples in 2 s of two CPUs are
	// accurate to 3 %.
	othersShare = 0.10
	// countSlack is the allowed difference between the tool's count and the server's, besides
	// requests in flight at the end: the server also reads a few bytes that are not requests.
	countSlack = 0.002
)

// caveatsOf lists the reasons to distrust the cells.
func caveatsOf(cells []cell) []string {
	var list []string
	busy := 0
	for i := range cells {
		c := &cells[i]
		others := float64(c.hostNs-c.generatorNs-c.serverNs) / float64(c.hostNs)
		if c.hostNs > 0 && others > othersShare {
			busy++
		}
	}
	if busy > 0 {
		list = append(list, fmt.Sprintf("in %d of %d measurements other processes used more than %.0f%% of the CPU time: rerun on a quiet machine", busy, len(cells), othersShare*100))
	}
	list = append(list, miscounted(cells)...)
	if own := firstOutcome(cells); own != "" {
		list = append(list, own)
	}
	return list
}

// miscounted lists each tool whose count differs from the server's, and the first occurrence.
func miscounted(cells []cell) []string {
	var names []string
	first, times := map[string]*cell{}, map[string]int{}
	for i := range cells {
		c := &cells[i]
		if c.seen == 0 || math.Abs(c.seen-c.requests-c.inFlight/2) <= c.inFlight/2+countSlack*c.requests {
			continue
		}
		if times[c.tool]++; times[c.tool] == 1 {
			names = append(names, c.tool)
			first[c.tool] = c
		}
	}
	var list []string
	for _, name := range names {
		c := first[name]
		list = append(list, fmt.Sprintf("%s: %d of its counts are not the server's: in round %d, %s, it counts %.0f requests and the server saw %.0f",
			name, times[name], c.round+1, c.work, c.requests, c.seen))
	}
	return list
}

// firstOutcome reports our runs that were invalid, with a reason.
func firstOutcome(cells []cell) string {
	var all, void int
	var because string
	for _, c := range cells {
		if c.own == nil {
			continue
		}
		all++
		if c.own.Outcome == "invalid" {
			void++
			because = c.own.Because
		}
	}
	if void == 0 {
		return ""
	}
	return fmt.Sprintf("ceiling calls %d of its %d runs invalid (%s): the generator and the server share these CPUs, and only CPU per request is read from them", void, all, because)
}
