package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
	"ceiling/record"
)

// AgentOptions configure what an agent offers, and to whom.
type AgentOptions struct {
	Name    string
	Version string
	// Loads and Observes are the roles that it accepts.
	Loads, Observes bool
	// Serves is the address that it starts ceiling's own servers on; the zero value: it starts none.
	Serves netip.Addr
	Allow  AllowList
	Caps   Caps
	// Grace is how long it continues without hearing from the driver; 0: 10 s.
	Grace time.Duration
	// Log receives every event, one line each, from any goroutine.
	Log func(string)
	// NIC and its speed, for About.
	NIC              string
	NICBitsPerSecond float64
	// CapacityPerS, for About; 0: unknown.
	CapacityPerS float64

	engine Engine    // nil: run.DoShare
	here   func()    // called once it can be discovered; may be nil
	clock  *ownClock // nil: the real one
	find   Lookup    // nil: this host's resolver
	serve  starter   // nil: run.StartOwn
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

// ownClock is an agent's clock: nanoseconds since its start. Tests give it an offset and a drift.
type ownClock struct {
	base   time.Time
	offset int64
	drift  float64
}

func (c *ownClock) now() int64 {
	past := time.Since(c.base)
	return c.offset + int64(past) + int64(float64(past)*c.drift)
}

// time converts a reading of the clock to a time.
func (c *ownClock) time(at int64) time.Time {
	return c.base.Add(time.Duration(float64(at-c.offset) / (1 + c.drift)))
}

// Agent offers this machine. It is idle, or takes part in one run.
type Agent struct {
	o      AgentOptions
	env    record.Environment
	conn   *bus.Conn
	opener bus.Opener

	mu      sync.Mutex
	life    life
	session *session
	ended   sync.WaitGroup // sessions
	stopAt  int64          // when the engine was told to stop; 0: not
	hosted  hosted
}

func newAgent(conn *bus.Conn, o AgentOptions) *Agent {
	if o.Grace == 0 {
		o.Grace = graceDefault
	}
	if o.engine == nil {
		o.engine = run.DoShare
	}
	if o.serve == nil {
		o.serve = startOwn
	}
	if o.clock == nil {
		o.clock = &ownClock{base: time.Now()}
	}
	if o.find == nil {
		o.find = lookup
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	o.Name = conn.Name()
	a := &Agent{o: o, env: record.ReadEnvironment(o.Version), conn: conn, life: newLife(o.Grace),
		hosted: hosted{start: o.serve, at: o.Serves, grace: o.Grace, log: o.Log, servers: map[string]*instance{}}}
	a.opener = bus.Opener{Key: conn.Key(), Clock: func() time.Duration { return time.Duration(a.now()) }}
	rand.Read(a.opener.Session[:])
	return a
}

// Serve makes this machine an agent, over its connection, until the context ends: then it stops its
// run and reports the result before it returns. It returns only errors it cannot recover from,
// bus.IsTokenOver among them.
func Serve(ctx context.Context, conn *bus.Conn, o AgentOptions) error {
	a := newAgent(conn, o)
	stop, err := conn.Present(bus.Service{
		Version: strconv.Itoa(Protocol) + ".0.0", Ping: func([]byte) []byte { return a.pong() },
		About: func() []byte { return text(a.about()) }, Command: a.hear,
	})
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
	err = errors.Join(err, a.leave(why, leaveWithin))
	a.hosted.stop(why)
	if e := stop(); e != nil && conn.Connected() { // without a connection no driver would get it
		err = errors.Join(err, e)
	}
	return err
}

// leaveWithin is how long an agent that was told to leave may take to report its run.
const leaveWithin = 5 * time.Second

// text encodes as JSON what always can be.
func text(of any) []byte {
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // a type of this package
	}
	return b
}

// hear opens a command and obeys it. Those that query other machines run concurrently, so that no
// heartbeat waits for a name lookup.
func (a *Agent) hear(sealed []byte, answer func([]byte)) {
	e, err := a.opener.Open(sealed)
	if err != nil {
		a.o.Log("refused a command: " + err.Error())
		answer(text(reply{Error: err.Error(), NowNs: a.now(), WallNs: time.Now().UnixNano(), Phase: a.phase()}))
		return
	}
	do := func() {
		ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
		defer cancel()
		answer(text(a.command(ctx, e.Verb, e.Run, e.Body)))
	}
	switch e.Verb {
	case verbServe:
		go func() { answer(text(a.serve(e.Body))) }()
	case verbOffer, verbPrepare, verbDismiss:
		go do()
	default:
		do()
	}
}

func (a *Agent) phase() Phase {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life.phase
}

func (a *Agent) now() int64 { return a.o.clock.now() }

// about describes this agent to those who ask.
func (a *Agent) about() About {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := About{
		Protocol: Protocol, Version: a.o.Version, Host: a.env.Host, Cores: cores(&a.env),
		MemoryBytes: a.env.MemoryBytes, CPUModel: a.env.CPUModel, Kernel: a.env.Kernel, BootID: a.env.BootID,
		NIC: a.o.NIC, NICBitsPerSecond: a.o.NICBitsPerSecond, CapacityPerS: a.o.CapacityPerS,
		Loads: a.o.Loads, Observes: a.o.Observes, Serves: a.hosted.address(), Allow: a.o.Allow.Texts(),
		MaxRate: a.o.Caps.MaxRate, MaxTimeNs: int64(a.o.Caps.MaxTime), MaxConnections: a.o.Caps.MaxConnections,
		Phase: a.life.phase, Run: a.life.run,
		Session: Session{Nonce: hex.EncodeToString(a.opener.Session[:]), Last: a.opener.Last(), NowNs: a.now()},
	}
	if a.life.phase != Idle {
		x.BusyNs = a.now() - a.life.since
	}
	return x
}

// command executes a driver's request, whose signature has been checked.
func (a *Agent) command(ctx context.Context, verb, run string, body []byte) reply {
	return a.reply(a.obey(ctx, verb, run, body))
}

// serve starts a server.
func (a *Agent) serve(body []byte) reply {
	address, err := a.hosted.serve(body, a.now)
	r := a.reply(a.refuse(verbServe, "", err))
	r.Address = address
	return r
}

func (a *Agent) reply(err error) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := reply{Phase: a.life.phase, NowNs: a.now(), WallNs: time.Now().UnixNano()}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func (a *Agent) obey(ctx context.Context, verb, run string, body []byte) error {
	switch verb {
	case verbOffer, verbPrepare:
		o, err := a.readOrder(ctx, run, body)
		if err == nil {
			err = a.accepts(ctx, o)
		}
		if err == nil && verb == verbPrepare {
			err = a.prepare(run, o)
		}
		if err != nil && verb == verbPrepare {
			a.o.Log(fmt.Sprintf("refused run %s: %v", run, err))
		}
		return err
	case verbStart:
		var b begin
		if err := readMessage(body, &b); err != nil {
			return a.refuse(verb, run, err)
		}
		return a.refuse(verb, run, a.begin(run, b.AtNs))
	case verbAlive:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.life.hear(run, a.now())
	case verbFinish, verbStop, verbRelease:
		return a.conclude(verb, run, body)
	case verbKeep, verbDismiss:
		return a.hosted.obey(verb, body, a.now())
	}
	return a.refuse(verb, run, errors.New("no such verb"))
}

// refuse logs a refused request.
func (a *Agent) refuse(verb, run string, err error) error {
	if err != nil {
		of := ""
		if run != "" {
			of = " of run " + run
		}
		a.o.Log(fmt.Sprintf("refused %s%s: %v", verb, of, err))
	}
	return err
}

func (a *Agent) readOrder(ctx context.Context, run string, body []byte) (*order, error) {
	var o order
	if err := readMessage(body, &o); err != nil {
		return nil, err
	}
	if o.Spec == nil && o.SpecID != "" {
		kept, err := a.conn.GetSpec(ctx, run)
		if err != nil {
			return nil, err
		}
		if specID(kept) != o.SpecID {
			return nil, errors.New("the spec that is kept is not the one that the command names")
		}
		o.Spec = &spec.Spec{}
		if err := readMessage(kept, o.Spec); err != nil {
			return nil, err
		}
	}
	return &o, o.check()
}

// accepts checks whether an order suits this agent.
func (a *Agent) accepts(ctx context.Context, o *order) error {
	switch {
	case o.Load && !a.o.Loads:
		return errors.New("it only observes; start the agent without --observe-only")
	case o.Observe && !a.o.Observes:
		return errors.New("it only loads; start the agent without --load-only")
	}
	a.mu.Lock()
	phase, of := a.life.phase, a.life.run
	a.mu.Unlock()
	if phase != Idle {
		return fmt.Errorf("it is at run %s (%s)", of, phase)
	}
	if err := pprofAllowed(ctx, a.o.Allow, a.o.find, o.Spec); err != nil && o.Observe {
		return err
	}
	if !o.Load {
		return nil // an observer sends nothing to the target
	}
	if err := a.o.Caps.Check(o.Spec, o.Share); err != nil {
		return err
	}
	return a.targetAllowed(ctx, o.Spec)
}

// targetAllowed resolves the target of a spec (all its targets share one) and checks it against the
// list. The engine checks the address it picks again.
func (a *Agent) targetAllowed(ctx context.Context, s *spec.Spec) error {
	to, err := s.Address(s.Targets[0].URL)
	if err != nil {
		return err
	}
	if to.Network == spec.Unix {
		return a.o.Allow.PermitsUnix(to.Path)
	}
	addrs, err := addressesOf(ctx, to, a.o.find)
	if err != nil {
		return err
	}
	for _, at := range addrs {
		if err := a.o.Allow.Permits(ctx, at, a.o.find); err != nil {
			return err
		}
	}
	return nil
}

// prepare begins a run: it connects, and waits for the start.
func (a *Agent) prepare(id string, o *order) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.life.prepare(id, a.now(), a.needs(o.Spec)); err != nil {
		return err
	}
	p, err := a.conn.Publisher(id)
	if err != nil {
		a.life.release()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := newSession(id, *o, cancel)
	if o.Spec.Rate.IsZero() {
		s.cap = a.o.Caps.MaxRate
	}
	a.session, a.stopAt = s, 0
	a.o.Log(fmt.Sprintf("run %s: %s", id, describe(o)))
	a.ended.Go(func() { a.work(ctx, s, p) })
	return nil
}

// describe describes an order in words.
func describe(o *order) string {
	switch {
	case !o.Load:
		return "observes " + o.Spec.Targets[0].URL
	case o.Observe:
		return fmt.Sprintf("observes and loads %s, %d of %d shares", o.Spec.Targets[0].URL, o.Share.Count, o.Share.Of)
	}
	return fmt.Sprintf("loads %s, %d of %d shares", o.Spec.Targets[0].URL, o.Share.Count, o.Share.Of)
}

// needs returns how long a run takes by its spec.
func (a *Agent) needs(s *spec.Spec) times {
	length := s.Warmup + s.Duration + max(time.Second, s.Timeout, s.Duration/10)
	if s.Duration == 0 {
		length = a.o.Caps.MaxTime
	}
	return times{connect: s.ConnectRamp + 2*s.Timeout, length: length}
}

// work is a session's goroutine: it runs the engine and sends its reports.
func (a *Agent) work(ctx context.Context, s *session, p *bus.Publisher) {
	defer p.Close()
	defer s.cancel()
	sending, quit := context.WithCancel(context.Background())
	var sent sync.WaitGroup
	sent.Go(func() { a.send(sending, s, p) })
	profile, e := s.work(ctx, a.o.engine, run.ShareOptions{
		Host: a.o.Name, Version: a.o.Version, Permit: permit(ctx, a.o.Allow, a.o.find, &s.order),
	}, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.life.connected(a.now())
	})
	a.mu.Lock()
	a.life.loaded(a.now())
	a.mu.Unlock()
	e.Profile = a.handIn(sending, s, profile)
	s.end(e)
	a.o.Log(a.outcome(s, &e))
	go func() {
		<-s.freed // by the driver, or by the watchdog if no driver does
		quit()
	}()
	sent.Wait()
}

