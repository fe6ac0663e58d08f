package planted

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// productCount is the number of products to draw from.
const productCount = 500

// serveRandom returns a random product, at a cost of --cpu. A draw waits --sleep in the kernel,
// like reading a source of entropy, and blocks its thread. With one source (--n 1) all requests
// queue at its lock, which is almost invisible in a CPU profile. With more, draws on several
// threads are independent; with a single thread more sources do not help.
func serveRandom(ctx context.Context, p *Params, ready func(string)) error {
	return serveHTTP(ctx, p, ready, randomly(p, max(p.N, 1)))
}

// serveRandomPrefork does so from p.N processes, each with a source of its own.
func serveRandomPrefork(ctx context.Context, p *Params, ready func(string)) error {
	return preforked(ctx, p, ready, nil, randomly(p, 1))
}

func randomly(p *Params, sources int) http.HandlerFunc {
	s := newSources(sources, p.Sleep)
	return func(w http.ResponseWriter, _ *http.Request) {
		product := s.draw(productCount)
		burn(p.CPU)
		_, _ = fmt.Fprintf(w, "{\"product\":%d}\n", product) // a client that has disconnected needs no response
	}
}

// sources are sources of random numbers, each with its own lock.
type sources struct {
	turn  atomic.Uint64
	each  []source
	takes syscall.Timespec
}

type source struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newSources(n int, takes time.Duration) *sources {
	s := &sources{each: make([]source, n), takes: syscall.NsecToTimespec(int64(takes))}
	for i := range s.each {
		s.each[i].rng = rand.New(rand.NewSource(int64(i + 1)))
	}
	return s
}

// draw returns a number below n. RawSyscall does not notify the runtime, so the wait holds the
// thread and its P of Go's scheduler.
//
//go:noinline
func (s *sources) draw(n int) int {
	one := &s.each[s.turn.Add(1)%uint64(len(s.each))]
	one.mu.Lock()
	defer one.mu.Unlock()
	rest := s.takes
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0) // a signal may interrupt it
	return one.rng.Intn(n)
}
