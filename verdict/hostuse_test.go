package verdict

import (
	"math"
	"strings"
	"testing"

	"ceiling/record"
)

// Each end's CPU time adds up to all of it, whatever category a row has; both ends are told apart where
// their CPUs are, and a link's bytes are the rows'.
func TestHostSharesAddUp(t *testing.T) {
	seen, apart, links := 0, 0, 0
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		hosts := Judge(run, series).Hosts
		for _, u := range hosts {
			if sum := u.User + u.System + u.IRQ + u.SoftIRQ + u.Steal + u.Idle; math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: %s: %s adds up to %g", f.path, u.Name(), &u, sum)
			}
			seen++
			if u.Link != "" {
				links++
				if !(u.RxBytesPerS > 0 || u.TxBytesPerS > 0) {
					t.Errorf("%s: %s carries nothing: %s", f.path, u.Link, &u)
				}
			}
		}
		if len(hosts) == 2 {
			apart++
		}
		if strings.HasSuffix(f.path, "servercpu.txtar/stolen.json") && (len(hosts) != 2 || hosts[0].CPUs != "1" || math.Abs(hosts[0].Steal-.13) > 1e-9 ||
			math.Abs(hosts[1].Steal-.45) > 1e-9) {
			t.Errorf("%s: %+v, want 13 %% of the server's CPU stolen, 45 %% of the generator's", f.path, hosts)
		}
	}
	if seen < 20 || apart == 0 || links == 0 {
		t.Errorf("%d ends, %d runs with two, %d links", seen, apart, links)
	}
}

// Time that the kernel charged to no category was not idle: it is shared out over the busy ones, and said.
func TestMissingTimeIsBusy(t *testing.T) {
	for _, c := range []struct {
		core                        record.CoreTicks
		user, system, softirq, idle float64
	}{
		{record.CoreTicks{CPU: 1, User: 20, System: 20, SoftIRQ: 10, Idle: 50, Missing: 100}, .3, .3, .15, .25},
		{record.CoreTicks{CPU: 1, User: 20, System: 20, SoftIRQ: 10, Idle: 50, Missing: 16}, .2, .2, .1, .5},
		{record.CoreTicks{CPU: 1, Idle: 50, Missing: 50}, 0, .5, 0, .5},
	} {
		h := hostOf([]*record.CPURow{{Cores: []record.CoreTicks{c.core}}}, "")
		u := h.use("server", []int{1})
		for _, part := range [][2]float64{{u.User, c.user}, {u.System, c.system}, {u.SoftIRQ, c.softirq}, {u.Idle, c.idle}} {
			if math.Abs(part[0]-part[1]) > 1e-9 {
				t.Errorf("%+v: %+v", c.core, u)
			}
		}
	}
	w := each(watched(2e6, .9), func(r *record.CPURow) {
		for i := range r.Cores {
			r.Cores[i].Missing = r.Cores[i].Accounted()
		}
	})
	if text := sayings(w.judge()); !strings.Contains(text, "the kernel charged 50% of the time of CPU") {
		t.Error(text)
	}
}
