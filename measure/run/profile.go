package run

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"ceiling/experiment/spec"
	"ceiling/measure/profile"
	"ceiling/record"
)

// profiler takes the subject's profiles while the window is open. The
// cumulative ones are read before and after; a CPU profile costs the server,
// and is only taken where the person named the endpoint.
type profiler struct {
	group    *profile.Group    // of all processes; nil: none was found
	endpoint *profile.Endpoint // the first address
	before   profile.Snapshot
	asked    bool
	parted   bool          // CPU profiles are taken by stretches, in place of one of the window
	done     chan struct{} // closed when what runs beside the load has ended
	cancel   context.CancelFunc
	missing  []record.NotMeasured
	list     []record.Profile
	raw      []byte
}

// newProfiler looks for the endpoint that the spec names, or for one on the
// target itself where its program has net/http/pprof in it: any other server
// would only count a request that nobody asked for. Not finding one that nobody
// named is not worth a word. pids are the server's processes of this host.
func newProfiler(ctx context.Context, s *spec.Spec, to target, pids []int, permit func(netip.AddrPort, string) error) *profiler {
	p := &profiler{asked: s.Pprof != "", parted: s.Profile}
	if s.Pprof == "off" || s.Pprof == "" && !mayProfile(to, pids) {
		return p
	}
	urls := spec.PprofURLs(s.Pprof)
	if len(urls) == 0 {
		urls = []string{"http://" + to.addr.String() + "/debug/pprof/"}
	}
	var within func(netip.AddrPort) error
	if permit != nil {
		within = func(to netip.AddrPort) error { return permit(to, "") }
	}
	g, err := profile.FindAll(ctx, urls, within)
	if err != nil {
		p.lose(err)
		return p
	}
	p.group, p.endpoint = g, g.Front()
	return p
}

// mayProfile tells whether the target is a Go program of this host that serves
// profiles, as far as its file tells. Behind TLS it is not looked for.
func mayProfile(to target, pids []int) bool {
	if !to.addr.IsValid() || to.secure {
		return false
	}
	for _, pid := range pids {
		if links, err := profile.LinksPprof(pid); err == nil && links {
			return true
		}
	}
	return false
}

// lose notes a profile that was asked for and could not be had.
func (p *profiler) lose(err error) {
	if p.asked {
		p.missing = append(p.missing, record.NotMeasured{What: "pprof", Why: err.Error()})
	}
}

// open begins with the window, beside the load.
func (p *profiler) open(length time.Duration) {
	if p.endpoint == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		p.during(ctx, length)
	}()
}

// during takes what is taken while the window is open.
func (p *profiler) during(ctx context.Context, length time.Duration) {
	before, err := p.endpoint.Snapshot(ctx)
	if err != nil {
		p.lose(err)
	}
	p.before = before
	if !p.asked || p.parted || length < time.Second {
		return
	}
	// A little less than the window, so that it ends within.
	sum, raw, err := p.endpoint.CPU(ctx, length-length/10)
	if err != nil {
		p.lose(fmt.Errorf("CPU profile: %w", err))
		return
	}
	p.list, p.raw = append(p.list, sum), raw
}

// afterwards bounds the wait for a profile that is late.
const afterwards = 2 * time.Second

// close ends with the window.
func (p *profiler) close() {
	if p.done == nil {
		return
	}
	defer p.group.Close()
	late := time.AfterFunc(afterwards, p.cancel)
	<-p.done
	late.Stop()
	defer p.cancel()
	if p.before == nil {
		return
	}
	after, err := p.endpoint.Snapshot(context.Background())
	var list []record.Profile
	if err == nil {
		list, err = profile.Between(p.before, after)
	}
	if err != nil {
		p.lose(fmt.Errorf("profiles of the window: %w", err))
	}
	p.list = append(p.list, list...)
}

// end gives back the connection of one that no window opened for.
func (p *profiler) end() {
	if p.group != nil {
		p.group.Close()
	}
}

// cpuProfileFile is where the raw CPU profile is kept.
const cpuProfileFile = "cpu.pprof.gz"

// keepProfiles puts what was found into the record.
func keepProfiles(w *record.Writer, r *record.Run, f *Found) error {
	r.Profiles = f.Profiles
	if f.CPUProfile == nil {
		return nil
	}
	for i := range r.Profiles {
		if r.Profiles[i].Kind == record.ProfileCPU {
			r.Profiles[i].File = cpuProfileFile
		}
	}
	return w.Attach(cpuProfileFile, f.CPUProfile)
}
