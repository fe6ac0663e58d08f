//go:build linux

package page

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// filledPlan is a plan of a kind with a text in every field that reflection
// reaches, in its answer too.
func filledPlan(text, kind string) *record.Plan {
	f := filler{text: text}
	p := new(record.Plan)
	f.fill(reflect.ValueOf(p).Elem(), 0)
	p.Experiment.Kind, p.Experiment.SLO, p.Experiment.Load.Rate = kind, nil, nil // the two have to be true to be written
	for i := range p.Comparison.Changes {                                        // measured
		p.Comparison.Changes[i].A, p.Comparison.Changes[i].B = 1, 2
	}
	if kind != spec.KindSweep {
		p.Sweep = nil
	}
	if kind != spec.KindFind {
		p.Search = nil
	}
	if kind != spec.KindProve {
		p.Proof = nil
	}
	if kind != spec.KindCompare {
		p.Comparison = nil
	}
	if kind != spec.KindFactorial {
		p.Factorial = nil
	}
	return p
}

func planKinds() []string {
	return []string{spec.KindSweep, spec.KindFind, spec.KindProve, spec.KindCompare, spec.KindFactorial}
}

func planPages(t *testing.T, p *record.Plan) (html, markdown string) {
	t.Helper()
	d, err := Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	var h, m bytes.Buffer
	if err := HTML(&h, d); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&m, d); err != nil {
		t.Fatal(err)
	}
	return h.String(), m.String()
}

// Texts of a plan are text on its page, whatever is in them.
func TestPlansAreEscaped(t *testing.T) {
	for _, kind := range planKinds() {
		html, markdown := planPages(t, filledPlan(hostile, kind))
		for _, bad := range []string{"<x-hostile", "<img src=x", "<script>pwned", "\x1b", "\u202e"} {
			if strings.Contains(html, bad) {
				t.Errorf("%s: the page has %q in it", kind, bad)
			}
		}
		checkMarkdown(t, markdown)
		if n := strings.Count(html, "x-hostile"); n < 20 {
			t.Errorf("%s: only %d of the texts are on the page", kind, n)
		}
	}
}

// Credentials of an experiment are not shown; what is no credential is.
func TestPlansKeepSecrets(t *testing.T) {
	p := filledPlan("x", spec.KindSweep)
	p.Command = []string{"ceiling", "run", "http://me:hunter2@host/", "-H", "Authorization: Bearer hunter2"}
	p.Experiment.Servers[0] = spec.Server{Name: "a", URL: "http://me:hunter2@host/", Serve: "API_KEY=hunter2 ./serve --addr {addr}",
		Env: []string{"GOMAXPROCS=2", "DB_PASSWORD=hunter2"}}
	p.Experiment.Requests[0].Header = []string{"Accept: text/plain", "Cookie: id=hunter2"}
	html, markdown := planPages(t, p)
	if strings.Contains(html, "hunter2") || strings.Contains(markdown, "hunter2") {
		t.Error("a secret is on the page")
	}
	if !strings.Contains(html, "GOMAXPROCS=2") || !strings.Contains(html, "Accept: text/plain") {
		t.Error("what is no secret is missing")
	}
	if n := len(CredentialsOfPlan(p)); n < 4 {
		t.Errorf("%d credentials are found", n)
	}
	plain := spec.Server{Serve: "ceiling serve fasthttp --addr {addr}", Env: []string{"GOMAXPROCS=1"}}
	if list := CredentialsOfPlan(&record.Plan{Experiment: spec.Experiment{Servers: []spec.Server{plain}}}); len(list) > 0 {
		t.Errorf("found where there are none: %v", list)
	}
}

