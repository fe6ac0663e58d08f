package spec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"ceiling/internal/unit"
)

var update = flag.Bool("update", false, "write docs/experiment.schema.json")

const schemaFile = "../../docs/experiment.schema.json"

// experimentSchema is made from the types, so that it cannot lag behind them.
func experimentSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := func(pattern string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} }
	number := &jsonschema.Schema{Types: []string{"integer", "string"}, Pattern: `^[0-9.]+[kMG]?$`}
	rate := &jsonschema.Schema{Types: []string{"integer", "string"}}
	list := func(of *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{of, {Type: "array", Items: of}}}
	}
	s, err := jsonschema.For[Experiment](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Time]():        text(`^[0-9.]+(ns|us|µs|ms|s|m|h)`),
		reflect.TypeFor[Count]():       number,
		reflect.TypeFor[unit.Rate]():   rate,
		reflect.TypeFor[List[Count]](): list(number), reflect.TypeFor[List[unit.Rate]](): list(rate),
		reflect.TypeFor[PerConnection](): {Types: []string{"boolean", "integer"}},
		reflect.TypeFor[SLO]():           {Type: "string"},
		reflect.TypeFor[Expect]():        list(&jsonschema.Schema{Types: []string{"integer", "string"}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "experiment of ceiling"
	s.Properties["kind"].Enum = []any{KindSweep, KindFind, KindProve, KindCompare, KindFactorial}
	withoutNull(s)
	return s
}

// withoutNull takes "null" out of the types: Go's nil slices are none in YAML.
// What the file does not have (content, body_hidden, descriptors) goes as well.
func withoutNull(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	delete(s.Properties, "content")
	delete(s.Properties, "body_hidden")
	delete(s.Properties, "descriptors")
	for _, p := range s.Properties {
		withoutNull(p)
	}
	if s.Items != nil {
		withoutNull(s.Items)
	}
}

func TestPublishedSchema(t *testing.T) {
	want, err := json.MarshalIndent(experimentSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say (%v); write it again: go test ./spec -run TestPublishedSchema -update", schemaFile, err)
	}
}

// TestShippedExperiments reads every file of docs/experiments/, holds it against the
// published schema and against the checks, and round-trips it through JSON.
func TestShippedExperiments(t *testing.T) {
	resolved, err := experimentSchema(t).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../docs/experiments/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		e, err := ReadExperiment(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if e.Question == "" {
			t.Errorf("%s does not say why", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var any map[string]any
		if err := yaml.Unmarshal(text, &any); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(any); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		e.Complete(7)
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		b, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var back Experiment
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, b)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%s: through JSON: %s", file, d)
		}
	}
}

const goodFile = `kind: sweep
servers:
  - url: http://127.0.0.1:8080
requests:
  - path: /read
load:
  connections: [1, 10]
`

func TestExperimentRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "it is empty"},
		{"unknown key", "kind: sweep\nserver: x\n", `f.yaml:2: unknown field "server"`},
		{"unknown key below", strings.Replace(goodFile, "connections", "conections", 1), `f.yaml:7: unknown field "conections"`},
		{"twice", goodFile + "kind: find\n", "f.yaml:8: "},
		{"bad count", strings.Replace(goodFile, "10]", "ten]", 1), `f.yaml:7: invalid count "ten"`},
		{"bad rate", goodFile + "  rate: [fast]\n", "f.yaml:8: "},
		{"bad slo", goodFile + "slo: p99>3\n", "f.yaml:8: SLO term"},
		{"bad time", goodFile + "rest: soon\n", "f.yaml:8: "},
		{"a list", "- a\n", "f.yaml:1: "},
		{"not YAML", "kind: [\n", "f.yaml:1: "},
		{"deep", strings.Repeat("[", 300), "nested more than"},
		{"kind", strings.Replace(goodFile, "sweep", "guess", 1), `invalid kind "guess"`},
		{"no slo", strings.Replace(strings.Replace(goodFile, "sweep", "find", 1), "[1, 10]", "[10]", 1), "a search needs an SLO"},
		{"find with a list", strings.Replace(goodFile, "sweep", "find", 1) + "slo: p99<5ms\n",
			"connections: 2 are given and kind find takes one"},
		{"prove with a rate", strings.Replace(strings.Replace(goodFile, "sweep", "prove", 1), "[1, 10]", "[10]\n  rate: [1k]", 1),
			"remove the rate"},
		{"compare one", strings.Replace(goodFile, "sweep", "compare", 1), "a comparison has two"},
		{"no server", "kind: sweep\nrequests: [{path: /}]\n", "servers: 0 are given"},
		{"url and serve", strings.Replace(goodFile, "8080", "8080\n    serve: x", 1), "either the url"},
		{"path in url", strings.Replace(goodFile, "8080", "8080/read", 1), "belongs to the requests"},
		{"env of a url", strings.Replace(goodFile, "8080", "8080\n    env: [A=1]", 1), "runs already"},
		{"no path", strings.Replace(goodFile, "/read", "read", 1), `"read" does not begin with /`},
		{"path and mix", strings.Replace(goodFile, "/read", "/read\n    mix: [{path: /a}]", 1), "either one path or a mix"},
		{"twice in a list", strings.Replace(goodFile, "[1, 10]", "[10, 10]", 1), "appears twice"},
		{"too many connections", strings.Replace(goodFile, "10]", "10M]", 1), "connections: 10000000"},
		{"repeats", goodFile + "repeats: 1000\n", "repeats: 1000"},
		{"settings of another kind", goodFile + "find: {most: 100}\n", "find: these are settings of kind find, and the kind is sweep"},
		{"repeats of a comparison", "kind: compare\nrepeats: 3\nservers: [{url: 'http://a'}, {url: 'http://b'}]\nrequests: [{path: /}]\n",
			"give compare.blocks"},
		{"arrivals without a rate", goodFile + "  arrivals: poisson\n", "poisson arrivals need a rate"},
		{"TLS without https", goodFile + "  tls: {insecure: true}\n", "--tls-version, --ciphers and --curves are for https://"},
		{"more threads than connections", goodFile + "  threads: 11\n", "11 threads cannot share 10 connections"},
		{"two loads in a level", levelsOf("{connections: [8, 16]}"), "connections: a level has one value, not 2"},
		{"threads of a level", levelsOf("{connections: 2, threads: 3}"), "3 threads cannot share 2 connections"},
		{"arrivals of a level", levelsOf("{arrivals: poisson}"), "poisson arrivals need a rate"},
		{"a namespace without an interface", strings.Replace(strings.Replace(goodFile, "sweep", "prove", 1), "[1, 10]", "[10]", 1) +
			"prove: {namespace: x}\n", "(prove.namespace): it names the namespace of the interface"},
		{"missing body", strings.Replace(goodFile, "/read", "/read\n    body: '@nowhere'", 1), "nowhere"},
	} {
		file := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := ReadExperiment(file)
		if err == nil {
			e.Complete(1)
			err = e.Check()
		}
		checkError(t, c.name, err, c.want)
	}
}

