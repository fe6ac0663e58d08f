// Package fleet does a run on several machines. An agent offers one machine to holders of its test
// bed's credentials. The driver of a run divides it among some of them and is their run.Work: it
// merges their reports at times that all have reached, and passes them on as if one machine had
// done the run.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

const (
	// endWithin is how long, after the load's own time or after a stop, an agent's last report may
	// take.
	endWithin = 30 * time.Second
	// mergeEvery is the interval of the rows, the same as load's.
	mergeEvery = 100 * time.Millisecond
)

// Environment implements run.Job: it is the driver's, which generates no load.
func (j *job) Environment() record.Environment { return record.ReadEnvironment(j.w.o.Version) }

// Do implements run.Job.
func (j *job) Do(ctx context.Context, sink run.Sink) (*run.RunResult, error) {
	j.sink = sink
	for _, do := range j.early {
		do(sink)
	}
	j.early = nil
	j.merger = load.NewMerger(j.loaders, len(j.spec.Targets), mergeEvery, sink)
	if err := j.unready(0); err != nil { // what arrived since Prepare
		return nil, err
	}
	if j.every(func(m *member) bool { return !m.load || m.ready == nil || m.ready.Established == 0 }) {
		j.unstarted()
		return j.worked()
	}
	if err := j.start(ctx); err != nil {
		j.stop(err.Error())
		j.pump(context.Background(), sayWithin, func() bool { return j.every((*member).over) })
		return nil, err
	}
	opened := j.during(ctx)
	j.afterwards(opened)
	return j.worked()
}

// unstarted ends a run whose target no agent could connect to.
func (j *job) unstarted() {
	j.connected(time.Time{})
	for _, m := range j.members {
		if m.end != nil {
			_ = j.ended(m) // of numbers that were checked as they came
		}
		if !m.load {
			j.tell(m, "no agent could connect")
		}
	}
	j.afterwards(false)
}

// start tells every agent when to begin, on its own clock.
func (j *job) start(ctx context.Context) error {
	w := j.w
	lead := startAhead
	for _, m := range j.members {
		lead = max(lead, startAhead+10*time.Duration(m.clock.RTTMinNs()))
	}
	j.startAt = w.now() + int64(lead)
	j.windowAt = j.startAt + int64(j.spec.Warmup)
	if err := j.all(func(m *member) error {
		_, err := w.say(ctx, &m.present, command{Verb: verbStart, Run: j.id, AtNs: m.clock.There(j.startAt)})
		return err
	}); err != nil {
		return fmt.Errorf("not everyone could be started: %w", err)
	}
	j.connected(w.base.Add(time.Duration(j.windowAt)))
	return nil
}

// connected reports the connections of all, and when the window opens.
func (j *job) connected(window time.Time) {
	established, asked := 0, 0
	for _, m := range j.members {
		established += m.ready.Established
		asked += m.ready.Asked
	}
	j.sink.Connected(established, asked, window)
}

// during runs the job until every agent's load is over. It reports whether the window was opened.
func (j *job) during(ctx context.Context) (opened bool) {
	loaded := func() bool { return j.every(func(m *member) bool { return !m.load || m.over() }) }
	for !loaded() && ctx.Err() == nil {
		// The pump returns when the window opens, too.
		window := func() bool { return loaded() || !opened && j.w.now() >= j.windowAt }
		j.pump(ctx, time.Second, window) // then overdue decides
		if !opened && j.w.now() >= j.windowAt {
			opened = true
			j.sink.Window(true, j.w.base.Add(time.Duration(j.windowAt)))
		}
		if j.overdue() {
			break
		}
	}
	if ctx.Err() != nil && j.stopped == "" {
		j.interrupted = true
		j.stop("the run was ended before its time")
	}
	j.endedAt = j.w.now()
	return opened
}

// overdue reports whether the driver's time limit has passed. An agent that is present but reports
// no end has its own limits.
func (j *job) overdue() bool {
	s := j.spec
	last := j.windowAt + int64(s.Duration+max(time.Second, s.Timeout, s.Duration/10)+runSlack+endWithin)
	if s.Duration == 0 || j.w.now() < last {
		return false
	}
	for _, m := range j.members {
		if m.load {
			j.lose(m, "it did not end in time")
		}
	}
	return true
}