// handIn sends a profile to the driver; "": there is none.
func (a *Agent) handIn(ctx context.Context, s *session, profile []byte) string {
	if len(profile) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, drainMost/2)
	defer cancel()
	if err := a.conn.PutProfile(ctx, s.run, profileName, profile); err != nil {
		s.NotMeasured(record.NotMeasured{What: "CPU profile", Why: err.Error(), Host: a.o.Name})
		return ""
	}
	return profileName
}

const profileName = "cpu.pprof.gz"

func (a *Agent) outcome(s *session, e *ending) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Error != "":
		return fmt.Sprintf("run %s: %s", s.run, e.Error)
	case s.stopped != "":
		return fmt.Sprintf("run %s: stopped because %s", s.run, s.stopped)
	}
	return fmt.Sprintf("run %s: ended", s.run)
}

// send sends a session's reports to the driver: once a second, urgent ones at once.
func (a *Agent) send(ctx context.Context, s *session, p *bus.Publisher) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for last := false; !last; {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case <-s.kick:
		}
		last = s.flush(p.Send)
	}
	if p.Flush(ctx) != nil {
		return // freed before delivery: the watchdog logged it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.session != s:
	case s.began:
		a.life.told(a.now())
	default:
		a.free() // a run that never began: the driver has nothing to wait for
	}
}

