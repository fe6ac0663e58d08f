package verdict

import (
	"math"
	"strings"
	"testing"

	"ceiling/record"
)

// gone makes the server unreachable from one row of 100 ms to another: half of
// each of the two had answers.
func gone(w *watchedRun, from, to int) *watchedRun {
	rows := w.series.Load
	usual := rows[from].Completed
	for i := from; i <= to; i++ {
		rows[i].Completed, rows[i].Connected = 0, 0
	}
	rows[from].Completed, rows[to].Completed, rows[to].Connected = usual/2, usual/2, 64
	return w
}

func present() *watchedRun {
	w := watched(1_000_000, .1)
	for i := range w.series.Load {
		w.series.Load[i].Connected = 64
	}
	return w
}

func TestOutages(t *testing.T) {
	w := gone(present(), 20, 29)
	o := outagesOf(w.series.Load)
	if o.count != 1 || math.Abs(o.ns-9e8) > 1e6 || math.Abs(o.fromNs-(float64(w.series.Load[20].TNs)-5e7)) > 1e6 || o.lasts ||
		math.Abs(o.share-.09) > .001 {
		t.Errorf("%+v", o)
	}
	if o := outagesOf(gone(gone(present(), 20, 29), 50, 53).series.Load); o.count != 2 || math.Abs(o.ns-12e8) > 2e6 ||
		math.Abs(o.longest-9e8) > 1e6 {
		t.Errorf("two: %+v", o)
	}
	last := present()
	n := len(last.series.Load)
	for i := n - 10; i < n; i++ {
		last.series.Load[i].Completed, last.series.Load[i].Connected = 0, 0
	}
	if o := outagesOf(last.series.Load); !o.lasts || o.count != 1 || math.Abs(o.ns-1e9) > 1e6 {
		t.Errorf("at the end: %+v", o)
	}
	for name, w := range map[string]*watchedRun{"none": present(), "stands still": gone(present(), 20, 29)} {
		for i := range w.series.Load {
			w.series.Load[i].Connected = 64
		}
		if o := outagesOf(w.series.Load); o.count != 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if o := outagesOf(nil); o.count != 0 || o.share != 0 {
		t.Errorf("no rows: %+v", o)
	}
}

func TestOutagesAreTold(t *testing.T) {
	refused := record.Error{Phase: record.PhaseConnect, Cause: "ECONNREFUSED", Count: 400}
	short := gone(present(), 20, 25)
	short.run.Errors = []record.Error{refused}
	v := short.judge()
	text := sayings(v)
	if want := "the server was unreachable for 500 ms, from 2.0 s (ECONNREFUSED × 400); a closed loop sends nothing during that time"; !strings.Contains(text, want) || v.Outcome != record.Valid {
		t.Errorf("%s, lacks %q:\n%s", v.Outcome, want, text)
	}
	if strings.Contains(text, "of requests failed") {
		t.Errorf("attempts to connect count as requests:\n%s", text)
	}
	long := gone(present(), 20, 49)
	long.run.Errors = []record.Error{refused}
	if v := long.judge(); v.Outcome != record.Fail || v.Bottleneck != record.Failures || !strings.Contains(sayings(v), "unreachable for 2.90 s") {
		t.Errorf("%s %s:\n%s", v.Outcome, v.Bottleneck, sayings(v))
	}
}

// Errors by cause are the failed requests; what happened to connections without
// a request counts, and is no request.
func TestErrorsAddUp(t *testing.T) {
	w := present()
	w.run.Requests.Failed, w.run.Requests.Sent = 10, w.run.Requests.Sent+10
	w.run.Errors = []record.Error{{Phase: record.PhaseResponse, Cause: "timeout", Count: 10},
		{Phase: record.PhaseConnect, Cause: "ECONNREFUSED", Count: 7}}
	if v := w.judge(); v.Outcome != record.Valid {
		t.Errorf("they add up: %s\n%s", v.Outcome, sayings(v))
	}
	w.run.Errors[0].Count = 9
	if v := w.judge(); v.Outcome != record.Invalid ||
		!strings.Contains(sayings(v), "10 requests failed, but the errors by cause add up to 9") {
		t.Errorf("%s\n%s", v.Outcome, sayings(v))
	}
	w = present()
	w.run.Errors = []record.Error{{Phase: record.PhaseIdle, Cause: "unsolicited bytes", Count: 50_000}}
	if v := w.judge(); v.Outcome != record.Fail || v.Bottleneck != record.Failures ||
		!strings.Contains(sayings(v), "unsolicited bytes, without a request × 50,000") {
		t.Errorf("%s %s\n%s", v.Outcome, v.Bottleneck, sayings(v))
	}
}
