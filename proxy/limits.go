package proxy

import (
	"net/netip"
	"sync"
	"time"

	"ceiling/proxy/route"
)

// What is limited over all loops is kept in shards, each with its lock. Only
// requests and connections that a limit was set for come here.
const shards = 64

// hosts counts the connections of each address.
type hosts struct {
	shard [shards]struct {
		mu sync.Mutex
		n  map[netip.Addr]int
	}
}

// enter counts a connection; false when the address has most already.
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

// limiter is a rate limit for each key: the generic cell rate algorithm (ITU-T
// I.371), which needs one number for each, the time at which the key's requests
// would all be paid for.
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

// take counts a request; it returns how long to wait when there were too many.
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
	if s.sweep++; s.sweep > 2*len(s.paid)+1024 { // so that the map holds who was here lately
		s.sweep = 0
		for k, t := range s.paid {
			if t <= now {
				delete(s.paid, k)
			}
		}
	}
	return 0
}

// turnOf is the part of a location that changes with its requests, one for each
// loop.
type turnOf struct {
	choices []route.Choice
	chooser route.Chooser
	tokens  float64
	budget  float64
	_       [64]byte // another loop's is on another cache line
}

// maxTokens is how many retries may be saved up.
const maxTokens = 10

// mayRetry takes a retry from the budget.
func (t *turnOf) mayRetry() bool {
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

// earn saves up for retries with each request.
func (t *turnOf) earn() { t.tokens = min(t.tokens+t.budget, maxTokens) }
