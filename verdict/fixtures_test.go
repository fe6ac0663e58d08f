package verdict

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/archive"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// fixture is one file of testdata/<rule>.txtar: a run and its rows with the verdict
// they have to come to. The run is written over a clean one ("closed" or
// "open", see judge_test.go); a row is repeated in time.
type fixture struct {
	path   string
	Why    string `json:"why"`
	Expect struct {
		Outcome  record.Outcome    `json:"outcome"`
		Ceiling  record.Bottleneck `json:"bottleneck"`
		Not      record.Bottleneck `json:"not"`             // a bottleneck that it must not be
		Because  string            `json:"because"`         // contained in the reason
		Doubt    string            `json:"caveat"`          // contained in one of the caveats
		NoCaveat string            `json:"no_caveat"`       // contained in none of them
		Missing  string            `json:"missing"`         // contained in one of what is missing
		Next     string            `json:"next"`            // contained in what to do
		Evidence string            `json:"evidence"`        // contained in one of the evidence's sentences
		Lacks    string            `json:"lacks"`           // contained in none of them, nor in the reason or in what to do
		NextWall record.Bottleneck `json:"next_bottleneck"` // the next one
		Wall     string            `json:"wall"`            // contained in what is said of it
	} `json:"expect"`
	Base string          `json:"base"`
	Run  json.RawMessage `json:"run"`
	Rows []struct {
		Repeat  int             `json:"repeat"`
		EveryMs int64           `json:"every_ms"`
		FromMs  int64           `json:"from_ms"` // end of the first interval
		Row     json.RawMessage `json:"row"`
	} `json:"rows"`
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	var list []fixture
	for _, file := range archive.All(t, "testdata/*.txtar") {
		f := fixture{path: file.String()}
		decoder := json.NewDecoder(bytes.NewReader(file.Data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&f); err != nil {
			t.Fatalf("%s: %v", f.path, err)
		}
		list = append(list, f)
	}
	return list
}

// read builds the record.
func (f *fixture) read(t testing.TB) (*record.Run, *record.Series) {
	t.Helper()
	run := closedRun()
	if f.Base == "open" {
		run = openRun()
	}
	run.Statuses = nil
	decoder := json.NewDecoder(bytes.NewReader(f.Run))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(run); err != nil {
		t.Fatalf("%s: run: %v", f.path, err)
	}
	if run.Statuses == nil {
		run.Statuses = map[string]uint64{"200": run.Requests.Completed}
	}
	series := new(record.Series)
	for _, r := range f.Rows {
		for i := range r.Repeat {
			at := (r.FromMs + int64(i)*r.EveryMs) * 1e6
			f.add(t, series, r.Row, at, r.FromMs != 0)
		}
	}
	return run, series
}

func (f *fixture) add(t testing.TB, series *record.Series, text []byte, atNs int64, timed bool) {
	t.Helper()
	var head struct{ Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		t.Fatalf("%s: %v", f.path, err)
	}
	if head.Kind == record.KindLoad || head.Kind == record.KindAgent {
		var row record.LoadRow
		if err := json.Unmarshal(text, &row); err != nil {
			t.Fatalf("%s: %v", f.path, err)
		}
		if timed {
			row.TNs = atNs
		}
		if head.Kind == record.KindAgent {
			series.Agents = append(series.Agents, row)
		} else {
			series.Load = append(series.Load, row)
		}
		return
	}
	row, err := record.DecodeObserved(text)
	if err != nil {
		t.Fatalf("%s: %v", f.path, err)
	}
	if timed {
		row.Observed().TNs = atNs
	}
	series.Observed.Add(row)
}

// TestFixtures judges every record of testdata.
func TestFixtures(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.path, func(t *testing.T) {
			run, series := f.read(t)
			v := Judge(run, series)
			contains := func(what, text, part string) {
				t.Helper()
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q lacks %q", what, text, part)
				}
			}
			e := f.Expect
			if v.Outcome != e.Outcome || v.Bottleneck != e.Ceiling || v.Bottleneck == e.Not {
				t.Errorf("%s, %s: %s; want %s, %s (%s)", v.Outcome, v.Bottleneck, prose.Sentence(v.Because), e.Outcome, e.Ceiling, f.Why)
			}
			contains("because", prose.Sentence(v.Because), e.Because)
			contains("doubts", strings.Join(prose.Texts(v.Caveats), "\n"), e.Doubt)
			if caveats := strings.Join(prose.Texts(v.Caveats), "\n"); e.NoCaveat != "" && strings.Contains(caveats, e.NoCaveat) {
				t.Errorf("doubts: %q has %q", caveats, e.NoCaveat)
			}
			contains("missing", strings.Join(prose.Texts(v.Missing), "\n"), e.Missing)
			contains("next", prose.Sentence(v.Next), e.Next)
			says := prose.Sentence(v.Next)
			for _, one := range v.Evidence {
				says += "\n" + prose.Text(one.Says)
			}
			contains("evidence", says, e.Evidence)
			if e.Lacks != "" && strings.Contains(prose.Sentence(v.Because)+"\n"+says, e.Lacks) {
				t.Errorf("%q says %q", says, e.Lacks)
			}
			if upcoming := v.NextBottleneck; e.NextWall != "" &&
				(upcoming == nil || upcoming.Bottleneck != e.NextWall || !strings.Contains(prose.Text(upcoming.Says), e.Wall)) {
				t.Errorf("next bottleneck %+v, want %s %s", upcoming, e.NextWall, e.Wall)
			}
			if len(v.Because) == 0 || len(v.Next) == 0 || v.Bottleneck != record.Inconclusive && len(v.Evidence) == 0 {
				t.Errorf("a verdict without a reason, evidence or a next step: %+v", v)
			}
			allSaid(t, v)
		})
	}
}

