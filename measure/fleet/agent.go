package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/pause"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
	"ceiling/record"
)

// AgentOptions configure what an agent offers, and to whom.
type AgentOptions struct {
	// About has what the caller knows: the version, the roles and the load that it accepts, its
	// interface, its capacity.
	About About
	// Serves is the address that it starts ceiling's own servers on; the zero value: it starts none.
	Serves netip.Addr
	Allow  AllowList
	// Grace is how long it continues without hearing from the driver; 0: 10 s.
	Grace time.Duration
	// Log receives every event, one line each, from any goroutine.
	Log func(string)

	engine Engine       // nil: run.DoShare
	here   func()       // called once it can be discovered; may be nil
	now    func() int64 // nil: nanoseconds since its start
	find   Lookup       // nil: this host's resolver
	serve  starter      // nil: run.StartOwn
}

const (
	graceDefault = 10 * time.Second
	// beatEvery is the interval of a driver's heartbeats, and of an agent's reports.
	beatEvery = time.Second
	// watchEvery is how often an agent checks its deadlines.
	watchEvery = 100 * time.Millisecond
	// obeyWithin is how long an engine may take to end after a stop.
	obeyWithin = 30 * time.Second
)

// Agent offers this machine. It is idle, or takes part in one run.
type Agent struct {
	o    AgentOptions
	conn *bus.Conn

	mu      sync.Mutex
	session *session // nil: idle
	hosted  hosted
}

func newAgent(conn *bus.Conn, o AgentOptions) *Agent {
	o.Grace = cmp.Or(o.Grace, graceDefault)
	if o.engine == nil {
		o.engine = run.DoShare
	}
	if o.serve == nil {
		o.serve = run.StartOwn
	}
	if o.now == nil {
		start := time.Now()
		o.now = func() int64 { return int64(time.Since(start)) }
	}
	if o.find == nil {
		o.find = lookup
	}
	env, about := record.ReadEnvironment(o.About.Version), &o.About
	about.Protocol, about.Host, about.Cores, about.MemoryBytes = Protocol, env.Host, cores(&env), env.MemoryBytes
	about.CPUModel, about.Kernel, about.BootID = env.CPUModel, env.Kernel, env.BootID
	about.Allow = o.Allow.Texts()
	if o.Serves.IsValid() {
		about.Serves = o.Serves.String()
	}
	a := &Agent{o: o, conn: conn}
	a.hosted = hosted{o: &a.o, servers: map[string]*instance{}}
	return a
}

// Serve makes this machine an agent, over its connection, until the context ends: then it stops its
// run and reports the result before it returns. It returns only errors it cannot recover from,
// bus.ErrTokenOver among them.
func Serve(ctx context.Context, conn *bus.Conn, o AgentOptions) error {
	a := newAgent(conn, o)
	stop, err := conn.Present(text(&a.o.About), a.hear)
	if err != nil {
		return err
	}
	if o.here != nil {
		o.here()
	}
	err = a.watch(ctx)
	why := "the agent was asked to disconnect"
	if err != nil {
		why = err.Error()
	}
	err = errors.Join(err, a.leave(why))
	a.hosted.stop(why)
	if e := stop(); e != nil && conn.Connected() { // without a connection no driver would get it
		err = errors.Join(err, e)
	}
	return err
}

// leaveWithin is how long an agent that was told to leave may take to report its run.
const leaveWithin = 5 * time.Second

// hear answers a command. Those that ask other machines or start something run concurrently, so that
// no heartbeat waits for a name lookup.
func (a *Agent) hear(body []byte, answer func([]byte)) {
	var c command
	err := readMessage(body, &c)
	do := func() { answer(text(a.answer(&c, err))) }
	switch c.Verb {
	case verbOffer, verbPrepare, verbServe, verbDismiss:
		go do()
	default:
		do()
	}
}

