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

	"github.com/nats-io/nats.go"
)

// Names in JetStream: a bucket is a stream whose subjects are its keys.
const (
	stream       = "KV_ceiling"
	mirrorStream = "KV_ceiling-mirror"
	keyPrefix    = "$KV.ceiling."
	markerKey    = "_marker" // written to confirm a read by a quorum; no key of a client's begins with _
	beatKey      = "_beat"   // written to tell how old a follower's state is

	headerExpect   = "Nats-Expected-Last-Subject-Sequence"
	headerExpectOf = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerSeq      = "Nats-Sequence"
	headerUpTo     = "Nats-UpTo-Sequence"
	headerSubject  = "Nats-Subject"
	headerStatus   = "Status"
	noResponders   = "503" // of a message that nobody has subscribed to

	noMessage     = 10037 // JetStream's codes: there is no such key
	wrongSequence = 10071 // a condition does not hold
	inFlight      = 10164 // or it cannot be told yet, because a write of the key is under way
)

// Keys is how many keys there are from the start, for Any.
const Keys = 100

// valueBytes of those.
const valueBytes = 100

// MaxValue is how long a value may be.
const MaxValue = 64 << 10

// An Entry is a key with its value.
type Entry struct {
	Key      string
	Revision uint64 // of its last write, counted over all keys
	Value    []byte
}

// Errors that say what became of an operation. With another error a write may have been done or not.
var (
	ErrNoKey    = errors.New("there is no such key")
	ErrRevision = errors.New("the key has another revision")
	ErrNone     = errors.New("the bucket has none to read from")
	ErrNoLeader = errors.New("no leader takes writes") // and nobody got this one
)

// counts are of operations since the start; beats are left out.
type counts struct {
	writes, reads atomic.Int64
	commits       atomic.Int64 // of a quorum: writes, and markers of reads
	trips         atomic.Int64 // questions to a replica
	commitNs      atomic.Int64 // that those took, from here
}

// Any is one of the keys that are there from the start.
func Any(seed uint64) string { return "k" + strconv.FormatUint(seed%Keys, 10) }

// CheckKey says what is wrong with a key, or nil.
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

// make makes the bucket, when there is a leader that does.
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

// makeMirror makes the mirror, and waits until it has what the bucket has.
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

// makeStream asks until a leader has made it.
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

// clarify adds the replicas that have ended to an error, for they are the reason.
func (b *Bucket) clarify(err error) error {
	var ended []string
	for _, n := range b.nodes {
		if p := n.current(); p != nil {
			select {
			case <-p.ended:
				ended = append(ended, n.plan.Name+" "+p.said.Text())
			default:
			}
		}
	}
	if len(ended) == 0 {
		return err
	}
	return fmt.Errorf("%w; replicas that ended: %s", err, strings.Join(ended, ", "))
}

// An apiFailure is an error as JetStream says it.
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

// fill writes the keys that are there from the start.
func (b *Bucket) fill(ctx context.Context) error {
	failed := make(chan error, Keys)
	for i := range Keys {
		go func() {
			_, err := b.Put(ctx, Any(uint64(i)), Value(rand.Uint64()))
			for err != nil && ctx.Err() == nil { // a leader may change at the start
				time.Sleep(50 * time.Millisecond)
				_, err = b.Put(ctx, Any(uint64(i)), Value(rand.Uint64()))
			}
			failed <- err
		}()
	}
	var err error
	for range Keys {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return fmt.Errorf("first writes: %w", b.clarify(firstOf(err)))
	}
	return nil
}

// firstOf is one of joined errors, for a line.
func firstOf(err error) error {
	if many, is := err.(interface{ Unwrap() []error }); is {
		return firstOf(many.Unwrap()[0])
	}
	return err
}

// Value is one that a seed makes.
func Value(seed uint64) []byte {
	v := make([]byte, 0, valueBytes+16)
	for len(v) < valueBytes {
		v = strconv.AppendUint(v, seed, 36)
	}
	return v[:valueBytes]
}

// Put writes a key. When it returns without an error a quorum has the write.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	return b.write(ctx, key, value, nil)
}

// Set is Put where the key has a revision, 0 where there must be no such key; else it fails with ErrRevision and writes
// nothing.
func (b *Bucket) Set(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, key, value, &condition{key, revision})
}

// A condition is that a key has a revision, when a write is committed.
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

// commit is publish, counted.
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

// publish has a quorum take a message.
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

// acknowledged is the revision that a message got.
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

// agreed sends a message with a condition, and believes a refusal once a quorum has taken a marker that was sent behind it. A
// leader that was cut off gets messages again before it hears that another leads, and refuses at once what the other does: by
// the time of the marker the other's answer is there.
func (b *Bucket) agreed(ctx context.Context, n *node, m *nats.Msg) (uint64, error) {
	answers, err := n.conn.SubscribeSync(nats.NewInbox())
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }() // it fails where the connection is gone, and the answers with it
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

// bounded ends an operation with its time, or with the bucket.
func (b *Bucket) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	stop := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// lost is an error of a request to the leader, which is looked for again.
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

// Get reads a key so that what was acknowledged before is seen: it is linearizable. With several replicas the leader is asked,
// and then a quorum takes a marker on the condition that the key has not changed: one that leads no more finds none. Reads of
// a key that come at the same time share this.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	b.counts.reads.Add(1)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	if b.options.Replicas == 1 { // by a direct get its mirror could answer
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

// last asks the replica that believes to lead.
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

// Replica reads from any replica, whatever its age. NATS chooses among those that the one it is connected to knows of, the
// leader and the mirror among them.
func (b *Bucket) Replica(ctx context.Context, key string) (Entry, error) {
	b.counts.reads.Add(1)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	return b.direct(ctx, b.follower(), stream, key)
}

// Stale reads from any replica whose state is not older than the bound, else as Get does. The answer says how much the replica
// has; the latest beat in that was written by a quorum at a time that is known.
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

// direct asks through one node for what a replica has.
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

// directUpTo is direct with the last sequence that the replica had when it answered: all up to that is in the answer.
func (b *Bucket) directUpTo(ctx context.Context, n *node, key string) (e Entry, upTo uint64, err error) {
	inbox := n.conn.NewInbox()
	answers, err := n.conn.SubscribeSync(inbox)
	if err != nil {
		return e, 0, err
	}
	defer answers.Unsubscribe() // fails where the connection is closed
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

// rounds are reads that share a confirmation: who comes while one of the same key is under way waits for the next.
type rounds struct {
	mu sync.Mutex
	by map[string]*queue // keys that are read
}

type queue struct{ next *round } // nil: nobody waits

type round struct {
	done  chan struct{}
	entry Entry
	err   error
}

// join waits for a read that begins after the call.
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

// run reads until nobody waits.
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
