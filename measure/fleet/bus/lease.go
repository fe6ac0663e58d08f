package bus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// LeaseTTL is how long after its driver's death a test bed is free again, unless the controller
	// is configured otherwise. A lease is renewed four times as often, and an attempt may take a
	// sixth of it.
	LeaseTTL = 12 * time.Second
	leaseKey = "holder"
)

// Held says who has the test bed: the error of Acquire.
type Held struct {
	Bed    string    `json:"-"`
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"` // by the holder's wall clock
	Mark   Nonce     `json:"mark"`  // distinguishes two with the same name and second
}

func (h *Held) Error() string {
	return fmt.Sprintf("test bed %s is in use by %s since %s", h.Bed, h.Holder, h.Since.Format(time.DateTime))
}

// Lease is the exclusive right of one driver to run on a test bed.
type Lease struct {
	kv    jetstream.KeyValue
	value []byte
	ttl   time.Duration
	lost  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	revision uint64
	why      error
}

// Acquire takes the test bed for holder, a description for people: who, where, which run. The error
// is a *Held if another driver has it.
func (c *Conn) Acquire(ctx context.Context, holder string) (*Lease, error) {
	kv, err := c.js.KeyValue(ctx, leaseBucket(c.bed))
	if err != nil {
		return nil, fmt.Errorf("lease of test bed %s: %w", c.bed, gone(err))
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease of test bed %s: %w", c.bed, gone(err))
	}
	if status.TTL() <= 0 {
		return nil, fmt.Errorf("lease of test bed %s: the bucket %s has no time to live: recreate it", c.bed, leaseBucket(c.bed))
	}
	mine := Held{Holder: holder, Since: time.Now().Round(time.Second)}
	rand.Read(mine.Mark[:])
	value, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	revision, err := kv.Create(ctx, leaseKey, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil, c.heldBy(ctx, kv)
	}
	if err != nil {
		return nil, fmt.Errorf("lease of test bed %s: %w", c.bed, gone(err))
	}
	inner, stop := context.WithCancel(context.Background())
	l := &Lease{kv: kv, value: value, ttl: status.TTL(), revision: revision, lost: make(chan struct{}), stop: stop, done: make(chan struct{})}
	go l.keep(inner, began)
	return l, nil
}

func (c *Conn) heldBy(ctx context.Context, kv jetstream.KeyValue) error {
	h := &Held{Bed: c.bed, Holder: "somebody"}
	e, err := kv.Get(ctx, leaseKey)
	if err != nil {
		return fmt.Errorf("test bed %s is in use, or was a moment ago: %w", c.bed, gone(err))
	}
	if err := json.Unmarshal(e.Value(), h); err != nil {
		return fmt.Errorf("test bed %s is in use, by whom cannot be read: %w", c.bed, err)
	}
	return h
}

// keep renews the lease until it is released, another driver has it, or its time to live has passed
// since the last renewal sent and acknowledged.
func (l *Lease) keep(ctx context.Context, renewed time.Time) {
	defer close(l.done)
	tick := time.NewTicker(l.ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		// Not ctx: a cancelled renewal may have taken effect, with a revision that Release would
		// not know.
		attempt, cancel := context.WithTimeout(context.Background(), l.ttl/6)
		revision, err := l.kv.Update(attempt, leaseKey, l.value, l.revision)
		if stale(err) {
			revision, err = l.again(attempt)
		}
		cancel()
		switch {
		case err == nil:
			l.mu.Lock()
			l.revision, renewed = revision, began
			l.mu.Unlock()
		case errors.Is(err, jetstream.ErrKeyExists) || time.Since(renewed) >= l.ttl:
			l.mu.Lock()
			l.why = err
			l.mu.Unlock()
			close(l.lost)
			return
		}
	}
}

// again reacquires the lease if it is still ours, after a renewal whose answer was lost, or if it
// expired and is free.
func (l *Lease) again(ctx context.Context) (uint64, error) {
	e, err := l.kv.Get(ctx, leaseKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return l.kv.Create(ctx, leaseKey, l.value)
	}
	if err != nil {
		return 0, err
	}
	if string(e.Value()) != string(l.value) {
		return 0, jetstream.ErrKeyExists
	}
	return l.kv.Update(ctx, leaseKey, l.value, e.Revision())
}

func stale(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || errors.Is(err, jetstream.ErrKeyExists)
}

// Lost is closed when another driver has the lease, or when it was not renewed within its time to
// live, so that another may have it.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Why returns why it was lost; nil if it was not.
func (l *Lease) Why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// Release frees the test bed. It does nothing if the lease was lost.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	select {
	case <-l.lost:
		return nil
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.kv.Delete(ctx, leaseKey, jetstream.LastRevision(l.revision)); err != nil && !stale(err) {
		return fmt.Errorf("release the test bed (free in %v by itself): %w", l.ttl, gone(err))
	}
	return nil
}
