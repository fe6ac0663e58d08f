//go:build linux

package perturb

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
)

func TestHogRefuses(t *testing.T) {
	for _, c := range []struct {
		o    HogOptions
		want string
	}{
		{HogOptions{Share: 0.2}, "no CPUs"},
		{HogOptions{CPUs: []int{0}}, "above 0"},
		{HogOptions{CPUs: []int{0}, Share: 0.9}, "at most 0.8"},
		{HogOptions{CPUs: []int{0}, Share: math.NaN()}, "above 0"},
	} {
		if err := Hog(t.Context(), c.o, strings.NewReader(""), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

// TestDebt: a hog that gets the CPU whenever it wants it takes its share, and
// one that was kept from it takes a few periods' worth afterwards, no more.
func TestDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0.01, ShareMax).Draw(t, "share")
		d := debt{share: share}
		var now, used int64
		for range rapid.IntRange(1, 400).Draw(t, "periods") {
			now += int64(hogPeriod)
			for owed := d.owed(now, used); owed > 0; owed = d.owed(now, used) {
				now, used = now+owed, used+owed
			}
		}
		if got := float64(used) / float64(now); math.Abs(got-share) > 0.01 {
			t.Fatalf("took %v of %v", got, share)
		}
		now += int64(rapid.IntRange(0, 1_000_000).Draw(t, "away")) * 1000
		if owed, most := d.owed(now, used), int64(debtMost*share*float64(hogPeriod)); owed > most {
			t.Fatalf("owes %d after a pause, %d at most", owed, most)
		}
	})
}

const (
	// victimPriority is below the hog's: only a real-time victim gets all that
	// the hog leaves, whatever else runs on this machine.
	victimPriority = 1
	// It works for 9 ms and sleeps for one, so that the threads of others have
	// some time too: where they starve, the kernel gives them 5 % at the cost of
	// the real-time ones (sched_rt_runtime_us, fair_server).
	victimWorks, victimSleeps = 9 * time.Millisecond, time.Millisecond
	// tries at what a machine that is shared may spoil.
	tries = 4
)

// victim burns on a CPU for a time and answers the share of it that it ran
// while it wanted to.
func victim(cpu int, d time.Duration) (share float64, err error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never released: the thread ends here
		if err := errors.Join(sys.Pin(0, []int{cpu}), sys.SetFIFO(victimPriority)); err != nil {
			done <- err
			return
		}
		host, err := hypervisorNs([]int{cpu})
		if err != nil {
			done <- err
			return
		}
		var used, wanted int64
		for until := sys.MonotonicNs() + int64(d); sys.MonotonicNs() < until; {
			from, had := sys.MonotonicNs(), sys.ThreadCPUNs()
			for sys.MonotonicNs() < from+int64(victimWorks) {
				runtime.KeepAlive(spin(from))
			}
			used += sys.ThreadCPUNs() - had
			wanted += sys.MonotonicNs() - from
			sys.SleepUntil(sys.MonotonicNs() + int64(victimSleeps))
		}
		after, err := hypervisorNs([]int{cpu})
		share = float64(used) / float64(wanted-(after-host)*int64(victimWorks)/int64(victimWorks+victimSleeps))
		done <- err
	}()
	err = <-done
	return share, err
}

func lastCPU(t *testing.T) int {
	t.Helper()
	cpus, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	return cpus[len(cpus)-1]
}

// TestHogTakesWhatItSays: what a burning thread loses is what the hog says
// it took. It is tried a few times: a hypervisor that takes the CPU away counts
// that in steps of 10 ms, and the hog of another proof is as strong as this
// one. One that takes something else than it says is wrong every time.
func TestHogTakesWhatItSays(t *testing.T) {
	needs.Root(t)
	needs.Quiet(t)
	if err := tryRealTime(); err != nil {
		t.Fatal("no thread here can be a real-time one: ", err)
	}
	for _, share := range []float64{0.2, 0.4} {
		left, had := rob(t, share)
		wrong := func() bool { return math.Abs(left-(1-share)) > 0.05 || math.Abs(had-left) > 0.05 }
		for try := 1; wrong() && try < tries; try++ {
			t.Logf("again: of a share of %v it left %.3f, a burning thread had %.3f", share, left, had)
			left, had = rob(t, share)
		}
		if wrong() {
			t.Errorf("of a share of %v it left %.3f, a burning thread had %.3f", share, left, had)
		}
	}
}

// rob has a hog take a share of a CPU that a thread burns on.
func rob(t *testing.T, share float64) (left, had float64) {
	t.Helper()
	cpu := lastCPU(t)
	hog, err := startHog(t.Context(), os.Args[0], []int{cpu}, share, false)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	had, err = victim(cpu, 600*time.Millisecond)
	left, stopped := hog.stop(from, time.Now())
	if err := errors.Join(err, stopped); err != nil {
		t.Fatal(err)
	}
	if hog.how != realTime {
		t.Errorf("the hog runs with %s", hog.how)
	}
	return left, had
}

