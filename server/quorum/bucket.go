package quorum

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/server/backend"

	"github.com/nats-io/nats.go"
)

// JetStream names: a bucket is a stream whose subjects are its keys.
const (
	stream       = "KV_ceiling"
	mirrorStream = "KV_ceiling-mirror"
	keyPrefix    = "$KV.ceiling."
	markerKey    = "_marker" // written to confirm a read by a quorum; client keys never start with _
	beatKey      = "_beat"   // written to date a follower's state

	headerExpect   = "Nats-Expected-Last-Subject-Sequence"
	headerExpectOf = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerSeq      = "Nats-Sequence"
	headerUpTo     = "Nats-UpTo-Sequence"
	headerSubject  = "Nats-Subject"
	headerStatus   = "Status"
	noResponders   = "503" // status of a message without subscribers

	noMessage     = 10037 // JetStream's codes: no such key
	wrongSequence = 10071 // a condition does not hold
	inFlight      = 10164 // or is undecided, because a write of the key is in progress
)

// Keys is the number of initial keys, for Any.
const Keys = 100

// valueBytes is the size of their values.
const valueBytes = 100

// MaxValue is the maximum length of a value.
const MaxValue = backend.MaxValue

// An Entry is a key with its value.
type Entry struct {
	Key      string
	Revision uint64 // of its last write, counted across all keys
	Value    []byte
}

// Errors for definite outcomes. After any other error, a write may or may not have happened.
var (
	ErrNoKey    = errors.New("no such key")
	ErrRevision = errors.New("the key has another revision")
	ErrNone     = errors.New("the bucket has none to read from")
	ErrNoLeader = errors.New("no leader takes writes") // nor did any take this one
)

// counts counts operations since the start, without beats.
type counts struct {
	writes, reads atomic.Int64
	commits       atomic.Int64 // by a quorum: writes, and markers of reads
	trips         atomic.Int64 // requests to a replica
	commitNs      atomic.Int64 // duration of the commits, measured here
}

// Any returns one of the initial keys.
func Any(seed uint64) string { return "k" + strconv.FormatUint(seed%Keys, 10) }

// CheckKey validates a key.
func CheckKey(key string) error {
	if key == "" || len(key) > 200 || key[0] == '_' {
		return errors.New("a key has 1 to 200 bytes and does not begin with _")
	}
	for i := range len(key) {
		c := key[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return errors.New("a key has letters, digits, - and _")
		}
	}
	return nil
}

// make creates the bucket, once there is a leader.
func (b *Bucket) make(ctx context.Context) error {
	config := map[string]any{
		"name": stream, "subjects": []string{keyPrefix + ">"}, "storage": "file", "num_replicas": b.options.Replicas, "discard": "new",
		"max_msgs_per_subject": 1, "max_msgs": -1, "max_bytes": -1, "max_consumers": -1, "allow_direct": true, "duplicate_window": 1e9,
	}
	if b.options.Mirror && b.options.Replicas == 1 {
		config["placement"] = map[string]any{"tags": []string{b.nodes[0].plan.Name}}
	}
	return b.makeStream(ctx, stream, config)
}

