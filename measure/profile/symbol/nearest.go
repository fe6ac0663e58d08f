//go:build linux

package symbol

import "slices"

// nearest finds, for ascending addresses, the symbol that begins last at or before each. Symbols
// come in any order, and are a thousand times more than addresses: each is kept only with the first
// address at or after it.
type nearest struct {
	addrs []uint64
	slots []slot
}

type slot struct {
	start, size uint64 // size 0: unknown
	name        []byte
	taken       bool
}

func newNearest(addrs []uint64) *nearest {
	return &nearest{addrs: addrs, slots: make([]slot, len(addrs))}
}

// lowerBound returns the index of the first address that is not below start.
func lowerBound(addrs []uint64, start uint64) int {
	i, _ := slices.BinarySearch(addrs, start)
	return i
}

// wants reports whether a symbol is nearer than the current one, and where to store it. Of two at
// one address the one with a size is better.
func (n *nearest) wants(start, size uint64) (at int, ok bool) {
	at = lowerBound(n.addrs, start)
	if at == len(n.addrs) {
		return 0, false
	}
	s := &n.slots[at]
	return at, !s.taken || start > s.start || start == s.start && size > s.size
}

// keep stores a wanted symbol.
func (n *nearest) keep(at int, start, size uint64, name []byte) {
	s := &n.slots[at]
	*s = slot{start: start, size: size, name: append(s.name[:0], name...), taken: true}
}

// functionMax is the longest a function may be if the table has no size.
const functionMax = 1 << 20

// names returns what was found.
func (n *nearest) names() map[uint64]string {
	found := map[uint64]string{}
	var best *slot
	for i, a := range n.addrs {
		if n.slots[i].taken {
			best = &n.slots[i] // begins after the previous address, so it is nearer than all before
		}
		if best == nil || len(best.name) == 0 {
			continue
		}
		size := best.size
		if size == 0 {
			size = functionMax
		}
		if a-best.start < size {
			found[a] = string(best.name[:min(len(best.name), nameMax)])
		}
	}
	return found
}