func levelsOf(second string) string {
	return "kind: factorial\nservers: [{url: 'http://127.0.0.1:1'}]\nrequests: [{path: /}]\n" +
		"factorial: {factors: [{name: a, levels: [{name: none}, " + second + "]}]}\n"
}

// TestLevelsSetTheLoad: a level may set every key of Lists and Settings, has a name of its own for it,
// and leaves all else as it was.
func TestLevelsSetTheLoad(t *testing.T) {
	for _, c := range []struct {
		level, label string
		set          func(*Condition, *Settings)
	}{
		{"{connections: 8}", "8 connections", func(c *Condition, _ *Settings) { c.Connections = 8 }},
		{"{pipelining: 4}", "4 in flight", func(c *Condition, _ *Settings) { c.Pipelining = 4 }},
		{"{threads: 2}", "2 generator threads", func(c *Condition, _ *Settings) { c.Threads = 2 }},
		{"{new_connections: true}", "a new connection for each request", func(_ *Condition, s *Settings) { s.NewConnections = 1 }},
		{"{no_lone: true}", "no unloaded requests", func(_ *Condition, s *Settings) { s.NoLone = true }},
		{"{engine: epoll}", "engine epoll", func(_ *Condition, s *Settings) { s.Engine = EngineEpoll }},
		{"{pin_server: '0'}", "server on CPU 0", func(_ *Condition, s *Settings) { s.PinServer = "0" }},
		{"{pin_generator: '1'}", "generator on CPU 1", func(_ *Condition, s *Settings) { s.PinGenerator = "1" }},
	} {
		e, err := parseExperiment([]byte(levelsOf(c.level)), "f")
		if err != nil {
			t.Fatal(err)
		}
		e.Complete(1)
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", c.level, err)
		}
		cells := e.Cells()
		condition, settings := cells[0].Condition, e.Load.Settings
		c.set(&condition, &settings)
		if got := cells[1].Settings.Onto(e.Load.Settings); cells[1].Condition != condition || got != settings {
			t.Errorf("%s: %+v, %+v; want %+v, %+v", c.level, cells[1].Condition, got, condition, settings)
		}
		if label := e.Factorial.Factors[0].Label(1); label != c.label {
			t.Errorf("%s is called %q, want %q", c.level, label, c.label)
		}
	}
}

func TestSplitURL(t *testing.T) {
	for _, c := range []struct{ url, base, path string }{
		{"http://h:80/a?b", "http://h:80", "/a?b"},
		{"http://h", "http://h", "/"},
		{"http://h?q", "http://h", "/?q"},
		{"h:8080/x#f", "h:8080", "/x"},
		{"unix:/run/x.sock", "unix:/run/x.sock:", "/"},
		{"unix:@x:?q", "unix:@x:", "/?q"},
		{"http://h:/a", "http://h", "/a"},
		{"https://h:", "https://h", "/"},
		{"unix:/run/x.sock:/a", "unix:/run/x.sock:", "/a"},
		{"http+unix://%2Frun%2Fx.sock/a", "http+unix://%2Frun%2Fx.sock", "/a"},
	} {
		base, path, err := SplitURL(c.url)
		if err != nil || base != c.base || path != c.path {
			t.Errorf("SplitURL(%q) = %q, %q, %v; want %q, %q", c.url, base, path, err, c.base, c.path)
		}
		wantAddr, wantTarget, _, _ := ParseTarget(c.url)
		if addr, target, _, err := ParseTarget(base + path); err != nil || addr != wantAddr || target != wantTarget {
			t.Errorf("%q and %q do not go together again: %v %q %v", base, path, addr, target, err)
		}
	}
}