// makeMirror creates the mirror, and waits until it has caught up.
func (b *Bucket) makeMirror(ctx context.Context) error {
	if !b.options.Mirror {
		return nil
	}
	last := b.nodes[len(b.nodes)-1]
	err := b.makeStream(ctx, mirrorStream, map[string]any{
		"name": mirrorStream, "storage": "file", "num_replicas": 1, "max_msgs_per_subject": 1, "max_msgs": -1, "max_bytes": -1,
		"max_consumers": -1, "allow_direct": true, "mirror": map[string]any{"name": stream},
		"placement": map[string]any{"tags": []string{last.plan.Name}},
	})
	if err != nil {
		return err
	}
	for {
		_, err := b.FromMirror(ctx, Any(Keys-1))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the mirror has not caught up within %v: %w", b.options.Within, b.clarify(err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// makeStream retries until a leader has created it.
func (b *Bucket) makeStream(ctx context.Context, name string, config map[string]any) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	why := errors.New("no answer")
	for i := 0; ; i++ {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := b.nodes[i%len(b.nodes)].conn.RequestWithContext(asked, "$JS.API.STREAM.CREATE."+name, text)
		cancel()
		if err == nil {
			if err = apiError(answer.Data); err == nil {
				return nil
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			why = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no leader made it within %v: %w", b.options.Within, b.clarify(why))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// clarify adds the exited replicas to an error, because they are its cause.
func (b *Bucket) clarify(err error) error {
	var ended []string
	for _, n := range b.nodes {
		if p := n.current(); p != nil && p.Ended() {
			ended = append(ended, fmt.Sprint(n.plan.Name, " ", p.Died()))
		}
	}
	if len(ended) == 0 {
		return err
	}
	return fmt.Errorf("%w; replicas that ended: %s", err, strings.Join(ended, ", "))
}

// An apiFailure is a JetStream error.
type apiFailure struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiFailure) Error() string { return e.Description }

func apiError(answer []byte) error {
	var a struct{ Error *apiFailure }
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}

// fill writes the initial keys.
func (b *Bucket) fill(ctx context.Context) error {
	failed := make(chan error, Keys)
	for i := range Keys {
		go func() {
			_, err := b.Put(ctx, Any(uint64(i)), Value(rand.Uint64()))
			for err != nil && ctx.Err() == nil { // the leader may change at the start
				time.Sleep(50 * time.Millisecond)
				_, err = b.Put(ctx, Any(uint64(i)), Value(rand.Uint64()))
			}
			failed <- err
		}()
	}
	var first error // of many alike
	for range Keys {
		if err := <-failed; first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("first writes: %w", b.clarify(first))
	}
	return nil
}

// Value returns the value for a seed.
func Value(seed uint64) []byte {
	v := make([]byte, 0, valueBytes+16)
	for len(v) < valueBytes {
		v = strconv.AppendUint(v, seed, 36)
	}
	return v[:valueBytes]
}

// Put writes a key. If it returns no error, a quorum has the write.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	return b.write(ctx, key, value, nil)
}

// Set is Put if the key has a revision, 0 if the key must not exist; otherwise it fails with
// ErrRevision and writes nothing.
func (b *Bucket) Set(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, key, value, &condition{key, revision})
}

// A condition requires a key's revision at commit.
type condition struct {
	key      string
	revision uint64
}

func (b *Bucket) write(ctx context.Context, key string, value []byte, when *condition) (uint64, error) {
	seq, err := b.commit(ctx, key, value, when)
	if err == nil {
		b.counts.writes.Add(1)
	}
	return seq, err
}

// commit is publish with counting.
func (b *Bucket) commit(ctx context.Context, key string, value []byte, when *condition) (uint64, error) {
	begun := time.Now()
	seq, err := b.publish(ctx, key, value, when)
	b.counts.trips.Add(1)
	if err == nil {
		b.counts.commits.Add(1)
		b.counts.commitNs.Add(int64(time.Since(begun)))
	}
	return seq, err
}

// publish commits a message to a quorum.
func (b *Bucket) publish(ctx context.Context, key string, value []byte, when *condition) (uint64, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	m := &nats.Msg{Subject: keyPrefix + key, Data: value}
	if when != nil {
		m.Header = nats.Header{headerExpect: {strconv.FormatUint(when.revision, 10)}}
		if when.key != key {
			m.Header[headerExpectOf] = []string{keyPrefix + when.key}
		}
	}
	n := b.leader()
	if when != nil && when.key == key && b.options.Replicas > 1 {
		return b.agreed(ctx, n, m)
	}
	answer, err := n.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, b.lost(err)
	}
	return acknowledged(answer)
}

// acknowledged returns the revision that a message got.
func acknowledged(answer *nats.Msg) (uint64, error) {
	var ack struct {
		Seq   uint64
		Error *apiFailure
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, err
	}
	switch {
	case ack.Error == nil:
		return ack.Seq, nil
	case ack.Error.Code == wrongSequence || ack.Error.Code == inFlight:
		return 0, ErrRevision
	}
	return 0, ack.Error
}

// agreed sends a message with a condition, and trusts a refusal only once a quorum has committed
// a marker sent after it. A leader that was cut off may receive messages again before it learns
// that another leads, and immediately refuses what the other accepts: by the time of the marker
// the other's response has arrived.
func (b *Bucket) agreed(ctx context.Context, n *node, m *nats.Msg) (uint64, error) {
	answers, err := n.conn.SubscribeSync(nats.NewInbox())
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails if the connection is closed
	m.Reply = answers.Subject
	if err := n.conn.PublishMsg(m); err != nil {
		return 0, b.lost(err)
	}
	answer, err := answers.NextMsgWithContext(ctx)
	if err == nil && answer.Header.Get(headerStatus) == noResponders {
		err = nats.ErrNoResponders
	}
	if err != nil {
		return 0, b.lost(err)
	}
	seq, refused := acknowledged(answer)
	if !errors.Is(refused, ErrRevision) {
		return seq, refused
	}
	b.counts.trips.Add(1)
	if answer, err = n.conn.RequestWithContext(ctx, keyPrefix+markerKey, nil); err != nil {
		return 0, b.lost(err)
	}
	if _, err := acknowledged(answer); err != nil {
		return 0, err
	}
	for {
		if waiting, _, err := answers.Pending(); err != nil || waiting == 0 {
			return 0, errors.Join(err, refused)
		}
		if answer, err = answers.NextMsgWithContext(ctx); err != nil {
			return 0, b.lost(err)
		}
		if seq, err := acknowledged(answer); err == nil {
			return seq, nil
		}
	}
}

// bounded limits an operation to its timeout and the bucket's lifetime.
func (b *Bucket) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	stop := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// lost handles an error of a request to the leader, which triggers a new search for it.
func (b *Bucket) lost(err error) error {
	b.lead.doubt()
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoLeader
	case errors.Is(err, context.DeadlineExceeded):
		ctx, cancel := context.WithTimeout(b.ctx, lookMost)
		defer cancel()
		if r, err := b.leader().report(ctx); err == nil && r.Trouble != "" {
			return fmt.Errorf("no quorum answered within %v; %s said: %s", b.options.Timeout, b.leader().plan.Name, r.Trouble)
		}
		return fmt.Errorf("no quorum answered within %v", b.options.Timeout)
	}
	return err
}

