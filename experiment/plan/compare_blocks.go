package plan

import (
	"math"
	"slices"

	"ceiling/internal/hist"
	"ceiling/record"
)

// compareBlock is the runs that are held against each other.
type compareBlock struct {
	number int
	noise  bool
	a, b   []*record.Measured
}

// leftMost is how many blocks that were left out are named one by one.
const leftMost = 3

// wholeBlocks are those with all their runs, in order, and sentences about
// those that were left out. One that is not complete yet is passed over.
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

// partBlocks tells those of A against B from those of A against A.
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

// spoilt says why a block proves nothing, and nothing where it does.
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

// rateOf is completions over the time they took.
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

// cpuOf is the CPU time over the requests it was spent on.
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

// quantileOf is a quantile of all their response times together.
func quantileOf(q float64) func([]*record.Measured) (float64, record.Statement) {
	return func(runs []*record.Measured) (float64, record.Statement) {
		for _, m := range runs {
			if m.Histogram == nil {
				return 0, say("measured.no-histogram", with{"run": m.Run})
			}
		}
		ns := merged(runs).Quantile(q)
		if ns <= 0 {
			return 0, say("measured.nothing", nil)
		}
		return float64(ns), record.Statement{}
	}
}

// merged is all response times of some runs; not to be written to, for it is
// the run's own where there is one.
func merged(runs []*record.Measured) *hist.Hist {
	if len(runs) == 1 {
		return runs[0].Histogram
	}
	all := new(hist.Hist)
	for _, m := range runs {
		all.Merge(m.Histogram)
	}
	return all
}

// outcome is one metric in one block: of each side, of both its runs together.
type outcome struct {
	a, b float64
	// apart is how far the two runs of one side are from each other, as |ln| of
	// their ratio, of the side where it is more.
	apart float64
}

// ratio is ln(B/A).
func (o outcome) ratio() float64 { return math.Log(o.b / o.a) }

// outcomesOf measures every block; why says what is missing in the first that
// lacks something.
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

// disturbedFrom is how many times the lower quartile of all blocks the two runs
// of one side have to be apart for a block to be called disturbed: the quartile
// is that of calm blocks as long as a quarter are. Of normal noise it is one
// block in ten, of which nothing is lost but its place.
const disturbedFrom = 3

// calmOf leaves out, for one metric, the blocks in which one and the same
// server disagreed with itself the most, down to least of them. It looks at no
// difference between A and B: exchanging the two changes nothing, so the
// outcome of what remains is as symmetric as before. It answers indices.
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

// ratiosOf has ln(B/A) of some of the blocks.
func ratiosOf(list []outcome, of []int) []float64 {
	ratios := make([]float64, len(of))
	for i, at := range of {
		ratios[i] = list[at].ratio()
	}
	return ratios
}

// runsOf are the runs of each side in some of the blocks.
func runsOf(blocks []compareBlock, of []int) (a, b []*record.Measured) {
	for _, at := range of {
		a, b = append(a, blocks[at].a...), append(b, blocks[at].b...)
	}
	return a, b
}

// mostOf is the text that most runs have.
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
