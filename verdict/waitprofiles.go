package verdict

import (
	"fmt"
	"math"
	"path"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// What the subject's own profiles say of its waits.
//
// A profile sums the time waited by all goroutines, so over the completed
// requests it is a time w of each request, whose mean response time is R. A
// closed loop without that wait would go round in R − w: at most R/(R−w) times
// the rate, since what was not waited here may be waited elsewhere then.
//
// A block profile also holds goroutines that wait because they have nothing to
// do. Where a request would have to wait longer than it took, they are, or
// several wait for one request; neither is a request's own wait.

// waited is one function of a profile.
type waited struct {
	*record.Frame
	ns    float64 // of each completed request
	share float64 // of the mean response time
}

// where is the function with its place in the source.
func (w *waited) where() string {
	if w.File == "" {
		return w.Function
	}
	return fmt.Sprintf("%s (%s:%d)", w.Function, path.Base(w.File), w.Line)
}

// profileClue reads the mutex profile, which names who keeps a lock, the block
// profile, which names who waits and where, and the CPU profile.
func (f *facts) profileClue(upcoming *record.NextBottleneck) clue {
	var c clue
	mean, completed := positive(f.run.Latency.Response.MeanNs), float64(f.run.Requests.Completed)
	if mean == 0 || completed == 0 {
		return c
	}
	var locks, blocks []waited
	recorded := map[string]bool{}
	for i := range f.run.Profiles {
		p := &f.run.Profiles[i]
		recorded[p.Kind] = p.TotalNs > 0
		if p.Kind == record.ProfileCPU {
			continue
		}
		real, idle := f.requestWaits(p, mean, completed)
		c.says = append(c.says, f.waitEvidence(p.Kind, real, mean, upcoming)...)
		for i := range idle {
			c.says = append(c.says, idle[i].notCounted(p.Kind, mean))
		}
		if p.Kind == record.ProfileMutex {
			locks = append(locks, real...)
		} else {
			blocks = append(blocks, real...)
		}
	}
	switch {
	case len(locks) > 0 && locks[0].share >= waitExplains:
		w := &locks[0]
		c.next = fmt.Sprintf("hold the lock of %s for a shorter time, or have several locks: %s", w.where(), f.without(w, mean, upcoming))
	case len(blocks) > 0 && blocks[0].share >= waitExplains:
		w := &blocks[0]
		c.next = fmt.Sprintf("see what %s waits for (%s), and have more of it or send it less work: %s", w.where(), through(w.Through),
			f.without(w, mean, upcoming))
		c.whereOnly = !strings.Contains(w.Through, "Mutex)")
	}
	c.says = append(c.says, f.cpuProfileEvidence(mean)...)
	c.says = append(c.says, notRecorded(recorded)...)
	if c.next == "" && len(recorded) > 0 && !recorded[record.ProfileMutex] && !recorded[record.ProfileBlock] {
		c.next = "have the server record its waits (runtime.SetMutexProfileFraction(1), runtime.SetBlockProfileRate(10000)) and rerun"
		c.whereOnly = true
	}
	return c
}

// times is how many times the rate there would be without the wait.
func (w *waited) times(meanNs float64) float64 {
	return meanNs / math.Max(meanNs-w.ns, meanNs*1e-6)
}

// notCounted says why a wait is not a request's.
func (w *waited) notCounted(kind string, meanNs float64) record.Evidence {
	why := fmt.Sprintf("more than the %s that one takes: goroutines with nothing to do, or several for one request", ns(meanNs))
	if w.ns <= meanNs {
		why = "in a loop of its own beside them"
	}
	return record.NewEvidence("profiles."+kind, w.ns, "ns", "not counted: %s waits %s for each request, %s", w.where(), ns(w.ns), why)
}

// without says what there is to gain at most without the wait. In an open loop
// that is not the rate, which is what was asked for.
func (f *facts) without(w *waited, meanNs float64, upcoming *record.NextBottleneck) string {
	if f.open {
		return fmt.Sprintf("answers at most %s sooner", ns(math.Min(w.ns, meanNs)))
	}
	return gain(w.times(meanNs), upcoming)
}

// requestWaits are the functions of a profile that requests wait in, and those
// that wait longer than the requests take. Both leave out what is too short to
// matter, and keep the order: the longest first.
func (f *facts) requestWaits(p *record.Profile, mean, completed float64) (real, idle []waited) {
	for i := range p.Frames {
		w := waited{Frame: &p.Frames[i], ns: positive(float64(p.Frames[i].Ns)) / completed}
		w.share = w.ns / mean
		switch {
		case w.share < waitMatters:
		case w.share > 1+littleTolerance || backgroundLoop(w.Function):
			idle = append(idle, w)
		default:
			real = append(real, w)
		}
	}
	return real[:min(len(real), waitsSaid)], idle[:min(len(idle), 1)]
}

// backgroundLoop tells goroutines of the standard library that wait between
// requests, one for each connection or pool, while no request waits for them.
func backgroundLoop(function string) bool {
	for _, name := range []string{
		"net/http.(*persistConn).readLoop", "net/http.(*persistConn).writeLoop", "net/http.(*http2serverConn).serve",
		"database/sql.(*DB).connectionOpener", "database/sql.(*DB).connectionCleaner", "os/signal.loop",
	} {
		if function == name || strings.HasPrefix(function, name+".") {
			return true
		}
	}
	return false
}

func (f *facts) waitEvidence(kind string, list []waited, mean float64, upcoming *record.NextBottleneck) []record.Evidence {
	var out []record.Evidence
	for i := range list {
		w := &list[i]
		what := fmt.Sprintf("waits %s of each request's %s (%s)", ns(w.ns), ns(mean), through(w.Through))
		if kind == record.ProfileMutex {
			what = fmt.Sprintf("keeps a lock that others wait %s for in each request's %s", ns(w.ns), ns(mean))
		}
		out = append(out, record.NewEvidence("profiles."+kind, w.ns, "ns", "%s profile: %s %s, %s of it; without that wait %s, and %s of each remain",
			kind, w.where(), what, unit.Percent(w.share), f.without(w, mean, upcoming), ns(math.Max(mean-w.ns, 0))))
	}
	return out
}

// through says how a goroutine waits, by the runtime's function it waits in.
func through(name string) string {
	for _, word := range [...]struct{ part, says string }{
		{"Mutex)", "for a lock"}, {"chanrecv", "to receive from a channel"}, {"chansend", "to send to a channel"},
		{"selectgo", "in a select"}, {"(*Cond)", "for a sync.Cond signal"}, {"WaitGroup)", "for goroutines that it started"},
	} {
		if strings.Contains(name, word.part) {
			return word.says
		}
	}
	if name == "" {
		return "by itself"
	}
	return "in " + name
}

// cpuProfileEvidence is what the CPU of the top function can gain: in a server
// that waits, next to nothing.
func (f *facts) cpuProfileEvidence(mean float64) []record.Evidence {
	if !f.subject.known || f.rate <= 0 {
		return nil
	}
	each := f.subject.cores / f.rate * 1e9
	for i := range f.run.Profiles {
		p := &f.run.Profiles[i]
		if p.Kind != record.ProfileCPU || p.TotalNs <= 0 || len(p.Frames) == 0 {
			continue
		}
		top := waited{Frame: &p.Frames[0]}
		share := math.Min(positive(top.Share), 1)
		top.ns = each * share
		return []record.Evidence{record.NewEvidence("profiles.profile", top.ns, "ns",
			"CPU profile: %s uses most, %s of the %s CPU/request, of %s that each takes; without it at most %s this rate",
			top.where(), ns(top.ns), ns(each), ns(mean), multiple(top.times(math.Max(mean, top.ns))))}
	}
	return nil
}

// notRecorded names the profiles that hold nothing.
func notRecorded(recorded map[string]bool) []record.Evidence {
	var out []record.Evidence
	for _, p := range [...]struct{ kind, waits, how string }{
		{record.ProfileMutex, "no goroutine waited for a lock", "runtime.SetMutexProfileFraction"},
		{record.ProfileBlock, "no goroutine waited", "runtime.SetBlockProfileRate"},
	} {
		if held, taken := recorded[p.kind]; taken && !held {
			out = append(out, record.NewEvidence("profiles."+p.kind, 0, "ns", "the %s profile is empty: the server does not record it (%s), or %s", p.kind,
				p.how, p.waits))
		}
	}
	return out
}
