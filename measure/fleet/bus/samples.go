package bus

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// A publisher buffers this much while NATS is down: an hour at a message a second, or 64 MB.
	unsentMost      = 3600
	unsentBytesMost = 64 << 20

	sequenceHeader = "Ceiling-Sequence"
	ackWithin      = 2 * time.Second
)

// Publisher sends one agent's samples of one run to the stream: each at least until NATS has
// acknowledged it, in order, one in flight at a time. At a message a second that costs nothing, and
// keeps the stream in order even if NATS restarts. A sample that arrived but whose acknowledgement
// was lost is sent again under the same ID, and dropped there.
type Publisher struct {
	c       *Conn
	subject string
	id      string // of this publisher: unguessable, so that no other agent can make our samples look like duplicates

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	unsent  [][]byte
	bytes   int
	next    uint64 // sequence of unsent[0]
	err     error  // of the last attempt
	done    chan struct{}
	cancel  context.CancelFunc
}

// Publisher starts sending this agent's samples of a run.
func (c *Conn) Publisher(run string) (*Publisher, error) {
	if err := checkRun(run); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		c: c, subject: sampleSubject(c.bed, run, c.name), id: run + "/" + c.name + "/" + cryptorand.Text(),
		changed: make(chan struct{}), next: 1, done: make(chan struct{}), cancel: cancel,
	}
	go p.loop(ctx)
	return p, nil
}

// Send queues a sample and does not wait. It keeps b, which must not change afterwards. ErrFull
// means that the buffer is full, ErrTooLarge that NATS takes no message of that size; the sample is
// then not queued, and the next one gets its number.
func (p *Publisher) Send(b []byte) error {
	most := int64(MaxBody)
	if n := p.c.nc.MaxPayload(); n > 0 {
		most = min(most, n-1024) // headers
	}
	if int64(len(b)) > most {
		return fmt.Errorf("sample of %d bytes, NATS takes %d: %w", len(b), most, ErrTooLarge)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unsent) >= unsentMost || p.bytes+len(b) > unsentBytesMost {
		return fmt.Errorf("%d samples (%d bytes) wait for NATS: %w (last error: %v)", len(p.unsent), p.bytes, ErrFull, p.err)
	}
	p.unsent = append(p.unsent, b)
	p.bytes += len(b)
	p.wake()
	return nil
}

// wake wakes the waiters; p.mu is held.
func (p *Publisher) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Unsent returns how many samples are not acknowledged yet, and the error of the last attempt, if
// it failed.
func (p *Publisher) Unsent() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.unsent), p.err
}

// Flush waits until everything queued is acknowledged. If ctx ends first, the error says how much
// was not.
func (p *Publisher) Flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		n, changed, last := len(p.unsent), p.changed, p.err
		p.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-p.done:
			return fmt.Errorf("%d samples were not sent: publisher closed", n)
		case <-ctx.Done():
			return fmt.Errorf("%d samples were not sent: %w (last error: %v)", n, context.Cause(ctx), last)
		}
	}
}

// Close stops sending and drops what is not acknowledged; Flush first.
func (p *Publisher) Close() {
	p.cancel()
	<-p.done
}

func (p *Publisher) loop(ctx context.Context) {
	defer close(p.done)
	for failed := 0; ctx.Err() == nil; {
		p.mu.Lock()
		changed := p.changed
		var head []byte
		waiting, sequence := len(p.unsent) > 0, p.next
		if waiting {
			head = p.unsent[0]
		}
		p.mu.Unlock()
		if !waiting {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := p.publish(ctx, sequence, head)
		p.settle(err)
		if err == nil {
			failed = 0
			continue
		}
		select {
		case <-time.After(min(pause(failed), time.Second)):
		case <-ctx.Done():
		}
		failed++
	}
}

// settle removes the head of the queue if it was acknowledged.
func (p *Publisher) settle(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err != nil {
		return
	}
	p.bytes -= len(p.unsent[0])
	p.unsent[0] = nil
	if p.unsent = p.unsent[1:]; len(p.unsent) == 0 {
		p.unsent = nil // frees its array
	}
	p.next++
	p.wake()
}

func (p *Publisher) publish(ctx context.Context, sequence uint64, b []byte) error {
	n := strconv.FormatUint(sequence, 10)
	m := &nats.Msg{Subject: p.subject, Data: b, Header: nats.Header{sequenceHeader: {n}}}
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	_, err := p.c.js.PublishMsg(ctx, m, jetstream.WithMsgID(p.id+"/"+n), jetstream.WithExpectStream(samplesStream(p.c.bed)),
		jetstream.WithRetryAttempts(0))
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("sample %d: no acknowledgement within %v: %w", sequence, ackWithin, err)
	}
	return gone(err)
}

// Sample is one message of an agent.
type Sample struct {
	Agent    string
	Sequence uint64 // from 1, per agent
	// Missed is how many before this one are missing, because NATS discarded them for space or they
	// were deleted. Normally 0.
	Missed uint64
	Body   []byte
}

// Samples passes a run's samples to take: from the first on, each once, those of one agent in
// order, existing and future ones, until ctx ends (nil) or take returns an error (that). It
// survives a broken connection and a restart of NATS without losing its place.
func (c *Conn) Samples(ctx context.Context, run string, take func(Sample) error) error {
	if err := checkRun(run); err != nil {
		return err
	}
	r := &reader{c: c, run: run, take: take, last: map[string]uint64{}}
	for attempt := 0; ; attempt++ {
		before := r.next
		err := r.read(ctx)
		if r.taken != nil {
			return r.taken
		}
		if ctx.Err() != nil {
			return nil
		}
		if c.nc.IsClosed() {
			return fmt.Errorf("samples of run %s: %w: connection closed", run, ErrGone)
		}
		if r.next != before {
			attempt = 0
		}
		c.trouble(fmt.Errorf("samples of run %s: %w; reading on", run, err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(pause(attempt), time.Second)):
		}
	}
}

type reader struct {
	c     *Conn
	run   string
	take  func(Sample) error
	taken error             // error of take
	next  uint64            // next sequence in the stream; 0: the first
	last  map[string]uint64 // by agent
}

// read reads from r.next until an error.
func (r *reader) read(ctx context.Context) error {
	o := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{sampleSubject(r.c.bed, r.run, "*")}, DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: time.Minute, MaxResetAttempts: 3,
	}
	if r.next > 0 {
		o.DeliverPolicy, o.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.next
	}
	open, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	consumer, err := r.c.js.OrderedConsumer(open, samplesStream(r.c.bed), o)
	if err != nil {
		return gone(err)
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(time.Second),
		jetstream.PullMaxBytes(MaxPending/2))
	if err != nil {
		return gone(err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return gone(err)
		}
		if err := r.one(m); err != nil {
			return err
		}
	}
}

func (r *reader) one(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.Sequence.Stream < r.next {
		return nil
	}
	r.next = meta.Sequence.Stream + 1
	agent := m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]
	sequence, err := strconv.ParseUint(m.Headers().Get(sequenceHeader), 10, 64)
	if err != nil || sequence == 0 {
		r.c.trouble(fmt.Errorf("samples of run %s: a message of agent %s without a number left out", r.run, agent))
		return nil
	}
	last := r.last[agent]
	if sequence <= last {
		return nil // resent after NATS's duplicate window
	}
	r.last[agent] = sequence
	if err := r.take(Sample{agent, sequence, sequence - last - 1, m.Data()}); err != nil {
		r.taken = err
		return errors.Join(err)
	}
	return nil
}