// afterwards waits for the remaining reports, and measures the clocks again.
func (j *job) afterwards(opened bool) {
	ctx := context.Background() // also of a run that was interrupted
	if opened {
		j.sink.Window(false, time.Now())
	}
	for _, m := range j.members {
		if !m.load && !m.over() && !m.saidIt {
			_, _ = j.w.say(ctx, &m.present, command{Verb: verbFinish, Run: j.id}) // else it ends at its own time limit
		}
	}
	j.pump(ctx, endWithin, func() bool { return j.every((*member).over) })
	j.loseAll(fmt.Sprintf("it did not report its end within %s", endWithin))
	_ = j.all(func(m *member) error {
		if m.lost != "" {
			return nil
		}
		return j.w.pings(ctx, &m.present, &m.clock) // else those of the run have to suffice
	})
}

// worked merges the results of the run.
func (j *job) worked() (*run.RunResult, error) {
	result := j.merger.Result()
	if result == nil {
		return nil, errors.New("no agent reported anything about the run")
	}
	result.Interrupted = j.interrupted
	w := &run.RunResult{Result: result, Fleet: &record.Fleet{Bed: j.w.conn.Bed(), AllowLoss: j.w.o.AllowLoss}}
	w.CPUProfile = j.profile
	for _, m := range j.members {
		j.add(w, m)
	}
	j.oneTarget(w)
	return w, nil
}

// add adds an agent's part.
func (j *job) add(w *run.RunResult, m *member) {
	var own *load.Result
	if m.load {
		own = j.merger.Agent(m.number)
	}
	a := m.account(j, own)
	w.Agents = append(w.Agents, a)
	f := w.Fleet
	if m.load {
		f.StartSkewNs = max(f.StartSkewNs, a.StartSkewNs)
		f.ClockErrorNs = max(f.ClockErrorNs, a.Clock.ErrorNs)
		w.Connections += a.Load.Connections
		w.Threads += a.Load.Threads
		if m.lost != "" {
			if f.LostShare == 0 || a.LostAtNs < f.LostFromNs {
				f.LostFromNs = a.LostAtNs
			}
			f.LostShare += m.share.Fraction()
		}
	}
	if m.done == nil {
		return
	}
	w.Identities = append(w.Identities, m.done.Identities...)
	w.Shortages = append(w.Shortages, m.done.Shortages...)
	w.Profiles = append(w.Profiles, m.done.Profiles...)
	if w.Stacks == nil && m.done.Stacks != nil { // a server runs on one host
		w.Stacks, w.Folded, w.FoldedOff, w.Observing = m.done.Stacks, m.done.Folded, m.done.FoldedOff, m.done.Observing
	}
	if m.load && m.done.Headroom > 0 && (w.Headroom == 0 || m.done.Headroom < w.Headroom) {
		w.Headroom, w.HeadroomBy = m.done.Headroom, m.done.HeadroomBy // the weakest agent's counts
	}
	if m.done.RestoreErr != "" {
		j.w.o.Log(fmt.Sprintf("agent %s: not restored: %s", m.Name, m.done.RestoreErr))
	}
}

// oneTarget returns the address that was loaded, and notes if the agents resolved a name
// differently.
func (j *job) oneTarget(w *run.RunResult) {
	var texts []string
	all := map[string]bool{}
	for _, m := range j.members {
		if m.load && m.done != nil {
			w.Target = cmp.Or(w.Target, m.done.Target)
			all[m.done.Target] = true
			texts = append(texts, m.Name+": "+m.done.Target)
		}
	}
	if len(all) > 1 {
		j.sink.NotMeasured(record.NotMeasured{What: "one target", Why: "the agents resolved its name to several addresses (" +
			strings.Join(texts, ", ") + "); name one address", Part: true})
	}
}

// Close implements run.Job.
func (j *job) Close() error {
	j.end()
	j.says.Wait()
	if j.leave == nil {
		return nil
	}
	return j.leave()
}
