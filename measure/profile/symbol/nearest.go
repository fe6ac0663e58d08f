package symbol

import "slices"

// nearest finds for addresses, which ascend, the symbol that begins last at or
// before each. Symbols come in any order, and there are a thousand times more of
// them than addresses: each is kept only with the first address at or behind it.
type nearest struct {
	addrs []uint64
	slots []slot
}

type slot struct {
	start, size uint64 // size 0: not known
	name        []byte
	taken       bool
}

func newNearest(addrs []uint64) *nearest {
	return &nearest{addrs: addrs, slots: make([]slot, len(addrs))}
}

// lowerBound is the first address that is not below start.
func lowerBound(addrs []uint64, start uint64) int {
	i, _ := slices.BinarySearch(addrs, start)
	return i
}

// wants tells whether a symbol is nearer than what there is, and where to keep it.
// Of two at one address the one with a size is better.
func (n *nearest) wants(start, size uint64) (at int, ok bool) {
	at = lowerBound(n.addrs, start)
	if at == len(n.addrs) {
		return 0, false
	}
	s := &n.slots[at]
	return at, !s.taken || start > s.start || start == s.start && size > s.size
}

// keep takes a symbol that was wanted at a place.
func (n *nearest) keep(at int, start, size uint64, name []byte) {
	s := &n.slots[at]
	*s = slot{start: start, size: size, name: append(s.name[:0], name...), taken: true}
}

// functionMax is the longest a function may be where the table gives no size.
const functionMax = 1 << 20

// names answers what was found.
func (n *nearest) names() map[uint64]string {
	found := map[uint64]string{}
	var best *slot
	for i, a := range n.addrs {
		if n.slots[i].taken {
			best = &n.slots[i] // begins behind the address before, so nearer than all before
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
