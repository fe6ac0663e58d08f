package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ceiling/internal/pause"
)

const (
	// LeaseTTL is how long after its driver's death a test bed is free again, unless the controller
	// is configured otherwise. A lease is renewed four times as often, and an attempt may take a
	// sixth of it.
	LeaseTTL = 12 * time.Second
	leaseKey = "holder"
)

// ErrHeld means that another driver has the test bed.
var ErrHeld = errors.New("the test bed is in use")

// Lease is the exclusive right of one driver to run on a test bed: a key of a bucket with a time to
// live, which NATS creates only where there is none.
type Lease struct {
	kv       jetstream.KeyValue
	holder   []byte
	ttl      time.Duration
	revision uint64          // belongs to keep until done
	held     context.Context // ends when it is lost or released; the cause says why
	end      context.CancelCauseFunc
	done     chan struct{}
}

var errReleased = errors.New("released")

// Acquire takes the test bed for holder, a description for people: who, where, which run. The error
// is ErrHeld, and says by whom, if another driver has it.
func (c *Conn) Acquire(ctx context.Context, holder string) (*Lease, error) {
	kv, err := c.js.KeyValue(ctx, leaseBucket(c.bed))
	var status jetstream.KeyValueStatus
	if err == nil {
		status, err = kv.Status(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("lease of test bed %s: %w", c.bed, gone(err))
	}
	if status.TTL() <= 0 {
		return nil, fmt.Errorf("lease of test bed %s: the bucket %s has no time to live: recreate it", c.bed, leaseBucket(c.bed))
	}
	l := &Lease{kv: kv, holder: fmt.Appendf(nil, "%s since %s", holder, time.Now().Format(time.DateTime)), ttl: status.TTL(),
		done: make(chan struct{})}
	began := time.Now()
	l.revision, err = kv.Create(ctx, leaseKey, l.holder)
	if errors.Is(err, jetstream.ErrKeyExists) {
		by := "another driver, which has just gone"
		if e, err := kv.Get(ctx, leaseKey); err == nil {
			by = string(e.Value())
		}
		return nil, say(ErrHeld, "test bed %s is in use by %s", c.bed, by)
	}
	if err != nil {
		return nil, fmt.Errorf("lease of test bed %s: %w", c.bed, gone(err))
	}
	l.held, l.end = context.WithCancelCause(context.Background())
	go l.keep(began)
	return l, nil
}

// keep renews the lease until it is released, another driver has it, or its time to live has passed
// since the last renewal sent and acknowledged.
func (l *Lease) keep(renewed time.Time) {
	defer close(l.done)
	pause.Every(l.held, l.ttl/4, func() {
		began := time.Now()
		err := l.renew()
		switch {
		case err == nil:
			renewed = began
		case errors.Is(err, ErrHeld) || time.Since(renewed) >= l.ttl:
			l.end(gone(err))
		}
	})
}

func (l *Lease) renew() (err error) {
	// Released or not: a renewal under way decides the revision that Release deletes.
	ctx, cancel := context.WithTimeout(context.Background(), l.ttl/6)
	defer cancel()
	revision, err := l.kv.Update(ctx, leaseKey, l.holder, l.revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // the answer to the last renewal was lost, or it came too late
		var e jetstream.KeyValueEntry
		e, err = l.kv.Get(ctx, leaseKey)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			revision, err = l.kv.Create(ctx, leaseKey, l.holder)
		case err == nil && string(e.Value()) != string(l.holder):
			return ErrHeld
		case err == nil:
			revision, err = l.kv.Update(ctx, leaseKey, l.holder, e.Revision())
		}
	}
	if err == nil {
		l.revision = revision
	}
	return err
}

// Lost is closed when another driver has the lease, or when it was not renewed within its time to
// live, so that another may have it.
func (l *Lease) Lost() <-chan struct{} { return l.held.Done() }

// Why returns why it was lost; nil if it was not.
func (l *Lease) Why() error { return context.Cause(l.held) }

// Release frees the test bed. It does nothing if the lease was lost.
func (l *Lease) Release(ctx context.Context) error {
	l.end(errReleased)
	<-l.done
	if l.Why() != errReleased {
		return nil
	}
	err := l.kv.Delete(ctx, leaseKey, jetstream.LastRevision(l.revision))
	if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return fmt.Errorf("release the test bed (it is free in %v in any case): %w", l.ttl, gone(err))
	}
	return nil
}

// Furnish creates the buckets of the test bed if they are missing; existing ones are unchanged. A
// lease that is not renewed within lease is lost. A controller does it at each start; with an
// organisation's own NATS a driver does it once, or its administrator.
func (c *Conn) Furnish(ctx context.Context, lease time.Duration) error {
	for _, b := range []jetstream.KeyValueConfig{
		{Bucket: leaseBucket(c.bed), Description: "who has the test bed", TTL: lease, MaxBytes: 1 << 20},
		{Bucket: agentsBucket(c.bed), Description: "what agents offer", TTL: presentFor, MaxBytes: 64 << 20, MaxValueSize: 64 << 10},
	} {
		b.Storage = c.storage
		if _, err := c.js.CreateKeyValue(ctx, b); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("make the bucket %s: %w", b.Bucket, gone(err))
		}
	}
	return nil
}
