package report

import (
	"io"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// block is lines that appear together or not at all; of blocks with a rank above 0, the largest
// rank is dropped first if space is short.
type block struct {
	rank  int
	lines []string
	whole bool // useless without its last line
	// name and text are those of a named fact, plain if it stands at the margin without its name:
	// it becomes shorter by whole clauses. Other blocks lose their last lines.
	name, text string
	plain      bool
}

func (l Layout) block(rank int, write func(*printer)) block {
	var text strings.Builder
	write(&printer{w: &text, Layout: l})
	return block{rank: rank, lines: slices.Collect(strings.Lines(text.String()))}
}

// fact is the block of a named fact.
func (l Layout) fact(rank int, name, text string) block {
	b := block{rank: rank, name: name, text: text}
	b.lines = b.written(l)
	return b
}

func (b *block) written(l Layout) []string {
	return l.block(b.rank, func(p *printer) {
		if b.plain {
			p.text(0, b.text)
		} else {
			p.fact(b.name, b.text)
		}
	}).lines
}

// shorten takes away one line or more; false if that would end a text in the middle of a clause.
func (b *block) shorten(l Layout) bool {
	if b.whole || len(b.lines) < 2 {
		return false
	}
	if b.text == "" {
		b.lines = b.lines[:len(b.lines)-1]
		return true
	}
	for short := *b; ; {
		at := lastClause(strings.TrimSuffix(short.text, more))
		if at <= 0 {
			return false
		}
		short.text = short.text[:at] + more
		if short.lines = short.written(l); len(short.lines) < len(b.lines) {
			*b = short
			return true
		}
	}
}

// more marks a text that goes on.
const more = " …"

// lastClause returns where a text's last clause begins, at the sign before it: a sentence or what a
// semicolon or a dot divides; where there is none, what a comma divides outside parentheses. 0 if
// it is one clause.
func lastClause(text string) int {
	at := -1
	for _, sign := range []string{"; ", ". ", " · "} {
		at = max(at, strings.LastIndex(text, sign))
	}
	if at > 0 {
		return at
	}
	depth := 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], ", "):
			at = i
		}
	}
	return max(at, 0)
}

// write writes blocks in at most that many lines, one of which states what is missing: it drops
// the least important blocks first, then shortens the longest.
func (l Layout) write(w io.Writer, blocks []block, most int) error {
	all := 0
	for _, b := range blocks {
		all += len(b.lines)
	}
	lines, at := all, len(blocks)-1 // position of the line about the rest: before the rates
	for lines > most-min(all-lines, 1) {
		drop := 0
		for i, b := range blocks {
			if b.rank > 0 && len(b.lines) > 0 && (blocks[drop].rank == 0 || len(blocks[drop].lines) == 0 || b.rank >= blocks[drop].rank) {
				drop = i
			}
		}
		if blocks[drop].rank == 0 || len(blocks[drop].lines) == 0 {
			break
		}
		lines -= len(blocks[drop].lines)
		blocks[drop].lines = nil
	}
	for lines > most-min(all-lines, 1) {
		n := l.shortenLongest(blocks[:at])
		if n == 0 {
			break
		}
		lines -= n
	}
	p := &printer{w: w, Layout: l}
	for i, b := range blocks {
		if i == at && lines < all {
			p.fact("", unit.Plural(all-lines, "more line", "more lines")+" with -v")
		}
		for _, text := range b.lines {
			p.line("%s", strings.TrimSuffix(text, "\n"))
		}
	}
	return p.err
}

// shortenLongest shortens the longest block that can be, and returns by how many lines.
func (l Layout) shortenLongest(blocks []block) int {
	var order []int
	for i := range blocks {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(blocks[b].lines) - len(blocks[a].lines) })
	for _, i := range order {
		if n := len(blocks[i].lines); blocks[i].shorten(l) {
			return n - len(blocks[i].lines)
		}
	}
	return 0
}
