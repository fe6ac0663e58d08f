package race

import (
	"math"
	"strings"
	"testing"

	"ceiling/internal/stat"
	"ceiling/show/page"
)

// made is a result of rounds in which ours takes 0.6 of what nginx takes, whatever
// the round was like.
func made() *Result {
	r := &Result{Settings: Settings{Rounds: 7, DurationS: 0.5, Workers: 1, Connections: 60, PerS: 10_000, Seed: 1},
		Entrants: []*Contestant{{Name: Nginx, Version: "1"}, {Name: "envoy", Missing: "not installed: from envoyproxy.io"},
			{Name: Ours, Version: "2", Binary: "abc", Differs: "all"}}}
	k, err := casesOf([]string{"16"})
	if err != nil {
		panic(err)
	}
	c := CaseResult{Case: *k[0], Rows: []Row{{Name: Nginx, Hash: "1111111"}, {Name: "envoy", NotRaced: "not installed"},
		{Name: Ours, Hash: "2222222"}}}
	for round := 1; round <= 7; round++ {
		noise := 1 + float64(round*round%5)
		sample := func(name string, ns float64) Sample {
			return Sample{Case: "16", Name: name, Round: round, Requests: 1000, Seen: 1010, WindowS: .5, CPUNs: int64(ns * 1000), BackendNs: 1,
				GeneratorNs: 1,
				HostNs:      int64(ns*1000) + 1000, OpenP99Ns: 3e6, Memory: 12_700_000}
		}
		c.samples = append(c.samples, sample(Nginx, 10_000*noise), sample(Ours, 5_000*noise))
	}
	r.Cases = []CaseResult{c}
	return r
}

// columns is how wide a table may be.
const columns = 104

func TestConclude(t *testing.T) {
	r := made()
	r.Cases[0].samples[1].Errors, r.Cases[0].samples[3].Late, r.Cases[0].samples[5].Seen = 3, 5, 900
	r.conclude()
	own := r.Cases[0].Rows[2]
	if e := own.ToNginx; e == nil || math.Abs(e.Value-.5) > 1e-9 || e.N != 7 {
		t.Errorf("%+v", own.ToNginx)
	}
	if own.Errors != 3 || own.Late != 5 || own.Miscounted != 1 {
		t.Errorf("%d errors, %d late, %d miscounted", own.Errors, own.Late, own.Miscounted)
	}
	caveats := strings.Join(r.Caveats, "\n")
	for _, want := range []string{"16: errors: ceiling 3", "below the target rate: ceiling 5",
		"backend's count is not the generator's: ceiling 1"} {
		if !strings.Contains(caveats, want) {
			t.Errorf("no %q in:\n%s", want, caveats)
		}
	}
	if len(r.Verdicts) != 2 || r.Verdicts[0].Says != "met" || r.Verdicts[0].Limit != .55 || r.Verdicts[1].Says != "met" {
		t.Errorf("%+v", r.Verdicts)
	}
	if r.Cases[0].Rows[1].NsPerRequest != nil {
		t.Error("who was not raced has figures")
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		value, low, high float64
		rounds           int
		want             string
	}{{.6, .5, .7, 7, "met"}, {.6, .5, .71, 7, "met by the median; the interval has"}, {.75, .69, .8, 7, "missed by the median; the interval has"},
		{.8, .71, .9, 7, "missed"}, {.6, .6, .6, 5, "met by the median; too few"}, {.8, .8, .8, 5, "missed by the median; too few"}, {.8, .8, .8, 0, "missed"},
	} {
		v := Verdict{Estimate: stat.Estimate{Value: c.value, Interval: stat.Interval{Low: c.low, High: c.high}, N: c.rounds}, Limit: .7}
		if v.judge(); !strings.HasPrefix(v.Says, c.want) || strings.Contains(c.want, ";") != strings.Contains(v.Says, ";") {
			t.Errorf("%v: %q", c, v.Says)
		}
	}
}

// TestWrite: no table is wider than 104 columns, whatever the figures; what is
// missing is named, and what is doubtful.
func TestWrite(t *testing.T) {
	r := made()
	r.conclude()
	worst := func(v float64) *stat.Estimate {
		return &stat.Estimate{Value: v, Interval: stat.Interval{Low: v, High: v}}
	}
	r.Cases[0].Rows = append(r.Cases[0].Rows,
		Row{Name: Prefork, Hash: "3333333", NsPerRequest: worst(123_456), ToNginx: worst(12.34), PerS: worst(123_456),
			OpenP99Ns: worst(123e6), Memory: worst(123e6), Errors: 123})
	r.Cases = append(r.Cases, CaseResult{Case: *caseOf(t, "idle"),
		Rows: []Row{{Name: Ours, Hash: "4444444", Idle: &Idle{Wanted: 18500, Held: 18500, BytesPerConnection: 649, PerS: 50000}}}})
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := len([]rune(line)); n > columns && strings.HasPrefix(line, "  ") { // other lines are folded where they are shown
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"10.0    0.50  0.50–0.50", "2222222", "3.00 ms", "not raced   envoy: not installed", "18,500 of 18,500", "649",
		"contestant  envoy: not installed: from envoyproxy.io", "contestant  ceiling: 2, program abc; all", "seed 1",
		"target      16: ceiling, CPU per request to nginx's: 0.50 (0.50 to 0.50), at most 0.55: met"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

// A page has the answer, each case and who did not take part; the command of its card
// measures what missed its target.
func TestPage(t *testing.T) {
	r := made()
	r.conclude()
	html := func() string {
		var b strings.Builder
		if err := page.HTML(&b, r.Page()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, want := range []string{"2 of 2", "0.50", "targets met", "CPU/request against nginx", "envoy: not installed", "random order (seed 1)"} {
		if got := html(); !strings.Contains(got, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	v := &r.Verdicts[0]
	v.Value, v.Low, v.High = .6, .6, .6
	if v.judge(); v.Says != "missed" {
		t.Errorf("%+v", v)
	}
	if want := "ceiling race --only nginx,ceiling --rounds 15 --case 16"; !strings.Contains(html(), want) {
		t.Errorf("%q is not on the page of a missed target", want)
	}
	r.Verdicts, r.Cases[0].samples = nil, nil
	r.Cases[0].Rows[2].ToNginx = nil
	if got := html(); !strings.Contains(got, "No ratio:") {
		t.Error("the page of a race without nginx does not say that there is no ratio")
	}
}
