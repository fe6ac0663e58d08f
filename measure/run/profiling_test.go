//go:build linux

package run

import (
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/profiles"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// rowsOf is a series of 100 ms rows in which 100 requests cost 10 µs each, and 20 µs
// between two moments.
func rowsOf(seconds int, dear ...[2]int64) *record.Series {
	s := &record.Series{}
	for t := int64(1e8); t <= int64(seconds)*1e9; t += 1e8 {
		cost := int64(10_000)
		for _, d := range dear {
			if t-1e8 >= d[0] && t <= d[1] {
				cost = 20_000
			}
		}
		s.Load = append(s.Load, record.LoadRow{TNs: t, WidthNs: 1e8, Completed: 100})
		for pid := range 2 {
			s.Observed.Processes = append(s.Observed.Processes, &record.ProcessRow{ObservedHead: record.ObservedHead{TNs: t, WidthNs: 1e8},
				Role: record.RoleSubject, PID: 1 + pid, CPUNs: 100 * cost / 2})
		}
	}
	return s
}

func TestBlocksAreMeasured(t *testing.T) {
	series := rowsOf(4, [2]int64{1e9, 2e9})
	for _, c := range []struct {
		from, to          int64
		requests, cpu     float64
		within, cpuWithin float64
	}{
		{0, 1e9, 1000, 10_000, 0, 0},
		{1e9, 2e9, 1000, 20_000, 0, 0},
		{95e7, 205e7, 1100, 20_000, 1, 0}, // whole rows alone: those that began before or ended after are not in it
		{215e7, 233e7, 180, 10_000, 1, 1}, // shorter than two rows: parts of rows
		{5e9, 6e9, 0, 0, 0, 0},
	} {
		b := record.ProfilingBlock{FromNs: c.from, ToNs: c.to}
		measureBlock(&b, series)
		if math.Abs(b.Requests-c.requests) > c.within+1e-6 || math.Abs(b.CPUNsPerRequest-c.cpu) > c.cpuWithin+1e-6 {
			t.Errorf("%d to %d: %+v, want %.0f requests of %.0f ns", c.from, c.to, b, c.requests, c.cpu)
		}
	}
}

// A planted cost of the profiles is found, and none is not made up.
func TestCostOfProfiles(t *testing.T) {
	blocks := func(dearer float64) []record.ProfilingBlock {
		var list []record.ProfilingBlock
		for i := range 16 {
			with := slices.Contains([]int{0, 3}, i%4)
			cpu := 10_000 * (1 + .002*float64(i%5-2))
			if with {
				cpu *= dearer
			}
			list = append(list, record.ProfilingBlock{Profiled: with, CPUNsPerRequest: cpu})
		}
		return list
	}
	if c := profilingCost(blocks(1.05)); c.Pairs != 8 || c.Relative.Low > .05 || c.Relative.High < .05 || c.Relative.Low <= 0 ||
		!strings.HasPrefix(prose.ProfileCost(c), "profiling overhead is 5.") && !strings.HasPrefix(prose.ProfileCost(c), "profiling overhead is 4.9") {
		t.Errorf("%+v", c)
	}
	if c := profilingCost(blocks(1)); c.Relative.Low > 0 || !strings.HasPrefix(prose.ProfileCost(c), "profiling overhead is not measurable beyond") {
		t.Errorf("%+v", c)
	}
	if c := profilingCost(blocks(1.05)[:8]); c.Relative.Confidence != 0 || !strings.Contains(prose.ProfileCost(c), "inconclusive: 4 pairs of stretches, but 6 are needed") {
		t.Errorf("%+v", c)
	}
	if c := profilingCost(blocks(1.05)[:1]); c != nil {
		t.Errorf("%+v", c)
	}
}

// The server ends in the middle of its profiles: the run says so in one line, and
// what was taken until then is kept.
func TestServerEndsWhileProfiled(t *testing.T) {
	needs.Time(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration, s.Profile, s.Connections = 5*time.Second, true, 4
	time.AfterFunc(3*time.Second, c.Stop)
	done, err := Do(t.Context(), s, Options{Out: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	g := done.Run.Profiling
	if g == nil || len(g.Blocks) < 3 {
		t.Fatalf("%+v", g)
	}
	if os.Getuid() == 0 && g.Of(record.ProfileOnCPU) == nil {
		t.Errorf("no on-CPU profile: %+v", done.Run.NotMeasured)
	}
	for _, n := range done.Run.NotMeasured {
		if strings.Contains(n.Why, "\n") {
			t.Errorf("%s: %q", n.What, n.Why)
		}
	}
}

// A function whose work the compiler inlined has little of its own, and is kept.
func TestCallersAreKept(t *testing.T) {
	var all []profiles.Function
	for i := range 200 {
		all = append(all, profiles.Function{Name: strconv.Itoa(i), Self: int64(1000 - i), Total: int64(1000 - i)})
	}
	all[150].Total = 1 << 40
	kept := foremost(all)
	if len(kept) != selfMost+totalMost || kept[0].Name != "0" || kept[selfMost].Name != "150" || kept[selfMost+1].Name != strconv.Itoa(selfMost) {
		t.Errorf("%d are kept: %+v", len(kept), kept)
	}
	if few := foremost(all[:7]); len(few) != 7 {
		t.Errorf("%d of 7", len(few))
	}
}

// TestStackerNotesWhoIsThere: what the observer finds is noted once, by whose it is.
func TestStackerNotesWhoIsThere(t *testing.T) {
	var s stacker
	found := func(role string, pid, parent int) *record.SubjectRow {
		return &record.SubjectRow{Event: record.SubjectFound, Role: role, PID: pid, ParentPID: parent}
	}
	asked := &record.PeersRow{Peers: []record.Peer{{Addr: "127.0.0.1:5432", PID: 20}, {Addr: "10.0.0.7:80"}}}
	for i, c := range []struct {
		row   record.ObservedRow
		fresh bool
	}{
		{found(record.RoleSubject, 10, 1), true}, {found(record.RoleSubject, 10, 1), false}, {found(record.RoleGenerator, 5, 1), false},
		{found(record.RolePeer, 20, 1), true}, {found(record.RolePeer, 21, 20), true}, {asked, true}, {asked, false},
		{&record.SubjectRow{Event: record.SubjectGone, Role: record.RoleSubject, PID: 11}, false}, {&record.CPURow{}, false},
	} {
		if got := s.note(c.row); got != c.fresh {
			t.Errorf("row %d: fresh %v", i, got)
		}
	}
	if got, want := s.server(), []int{10}; !reflect.DeepEqual(got, want) {
		t.Errorf("the server is %v", got)
	}
	if want := []peerProcess{{20, 1}, {21, 20}}; !reflect.DeepEqual(s.peers, want) {
		t.Errorf("its peers are %v", s.peers)
	}
	if want := map[string]int{"127.0.0.1:5432": 20}; !reflect.DeepEqual(s.asked, want) {
		t.Errorf("it asks %v", s.asked)
	}
}

// TestStackerBeginsLate: a server that is found after the window has opened is sampled
// from then on, but not in the middle of a block.
func TestStackerBeginsLate(t *testing.T) {
	own := &record.SubjectRow{Event: record.SubjectFound, Role: record.RoleSubject, PID: os.Getpid(), ParentPID: os.Getppid()}
	for _, inBlock := range []bool{false, true} {
		var s stacker
		s.open()
		<-s.opened
		if s.begun {
			t.Fatal("it samples a server that nobody has found")
		}
		if inBlock {
			s.mark(0)
		}
		s.see(own)
		s.telling.Wait()
		if s.begun == inBlock {
			t.Errorf("in a block: %v, it samples: %v", inBlock, s.begun)
		}
		if s.mark(1); !s.begun {
			t.Errorf("in a block: %v; the next one is not sampled either", inBlock)
		}
		s.close()
	}
}