// Get reads a key linearizably: it sees all writes acknowledged before. With several replicas it
// asks the leader, then a quorum commits a marker on the condition that the key has not changed,
// which fails for a deposed leader. Concurrent reads of a key share this.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	b.counts.reads.Add(1)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	if b.options.Replicas == 1 { // its mirror could answer a direct get
		return b.last(ctx, b.leader(), key)
	}
	return b.reads.join(ctx, key, func() (Entry, error) { return b.confirmed(key) })
}

func (b *Bucket) confirmed(key string) (Entry, error) {
	ctx, cancel := b.bounded(b.ctx)
	defer cancel()
	for {
		e, err := b.last(ctx, b.leader(), key)
		if err != nil && !errors.Is(err, ErrNoKey) {
			return e, err
		}
		_, failed := b.commit(ctx, markerKey, nil, &condition{key, e.Revision})
		if failed == nil {
			return e, err
		}
		if !errors.Is(failed, ErrRevision) {
			return Entry{}, failed
		}
	}
}

// last asks the replica that believes that it leads.
func (b *Bucket) last(ctx context.Context, n *node, key string) (Entry, error) {
	answer, err := n.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, []byte(`{"last_by_subj":"`+keyPrefix+key+`"}`))
	if err != nil {
		return Entry{}, b.lost(err)
	}
	b.counts.trips.Add(1)
	var a struct {
		Error   *apiFailure
		Message struct {
			Seq  uint64
			Data []byte
		}
	}
	switch err := json.Unmarshal(answer.Data, &a); {
	case err != nil:
		return Entry{}, err
	case a.Error == nil:
		return Entry{Key: key, Revision: a.Message.Seq, Value: a.Message.Data}, nil
	case a.Error.Code == noMessage:
		return Entry{}, ErrNoKey
	}
	return Entry{}, a.Error
}

// Replica reads from any replica, whatever its age. NATS chooses among those that the connected
// one knows, including the leader and the mirror.
func (b *Bucket) Replica(ctx context.Context, key string) (Entry, error) {
	b.counts.reads.Add(1)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	return b.direct(ctx, b.follower(), stream, key)
}

