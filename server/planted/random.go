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

// productCount is how many products there are to draw from.
const productCount = 500

// serveRandom answers a product drawn at random, and pays --cpu. A draw waits --sleep
// in the kernel, as for a source of entropy, and keeps its thread. With one source
// (--n 1) all requests queue at its lock: a profile of the CPU shows next to nothing
// of it. With more, draws on several threads do not meet; with one thread there is
// nothing to gain.
func serveRandom(ctx context.Context, p *Params, ready func(string)) error {
	products := make([][]byte, productCount)
	for i := range products {
		products[i] = fmt.Appendf(nil, "{\"product\":%d}\n", i)
	}
	s := newSources(max(p.N, 1), p.Sleep)
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		product := products[s.draw(productCount)]
		burn(p.CPU)
		_, _ = w.Write(product) // a client that has gone needs no answer
	})
}

// sources are sources of random numbers, each with a lock.
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

// draw is a number below n. RawSyscall does not tell the runtime, so that the wait
// keeps the thread and the processor of Go's scheduler with it.
//
//go:noinline
func (s *sources) draw(n int) int {
	one := &s.each[s.turn.Add(1)%uint64(len(s.each))]
	one.mu.Lock()
	defer one.mu.Unlock()
	rest := s.takes
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0) // a signal may cut it short
	return one.rng.Intn(n)
}
