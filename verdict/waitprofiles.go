package verdict

import (
	"fmt"
	"math"
	"path"
	"strings"

	"ceiling/record"
)

// What the subject's own profiles say about its waits.
//
// A profile sums the time that all goroutines waited, so divided by the completed requests it is
// a wait w per request, whose mean response time is R. A closed loop without that wait would take
// R − w per cycle: at most R/(R−w) times the rate, since requests may then wait elsewhere.
//
// A block profile also includes goroutines that wait because they are idle. If a request would
// have waited longer than it took, either the goroutines are idle, or several wait for one
// request; neither is a request's own wait.

// waited is one function of a profile.
type waited struct {
	*record.Frame
	ns    float64 // per completed request
	share float64 // of the mean response time
}

// where returns the function with its source location.
func (w *waited) where() string {
	if w.File == "" {
		return w.Function
	}
	return fmt.Sprintf("%s (%s:%d)", w.Function, path.Base(w.File), w.Line)
}

// profileClue reads the mutex profile, which names who holds a lock, the block profile, which
// names who waits and where, and the CPU profile.
func (f *serverSide) profileClue(upcoming *record.NextBottleneck) hint {
	var c hint
	mean, completed := positive(f.base.run.Latency.Response.MeanNs), float64(f.base.run.Requests.Completed)
	if mean == 0 || completed == 0 {
		return c
	}
	var locks, blocks []waited
	recorded := map[string]bool{}
	for i := range f.base.run.Profiles {
		p := &f.base.run.Profiles[i]
		recorded[p.Kind] = p.TotalNs > 0
		if p.Kind == record.ProfileCPU {
			continue
		}
		real, idle := f.base.requestWaits(p, mean, completed)
		c.says = append(c.says, f.base.waitEvidence(p.Kind, real, mean, upcoming)...)
		for i := range idle {
			c.says = append(c.says, record.NewEvidence("profiles."+p.Kind, idle[i].ns, "ns", say("profile.not-counted",
				with{"where": idle[i].where(), "waits_ns": idle[i].ns, "mean_ns": mean, "beside": idle[i].ns <= mean})))
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
		c.next = just("profile.lock.next", with{"where": w.where(), "gain": f.base.without(w, mean, upcoming)})
	case len(blocks) > 0 && blocks[0].share >= waitExplains:
		w := &blocks[0]
		c.next = just("profile.block.next", with{"where": w.where(), "through": through(w.Through), "gain": f.base.without(w, mean, upcoming)})
		c.whereOnly = !strings.Contains(w.Through, "Mutex)")
	}
	c.says = append(c.says, f.cpuProfileEvidence(mean)...)
	c.says = append(c.says, notRecorded(recorded)...)
	if c.next == nil && len(recorded) > 0 && !recorded[record.ProfileMutex] && !recorded[record.ProfileBlock] {
		c.next = just("profile.record.next", nil)
		c.whereOnly = true
	}
	return c
}

// times returns how many times the rate would be possible without the wait.
func (w *waited) times(meanNs float64) float64 {
	return meanNs / math.Max(meanNs-w.ns, meanNs*1e-6)
}

// without says what there is to gain at most without the wait. In an open loop that is not the
// rate, which is given.
func (f *runFacts) without(w *waited, meanNs float64, upcoming *record.NextBottleneck) record.Statement {
	if f.open {
		return say("gain.sooner", with{"sooner_ns": math.Min(w.ns, meanNs)})
	}
	return gain(w.times(meanNs), upcoming)
}

// requestWaits returns the functions of a profile that requests wait in, and those that wait
// longer than the requests take. Both omit waits too short to matter and keep the order, longest
// first.
func (f *runFacts) requestWaits(p *record.Profile, mean, completed float64) (real, idle []waited) {
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

// backgroundLoop reports whether a function is a standard library goroutine, one per connection
// or pool, that waits between requests while no request waits for it.
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

func (f *runFacts) waitEvidence(kind string, list []waited, mean float64, upcoming *record.NextBottleneck) []record.Evidence {
	var out []record.Evidence
	for i := range list {
		w := &list[i]
		out = append(out, record.NewEvidence("profiles."+kind, w.ns, "ns", say("profile.wait", with{"profile": kind, "where": w.where(),
			"lock": kind == record.ProfileMutex, "waits_ns": w.ns, "mean_ns": mean, "through": through(w.Through), "share": w.share,
			"gain": f.without(w, mean, upcoming), "remain_ns": math.Max(mean-w.ns, 0)})))
	}
	return out
}

// through says how a goroutine waits, judged by the runtime function it waits in.
func through(name string) record.Statement {
	for _, of := range [...]struct{ part, kind string }{
		{"Mutex)", "lock"}, {"chanrecv", "receive"}, {"chansend", "send"}, {"selectgo", "select"}, {"(*Cond)", "cond"},
		{"WaitGroup)", "group"},
	} {
		if strings.Contains(name, of.part) {
			return say("through."+of.kind, nil)
		}
	}
	return say("through", with{"function": name})
}

// cpuProfileEvidence says what optimising the top function's CPU can gain: next to nothing in a
// server that waits.
func (f *serverSide) cpuProfileEvidence(mean float64) []record.Evidence {
	if !f.subject.known || f.base.rate <= 0 {
		return nil
	}
	each := f.subject.cores / f.base.rate * 1e9
	for i := range f.base.run.Profiles {
		p := &f.base.run.Profiles[i]
		if p.Kind != record.ProfileCPU || p.TotalNs <= 0 || len(p.Frames) == 0 {
			continue
		}
		top := waited{Frame: &p.Frames[0]}
		share := math.Min(positive(top.Share), 1)
		top.ns = each * share
		return []record.Evidence{record.NewEvidence("profiles.profile", top.ns, "ns",
			say("profile.cpu", with{"where": top.where(), "uses_ns": top.ns, "cpu_ns": each, "mean_ns": mean,
				"times": top.times(math.Max(mean, top.ns))}))}
	}
	return nil
}

// notRecorded names the empty profiles.
func notRecorded(recorded map[string]bool) []record.Evidence {
	var out []record.Evidence
	for _, p := range [...]struct{ kind, how string }{
		{record.ProfileMutex, "runtime.SetMutexProfileFraction"},
		{record.ProfileBlock, "runtime.SetBlockProfileRate"},
	} {
		if held, taken := recorded[p.kind]; taken && !held {
			out = append(out, record.NewEvidence("profiles."+p.kind, 0, "ns",
				say("profile.empty", with{"profile": p.kind, "how": p.how, "lock": p.kind == record.ProfileMutex})))
		}
	}
	return out
}