// Stale reads from any replica whose state is within the age bound, otherwise like Get. The
// response includes the replica's last sequence; the latest beat up to it was committed by a
// quorum at a known time.
func (b *Bucket) Stale(ctx context.Context, key string) (Entry, error) {
	if b.options.Replicas == 1 {
		return b.Get(ctx, key)
	}
	begun := time.Now()
	bounded, cancel := b.bounded(ctx)
	e, upTo, err := b.directUpTo(bounded, b.follower(), key)
	cancel()
	if err != nil && !errors.Is(err, ErrNoKey) || begun.Sub(b.beats.asOf(upTo)) > b.options.Bound {
		return b.Get(ctx, key)
	}
	b.counts.reads.Add(1)
	return e, err
}

// FromMirror reads from the mirror, whatever its age.
func (b *Bucket) FromMirror(ctx context.Context, key string) (Entry, error) {
	b.counts.reads.Add(1)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	if !b.options.Mirror {
		return Entry{}, fmt.Errorf("%w: it has no mirror", ErrNone)
	}
	return b.direct(ctx, b.nodes[len(b.nodes)-1], mirrorStream, key)
}

// direct reads a replica's state through one node.
func (b *Bucket) direct(ctx context.Context, n *node, stream, key string) (Entry, error) {
	subject := "$JS.API.DIRECT.GET." + stream + "." + keyPrefix + key
	answer, err := n.conn.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return Entry{}, b.lost(err)
	}
	b.counts.trips.Add(1)
	return entry(key, answer)
}

func entry(key string, m *nats.Msg) (Entry, error) {
	switch status := m.Header.Get(headerStatus); status {
	case "":
	case "404":
		return Entry{}, ErrNoKey
	default:
		return Entry{}, fmt.Errorf("read %s: %s %s", key, status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	return Entry{Key: key, Revision: seq, Value: m.Data}, nil
}

// directUpTo is direct plus the last sequence that the replica had when it responded: the
// response reflects everything up to it.
func (b *Bucket) directUpTo(ctx context.Context, n *node, key string) (e Entry, upTo uint64, err error) {
	inbox := n.conn.NewInbox()
	answers, err := n.conn.SubscribeSync(inbox)
	if err != nil {
		return e, 0, err
	}
	defer answers.Unsubscribe() // fails if the connection is closed
	text := `{"multi_last":["` + keyPrefix + key + `","` + keyPrefix + beatKey + `"]}`
	if err := n.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, []byte(text)); err != nil {
		return e, 0, err
	}
	err = ErrNoKey
	for {
		m, failed := answers.NextMsgWithContext(ctx)
		if failed != nil {
			return e, 0, b.lost(failed)
		}
		switch status := m.Header.Get(headerStatus); status {
		case "":
			if m.Header.Get(headerSubject) == keyPrefix+key {
				e, err = entry(key, m)
			}
		case "204": // the end
			b.counts.trips.Add(1)
			upTo, failed = strconv.ParseUint(m.Header.Get(headerUpTo), 10, 64)
			return e, upTo, cmp.Or(failed, err)
		default:
			return e, 0, fmt.Errorf("read %s: %s %s", key, status, m.Header.Get("Description"))
		}
	}
}

// rounds are reads that share a confirmation: a read that arrives during another of the same key
// waits for the next round.
type rounds struct {
	mu sync.Mutex
	by map[string]*queue // keys being read
}

type queue struct{ next *round } // nil: no read waits

type round struct {
	done  chan struct{}
	entry Entry
	err   error
}

// join waits for a read that starts after the call.
func (r *rounds) join(ctx context.Context, key string, read func() (Entry, error)) (Entry, error) {
	r.mu.Lock()
	q := r.by[key]
	idle := q == nil
	if idle {
		if r.by == nil {
			r.by = map[string]*queue{}
		}
		q = &queue{}
		r.by[key] = q
	}
	if q.next == nil {
		q.next = &round{done: make(chan struct{})}
	}
	one := q.next
	r.mu.Unlock()
	if idle {
		go r.run(key, q, read)
	}
	select {
	case <-one.done:
		return one.entry, one.err
	case <-ctx.Done():
		return Entry{}, ctx.Err()
	}
}

// run reads until no more reads wait.
func (r *rounds) run(key string, q *queue, read func() (Entry, error)) {
	for {
		r.mu.Lock()
		one := q.next
		q.next = nil
		if one == nil {
			delete(r.by, key)
		}
		r.mu.Unlock()
		if one == nil {
			return
		}
		one.entry, one.err = read()
		close(one.done)
	}
}