// answer obeys a command, unless it could not be read, and logs a refusal, except of what a driver
// only asks, or tells an agent that it may have lost.
func (a *Agent) answer(c *command, err error) reply {
	address := ""
	if err == nil {
		address, err = a.obey(c)
	}
	if err != nil && !slices.Contains([]string{verbOffer, verbPing, verbFinish, verbStop, verbKeep, verbDismiss}, c.Verb) {
		a.o.Log(strings.TrimSpace(fmt.Sprintf("refused %s %s", c.Verb, c.Run)) + ": " + err.Error())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := reply{State: State{Phase: Idle}, Address: address, NowNs: a.o.now(), WallNs: time.Now().UnixNano()}
	if err != nil {
		r.Error = err.Error()
	}
	if s := a.session; s != nil {
		r.State = State{Phase: s.phase, Run: s.run, BusyNs: r.NowNs - s.since}
	}
	return r
}

// obey does what a command says. Only a server that was started has an address.
func (a *Agent) obey(c *command) (address string, err error) {
	if c.Protocol != Protocol {
		return "", fmt.Errorf("the driver speaks version %d of the protocol, this agent %d: install the same ceiling on both", c.Protocol, Protocol)
	}
	switch c.Verb {
	case verbOffer, verbPrepare:
		ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
		defer cancel()
		if err = a.accepts(ctx, c.Order); err == nil && c.Verb == verbPrepare {
			err = a.prepare(c.Run, c.Order)
		}
		return "", err
	case verbServe:
		return a.hosted.serve(c)
	case verbKeep, verbDismiss:
		return "", a.hosted.obey(c)
	case verbPing, verbStart, verbFinish, verbStop:
		return "", a.told(c)
	}
	return "", errors.New("no such verb")
}

// told does what the driver of its run says.
func (a *Agent) told(c *command) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, now := a.session, a.o.now()
	switch {
	case c.Verb == verbPing && c.Run == "": // of a driver that looks around
		return nil
	case s == nil:
		return fmt.Errorf("it is at no run, and so not at %s", c.Run)
	case s.run != c.Run:
		return fmt.Errorf("it is at run %s, not at %s", s.run, c.Run)
	case c.Verb == verbStart:
		if err := s.start(now, c.AtNs); err != nil {
			return err
		}
		in := time.Duration(c.AtNs - now)
		s.starts <- time.Now().Add(in) // the only one: life rejects a second
		a.o.Log(fmt.Sprintf("run %s: begins in %s", s.run, unit.FormatDuration(in.Round(time.Millisecond))))
	case c.Verb == verbStop:
		s.halt(now, "the driver said: "+c.Why)
	case c.Verb == verbFinish:
		s.finish()
	}
	s.heard = now
	return nil
}

// accepts checks whether an order suits this agent.
func (a *Agent) accepts(ctx context.Context, o *order) error {
	if err := o.check(); err != nil {
		return err
	}
	switch {
	case o.Load && !a.o.About.Loads:
		return errors.New("it only observes; start the agent without --observe-only")
	case o.Observe && !a.o.About.Observes:
		return errors.New("it only loads; start the agent without --load-only")
	}
	if err := a.busy(); err != nil {
		return err
	}
	if o.Observe { // it may fetch profiles from this machine, and from what is on the list
		for _, url := range spec.PprofURLs(o.Spec.Pprof) {
			to, _, _, err := spec.ParseTarget(url)
			if err == nil {
				err = a.o.Allow.leads(ctx, to, a.o.find, true)
			}
			if err != nil {
				return fmt.Errorf("--pprof: %w", err)
			}
		}
	}
	if !o.Load {
		return nil // an observer sends nothing to the target
	}
	if err := a.o.About.Caps.Check(o.Spec, o.Share); err != nil {
		return err
	}
	// All targets of a spec share an address. The engine checks the one that it picks again.
	to, err := o.Spec.Address(o.Spec.Targets[0].URL)
	if err != nil {
		return err
	}
	return a.o.Allow.leads(ctx, to, a.o.find, false)
}

// busy returns an error while it takes part in a run. It waits a moment for one of which the driver
// has taken everything, and which does not know that yet.
func (a *Agent) busy() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.session; s != nil && s.phase == Draining {
		a.mu.Unlock()
		pause.For(s.here, settleWithin)
		a.mu.Lock()
	}
	if a.session == nil {
		return nil
	}
	return a.session.busy(a.o.now())
}

// settleWithin is less than a driver waits for an answer.
const settleWithin = time.Second

