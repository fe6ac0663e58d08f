package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Service has an agent's handlers. Each is called from its own goroutine and its answers leave in
// order, so that a ping never waits for a command.
type Service struct {
	Version string // of ceiling, as MAJOR.MINOR.PATCH
	// Ping must answer at once, for the clock.
	Ping func(body []byte) []byte
	// About describes the agent and its current activity.
	About func() []byte
	// Command is given what Line.Do sealed, in the order of sealing, and calls
	// answer once, at once or later from any goroutine: it must not wait itself,
	// since the heartbeat comes behind it.
	Command func(sealed []byte, answer func(body []byte))
}

// Present registers the agent as a micro service and answers until stop is called or the connection
// is closed.
func (c *Conn) Present(s Service) (stop func() error, err error) {
	service, err := micro.AddService(c.nc, micro.Config{
		Name: serviceName(c.bed), Version: s.Version, Description: "loads and observes for ceiling",
		Metadata:           map[string]string{"agent": c.name, "bed": c.bed},
		QueueGroupDisabled: true,
	})
	if err != nil {
		return nil, fmt.Errorf("present %s: %w", c.name, err)
	}
	answer := func(r micro.Request, b []byte) {
		if err := r.Respond(b); err != nil {
			c.trouble(fmt.Errorf("answer to %s: %w", r.Subject(), err))
		}
	}
	handlers := map[string]micro.HandlerFunc{
		"ping":    func(r micro.Request) { answer(r, s.Ping(r.Data())) },
		"about":   func(r micro.Request) { answer(r, s.About()) },
		"command": func(r micro.Request) { s.Command(r.Data(), func(b []byte) { answer(r, b) }) },
	}
	for what, h := range handlers {
		if err := service.AddEndpoint(what, h, micro.WithEndpointSubject(agentSubject(c.bed, c.name, what))); err != nil {
			return nil, errors.Join(fmt.Errorf("present %s: %w", c.name, err), service.Stop())
		}
	}
	return service.Stop, c.nc.FlushTimeout(answerWithin)
}

// AgentInfo is one agent of the test bed.
type AgentInfo struct {
	Name    string
	Version string // of its ceiling
	About   []byte
}

// Discover asks which agents are present and collects answers until none has arrived for quiet, or
// ctx ends. Each agent is then asked for its description on its own subject, where no other can
// answer. Sorted by name.
func (c *Conn) Discover(ctx context.Context, quiet time.Duration) ([]AgentInfo, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, serviceName(c.bed), "")
	if err != nil {
		return nil, err
	}
	reply := c.nc.NewRespInbox()
	sub, err := c.nc.SubscribeSync(reply)
	if err != nil {
		return nil, gone(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is gone then, which the next call says
	if err := c.nc.PublishRequest(subject, reply, nil); err != nil {
		return nil, gone(err)
	}
	names := map[string]string{}
	for {
		wait, cancel := context.WithTimeout(ctx, quiet)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
				break
			}
			return nil, gone(err)
		}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			break // no responders
		}
		var p micro.Ping
		if json.Unmarshal(m.Data, &p) == nil && p.Metadata["bed"] == c.bed && CheckName(p.Metadata["agent"]) == nil {
			names[p.Metadata["agent"]] = p.Version
		}
	}
	return c.askAll(ctx, names)
}

// askAll drops the names that no agent answers for: an agent that has left, or another's claim.
func (c *Conn) askAll(ctx context.Context, names map[string]string) ([]AgentInfo, error) {
	var mu sync.Mutex
	var all []AgentInfo
	var group sync.WaitGroup
	for name, version := range names {
		group.Go(func() {
			if about, err := c.About(ctx, name); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, AgentInfo{name, version, about})
			} else if ctx.Err() == nil && !errors.Is(err, ErrGone) {
				c.trouble(fmt.Errorf("agent %s: %w", name, err))
			}
		})
	}
	group.Wait()
	slices.SortFunc(all, func(a, b AgentInfo) int { return compareNames(a.Name, b.Name) })
	return all, ctx.Err()
}

// compareNames sorts web2 before web10.
func compareNames(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[len(s)-1-n] >= '0' && s[len(s)-1-n] <= '9' {
			n++
		}
		return n
	}
	da, db := digits(a), digits(b)
	if a[:len(a)-da] == b[:len(b)-db] && da != db {
		return da - db
	}
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// About asks an agent for its description.
func (c *Conn) About(ctx context.Context, agent string) ([]byte, error) {
	return c.ask(ctx, agent, "about", nil)
}

// Ping reads an agent's clock. The round trip includes both ways through NATS.
func (c *Conn) Ping(ctx context.Context, agent string, body []byte) ([]byte, error) {
	return c.ask(ctx, agent, "ping", body)
}

func (c *Conn) ask(ctx context.Context, agent, what string, body []byte) ([]byte, error) {
	if err := CheckName(agent); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, agentSubject(c.bed, agent, what), body)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %s: %w", agent, what, gone(err))
	}
	return m.Data, nil
}
