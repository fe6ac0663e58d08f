package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/measure/perturb"
	"ceiling/record"
)

// SplitForOwn divides the CPUs that this process may use between its generator and the servers that
// it starts, for a closed loop with so many requests in flight.
func SplitForOwn(slots int) (cores.Split, error) {
	sides, err := sidesOf("", "", nil)
	if err != nil {
		return cores.Split{}, err
	}
	sides.Want = generatorWant(0, slots, 0)
	return sides.Apart()
}

// sidesOf returns what generator and server may use: the CPUs of the lists if given, else those of
// this process and of the server's processes, if it is running.
func sidesOf(pinGenerator, pinServer string, pids []int) (cores.Sides, error) {
	s := cores.Sides{Layout: cores.ReadLayout(), GeneratorPinned: pinGenerator != "", ServerPinned: pinServer != ""}
	if ring.OnlyPortable {
		return s, errTogether
	}
	own, err := sys.AllowedCPUs(0)
	if err != nil {
		return s, err
	}
	s.Generator, s.Server = own, own
	if s.GeneratorPinned {
		if s.Generator, err = allowedCPUs(pinGenerator); err != nil {
			return s, err
		}
	}
	switch {
	case s.ServerPinned:
		s.Server, err = spec.ParseCPUList(pinServer)
	case len(pids) > 0:
		s.Server, err = perturb.AllowedTo(pids)
	}
	if err == nil && sameCgroup(pids) {
		s.Quota = record.ReadEnvironment("").CgroupCPUs
	}
	return s, err
}

// sameCgroup reports whether some processes share this one's cgroup, and with it its quota; those
// that it will start do.
func sameCgroup(pids []int) bool {
	own, err := os.ReadFile("/proc/self/cgroup")
	return err == nil && !slices.ContainsFunc(pids, func(pid int) bool {
		other, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		return err != nil || string(other) != string(own)
	})
}

// generatorWant returns how many CPUs a load can use: the given threads, else what a calibration
// says for a target rate, else as many as the requests in flight justify.
func generatorWant(threads, slots int, perSecond float64) int {
	if threads > 0 {
		return threads
	}
	want := max(1, slots/slotsPerThread)
	if perSecond > 0 {
		if ns := calibratedNs(); ns > 0 {
			return min(want, max(1, int(math.Ceil(perSecond*ns/1e9/wantBusy))))
		}
	}
	return want
}

// wantBusy is how busy a generator CPU may become at a target rate: half, so that bursts of
// arrivals find it free.
const wantBusy = 0.5

// calibratedNs returns the time that a core of this machine's generator takes for a request with a
// 4.5 KB response, as calibrated; 0 without a calibration.
func calibratedNs() float64 {
	all, err := calibrations()
	if err != nil {
		return 0 // the run itself reports it, with its headroom
	}
	env := record.ReadEnvironment("")
	for i := range all {
		c := &all[i]
		env.Version = c.Version // the version does not matter when counting whole CPUs
		if c.Unfit(&env, c.Engine) == "" {
			if ns, err := c.CoreNsPerRequest(1, 4<<10); err == nil {
				return ns
			}
		}
	}
	return 0
}

// apart sets the pins of a run that wants separate CPUs for either side (Spec.Apart). The server
// must run here.
func apart(ctx context.Context, s *spec.Spec) error {
	if !s.Apart {
		return nil
	}
	restoreFirst()
	pids, err := serverPIDs(ctx, &s.Dial, s.Targets[0].URL)
	if err != nil {
		return err
	}
	sides, err := sidesOf(s.PinGenerator, s.PinServer, pids)
	if err != nil {
		return fmt.Errorf("%w: --separate-cpus: %w", exit.ErrRefused, err)
	}
	sides.Want = generatorWant(s.Threads, s.Slots(), s.Rate.Most())
	split, err := sides.Apart()
	if err != nil {
		return fmt.Errorf("%w: --separate-cpus: %w", exit.ErrRefused, err)
	}
	s.PinGenerator, s.PinServer = cores.Format(split.Generator), cores.Format(split.Server)
	return nil
}

// restoreFirst restores the CPUs of a server that a killed run left pinned, before its own are
// read. The run itself reports what could not be restored: it tries again.
func restoreFirst() { _ = RestorePins() }

// serverPIDs returns the processes that serve a URL on this host.
func serverPIDs(ctx context.Context, d *spec.Dial, url string) ([]int, error) {
	address, err := d.Address(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	to, err := resolve(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	pids, err := subjectPIDs(to)
	if err == nil && len(pids) == 0 {
		err = fmt.Errorf("%w: --separate-cpus: no process that serves %s was found on this host; it must run on this host, as your user (or run ceiling as root)",
			exit.ErrRefused, to)
	}
	return pids, err
}

// splitPlan decides once, for all runs of an experiment, which CPUs each side gets: by default if
// the experiment starts the servers, on request if they run already. nil leaves all to the
// scheduler.
func splitPlan(ctx context.Context, e *spec.Experiment) (*record.CPUSplit, error) {
	l := &e.Load
	asked := l.Apart != nil && *l.Apart
	if l.Apart != nil && !asked || !asked && slices.ContainsFunc(e.Servers, func(s spec.Server) bool { return s.URL != "" }) {
		return nil, nil
	}
	if ring.OnlyPortable && !asked {
		return shared(errTogether), nil
	}
	restoreFirst()
	var pids []int
	for i := range e.Servers {
		if url := e.Servers[i].URL; url != "" {
			some, err := serverPIDs(ctx, &e.Load.Dial, url)
			if err != nil {
				return nil, err
			}
			pids = append(pids, some...)
		}
	}
	sides, err := sidesOf(l.PinGenerator, l.PinServer, pids)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	slots, rate := 1, 0.0
	for _, c := range l.Connections {
		for _, p := range l.Pipelining {
			slots = max(slots, int(c)*int(p))
		}
	}
	for _, c := range e.Cells() {
		slots, rate = max(slots, c.Connections*c.Pipelining), max(rate, c.Rate.Most())
	}
	for _, r := range l.Rate {
		rate = max(rate, r.From.PerSecond(), r.To.PerSecond())
	}
	if e.Searches() { // it chooses its rates, and sizes the connections by them
		slots, rate = math.MaxInt32, float64(e.Find.Most)
	}
	sides.Want = generatorWant(l.MostThreads(), slots, rate)
	split, err := sides.Apart()
	switch {
	case err != nil && asked:
		return nil, fmt.Errorf("%w: apart: %w", exit.ErrRefused, err)
	case err != nil:
		return shared(err), nil
	}
	return &record.CPUSplit{Generator: cores.Format(split.Generator), Server: cores.Format(split.Server),
		Says: record.State("cpus.apart", record.Values{"split": split.String()})}, nil
}

// shared is the split of a plan whose sides share their CPUs.
func shared(why error) *record.CPUSplit {
	return &record.CPUSplit{Says: record.State("cpus.shared", record.Values{"error": why.Error()})}
}

// splitOf applies a plan's split to one of its runs. A server started for it has its CPUs from the
// beginning.
func splitOf(c *record.CPUSplit, server *spec.Server, s *spec.Spec) {
	if c == nil || c.Generator == "" {
		return
	}
	s.PinGenerator = c.Generator
	if server.URL != "" {
		s.PinServer = c.Server
	}
}

// startCPUs returns the CPUs that a server is started on; nil: all.
func startCPUs(c *record.CPUSplit) []int {
	if c == nil || c.Server == "" {
		return nil
	}
	cpus, err := spec.ParseCPUList(c.Server)
	if err != nil {
		return nil // written by splitPlan
	}
	return cpus
}