// TestWarmupOfZero: no warm-up is not the same as none said.
func TestWarmupOfZero(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 500 * time.Millisecond, "  warmup: 0s\n": 0, "  warmup: 2s\n": 2 * time.Second} {
		e, err := parseExperiment([]byte(goodFile+text), "f")
		if err != nil {
			t.Fatal(err)
		}
		e.Complete(1)
		b, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var back Experiment
		if err := json.Unmarshal(b, &back); err != nil || e.Load.WarmupTime() != want || back.Load.WarmupTime() != want {
			t.Errorf("%q: %s, through JSON %s, %v", text, e.Load.WarmupTime(), back.Load.WarmupTime(), err)
		}
	}
}

func FuzzParseExperiment(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseExperiment(data, "f")
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		if err != nil {
			return
		}
		e.Complete(1)
		if err := e.Check(); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	})
}

// One value is a list of one, in files and in records; an error inside a list is that of its value.
func TestOneValueIsAList(t *testing.T) {
	for text, want := range map[string]string{
		`{"connections": 64, "threads": 2, "rate": "1k"}`: "[64] [2] [1k]", `{"connections": ["1k", 2], "threads": [1, 2]}`: "[1000 2] [1 2] []",
		`{"threads": 0}`: "[] [0] []",
	} {
		var l Load
		if err := json.Unmarshal([]byte(text), &l); err != nil || fmt.Sprint(l.Connections, l.Threads, l.Rate) != want {
			t.Errorf("%s: %v %v %v, %v; want %s", text, l.Connections, l.Threads, l.Rate, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"connections": [64, "x"]}`), new(Load)); err == nil || !strings.Contains(err.Error(), `invalid count "x"`) {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "e.yaml")
	text := "kind: sweep\nservers: [{url: 'http://127.0.0.1:1'}]\nrequests: [{path: /}]\nload: {connections: 8, threads: [1, 2], pipelining: 4}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := ReadExperiment(path)
	if err != nil || fmt.Sprint(e.Load.Connections, e.Load.Threads, e.Load.Pipelining) != "[8] [1 2] [4]" {
		t.Errorf("%v %v %v, %v", e.Load.Connections, e.Load.Threads, e.Load.Pipelining, err)
	}
}

// Without a timeout of its own, a load has 2 s, or as long as 5,000 requests/s take for what is in
// flight; a timeout that is given stays.
func TestTimeoutFollowsTheLoad(t *testing.T) {
	for _, c := range []struct {
		connections, pipelining int
		given, want             time.Duration
	}{{64, 1, 0, 2 * time.Second}, {10_000, 1, 0, 2 * time.Second}, {5000, 100, 0, 100 * time.Second}, {5000, 100, time.Second, time.Second}} {
		e := Experiment{Kind: KindSweep, Servers: []Server{{URL: "http://127.0.0.1:1"}}, Requests: []Mix{{MixRequest: MixRequest{Path: "/"}}},
			Load: Load{Timeout: Time(c.given)}}
		e.Complete(1)
		s, err := e.Spec("http://127.0.0.1:1", 0, &Condition{Connections: c.connections, Pipelining: c.pipelining})
		if err != nil || s.Timeout != c.want {
			t.Errorf("%d × %d, %v given: %v, %v; want %v", c.connections, c.pipelining, c.given, s.Timeout, err, c.want)
		}
	}
}

// Every number of threads is measured with every number of connections, so the fewest connections bound
// the threads; one number of threads is cut to fit instead.
func TestThreadsFitTheConnections(t *testing.T) {
	for _, c := range []struct {
		connections, threads []Count
		wants                string
	}{
		{[]Count{1, 8}, []Count{4}, ""}, {[]Count{8}, []Count{1, 8}, ""}, {[]Count{2, 8}, []Count{1, 4}, "4 threads cannot share 2 connections"},
		{[]Count{8}, []Count{9}, "9 threads cannot share 8"}, {[]Count{5000}, []Count{1, 1025}, "must be 0–1024"}, {[]Count{8}, []Count{2, 2}, "twice"},
	} {
		e := Experiment{Kind: KindSweep, Servers: []Server{{URL: "http://127.0.0.1:1"}}, Requests: []Mix{{MixRequest: MixRequest{Path: "/"}}},
			Load: Load{Lists: Lists{Connections: c.connections, Threads: c.threads}}}
		e.Complete(1)
		if err := e.Check(); (err == nil) != (c.wants == "") || err != nil && !strings.Contains(err.Error(), c.wants) {
			t.Errorf("-c %v -t %v: %v, want %q", c.connections, c.threads, err, c.wants)
		}
	}
}