// TestPoliteHogSaysWhatItGot: one of ordinary priority gets little where a
// real-time thread burns, and says so.
func TestPoliteHogSaysWhatItGot(t *testing.T) {
	needs.Root(t)
	needs.Quiet(t)
	if err := tryRealTime(); err != nil {
		t.Fatal("no thread here can be a real-time one: ", err)
	}
	cpu := lastCPU(t)
	hog, err := startHog(t.Context(), os.Args[0], []int{cpu}, 0.5, true)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	had, err := victim(cpu, 600*time.Millisecond)
	left, stopped := hog.stop(from, time.Now())
	if err := errors.Join(err, stopped); err != nil {
		t.Fatal(err)
	}
	if hog.how != ordinaryPriority {
		t.Errorf("the hog runs with %s", hog.how)
	}
	if left < 0.7 {
		t.Errorf("it says that it left %.3f beside a real-time thread that had %.3f", left, had)
	}
}

// TestHogEndsWithItsStarter: also where that one is killed.
func TestHogEndsWithItsStarter(t *testing.T) {
	p := start(t, "hold", hogVerb, strconv.Itoa(lastCPU(t)))
	pid, err := strconv.Atoi(p.said)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StartTicks(pid); err != nil {
		t.Fatalf("the hog is not there: %v", err)
	}
	p.kill()
	waitFor(t, "the end of the hog", func() bool {
		_, err := StartTicks(pid)
		return err != nil
	})
}

func TestHogThatEndsEarlyIsTold(t *testing.T) {
	hog, err := startHog(t.Context(), os.Args[0], []int{lastCPU(t)}, 0.1, false)
	if err != nil {
		t.Fatal(err)
	}
	pid := hog.PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the hog", func() bool {
		_, err := StartTicks(pid)
		return err != nil
	})
	if _, err := hog.stop(time.Time{}, time.Time{}); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("%v", err)
	}
	// One that ends with success has taken too little as well.
	if hog, err = startHog(t.Context(), os.Args[0], []int{lastCPU(t)}, 0.1, false); err != nil {
		t.Fatal(err)
	}
	if err := hog.in.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the hog", hog.Ended)
	if _, err := hog.stop(time.Time{}, time.Time{}); err == nil || !strings.Contains(err.Error(), "it ended: without an error") {
		t.Errorf("%v", err)
	}
	if _, err := startHog(t.Context(), os.Args[0], []int{4095}, 0.1, false); err == nil || !strings.Contains(err.Error(), "4095") {
		t.Errorf("a CPU that is not there: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := startHog(gone, os.Args[0], []int{lastCPU(t)}, 0.1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestLeftOf(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(ms int64, hogMs, hostMs int64) sample {
		return sample{zero.Add(time.Duration(ms) * time.Millisecond), hogMs * 1e6, hostMs * 1e6}
	}
	samples := []sample{at(0, 0, 0), at(100, 50, 0), at(200, 50, 20), at(300, 70, 20)}
	for _, c := range []struct {
		from, to int64
		cpus     int
		want     float64
	}{
		{0, 300, 1, 1 - 70./280}, {0, 300, 2, 1 - 70./580}, {0, 100, 1, 0.5}, {50, 100, 1, 0.5}, {100, 200, 1, 1}, {-50, 900, 1, 1 - 70./280},
		{150, 300, 1, 1 - 20./140},
	} {
		got, err := leftOf(samples, c.cpus, zero.Add(time.Duration(c.from)*time.Millisecond), zero.Add(time.Duration(c.to)*time.Millisecond))
		if err != nil || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v (%v)", c, got, err)
		}
	}
	if got, err := leftOf(samples, 1, time.Time{}, time.Time{}); err != nil || math.Abs(got-0.75) > 1e-9 {
		t.Errorf("all of it: %v (%v)", got, err)
	}
	if _, err := leftOf(samples[:1], 1, time.Time{}, time.Time{}); err == nil {
		t.Error("one sample is none")
	}
	if _, err := leftOf(samples, 1, zero.Add(time.Hour), zero.Add(2*time.Hour)); err == nil {
		t.Error("a window after the last sample")
	}
}

func TestStolenNs(t *testing.T) {
	var s sys.Stat
	for cpu, steal := range map[int]uint64{0: 30, 1: 12, 10: 1} {
		one := sys.CPUTicks{CPU: cpu}
		one.Ticks[sys.TicksSteal] = steal
		s.CPUs = append(s.CPUs, one)
	}
	for _, c := range []struct {
		cpus []int
		want int64
		fail bool
	}{{[]int{0}, 300e6, false}, {[]int{0, 1}, 420e6, false}, {[]int{2}, 0, true}} {
		if got, err := stolenNs(&s, c.cpus); got != c.want || (err != nil) != c.fail {
			t.Errorf("%v: %d (%v)", c.cpus, got, err)
		}
	}
}
