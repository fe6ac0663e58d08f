package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ceiling/internal/pause"
)

const (
	// presentEvery is how often an agent renews its offer, and presentFor how long it is kept: longer
	// than a busy machine makes it wait.
	presentEvery = 3 * time.Second
	presentFor   = 30 * time.Second
)

// Present answers drivers, and keeps the offer in the bucket of agents, until stop is called or the
// connection is closed. An agent that dies drops out of the bucket by its time to live. command is
// given what a driver sent, in that order (NATS lets nobody else send one), and calls answer once, at
// once or later from any goroutine: it must not wait itself, since the heartbeat comes behind it.
func (c *Conn) Present(offer []byte, command func(body []byte, answer func(body []byte))) (stop func() error, err error) {
	commands, err := c.nc.Subscribe(agentSubject(c.bed, c.id, "command"), func(m *nats.Msg) {
		command(m.Data, func(b []byte) { c.say(m.Respond(b)) })
	})
	if err == nil {
		err = c.offer(context.Background(), offer, "")
	}
	if err != nil {
		return nil, fmt.Errorf("present %s: %w", c.name, gone(err))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		// Without a connection it fails, which the Watch has been told; the next one may do better.
		pause.Every(ctx, presentEvery, func() { _ = c.offer(ctx, offer, "") })
	})
	return func() error {
		cancel()
		renewing.Wait()
		return errors.Join(commands.Unsubscribe(), c.offer(context.Background(), nil, "DEL"))
	}, nil
}

// offer writes this agent's key of the bucket, or deletes it: an agent may publish to its key, and
// not ask for the bucket as jetstream.KeyValue does.
func (c *Conn) offer(ctx context.Context, offer []byte, operation string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	m := &nats.Msg{Subject: offerSubject(c.bed, c.id), Data: offer, Header: nats.Header{}}
	if operation != "" {
		m.Header.Set("KV-Operation", operation)
	}
	_, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	return gone(err)
}

// AgentInfo is one agent of the test bed.
type AgentInfo struct {
	ID, Name string
	Offer    []byte
}

// Agents returns the agents that are present, or have died a moment ago, sorted by name.
func (c *Conn) Agents(ctx context.Context) ([]AgentInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	kv, err := c.js.KeyValue(ctx, agentsBucket(c.bed))
	if err != nil {
		return nil, fmt.Errorf("agents of test bed %s: %w", c.bed, gone(err))
	}
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("agents of test bed %s: %w", c.bed, gone(err))
	}
	defer watch.Stop() //nolint:errcheck // its consumer ends by itself
	var all []AgentInfo
	for {
		select {
		case e := <-watch.Updates():
			if e == nil { // these are all
				slices.SortFunc(all, func(a, b AgentInfo) int { return compareNames(a.Name, b.Name) })
				return all, nil
			}
			all = append(all, AgentInfo{e.Key(), nameOf(e.Key()), e.Value()})
		case <-ctx.Done():
			return nil, fmt.Errorf("agents of test bed %s: %w", c.bed, gone(ctx.Err()))
		}
	}
}

// compareNames sorts web2 before web10.
func compareNames(a, b string) int {
	word := func(s string) string { return strings.TrimRight(s, "0123456789") }
	return cmp.Or(strings.Compare(word(a), word(b)), len(a)-len(b), strings.Compare(a, b))
}

// Ask sends a command and waits for the answer, until ctx ends. ErrGone means that the agent is not
// connected. Commands arrive in the order of sending.
func (c *Conn) Ask(ctx context.Context, agent string, command []byte) ([]byte, error) {
	answer, err := c.nc.RequestWithContext(ctx, agentSubject(c.bed, agent, "command"), command)
	if err != nil {
		return nil, gone(err)
	}
	return answer.Data, nil
}

const (
	numberHeader = "Ceiling-Number"
	takenWithin  = 2 * time.Second // at the first attempt
)

// Report sends one of this agent's reports on a run to its driver, and repeats it until the driver has
// taken it or ctx ends. One at a time, that keeps them in order, whatever breaks in between. One whose
// answer was lost comes twice, with the same number.
func (c *Conn) Report(ctx context.Context, run string, number uint64, body []byte) error {
	m := &nats.Msg{Subject: reportSubject(c.bed, run, c.id), Data: body, Header: nats.Header{numberHeader: {strconv.FormatUint(number, 10)}}}
	for attempt := 0; ; attempt++ {
		once, cancel := context.WithTimeout(ctx, takenWithin<<min(attempt, 2)) // an answer may take longer each time
		_, err := c.nc.RequestMsgWithContext(once, m)
		cancel()
		if err == nil || errors.Is(err, nats.ErrMaxPayload) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("report %d of run %s was not taken: %w (last error: %w)", number, run, context.Cause(ctx), gone(err))
		case <-time.After(min(backoff(attempt), time.Second)):
		}
	}
}

// Report is one message of an agent.
type Report struct {
	Agent  string // ID
	Number uint64 // as in Conn.Report
	Body   []byte
}

// Reports passes a run's reports to take, those of one agent in order, until stop is called. One
// that take refuses comes again.
func (c *Conn) Reports(run string, take func(Report) (taken bool)) (stop func() error, err error) {
	sub, err := c.nc.Subscribe(reportSubject(c.bed, run, ">"), func(m *nats.Msg) {
		agent := strings.TrimPrefix(m.Subject, reportSubject(c.bed, run, ""))
		number, err := strconv.ParseUint(m.Header.Get(numberHeader), 10, 64)
		if err != nil {
			c.say(fmt.Errorf("reports on run %s: a message of agent %s without a number left out", run, nameOf(agent)))
			return
		}
		if take(Report{agent, number, m.Data}) {
			c.say(m.Respond(nil))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reports on run %s: %w", run, gone(err))
	}
	return func() error { return gone(sub.Unsubscribe()) }, nil
}
