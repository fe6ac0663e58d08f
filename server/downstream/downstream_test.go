package downstream

import (
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
)

func TestMain(m *testing.M) { leak.Main(m) }

func calling(t *testing.T, text string) *Caller {
	t.Helper()
	f, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(f)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCaller(s)
	t.Cleanup(func() { _ = c.Close() }) // it has no error
	return c
}

func TestParse(t *testing.T) {
	f, err := Parse("work=1ms,slots=3,fail=1%,slow=0.5:30ms,stall=0.1%,timeout=7ms,outage=2s")
	want := Faults{Work: time.Millisecond, Slots: 3, Fail: 0.01, Slow: 0.5, SlowBy: 30 * time.Millisecond, Stall: 0.001, StallFor: time.Second,
		Timeout: 7 * time.Millisecond, Outage: 2 * time.Second}
	if f != want || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Parse("own"); f != Standard() || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	for _, text := range []string{"", "fail", "fail=x", "fail=101%", "fail=-1", "fail=NaN", "slots=0", "work=0s", "work=2h", "slow=1%:x", "speed=1"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What each policy makes of a service that always fails, or is always slow: its answer, and the calls that the service
// counts for a request.
func TestPolicies(t *testing.T) {
	for _, test := range []struct {
		policy, faults string
		answer         string // "": an error
		calls          int64
	}{
		{"none", "work=1ms", fresh, 1},
		{"none", "work=1ms,fail=100%", "", 1},
		{"none", "work=100ms,timeout=10ms", fresh, 1},
		{"timeout", "work=2s,timeout=300ms", "", 1}, // a busy machine takes some of it to connect
		{"timeout", "work=1ms,timeout=5s", fresh, 1},
		{"retry", "work=1ms,fail=100%,timeout=5s", "", Attempts},
		{"retry", "work=2s,timeout=300ms", "", Attempts},
		{"hedge", "work=60ms,timeout=5s", fresh, 2},
		{"fallback", "work=1ms,fail=100%,timeout=5s", stale, 1},
		{"fallback", "work=2s,timeout=300ms", stale, 1},
	} {
		t.Run(test.policy+" "+test.faults, func(t *testing.T) {
			t.Parallel()
			c := calling(t, test.faults)
			got, err := c.Call(test.policy)
			if string(got) != test.answer || (err != nil) != (test.answer == "") {
				t.Errorf("%q, %v; want %q", got, err, test.answer)
			}
			// An attempt that was given up may be on its way still.
			for limit := time.Now().Add(2 * time.Second); c.Status().Calls < test.calls && time.Now().Before(limit); {
				time.Sleep(time.Millisecond)
			}
			st := c.Status()
			answered := int64(1)
			if test.answer == "" {
				answered = 0
			}
			if st.Calls != test.calls || st.Requests != 1 || st.Answered != answered {
				t.Errorf("%+v; want %d calls", st, test.calls)
			}
		})
	}
	if _, err := calling(t, "own").Call("hope"); err == nil {
		t.Error("a policy that there is not")
	}
}

// A breaker that is open keeps calls away from the service.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	c := calling(t, "work=1ms,fail=100%,timeout=5s")
	for range 10 * breakerFewest {
		if _, err := c.Call("breaker"); err == nil {
			t.Fatal("an answer")
		}
	}
	if st := c.Status(); st.Calls >= st.Requests/2 {
		t.Errorf("%d calls for %d requests", st.Calls, st.Requests)
	}
}

// Slots bound what the service does at a time: by Little's law its rate is slots over the time of a call.
func TestCapacityIsSlotsOverTime(t *testing.T) {
	t.Parallel()
	c := calling(t, "work=20ms,slots=2")
	begin := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := c.Call("none"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("20 calls of 20 ms in 2 slots took %v", took)
	}
}

// A service that was down for a moment stays down when every request is tried three times: that is a load of 1.5 times
// its capacity, all of it given up by the time it is done. With a budget of retries it comes back by itself.
func TestRetriesKeepAServiceDown(t *testing.T) {
	needs.Time(t)
	for policy, down := range map[string]bool{"retry": true, "budget": false, "timeout": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			// 4 slots of 10 ms are 400 calls/s; 200 requests/s are half of that.
			c := calling(t, "work=10ms,slots=4,timeout=60ms,outage=700ms")
			share := func(d time.Duration) float64 {
				before := c.Status()
				offer(c, policy, 200, d)
				after := c.Status()
				return float64(after.Answered-before.Answered) / float64(after.Requests-before.Requests)
			}
			healthy := share(500 * time.Millisecond)
			c.Service.Break()
			offer(c, policy, 200, 2500*time.Millisecond) // the outage, and 1.8 s after it
			late := share(time.Second)
			t.Logf("%.0f%% answered before, %.0f%% from 1.8 s after the outage on; %d waited at most", 100*healthy, 100*late, c.Status().Peak)
			if isDown := late < 0.5; isDown != down {
				t.Errorf("%.0f%% answered before the outage, %.0f%% long after it", 100*healthy, 100*late)
			}
		})
	}
}

// offer calls perS times a second for d, whatever comes of it, and waits for the answers.
func offer(c *Caller, policy string, perS int, d time.Duration) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(perS))
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		wg.Go(func() { _, _ = c.Call(policy) }) // errors are counted
	}
}
