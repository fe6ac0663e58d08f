package plan

import (
	"math"
	"slices"

	"ceiling/record"
)

// compareBlock is a set of runs that are compared with each other.
type compareBlock struct {
	number int
	noise  bool
	a, b   []*record.Measured
}

// leftMost limits the excluded blocks listed individually.
const leftMost = 3

// wholeBlocks returns the complete blocks, in order, and statements about excluded ones. It skips
// a block still in progress.
func wholeBlocks(runs []record.Measured) (blocks []compareBlock, left []record.Statement) {
	byNumber := map[int]*compareBlock{}
	var numbers []int
	for i := range runs {
		m := &runs[i]
		if m.WarmupRun || m.Block == 0 {
			continue
		}
		b := byNumber[m.Block]
		if b == nil {
			b = &compareBlock{number: m.Block, noise: m.Noise}
			byNumber[m.Block] = b
			numbers = append(numbers, m.Block)
		}
		if m.Side == SideA {
			b.a = append(b.a, m)
		} else {
			b.b = append(b.b, m)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		b := byNumber[n]
		if len(b.a) != runsPerSide || len(b.b) != runsPerSide {
			continue
		}
		if why := b.spoilt(); !why.IsZero() {
			left = append(left, say("left.block", with{"block": n, "why": why}))
			continue
		}
		blocks = append(blocks, *b)
	}
	if more := len(left) - leftMost; more > 0 {
		left = append(left[:leftMost], say("left.blocks", with{"more": more, "left": len(left), "blocks": len(left) + len(blocks)}))
	}
	return blocks, left
}

// partBlocks separates A/B from A/A blocks.
func partBlocks(blocks []compareBlock) (real, noise []compareBlock) {
	for _, b := range blocks {
		if b.noise {
			noise = append(noise, b)
		} else {
			real = append(real, b)
		}
	}
	return real, noise
}

// spoilt returns why a block is unusable, or nothing if it is usable.
func (b *compareBlock) spoilt() record.Statement {
	for _, m := range slices.Concat(b.a, b.b) {
		switch {
		case m.Run == "":
			return say("block.not-made", with{"side": m.Side})
		case m.Completed == 0:
			return say("block.no-answer", with{"run": m.Run, "side": m.Side})
		case m.BadShare > mostly:
			return say("block.errors", with{"share": m.BadShare, "run": m.Run, "side": m.Side})
		case m.Outcome == record.Invalid && !paceOfGenerator(m):
			return say("block.invalid", with{"run": m.Run, "side": m.Side, "why": m.Because})
		}
	}
	return record.Statement{}
}

// rateOf is completions divided by their time.
func rateOf(runs []*record.Measured) (float64, record.Statement) {
	var completed, elapsed float64
	for _, m := range runs {
		completed += float64(m.Completed)
		elapsed += m.ElapsedS
	}
	if !(completed > 0) || !(elapsed > 0) {
		return 0, say("measured.nothing", nil)
	}
	return completed / elapsed, record.Statement{}
}

// cpuOf is the CPU time divided by the requests that it was spent on.
func cpuOf(runs []*record.Measured) (float64, record.Statement) {
	var used, completed float64
	for _, m := range runs {
		if !(m.ServerCPUNs > 0) {
			return 0, say("measured.no-cpu", with{"run": m.Run})
		}
		used += m.ServerCPUNs * float64(m.Completed)
		completed += float64(m.Completed)
	}
	if !(completed > 0) {
		return 0, say("measured.nothing", nil)
	}
	return used / completed, record.Statement{}
}

// quantileOf is a quantile of all response times together.
func quantileOf(q float64) func([]*record.Measured) (float64, record.Statement) {
	return func(runs []*record.Measured) (float64, record.Statement) {
		times := new(responseTimes)
		for _, m := range runs {
			if !times.add(m.Histogram, m.Waiting) {
				return 0, say("measured.no-histogram", with{"run": m.Run})
			}
		}
		ns, _ := times.quantile(q)
		if ns <= 0 {
			return 0, say("measured.nothing", nil)
		}
		return float64(ns), record.Statement{}
	}
}

// outcome is one metric in one block, each side's two runs combined.
type outcome struct {
	a, b float64
	// apart is the difference between a side's two runs, as |ln| of their ratio; the larger one
	// of both sides.
	apart float64
}

// ratio is ln(B/A).
func (o outcome) ratio() float64 { return math.Log(o.b / o.a) }

// outcomesOf measures every block; why is what the first incomplete one lacks.
func outcomesOf(m compareMetric, blocks []compareBlock) (list []outcome, why record.Statement) {
	for _, b := range blocks {
		var o outcome
		for side, runs := range [][]*record.Measured{b.a, b.b} {
			both, missing := m.of(runs)
			if !missing.IsZero() {
				return nil, missing
			}
			first, missing := m.of(runs[:1])
			if !missing.IsZero() {
				return nil, missing
			}
			second, missing := m.of(runs[1:])
			if !missing.IsZero() {
				return nil, missing
			}
			o.apart = max(o.apart, math.Abs(math.Log(first/second)))
			if side == 0 {
				o.a = both
			} else {
				o.b = both
			}
		}
		list = append(list, o)
	}
	return list, record.Statement{}
}

// disturbedFrom is the factor over the lower quartile of all blocks at which the difference
// between one side's two runs makes a block disturbed: the quartile is that of undisturbed blocks
// as long as a quarter are. With normal noise one block in ten exceeds it, which costs only that
// block.
const disturbedFrom = 3

// calmOf drops, for one metric, the blocks in which the same server disagreed most with itself,
// keeping at least least. It ignores the difference between A and B: swapping them changes
// nothing, so the remaining outcomes stay symmetric. It returns indices.
func calmOf(list []outcome, least int) []int {
	apart := make([]float64, len(list))
	for i := range list {
		apart[i] = list[i].apart
	}
	slices.Sort(apart)
	limit := math.Inf(1)
	if len(list) > least {
		limit = max(disturbedFrom*apart[len(apart)/4], apart[max(least, 1)-1])
	}
	var calm []int
	for i := range list {
		if list[i].apart <= limit {
			calm = append(calm, i)
		}
	}
	return calm
}

// ratiosOf returns ln(B/A) of some blocks.
func ratiosOf(list []outcome, of []int) []float64 {
	ratios := make([]float64, len(of))
	for i, at := range of {
		ratios[i] = list[at].ratio()
	}
	return ratios
}

// runsOf returns each side's runs in some blocks.
func runsOf(blocks []compareBlock, of []int) (a, b []*record.Measured) {
	for _, at := range of {
		a, b = append(a, blocks[at].a...), append(b, blocks[at].b...)
	}
	return a, b
}

// mostOf returns the text that most runs have.
func mostOf[T ~string](runs []*record.Measured, of func(*record.Measured) T) T {
	count := map[T]int{}
	var order []T
	for _, m := range runs {
		text := of(m)
		if count[text] == 0 {
			order = append(order, text)
		}
		count[text]++
	}
	best := T("")
	for _, text := range order {
		if count[text] > count[best] {
			best = text
		}
	}
	return best
}
