package proxy

import (
	"net/netip"
	"sync"
	"time"
)

// Limits over all loops are kept in shards, each with its own lock. Only requests and connections
// with such a limit use them.
const shards = 64

// hosts counts the connections per address.
type hosts struct {
	shard [shards]struct {
		mu sync.Mutex
		n  map[netip.Addr]int
	}
}

// enter counts a connection; false if the address already has most.
func (h *hosts) enter(a netip.Addr, most int) bool {
	s := &h.shard[shardOf(a)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[a] >= most {
		return false
	}
	if s.n == nil {
		s.n = map[netip.Addr]int{}
	}
	s.n[a]++
	return true
}

func (h *hosts) leave(a netip.Addr) {
	s := &h.shard[shardOf(a)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[a]--; s.n[a] <= 0 {
		delete(s.n, a)
	}
}

func shardOf(a netip.Addr) int {
	b := a.As16()
	h := uint(0)
	for _, c := range b {
		h = h*31 + uint(c)
	}
	return int(h % shards)
}

// limiter is a rate limit per key: the generic cell rate algorithm (ITU-T I.371), which needs one
// number per key, the time at which its requests would all be paid for.
type limiter struct {
	each  int64 // ns that a request costs
	burst int64 // ns that may be owed
	shard [shards]struct {
		mu    sync.Mutex
		paid  map[uint64]int64
		sweep int
	}
}

func newLimiter(requests int, per time.Duration, burst int) *limiter {
	each := max(int64(per)/int64(requests), 1)
	return &limiter{each: each, burst: each * int64(burst)}
}

// take counts a request; it returns how long to wait if there were too many.
func (m *limiter) take(key uint64, now int64) (wait int64) {
	s := &m.shard[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	paid := max(s.paid[key], now)
	if over := paid - now - m.burst; over > 0 {
		return over
	}
	if s.paid == nil {
		s.paid = map[uint64]int64{}
	}
	s.paid[key] = paid + m.each
	if s.sweep++; s.sweep > 2*len(s.paid)+1024 { // keep only recent keys in the map
		s.sweep = 0
		for k, t := range s.paid {
			if t <= now {
				delete(s.paid, k)
			}
		}
	}
	return 0
}
