package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxGroup limits the entries of one commit. Each has four parameters, and SQLite allows 32,766
// in a statement.
const maxGroup = 4096

// errStopping is the error of a write while the server stops.
var errStopping = errors.New("the server stops")

// A batcher commits many entries together: one transaction, one fsync. The next entries gather
// during a commit.
type batcher struct {
	store *Store
	size  int
	wait  time.Duration
	queue chan queued
	ended chan struct{}

	mu      sync.RWMutex // read-locked by senders to queue
	stopped bool

	texts     map[int]string // of statements, by number of entries; owned by the writer
	committed atomic.Int64   // entries
	lost      atomic.Int64   // acknowledged entries whose commit failed
}

// A queued entry waits for its commit.
type queued struct {
	entry
	done chan<- error // nil: already acknowledged
}

func startBatcher(s *Store, size int, wait time.Duration, capacity int) *batcher {
	b := &batcher{
		store: s, size: size, wait: wait, queue: make(chan queued, capacity), ended: make(chan struct{}), texts: map[int]string{},
	}
	go b.run()
	return b
}

// submit queues an entry. It returns when the entry is committed or, without wait, queued.
func (b *batcher) submit(ctx context.Context, e entry, wait bool) error {
	q := queued{entry: e}
	var done chan error
	if wait {
		done = make(chan error, 1)
		q.done = done
	}
	if err := b.send(ctx, q); err != nil || !wait {
		return err
	}
	return <-done
}

func (b *batcher) send(ctx context.Context, q queued) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.stopped {
		return errStopping
	}
	select {
	case b.queue <- q:
		return nil
	case <-ctx.Done():
		return errStopping
	}
}

// stop commits what is queued and ends the batcher. It may be called again.
func (b *batcher) stop() {
	b.mu.Lock()
	if !b.stopped {
		b.stopped = true
		close(b.queue)
	}
	b.mu.Unlock()
	<-b.ended
}

func (b *batcher) run() {
	defer close(b.ended)
	batch := make([]queued, 0, b.size)
	for first := range b.queue {
		batch = b.gather(append(batch[:0], first))
		err := b.commit(batch)
		for _, q := range batch {
			switch {
			case q.done != nil:
				q.done <- err
			case err != nil:
				b.lost.Add(1)
			}
		}
	}
}

// gather collects entries until the batch is full, its time is over, or the store closes.
func (b *batcher) gather(batch []queued) []queued {
	over := time.NewTimer(b.wait)
	defer over.Stop()
	for len(batch) < b.size {
		select {
		case q, open := <-b.queue:
			if !open {
				return batch
			}
			batch = append(batch, q)
		case <-over.C:
			return batch
		case <-b.store.ctx.Done():
			return batch
		}
	}
	return batch
}

// commit writes the entries in one statement, which is a transaction.
func (b *batcher) commit(batch []queued) error {
	text := b.texts[len(batch)]
	if text == "" {
		text = "INSERT INTO entry (id, product, quantity, note) VALUES " + values(len(batch), 4, b.store.numbered)
		b.texts[len(batch)] = text
	}
	args := make([]any, 0, 4*len(batch))
	for _, q := range batch {
		args = append(args, q.id, q.product, q.quantity, q.note)
	}
	if _, err := b.store.write.ExecContext(b.store.ctx, text, args...); err != nil {
		return err
	}
	b.committed.Add(int64(len(batch)))
	b.store.commits.Add(1)
	return nil
}
