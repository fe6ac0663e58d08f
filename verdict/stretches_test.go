package verdict

import (
	"slices"
	"strings"
	"testing"

	"ceiling/record"
)

// stalling is an open loop of 1,000/s whose server stands still for the rows
// named, of 100 ms each; what waited comes in the row after.
func stalling(t *testing.T, still ...int) *watchedRun {
	w := watched(1_000_000, .1)
	r := w.run
	r.Load.Mode, r.Load.TargetPerS, r.Load.Arrivals = "open", 1000, "constant"
	r.Spec.Rate, r.Spec.SLO = mustRate(t, "1k"), mustSLO(t, "p99<20ms")
	r.Requests.Sent, r.Requests.Completed, r.Requests.InFlightAtStart, r.Requests.InFlight = 10_000, 10_000, 0, 0
	r.Statuses = map[string]uint64{"200": 10_000}
	r.Rate.CompletedPerS, r.Rate.SentPerS = 1000, 1000
	r.Latency.Response.Count = 10_000
	for i := range w.series.Load {
		row := &w.series.Load[i]
		row.Sent, row.Completed, row.MaxNs, row.InFlight = 100, 100, 3e6, 1
	}
	for _, i := range still {
		w.series.Load[i].Completed, w.series.Load[i].InFlight, w.series.Load[i].MaxNs = 3, 97, 2e6
		w.series.Load[i+1].Completed, w.series.Load[i+1].MaxNs = 197, 105e6
	}
	if len(still) > 0 {
		r.Latency.Response.P99Ns, r.Latency.Response.MaxNs = 60e6, 105e6
	}
	return w
}

func TestBrokenByStandstills(t *testing.T) {
	v := stalling(t, 10, 30, 50, 70).judge()
	text := sayings(v)
	for _, want := range []string{
		"p99 of the response time is 60.0 ms, SLO p99<20ms: the server stalled in 4 stretches, 400 ms in total (at 1.1 s, 3.1 s, 5.1 s, 7.1 s), up to 105 ms, about every 2.00 s",
		"outside of them no response took longer than 3.00 ms", "find what stops the server for up to 105 ms",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if v.Outcome != "fail" {
		t.Errorf("%s: %s", v.Outcome, text)
	}
	want := []record.Stall{{FromNs: 10e8, ToNs: 11e8}, {FromNs: 30e8, ToNs: 31e8}, {FromNs: 50e8, ToNs: 51e8}, {FromNs: 70e8, ToNs: 71e8}}
	if !slices.Equal(v.Stalls, want) {
		t.Errorf("stalls %v", v.Stalls)
	}
	if text := sayings(stalling(t, 10, 17, 50, 90).judge()); strings.Contains(text, "about every") {
		t.Errorf("no period, but: %s", text)
	}
	if text := sayings(stalling(t).judge()); strings.Contains(text, "stretch") {
		t.Errorf("an SLO that holds: %s", text)
	}
	slow := stalling(t)
	for i := range slow.series.Load {
		slow.series.Load[i].MaxNs = 70e6
	}
	slow.run.Latency.Response.P99Ns = 60e6
	if text := sayings(slow.judge()); strings.Contains(text, "stretch") || !strings.Contains(text, "check where the time goes") {
		t.Errorf("broken throughout: %s", text)
	}
	tail := stalling(t)
	for i := 0; i < 100; i += 7 {
		tail.series.Load[i].MaxNs = 70e6
	}
	tail.run.Latency.Response.P99Ns = 60e6
	if text := sayings(tail.judge()); !strings.Contains(text, "responses were slow in 15 stretches") || strings.Contains(text, "stalled") {
		t.Errorf("slow responses without a standstill: %s", text)
	}
}

// TestMeanApart: the caveat where p50 and mean describe different things.
func TestMeanApart(t *testing.T) {
	w := watched(640_000, .5)
	l := &w.run.Latency.Response
	w.run.Load.Pipelining, w.run.Spec.Pipelining = 100, 100
	l.P50Ns, l.P90Ns, l.P99Ns, l.P999Ns, l.MaxNs, l.MeanNs = 273_000, 400e6, 900e6, 2e9, 2e9, 151e6
	text := sayings(w.judge())
	for _, want := range []string{"p50 and mean differ: half of the responses took 273 µs or less, the mean is 151 ms (p90 400 ms)",
		"latency of a batch: with 100 requests in flight"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if text := sayings(watched(640_000, .5).judge()); strings.Contains(text, "different stories") || strings.Contains(text, "batch") {
		t.Error(text)
	}
}
