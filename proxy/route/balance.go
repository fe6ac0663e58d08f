package route

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Balance is a way of choosing among destinations.
type Balance uint8

// The balancing methods.
const (
	RoundRobin Balance = iota // in turn, by weight, smoothly
	LeastConnections
	TwoChoices // the less busy of two at random
	Hash       // the same key to the same destination
	Sticky     // the one whose seed is the key, else as RoundRobin
)

// Choice is a destination's state as a Chooser sees it.
type Choice struct {
	Weight int  // 0: only those who are tied to it (Sticky)
	Busy   int  // requests it has now
	Usable bool // neither ejected nor known to be ill, and not tried before
	Seed   uint64
}

// Chooser chooses for one loop, and remembers whose turn it is. Its zero value is ready for use.
type Chooser struct {
	Balance Balance
	current []int // smooth weighted round robin: the saved-up weights
	random  uint64
}

// Choose returns the index of the destination for a request, -1 if none is usable. key is a hash
// of what Hash distinguishes by, 0 for a request without it, which any destination may have.
func (c *Chooser) Choose(list []Choice, key uint64) int {
	if len(list) == 1 {
		if list[0].Usable {
			return 0
		}
		return -1
	}
	if c.Balance == Sticky {
		for i := range list {
			if list[i].Usable && list[i].Seed == key {
				return i
			}
		}
	}
	for i := range list {
		list[i].Usable = list[i].Usable && list[i].Weight > 0
	}
	switch c.Balance {
	case LeastConnections:
		return c.least(list)
	case TwoChoices:
		return c.two(list)
	case Hash:
		if key != 0 {
			return highest(list, key)
		}
	}
	return c.turn(list)
}

// turn is smooth weighted round robin: each usable destination saves up its weight; the richest
// is chosen and pays what all have saved. Over as many choices as the weights' sum, each gets its
// weight, evenly spread.
func (c *Chooser) turn(list []Choice) int {
	if len(c.current) != len(list) {
		c.current = make([]int, len(list))
	}
	best, total := -1, 0
	for i := range list {
		if !list[i].Usable {
			continue
		}
		total += list[i].Weight
		c.current[i] += list[i].Weight
		if best < 0 || c.current[i] > c.current[best] {
			best = i
		}
	}
	if best >= 0 {
		c.current[best] -= total
	}
	return best
}

// least returns the one with the fewest requests relative to its weight; turn breaks ties.
func (c *Chooser) least(list []Choice) int {
	best := -1
	start := int(c.next() % uint64(len(list)))
	for n := range list {
		i := (start + n) % len(list)
		if list[i].Usable && (best < 0 || busier(&list[best], &list[i])) {
			best = i
		}
	}
	return best
}

// busier compares requests per weight; it adds one request to each, so that of idle ones the
// heavier is chosen.
func busier(a, b *Choice) bool { return (a.Busy+1)*b.Weight > (b.Busy+1)*a.Weight }

// two draws two usable ones at random, by weight, and returns the less busy one.
func (c *Chooser) two(list []Choice) int {
	first := c.draw(list, -1)
	if first < 0 {
		return -1
	}
	second := c.draw(list, first)
	if second >= 0 && busier(&list[first], &list[second]) {
		return second
	}
	return first
}

func (c *Chooser) draw(list []Choice, not int) int {
	total := 0
	for i := range list {
		if list[i].Usable && i != not {
			total += list[i].Weight
		}
	}
	if total == 0 {
		return -1
	}
	left, _ := bits.Mul64(c.next(), uint64(total))
	for i := range list {
		if !list[i].Usable || i == not {
			continue
		}
		if left < uint64(list[i].Weight) {
			return i
		}
		left -= uint64(list[i].Weight)
	}
	return -1
}

// next is splitmix64: a full period, and good enough for random draws.
func (c *Chooser) next() uint64 {
	c.random += 0x9e3779b97f4a7c15
	return mix(c.random)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// highest is weighted rendezvous hashing (Thaler and Ravishankar 1998; weights by −w/ln u): when
// a destination goes away, only its own keys move, and they spread over the others by weight.
func highest(list []Choice, key uint64) int {
	best, most := -1, 0.0
	for i := range list {
		if !list[i].Usable {
			continue
		}
		u := (float64(mix(key^list[i].Seed)>>11) + 0.5) / (1 << 53)
		if score := -float64(list[i].Weight) / math.Log(u); best < 0 || score > most {
			best, most = i, score
		}
	}
	return best
}

// HashOf hashes a key (FNV-1a, then mixed).
func HashOf(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for len(key) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(key)) * 1099511628211
		h ^= h >> 29
		key = key[8:]
	}
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}
