package load

import (
	"errors"
	"math/rand/v2"
	"unsafe"

	"ceiling/internal/http1"
)

// Request is one request as it goes on the wire.
type Request struct {
	Bytes []byte
	// NoBody reports whether the response has no body whatever its header says: HEAD.
	NoBody bool
	// Weight is this request's share of the mix, over the sum of all.
	Weight int
	// Compose makes the requests while the run lasts, in place of Bytes, over HTTP/1.1; nil: Bytes has
	// them. It is then the only one of its mix.
	Compose *Composing
}

// script is the endless sequence of requests, built in advance: a loop of bytes with the offset at
// which each request begins. A connection sends a stretch of it with one send, whatever the mix,
// and every weight is exact over one loop.
type script struct {
	bytes  []byte
	begin  []uint32 // of request i, then of the first ones repeated after the loop, then the end
	target []uint32 // of request i
	noBody []bool   // by target
	runs   bool     // many responses may be taken at once: of one target, with a body, and nobody looks at each
	h2     []h2request
}

// maxScript bounds the loop: it holds at least one request of each target, but otherwise no more
// than this many bytes, so that it stays in a core's cache for small requests.
const maxScript = 256 << 10

// newScript lays out the mix. The first pipelining − 1 requests are repeated after the loop, if they
// are small, so that a full batch is one piece from any position. A round of it is in a random order.
func newScript(requests []Request, pipelining int, seed uint64) (*script, error) {
	if len(requests) == 0 {
		return nil, errors.New("load: the mix has no requests")
	}
	s := &script{noBody: make([]bool, len(requests))}
	order, size := []uint32{}, 0
	divisor := weightDivisor(requests)
	for i, r := range requests {
		if r.Weight < 1 || len(r.Bytes) == 0 {
			return nil, errors.New("load: a request needs bytes and a weight of 1 or more")
		}
		s.noBody[i] = r.NoBody
		for range r.Weight / divisor {
			order = append(order, uint32(i))
			if size += len(r.Bytes); size > 1<<30 || len(order) > 1<<22 {
				return nil, errors.New("load: one round of the mix is over 1 GiB or 4 million requests; use smaller weights")
			}
		}
	}
	s.runs = len(requests) == 1 && !requests[0].NoBody
	round := len(order)
	rng := rand.New(rand.NewPCG(seed, 0x5c817))
	shuffle := func(part []uint32) {
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	shuffle(order)
	for len(order) < 4*pipelining && (len(order)/round+1)*size <= maxScript {
		order = append(order, order[:round]...)
		shuffle(order[len(order)-round:])
	}
	for _, t := range order {
		s.begin = append(s.begin, uint32(len(s.bytes)))
		s.bytes = append(s.bytes, requests[t].Bytes...)
	}
	loop := len(s.bytes)
	for _, t := range order[:min(pipelining-1, len(order))] {
		if len(s.bytes)-loop >= maxScript {
			break
		}
		s.begin = append(s.begin, uint32(len(s.bytes)))
		s.bytes = append(s.bytes, requests[t].Bytes...)
	}
	s.begin = append(s.begin, uint32(len(s.bytes)))
	s.bytes, s.begin, s.target, s.noBody = wholeLines(s.bytes), wholeLines(s.begin), wholeLines(order), wholeLines(s.noBody)
	return s, nil
}

// wholeLines copies a list that all workers read into cache lines of its own: the allocator puts small
// objects side by side, and if a line also has what somebody writes, every reader waits for it. The
// size of T must divide a line's.
func wholeLines[T byte | bool | uint32](list []T) []T {
	const line = 64
	size := int(unsafe.Sizeof(*new(T)))
	lines := (len(list)*size + line - 1) / line
	return append(make([]T, 0, (lines*line+size-1)/size), list...)
}

// weightDivisor is the greatest common divisor of all weights.
func weightDivisor(requests []Request) int {
	d := 0
	for _, r := range requests {
		a, b := r.Weight, d
		for b != 0 {
			a, b = b, a%b
		}
		d = a
	}
	return max(d, 1)
}

// stretch returns up to n requests from position at in one piece, fewer if the layout ends before,
// and the next position.
func (s *script) stretch(at uint32, n int) (b []byte, got int, next uint32) {
	end := min(int(at)+n, len(s.begin)-1)
	return s.bytes[s.begin[at]:s.begin[end]], end - int(at), s.step(at, end-int(at))
}

// step returns the position n requests after at.
func (s *script) step(at uint32, n int) uint32 {
	return uint32((int(at) + n) % len(s.target))
}

// learned allocates the memory of response heads, one per target.
func (s *script) learned() []http1.Learned { return make([]http1.Learned, len(s.noBody)) }

// composing returns how the requests of a mix are composed; nil: they are there.
func composing(mix []Request) *Composing {
	if len(mix) == 0 {
		return nil
	}
	return mix[0].Compose
}

// composedScript is the script of requests that come from a source: a ring of as many positions as a
// connection has slots.
func composedScript(pipelining int) *script {
	return &script{target: make([]uint32, pipelining), noBody: make([]bool, 1)}
}
