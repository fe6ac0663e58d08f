package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Session is what a driver must know about an agent to command it; the agent's About has it.
type Session struct {
	Nonce Nonce
	Last  uint64 // Opener.Last
	// Clock estimates the agent's own clock, to seconds.
	Clock func() time.Duration
}

// Line carries a driver's commands to one agent: sealed and sent in one order, as the agent's
// Opener requires, and answered in any. It is safe for concurrent use.
type Line struct {
	c       *Conn
	agent   string
	session Session
	inbox   string
	sub     *nats.Subscription

	mu       sync.Mutex
	sequence uint64
	waiting  map[uint64]chan *nats.Msg
}

// Line opens a line to an agent.
func (c *Conn) Line(agent string, s Session) (*Line, error) {
	if err := CheckName(agent); err != nil {
		return nil, err
	}
	if c.name != DriverName {
		return nil, fmt.Errorf("agent %s cannot command agent %s: only a driver has the key", c.name, agent)
	}
	l := &Line{c: c, agent: agent, session: s, inbox: c.nc.NewInbox(), sequence: s.Last, waiting: map[uint64]chan *nats.Msg{}}
	var err error
	l.sub, err = c.nc.Subscribe(l.inbox+".*", l.answered)
	if err != nil {
		return nil, gone(err)
	}
	return l, nil
}

// Do sends a command and waits for the answer, until ctx ends. ErrGone means that the agent is not
// connected.
func (l *Line) Do(ctx context.Context, verb, run string, body []byte) ([]byte, error) {
	answer := make(chan *nats.Msg, 1)
	sequence, err := l.send(verb, run, body, answer)
	if err != nil {
		return nil, fmt.Errorf("%s to agent %s: %w", verb, l.agent, err)
	}
	defer func() {
		l.mu.Lock()
		delete(l.waiting, sequence)
		l.mu.Unlock()
	}()
	select {
	case m := <-answer:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, fmt.Errorf("%s to agent %s: %w", verb, l.agent, ErrGone)
		}
		return m.Data, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s to agent %s: no answer: %w", verb, l.agent, context.Cause(ctx))
	}
}

// send seals and sends under one lock, so that sequence numbers are in wire order.
func (l *Line) send(verb, run string, body []byte, answer chan *nats.Msg) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sequence := l.sequence + 1
	b, err := l.c.signer.Seal(Envelope{l.session.Nonce, sequence, l.session.Clock(), run, verb, body})
	if err != nil {
		return 0, err
	}
	l.sequence = sequence
	l.waiting[sequence] = answer
	reply := l.inbox + "." + strconv.FormatUint(sequence, 10)
	if err := l.c.nc.PublishRequest(agentSubject(l.c.bed, l.agent, "command"), reply, b); err != nil {
		delete(l.waiting, sequence)
		return 0, gone(err)
	}
	return sequence, nil
}

func (l *Line) answered(m *nats.Msg) {
	sequence, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, l.inbox+"."), 10, 64)
	if err != nil {
		return // only we create these subjects
	}
	l.mu.Lock()
	answer := l.waiting[sequence]
	delete(l.waiting, sequence)
	l.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// Close ends the line. Pending calls to Do continue until their contexts end.
func (l *Line) Close() error { return l.sub.Unsubscribe() }