// begin passes the start time to the engine.
func (a *Agent) begin(run string, at int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.life.start(run, a.now(), at); err != nil {
		return err
	}
	a.session.began = true
	a.session.start <- a.o.clock.time(at) // the only one: life rejects a second
	a.o.Log(fmt.Sprintf("run %s: begins in %s", run, unit.FormatDuration(time.Duration(at-a.now()).Round(time.Millisecond))))
	return nil
}

// conclude ends a run in one of three ways.
func (a *Agent) conclude(verb, run string, body []byte) error {
	var why stopping
	if verb == verbStop {
		if err := readMessage(body, &why); err != nil {
			return a.refuse(verb, run, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.life.hear(run, a.now()); err != nil {
		return err
	}
	switch verb {
	case verbFinish:
		a.session.finish()
	case verbStop:
		a.halt("the driver said: " + why.Why)
	case verbRelease:
		if a.life.phase != Ended && a.life.phase != Draining {
			return fmt.Errorf("it is %s", a.life.phase)
		}
		a.free()
	}
	return nil
}

// halt tells the engine to stop.
func (a *Agent) halt(why string) {
	if a.stopAt == 0 {
		a.stopAt = max(a.now(), 1)
	}
	a.session.stop(why)
}

// free makes the agent idle again.
func (a *Agent) free() {
	a.session.stop("it was released")
	close(a.session.freed)
	a.session = nil
	a.life.release()
}

// watch ends what exceeds its time limit.
func (a *Agent) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := a.now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-a.conn.Over():
			return a.conn.Err()
		case <-tick.C:
		}
		now := a.now()
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
	a.life.asleep(max(late, 0))
	if a.stopAt > 0 && a.session != nil && a.life.phase != Draining && a.life.phase != Ended && now-a.stopAt > int64(obeyWithin) {
		return fmt.Errorf("run %s: the load engine did not stop within %s", a.life.run, obeyWithin)
	}
	why := a.life.overdue(now)
	if why == "" {
		return nil
	}
	switch a.life.phase {
	case Draining:
		a.o.Log(fmt.Sprintf("run %s: given up, %s", a.life.run, why))
		a.free()
	case Ended:
		a.free() // no driver confirmed receipt: the reports stay where they were sent
	default:
		a.halt(why)
	}
	return nil
}

// leave ends whatever is running, because the agent was asked to disconnect. It first reports its run's
// result, within a time limit.
func (a *Agent) leave(why string, within time.Duration) error {
	a.mu.Lock()
	if a.session != nil {
		a.halt(why)
	}
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		a.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
	}
	a.mu.Lock()
	if a.session != nil {
		a.free()
	}
	a.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-time.After(obeyWithin):
		return errors.New("the load engine did not end")
	}
}

// pong answers a ping.
func (a *Agent) pong() []byte {
	return text(reply{NowNs: a.now(), WallNs: time.Now().UnixNano()})
}