// refusedOfFleets are what a run with --agents refuses: the flags in package
// run (RefuseFar), and the verb (mayDo).
func refusedOfFleets() []string {
	return []string{"--separate-cpus", "--pin-generator", "--source-ips", "ceiling prove"}
}

// TestNoRefusedAdvice judges every fixture, and the runs of this package's other
// tests, as runs of one agent that loads and watches: no sentence may name what
// such a run refuses.
func TestNoRefusedAdvice(t *testing.T) {
	needs.Time(t)
	said, advised := 0, map[string]bool{}
	for _, f := range fixtures(t) {
		alone, series := f.read(t)
		run, series := alone, series
		for _, refused := range refusedOfFleets() {
			for _, text := range sentences(Judge(alone, series)) {
				if strings.Contains(text, refused) && len(alone.Agents) == 0 {
					said++
				}
			}
		}
		if len(run.Agents) == 0 {
			run.Agents = []record.Agent{{
				Name: "h", Loads: true, Observes: true, Load: run.Load, ElapsedS: run.ElapsedS, Requests: run.Requests, Rate: run.Rate,
				Bytes: run.Bytes, Statuses: run.Statuses, Errors: run.Errors, Latency: run.Latency, Generator: run.Generator,
				Environment: run.Environment,
			}}
		}
		for _, text := range sentences(Judge(run, series)) {
			advised[text] = true
			for _, refused := range refusedOfFleets() {
				if strings.Contains(text, refused) {
					t.Errorf("%s: a run of agents refuses %s, and is told: %s", f.path, refused, text)
				}
			}
		}
	}
	if said == 0 || len(advised) < 100 {
		t.Errorf("%d sentences of runs of one machine name what fleets refuse, %d sentences of fleets: the test sees nothing", said, len(advised))
	}
}

// sentences are all that a verdict says.
func sentences(v record.Verdict) []string {
	return prose.Texts(statements(v))
}

// statements are all that it says, as codes.
func statements(v record.Verdict) []record.Statement {
	list := slices.Concat(v.Because, v.Next, v.Caveats, v.Missing)
	for _, e := range slices.Concat(v.Evidence, v.Against) {
		list = append(list, e.Says)
	}
	if v.NextBottleneck != nil {
		list = append(list, v.NextBottleneck.Says)
	}
	return list
}

// allSaid fails where a statement has no sentence, or not the values for it.
func allSaid(t interface{ Errorf(string, ...any) }, v record.Verdict) {
	supported(t, v)
	for _, s := range statements(v) {
		if text := prose.Text(s); text == "" || strings.HasPrefix(text, s.Code+" (") || text == s.Code {
			t.Errorf("%s reads %q", s.Code, text)
		} else if wrong := misprint(text); wrong != "" {
			t.Errorf("%s: %s in %q", s.Code, wrong, text)
		}
	}
}

// supported checks that the figures beside a bottleneck are those of one.
func supported(t interface{ Errorf(string, ...any) }, v record.Verdict) {
	number := func(s record.Statement, name string) float64 { n, _ := s.With[name].(float64); return n }
	for _, s := range statements(v) {
		bound, _ := s.With["bound"].(record.Statement)
		used, of := number(s, "cores"), number(bound, "cores")
		switch s.Code {
		case "server-cpu.used":
			if used < serverMost*serversPart*of {
				t.Errorf("%s: %q", v.Bottleneck, prose.Text(s))
			}
		case "shared-cpu":
			if g := number(s, "generator"); g <= 1-serversPart || g >= 1-smallPart {
				t.Errorf("%s: %q", v.Bottleneck, prose.Text(s))
			}
		case "next-bottleneck":
			nearly, _ := s.With["nearly"].(record.Statement)
			bound, _ := nearly.With["bound"].(record.Statement)
			if times := number(s, "times"); nearly.Code == "server-cpu.nearly" && math.Abs(times*number(nearly, "cores")/number(bound, "cores")-1) > .01 {
				t.Errorf("%q", prose.Text(s))
			}
		}
	}
}

// misprint returns what nobody would write of a sentence's figures: an exponent, a range whose ends
// are one figure, none of something; "" if there is nothing of the kind.
func misprint(text string) string {
	if exponent.MatchString(text) {
		return "an exponent"
	}
	if zero.MatchString(text) {
		return "none of something"
	}
	for _, m := range ranges.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[2]+" ", m[1]+" ") {
			return "a range of one figure"
		}
	}
	return ""
}

var (
	exponent = regexp.MustCompile(`\b\d+(\.\d+)?e[+-]\d+`)
	zero     = regexp.MustCompile(`(^|[^\d.,])0\.0+ of \d+ cores (was|were) idle`)
	ranges   = regexp.MustCompile(`(?:between |\(|CI )([\d.,]+(?: ?[a-zµ%×/]+)?)(?:–| to | and )([\d.,]+(?: ?[a-zµ%×/]+)?)`)
)

func TestMisprint(t *testing.T) {
	for _, text := range []string{"by 1.6e+02×", "between 4 and 4 of 64", "0.0 of 2 cores were idle", "(95% CI 1–1)", "12% (3.0 ms to 3.0 ms)"} {
		if misprint(text) == "" {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"by 160×", "between 4 and 5 of 64", "0.5 of 2 cores were idle", "(95% CI 0.9–1.1)", "record 1e2f"} {
		if wrong := misprint(text); wrong != "" {
			t.Errorf("%q: %s", text, wrong)
		}
	}
}
