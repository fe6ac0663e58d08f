//go:build linux

package page

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/browser"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// around10 is an estimate ten per cent wide on either side.
func around10(v float64) record.Estimate {
	return record.Estimate{Mid: v, Low: .9 * v, High: 1.1 * v, Confidence: .95}
}

// samplePlan is a plan of a kind with one server, and no answer yet.
func samplePlan(kind string) *record.Plan {
	return &record.Plan{ID: "20261121-093012-plan", Created: time.Date(2026, 11, 21, 9, 30, 12, 0, time.UTC),
		Ending:  record.Ending{Ended: record.EndedComplete, TookS: 42},
		Command: []string{"ceiling", "run", "-c", "1,4,16,64", "http://10.0.0.2:8080/read"},
		Experiment: spec.Experiment{Kind: kind, Servers: []spec.Server{{URL: "http://10.0.0.2:8080"}},
			Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/read"}}}}}
}

// measuredRun is the n-th run of a plan, with a queue at the server that grows with q.
func measuredRun(n int, perS, p99 float64, q float64) record.Measured {
	return record.Measured{Step: record.Step{Number: n + 1, Condition: spec.Condition{Connections: 16, Pipelining: 1}, Repeat: 1},
		Run: fmt.Sprintf("run-%d", n), CompletedPerS: perS, Outcome: record.Valid, Bottleneck: record.ServerCPU,
		Response: record.Quantiles{Count: 1000, P50Ns: int64(p99 / 3), P99Ns: int64(p99)},
		Service:  record.Quantiles{Count: 1000, MeanNs: p99 / 2},
		Stations: []record.Station{{Name: "generator", Share: .1},
			{Name: "server receive queue", Share: q}, {Name: "server", Share: .9 - q}}}
}

func sampleSweep() *record.Plan {
	p := samplePlan(spec.KindSweep)
	c := record.Curve{Server: "http://10.0.0.2:8080", Mix: "/read", Over: "connections", Bottleneck: record.ServerCPU,
		Knee: &record.Knee{Low: 16, High: 64, PerS: 80_000}, Says: recordtest.Say("throughput peaks at 80,000 req/s between 16 and 64 connections")}
	for i, x := range []float64{1, 4, 16, 64} {
		m := measuredRun(i, []float64{9e3, 33e3, 77e3, 80e3}[i], []float64{2e5, 3e5, 6e5, 2e6}[i], []float64{0, .1, .4, .8}[i])
		p.Runs = append(p.Runs, m)
		c.Points = append(c.Points, record.CurvePoint{X: x, Runs: 2, PerS: around10(m.CompletedPerS), Response: m.Response, Outcome: record.Valid,
			Bottleneck: record.ServerCPU, PerRun: []float64{.9 * m.CompletedPerS, 1.1 * m.CompletedPerS}, RunIDs: []string{m.Run}})
	}
	c.Points[1].Split = "server CPU 1, a bottleneck with a name that is rather long to be read on a phone 1"
	p.Sweep = &record.Sweep{Curves: []record.Curve{c}}
	return p
}

func sampleSearch() *record.Plan {
	p := samplePlan(spec.KindFind)
	p.Experiment.SLO = spec.SLO{{Metric: spec.MetricResponse, Quantile: .99, Limit: 5e6}}
	p.Search = &record.Search{SLO: "p99<5ms", Capacity: record.Estimate{Mid: 70e3, Low: 68e3, High: 75e3}, Limit: record.LimitServer,
		Bottleneck: record.ServerCPU, Says: recordtest.Say("highest rate meeting p99<5ms: 70,000 req/s"), Caveats: recordtest.Says("evenly spaced")}
	for i, rate := range []float64{60e3, 90e3, 70e3, 75e3} {
		pass := rate <= 70e3
		m := measuredRun(i, rate, 3e6, .5)
		m.TargetPerS, m.Outcome = rate, record.Pass
		r := record.TriedRate{PerS: rate, Runs: 1, Pass: 1, Response: m.Response, Bottleneck: record.TargetRate}
		if !pass {
			m.Outcome, m.StoppedEarly, m.P99AtLeastNs = record.Fail, "p99<5ms cannot be met", 74e6
			r.Pass, r.Fail, r.StoppedEarly, r.Response = 0, 1, 1, record.Quantiles{}
			r.MissedP99Ns, r.MissedAtLeast = 74e6, true
		}
		p.Runs, p.Search.Rates = append(p.Runs, m), append(p.Search.Rates, r)
	}
	return p
}

func planFile(t *testing.T, p *record.Plan) string {
	t.Helper()
	d, err := Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	path := filepath.Join(t.TempDir(), "plan.html")
	if err := HTML(&b, d); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

func TestPlanInABrowser(t *testing.T) {
	needs.Program(t, "chromium")
	tab := browser.Start(t)
	t.Run("readable", func(t *testing.T) { testPlansReadable(t, tab()) })
	t.Run("phone", func(t *testing.T) { testPhone(t, tab()) })
	t.Run("panels", func(t *testing.T) { testPanels(t, tab()) })
	t.Run("screens", func(t *testing.T) { testScreens(t, tab()) })
}

// Plans have no violations, fit a phone, and leave no blank rows there.
func testPlansReadable(t *testing.T, p *browser.Page) {
	sweep := sampleSweep()
	for i := range sweep.Runs {
		sweep.Runs[i].Bottleneck, sweep.Runs[i].Run = record.Inconclusive, "20261130-185150-tkeb"
	}
	for name, plan := range map[string]*record.Plan{"sweep": sweep, "search": sampleSearch()} {
		url := planFile(t, plan)
		for _, dark := range []bool{false, true} {
			p.SetMedia("", dark)
			p.SetViewport(1440, 900, 1, false)
			p.Open(url)
			p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
			for _, v := range p.Violations() {
				t.Errorf("%s, dark %v: %s", name, dark, v)
			}
			p.SetViewport(640, 900, 1, false)
			var broken []string // words of dense tables
			p.Eval(`[...document.querySelectorAll(".dense td")].map(td => td.firstChild).filter(t => t && t.data).flatMap(t =>
				[...t.data.matchAll(/[a-z]{5,12}/g)].filter(m => {
					const r = document.createRange()
					r.setStart(t, m.index)
					r.setEnd(t, m.index + m[0].length)
					return r.getClientRects().length > 1
				}).map(m => m[0]))`, &broken)
			if len(broken) > 0 {
				t.Errorf("%s, dark %v: a line ends inside of %q", name, dark, broken)
			}
		}
		p.SetViewport(390, 844, 2, true)
		p.Open(url)
		p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
		var phone struct {
			Wide, Lines float64
			Folded      []string
		}
		p.Eval(`({
			wide: document.documentElement.scrollWidth,
			lines: Math.max(0, ...[...document.querySelectorAll("table:not(.cards) tbody tr")].map(r => r.getBoundingClientRect().height)) / 24,
			folded: [...document.querySelectorAll("nav a")].filter(a => a.getClientRects().length > 1 || a.getBoundingClientRect().height > 40).map(a => a.textContent),
		})`, &phone)
		if phone.Wide > 390 || phone.Lines > 5 || len(phone.Folded) > 0 {
			t.Errorf("%s on a phone: %+v", name, phone)
		}
		for _, v := range p.Violations() {
			t.Errorf("%s on a phone: %s", name, v)
		}
	}
	quiet(t, p)
}

// All panels of a sweep answer for the load that is pointed at, and a click leads to
// its run.
func testPanels(t *testing.T, p *browser.Page) {
	p.SetViewport(1440, 900, 1, false)
	p.Open(planFile(t, sampleSweep()))
	var panels struct {
		Areas, Crosses, Columns int
		Says, Hash              string
	}
	p.Eval(`(() => {
		const areas = [...document.querySelectorAll(".panels .plot-area")], box = areas[0].getBoundingClientRect();
		const at = { bubbles: true, clientX: box.right - 20, clientY: box.top + 20 };
		areas[0].dispatchEvent(new PointerEvent("pointermove", at));
		const crosses = [...document.querySelectorAll(".panel-cross")].filter(c => !c.hidden && c.style.left === areas[0].querySelector(".panel-cross").style.left);
		areas[1].dispatchEvent(new MouseEvent("click", at));
		return { areas: areas.length, crosses: crosses.length, says: document.querySelector(".panel-says").textContent, hash: location.hash,
			columns: document.querySelectorAll("#path-1 rect").length };
	})()`, &panels)
	if panels.Areas != 3 || panels.Crosses != 3 || !strings.HasPrefix(panels.Says, "64 connections: 80,000 req/s · p50 667 µs · p99 2.00 ms") ||
		panels.Hash != "#run-3" || panels.Columns != 3*4-1 {
		t.Errorf("%+v", panels)
	}
	quiet(t, p)
}
