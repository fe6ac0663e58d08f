package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/pause"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// job is one run of a fleet. One goroutine at a time runs it (pump): first Prepare's, then Do's.
type job struct {
	w       *Work
	id      string
	spec    *spec.Spec
	members []*member
	loaders int // of the members, the first

	events chan func()     // reports, and what heartbeats say of clocks
	taken  <-chan struct{} // closed: another driver took the test bed
	alive  context.Context // until Close: heartbeats are sent, and reports taken
	end    context.CancelFunc
	says   sync.WaitGroup // heartbeats and last words
	leave  func() error   // ends the reports

	sink   run.Sink
	early  []func(run.Sink) // events before there was a sink
	merger *load.Merger

	profile []byte // of the server's CPU

	startAt, windowAt, endedAt int64 // driver's clock
	stopped                    string
	interrupted                bool
	away                       bool  // from the bus
	changedAt                  int64 // when that began, or ended
}

var _ run.Work = (*Work)(nil)

// Prepare chooses the agents of a run, has them connect, and waits until all are ready.
func (w *Work) Prepare(ctx context.Context, s *spec.Spec) (run.Job, error) {
	if err := run.RefuseFar(s); err != nil {
		return nil, err
	}
	j := &job{w: w, id: record.NewID(time.Now()), spec: s, events: make(chan func(), 64)}
	j.alive, j.end = context.WithCancel(context.Background())
	var err error
	if j.taken, err = w.hold(ctx, "run "+j.id); err != nil {
		return nil, err
	}
	loads, observes, err := w.choose(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := j.enlist(loads, observes); err != nil {
		return nil, err
	}
	if err := j.assemble(ctx); err != nil {
		j.stop(err.Error())
		if e := j.Close(); e != nil {
			w.o.Log(e.Error())
		}
		return nil, err
	}
	return j, nil
}

// enlist assigns every agent its part.
func (j *job) enlist(loads, observes []present) error {
	shares, err := load.Split(weights(loads))
	if err != nil {
		return fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	j.loaders = len(loads)
	for i, l := range loads {
		j.members = append(j.members, &member{present: l, load: true, share: shares[i], number: i})
	}
	for _, o := range observes {
		j.members = append(j.members, &member{present: o})
	}
	return nil
}

// assemble gets all agents ready.
func (j *job) assemble(ctx context.Context) error {
	w := j.w
	if err := j.all(func(m *member) error { return w.pings(ctx, &m.present, &m.clock) }); err != nil {
		return err
	}
	if err := j.listen(); err != nil {
		return err
	}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	j.beat()
	if who := describeMembers(j.members); who != w.said { // once for the runs of a plan
		within := int64(0)
		for _, m := range j.members {
			_, e := m.clock.At(w.now())
			within = max(within, e)
		}
		w.said = who
		w.o.Log(fmt.Sprintf("%s; clocks within %s", who, unit.FormatNs(within)))
	}
	limit := j.spec.ConnectRamp + 2*j.spec.Timeout + prepareMost
	j.pump(ctx, limit, func() bool { return j.every(func(m *member) bool { return m.ready != nil || m.over() }) })
	if ctx.Err() != nil {
		return fmt.Errorf("ended before the start: %w", ctx.Err())
	}
	return j.unready(limit)
}

// listen takes the agents' reports until the job is over. One that is taken stays taken: it is either
// in events, or comes again.
func (j *job) listen() (err error) {
	j.leave, err = j.w.conn.Reports(j.id, func(r bus.Report) bool {
		select {
		case j.events <- func() { j.take(&r) }:
			return true
		case <-j.alive.Done():
			return false
		}
	})
	return err
}

// unready returns why not every agent is ready.
func (j *job) unready(limit time.Duration) error {
	for _, m := range j.members {
		switch {
		case m.end != nil && m.end.Refused:
			return fmt.Errorf("%w: agent %s: %s", exit.ErrRefused, m.Name, strings.TrimPrefix(m.end.Error, exit.ErrRefused.Error()+": "))
		case m.end != nil && m.end.Error != "":
			return fmt.Errorf("agent %s: %s", m.Name, m.end.Error)
		case m.end != nil && m.end.Stopped != "":
			return fmt.Errorf("agent %s stopped before the start: %s", m.Name, m.end.Stopped)
		case m.lost != "":
			return fmt.Errorf("agent %s is lost before the start: %s", m.Name, m.lost)
		case m.end != nil && m.ready == nil:
			return fmt.Errorf("agent %s ended before the start", m.Name)
		case m.ready == nil:
			return fmt.Errorf("agent %s was not ready within %s", m.Name, limit)
		}
	}
	return j.unreached()
}

// unreached fails a run if some agents reach the target and others do not.
func (j *job) unreached() error {
	var not *member
	any := false
	for _, m := range j.members {
		switch {
		case !m.load:
		case m.ready.Established == 0:
			not = m
		default:
			any = true
		}
	}
	if not == nil || !any {
		return nil // if none does, the record shows the errors
	}
	why := ""
	if not.result != nil {
		for f, n := range not.result.Setup {
			why = fmt.Sprintf(" (%s: %s, %d times)", f.Phase, f.Cause, n)
		}
	}
	return fmt.Errorf("agent %s could not connect to the target, which others can%s", not.Name, why)
}

// prepare sends every agent its order.
func (j *job) prepare(ctx context.Context) error {
	return j.all(func(m *member) error {
		mine := order{Spec: j.spec, Share: m.share, Load: m.load, Observe: !m.load}
		_, err := j.w.say(ctx, &m.present, command{Verb: verbPrepare, Run: j.id, Order: &mine})
		m.heard = j.w.now()
		if isAnswered(err) {
			return fmt.Errorf("%w: agent %w", exit.ErrRefused, err)
		}
		return err
	})
}

// all calls do for every agent concurrently.
func (j *job) all(do func(*member) error) error {
	return each(j.members, func(m **member) error { return do(*m) })
}

func (j *job) every(holds func(*member) bool) bool {
	return !slices.ContainsFunc(j.members, func(m *member) bool { return !holds(m) })
}

// beat sends every agent a heartbeat once a second, and takes the answer as a ping. An agent that does
// not answer, or has left the run, shows by its reports or by their absence.
func (j *job) beat() {
	beat := func(m *member) {
		ctx, cancel := context.WithTimeout(j.alive, 2*beatEvery) // the next matters more than the answer to this one
		defer cancel()
		if r, err := j.w.say(ctx, &m.present, command{Verb: verbPing, Run: j.id}); err == nil {
			select {
			case j.events <- func() { m.clock.Add(r.ping) }:
			default: // there will be others
			}
		}
	}
	for _, m := range j.members {
		j.says.Go(func() { pause.Every(j.alive, beatEvery, func() { beat(m) }) })
	}
}

// pump runs the job until a condition holds, a time has passed, or the context ends.
func (j *job) pump(ctx context.Context, limit time.Duration, until func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for !until() {
		select {
		case <-ctx.Done():
			return
		case do := <-j.events:
			do()
		case <-j.taken:
			j.taken = nil
			j.loseAll(fmt.Sprintf("the test bed was taken by another driver (%v)", j.w.lease.Why()))
		case <-tick.C:
			j.silence()
		}
	}
}

// silence finds the agents that have gone silent. While the driver itself is disconnected it hears
// none; once it is back their time starts again, if it was not away for longer than their grace.
func (j *job) silence() {
	now, connected := j.w.now(), j.w.conn.Connected()
	if j.away == connected {
		j.away, j.changedAt = !connected, now
	}
	if !connected {
		if now-j.changedAt > int64(j.w.o.lossAfter) {
			j.loseAll(fmt.Sprintf("%s %s", record.LostController, j.w.o.lossAfter))
		}
		return
	}
	for _, m := range j.members {
		if since := now - max(m.heard, j.changedAt); since > int64(j.w.o.lossAfter) {
			j.lose(m, fmt.Sprintf("nothing was heard of it for %s", time.Duration(since).Round(100*time.Millisecond)))
		}
	}
}

func (j *job) loseAll(why string) {
	for _, m := range j.members {
		j.lose(m, why)
	}
}

// lose continues without an agent, or ends the run.
func (j *job) lose(m *member, why string) {
	if !m.over() {
		j.without(m, why)
	}
}

// without records that an agent did not stay to the end.
func (j *job) without(m *member, why string) {
	m.lost = why
	j.w.o.Log(fmt.Sprintf("agent %s is lost: %s", m.Name, why))
	if j.merger != nil && m.load && m.result == nil {
		j.merger.Lost(m.number)
	}
	j.tell(m, "it was counted as lost")
	if !j.w.o.AllowLoss {
		j.stop(fmt.Sprintf("agent %s is lost: %s", m.Name, why))
	}
}

// tell tells an agent to stop, once and without waiting for it. An unreachable one stops by itself, after
// its grace.
func (j *job) tell(m *member, why string) {
	if m.saidIt {
		return
	}
	m.saidIt = true
	j.says.Go(func() { _, _ = j.w.say(context.Background(), &m.present, command{Verb: verbStop, Run: j.id, Why: why}) })
}

// stop ends the run on every agent.
func (j *job) stop(why string) {
	if j.stopped != "" {
		return
	}
	j.stopped = why
	for _, m := range j.members {
		if m.end == nil {
			j.tell(m, why)
		}
	}
}

// take reads an agent's message.
func (j *job) take(s *bus.Report) {
	i := slices.IndexFunc(j.members, func(m *member) bool { return m.id == s.Agent })
	if i < 0 {
		return // not of this run, whatever it contains
	}
	m := j.members[i]
	m.heard = j.w.now()
	if m.over() {
		return
	}
	if err := m.inlet.take(s.Number, s.Body, func(kind byte, body []byte) error { return j.frame(m, kind, body) }); err != nil {
		j.lose(m, "what it sends cannot be read: "+err.Error())
	}
}

// frame handles one frame.
func (j *job) frame(m *member, kind byte, body []byte) error {
	switch kind {
	case frameReady:
		m.ready = &readiness{}
		return readMessage(body, m.ready)
	case frameTally:
		return j.tally(m, body)
	case frameObserved:
		row, err := record.DecodeObserved(body)
		if err == nil {
			row.Observed().Host = m.Name
			j.tellSink(func(s run.Sink) { s.Observed(row) })
		}
		return err
	case frameMissing:
		var n record.NotMeasured
		if err := readMessage(body, &n); err != nil {
			return err
		}
		n.Host = m.Name
		j.tellSink(func(s run.Sink) { s.NotMeasured(n) })
		return nil
	case frameResult:
		m.result = load.NewResult(len(j.spec.Targets))
		return m.result.UnmarshalBinary(body)
	case frameProfile:
		j.profile = bytes.Clone(body)
		return nil
	case frameEnd:
		m.end = &ending{}
		if err := readMessage(body, m.end); err != nil {
			return err
		}
		if len(m.end.Done) > 0 {
			m.done = &run.ShareResult{}
			if err := json.Unmarshal(m.end.Done, m.done); err != nil {
				return err
			}
			m.done.Result = m.result
		}
		return j.ended(m)
	}
	return errors.New("no such kind")
}

func (j *job) tellSink(do func(run.Sink)) {
	if j.sink == nil {
		j.early = append(j.early, do)
		return
	}
	do(j.sink)
}

// tally handles one interval of an agent.
func (j *job) tally(m *member, body []byte) error {
	if j.merger == nil || !m.load || len(body) < 1 {
		return errors.New("a tally of who does not load, or before the start")
	}
	t := j.merger.Spare()
	if err := t.UnmarshalBinary(body[1:]); err != nil {
		return err
	}
	late := body[0]&1 != 0
	m.rows = append(m.rows, run.LoadRow(m.Name, t, late))
	j.sink.AgentInterval(m.Name, t, late)
	return j.merger.Take(m.number, t)
}

// ended handles an agent's own result. One that ended before it was told to counts as lost from
// then on.
func (j *job) ended(m *member) error {
	if j.merger != nil && m.load && m.result != nil {
		if err := j.merger.End(m.number, m.result); err != nil {
			return err
		}
	}
	why := ""
	switch {
	case m.end.Error != "":
		why = m.end.Error
	case m.end.Stopped != "" && !m.saidIt:
		why = "it stopped: " + m.end.Stopped
	case m.load && m.result == nil:
		why = "it reported no result"
	}
	if why != "" && j.merger != nil {
		j.without(m, why)
	}
	return nil
}