// Figures that cannot be drawn do not stop a page: nothing measured, a single
// point, numbers that are none.
func TestPlansWithoutFigures(t *testing.T) {
	for _, kind := range planKinds() {
		p := filledPlan("x", kind)
		switch {
		case p.Sweep != nil:
			p.Sweep.Curves = append(p.Sweep.Curves, record.Curve{Server: "empty", Over: "connections"},
				record.Curve{Server: "one", Points: []record.CurvePoint{{X: 1, Runs: 1, PerS: record.Estimate{Mid: math.Inf(1)}}}})
			p.Sweep.Curves[0].Points = nil
		case p.Search != nil:
			p.Search.Rates = nil
		case p.Proof != nil:
			p.Proof.Resources[0].Elasticity = record.Estimate{Mid: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
		case p.Comparison != nil:
			p.Comparison.Changes = nil
		case p.Factorial != nil:
			p.Factorial.Effects[0].Relative = record.Estimate{Mid: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
			p.Factorial.Cells[0].PerS.Mid = math.Inf(1)
		}
		html, _ := planPages(t, p)
		if strings.Contains(html, "NaN%") || strings.Contains(html, "Inf%") {
			t.Errorf("%s: a place in the picture is no number", kind)
		}
		p.Sweep, p.Search, p.Proof, p.Comparison, p.Factorial, p.Ended = nil, nil, nil, nil, nil, ""
		if html, _ := planPages(t, p); !strings.Contains(html, "No answer yet.") || !strings.Contains(html, "Interrupted after") {
			t.Errorf("%s: the page of a plan that was broken off does not say so", kind)
		}
	}
}

// TestWhereTheTimeGoesHasItsPlace: a comparison shows first what changed, the other kinds where the time
// goes.
func TestWhereTheTimeGoesHasItsPlace(t *testing.T) {
	paths := Section{ID: "where"}
	place := func(a answered) int {
		return slices.IndexFunc(a.sections(paths), func(s Section) bool { return s.ID == paths.ID })
	}
	for kind, want := range map[string]int{spec.KindSweep: 0, spec.KindFind: 0, spec.KindProve: 0, spec.KindCompare: 1} {
		if got := place(answerOf(filledPlan("x", kind))); got != want {
			t.Errorf("%s: section %d, want %d", kind, got, want)
		}
	}
}

// A sweep's curves have a dot for every point and a ring for every void one, the
// knee and the fitted law; points that were not measured have neither.
func TestCurvesAreDrawn(t *testing.T) {
	one := func(per float64) record.Estimate {
		return record.Estimate{Mid: per, Low: .9 * per, High: 1.1 * per, Confidence: .95}
	}
	c := record.Curve{Server: "a", Mix: "/r", Over: "connections", Knee: &record.Knee{Low: 4, High: 16}, Says: recordtest.Say("it stops"),
		USL: &record.USL{Lambda: one(1000), Sigma: one(.1), Kappa: one(.001), Trusted: true},
		Points: []record.CurvePoint{{X: 1, Runs: 3, PerS: one(1000), Outcome: record.Valid},
			{X: 4, Runs: 3, PerS: one(3000), Outcome: record.Valid},
			{X: 16, Runs: 3, PerS: one(5000), Outcome: record.Invalid}, {X: 64, Outcome: record.Invalid}}}
	d, ok := CurveGraph("", []record.Curve{c})
	if !ok {
		t.Fatal("nothing is drawn")
	}
	text, err := d.Picture()
	if err != nil {
		t.Fatal(err)
	}
	html := string(text)
	for what, want := range map[string]int{`class="stroke dot tone-0" data-points="2"`: 1, `class="stroke dot tone-0" data-points="1"`: 1,
		`class="stroke hole"`: 1, `class="stroke fit`: 1, `class="span tone-0"`: 1, ">knee<": 1, "stroke reach": 1} {
		if n := strings.Count(html, what); n != want {
			t.Errorf("%d of %s, want %d in %s", n, what, want, html)
		}
	}
	c.USL.Trusted = false
	if d, _ := CurveGraph("", []record.Curve{c}); strings.Contains(string(must(t, d)), "stroke fit") {
		t.Error("a law that is not to be trusted is drawn")
	}
}

func must(t *testing.T, d Drawing) string {
	t.Helper()
	text, err := d.Picture()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// One server's curves share a picture; of several servers each request has its
// own.
func TestCurveGroups(t *testing.T) {
	curve := func(server, mix string) record.Curve {
		return record.Curve{Server: server, Mix: mix, Over: "connections"}
	}
	if g := curveGroups([]record.Curve{curve("a", "/x"), curve("a", "/y")}); len(g) != 1 || len(g[0].curves) != 2 || g[0].name != "" {
		t.Errorf("one server: %+v", g)
	}
	if g := curveGroups([]record.Curve{curve("a", "/x"), curve("b", "/x"), curve("a", "/y"), curve("b", "/y")}); len(g) != 2 ||
		g[1].name != "/y" || len(g[1].curves) != 2 {
		t.Errorf("two servers: %+v", g)
	}
	var many []record.Curve
	for range 3*linesMost + 1 {
		many = append(many, curve("a", "/x"))
	}
	if g := curveGroups(many); len(g) != 4 || len(g[3].curves) != 1 {
		t.Errorf("many curves are %d groups", len(g))
	}
}
