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

// profiler takes the subject's profiles while the window is open. It reads the cumulative ones
// before and after; a CPU profile costs the server, and is taken only if the user named the
// endpoint.
type profiler struct {
	group    *profile.Group    // of all processes; nil: none was found
	endpoint *profile.Endpoint // the first address
	before   profile.Snapshot
	asked    bool
	parted   bool          // CPU profiles are taken in stretches instead of one for the window
	done     chan struct{} // closed when the background work has ended
	cancel   context.CancelFunc
	missing  []record.NotMeasured
	list     []record.Profile
	raw      []byte
}

// newProfiler looks for the endpoint that the spec names, or for one on the target itself if its
// program contains net/http/pprof: any other server would only count an extra request. It does not
// report a missing endpoint that was not named. pids are the server's processes on this host.
func newProfiler(ctx context.Context, s *spec.Spec, to target, pids []int, permit func(netip.AddrPort, string) error) *profiler {
	p := &profiler{asked: s.Pprof != "", parted: s.Profile}
	if s.Pprof == "off" || s.Pprof == "" && (s.Proxy != "" || !mayProfile(to, pids)) {
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

// mayProfile reports whether the target is a Go program of this host that serves profiles, judging
// by its executable. It does not look behind TLS.
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

// lose notes a requested profile that could not be taken.
func (p *profiler) lose(err error) {
	if p.asked {
		p.missing = append(p.missing, record.NotMeasured{What: "pprof", Why: local(err).Error()})
	}
}

// open begins with the window, concurrently with the load.
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

// during takes the profiles of the open window.
func (p *profiler) during(ctx context.Context, length time.Duration) {
	before, err := p.endpoint.Snapshot(ctx)
	if err != nil {
		p.lose(err)
	}
	p.before = before
	if !p.asked || p.parted || length < time.Second {
		return
	}
	// A little less than the window, so that it ends inside.
	sum, raw, err := p.endpoint.CPU(ctx, length-length/10)
	if err != nil {
		p.lose(fmt.Errorf("CPU profile: %w", err))
		return
	}
	p.list, p.raw = append(p.list, sum), raw
}

// afterwards bounds the wait for a late profile.
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

// end closes the connection if no window opened.
func (p *profiler) end() {
	if p.group != nil {
		p.group.Close()
	}
}

// cpuProfileFile is the file of the raw CPU profile.
const cpuProfileFile = "cpu.pprof.gz"

// keepProfiles adds the results to the record.
func keepProfiles(w *record.Writer, r *record.Run, f *ServerInfo) error {
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