// prepare begins a run: it connects, and waits for the start.
func (a *Agent) prepare(id string, o *order) error {
	if err := bus.CheckName("run", id); err != nil {
		return err
	}
	of := o.Spec
	length := of.Warmup + of.Duration + max(time.Second, of.Timeout, of.Duration/10)
	if of.Duration == 0 {
		length = a.o.About.MaxTime
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session != nil {
		return a.session.busy(a.o.now())
	}
	s := newSession(newLife(id, a.o.now(), of.ConnectRamp+2*of.Timeout, length), *o)
	if of.Rate.IsZero() {
		s.cap = a.o.About.Caps.MaxRate
	}
	a.session = s
	a.o.Log(fmt.Sprintf("run %s: %s", id, describe(o)))
	go a.work(s)
	return nil
}

// describe describes an order in words.
func describe(o *order) string {
	url := o.Spec.Targets[0].URL
	if !o.Load {
		return "observes " + url
	}
	text := fmt.Sprintf("loads %s, %d of %d shares", url, o.Share.Count, o.Share.Of)
	if o.Observe {
		text = "observes and " + text
	}
	return text
}

// work is a session's goroutine: it runs the engine and sends its reports.
func (a *Agent) work(s *session) {
	defer close(s.ended)
	defer s.cancel()
	var sent sync.WaitGroup
	sent.Go(func() { a.send(s) })
	o := run.ShareOptions{Host: a.conn.Name(), Version: a.o.About.Version}
	if s.order.Load { // who observes sends nothing to the target, which is on its own machine
		o.Permit = func(to netip.AddrPort, unix string) error { return a.o.Allow.Permits(s.engine, to, unix, a.o.find) }
	}
	e := s.work(a.o.engine, o, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.connected(a.o.now())
	})
	a.mu.Lock()
	s.loaded(a.o.now())
	a.mu.Unlock()
	e = s.end(e)
	how := "ended"
	if e.Error != "" {
		how = e.Error
	} else if e.Stopped != "" {
		how = "stopped because " + e.Stopped
	}
	a.o.Log("run " + s.run + ": " + how)
	sent.Wait()
}

// send sends a session's reports to the driver, once a second, urgent ones at once: until all are sent, or
// the agent leaves the run.
func (a *Agent) send(s *session) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	more, last := false, false
	for number := uint64(0); !last; number++ {
		if !more {
			select {
			case <-s.here.Done():
				return
			case <-beat.C:
			case <-s.kick:
			}
		}
		var chunk []byte
		chunk, more, last = s.cut()
		if err := a.conn.Report(s.here, s.run, number, chunk); err != nil {
			s.stop("its result cannot be sent: " + err.Error())
			return // or it was freed before delivery: the watchdog logged it
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == s {
		a.free()
	}
}

// free makes the agent idle again.
func (a *Agent) free() {
	a.session.stop("it was released")
	a.session.leave()
	a.session = nil
}

// watch ends what exceeds its time limit.
func (a *Agent) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := a.o.now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-a.conn.Over():
			return a.conn.Err()
		case <-tick.C:
		}
		now := a.o.now()
		a.hosted.expire(now)
		if err := a.look(now, now-last-int64(watchEvery)); err != nil {
			return err
		}
		last = now
	}
}

// look checks the deadlines, ten times a second; late is by how much this check was late.
func (a *Agent) look(now, late int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.session
	if s == nil {
		return nil
	}
	s.heard += max(late, 0) // it was suspended itself, and could not hear the driver
	if s.disobeyed(now) {
		return fmt.Errorf("run %s: the load engine did not stop within %s", s.run, obeyWithin)
	}
	switch why := s.overdue(now, a.o.Grace); {
	case why == "":
	case s.phase != Draining:
		s.halt(now, why)
	default:
		a.o.Log(fmt.Sprintf("run %s: given up, %s", s.run, why))
		a.free()
	}
	return nil
}

// leave ends its run, because the agent was asked to disconnect. It first reports the result, within a
// time limit.
func (a *Agent) leave(why string) error {
	a.mu.Lock()
	s := a.session
	if s != nil {
		s.halt(a.o.now(), why)
	}
	a.mu.Unlock()
	if s == nil {
		return nil
	}
	pause.For(s.here, leaveWithin)
	a.mu.Lock()
	if a.session == s {
		a.free()
	}
	a.mu.Unlock()
	select {
	case <-s.ended:
		return nil
	case <-time.After(obeyWithin):
		return errors.New("the load engine did not end")
	}
}
