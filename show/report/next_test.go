package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
)

// TestNextCommand: a plan's card goes on where one line does, and not where the line
// would lack something of the load.
func TestNextCommand(t *testing.T) {
	made := func(change func(p *record.Plan)) *record.Plan {
		p := &record.Plan{ID: "20261123-000000-abcd", Ending: record.Ending{Ended: record.EndedComplete}, Experiment: spec.Experiment{
			Servers: []spec.Server{{URL: "http://127.0.0.1:8080"}}, Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/read?a=1&b"}}},
			Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{64}}},
		}}
		change(p)
		return p
	}
	swept := func(p *record.Plan, over spec.Dimension, extend string, k *record.Knee) {
		c := record.Curve{Over: over, Knee: k, Says: record.State("curve.grows", record.Values{"extend": record.Statement{}})}
		if extend != "" {
			c.Says.With["extend"] = record.State("load.flag", record.Values{"flag": over.Flag(), "values": extend})
		}
		p.Experiment.Kind, p.Sweep = spec.KindSweep, &record.Sweep{Curves: []record.Curve{c}}
	}
	curve := func(k record.Knee, extend string) func(p *record.Plan) {
		return func(p *record.Plan) {
			p.Experiment.Load.Connections = []spec.Count{1, 8, 64}
			swept(p, "connections", extend, &k)
		}
	}
	rates := func(k record.Knee, extend string) func(p *record.Plan) {
		return func(p *record.Plan) {
			p.Experiment.Load.Rate = make([]unit.Rate, 2)
			swept(p, "rate", extend, &k)
		}
	}
	says := func(code string) func(p *record.Plan) {
		return func(p *record.Plan) {
			p.Proof = &record.Proof{Says: record.State(code, nil), Resources: []record.Elasticity{{Resource: "server CPU", Blocks: 8}}}
		}
	}
	limited := func(bottleneck record.Bottleneck, terms ...string) func(p *record.Plan) {
		return func(p *record.Plan) {
			says := record.State("search.found", record.Values{"failing_per_s": 101})
			p.Search = &record.Search{Capacity: record.Estimate{Mid: 100}, Says: says, Bottleneck: bottleneck}
			for _, term := range terms {
				p.Search.Failed = append(p.Search.Failed, record.SLOTerm{Term: term})
			}
		}
	}
	proved := func(p *record.Plan) { p.Proof = &record.Proof{Proved: string(record.ServerCPU)} }
	for name, c := range map[string]struct {
		change func(p *record.Plan)
		want   string
	}{
		"saturated":      {curve(record.Knee{Low: 8, High: 64}, ""), "ceiling prove -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"still rising":   {curve(record.Knee{Low: 64}, "128,256"), "ceiling run -c 128,256 'http://127.0.0.1:8080/read?a=1&b'"},
		"rates, reached": {rates(record.Knee{Low: 300}, "600,1200"), "ceiling run -c 64 -R 600,1200 'http://127.0.0.1:8080/read?a=1&b'"},
		"no valid result above": {func(p *record.Plan) {
			rates(record.Knee{Low: 300}, "")(p)
			p.Command = strings.Fields("ceiling run -R 300,400 http://127.0.0.1:8080/read?a=1&b")
		}, ""},
		"as typed": {func(p *record.Plan) {
			curve(record.Knee{Low: 64}, "128,256")(p)
			p.Command = []string{"/usr/bin/ceiling", "run", "-o", "x", "-d", "1s", "--connections=1,8", "-c1,8", "http://127.0.0.1:8080/read?a=1&b"}
		}, "ceiling run -c 128,256 -d 1s 'http://127.0.0.1:8080/read?a=1&b'"},
		"no knee": {func(p *record.Plan) { swept(p, "connections", "", nil) }, ""},
		"rate, reached": {func(p *record.Plan) {
			rates(record.Knee{}, "")(p)
			swept(p, "rate", "2000", nil)
			p.Sweep.Curves[0].Over, p.Sweep.Curves[0].Says.Code = "connections", "curve.reached"
			p.Command = strings.Fields("ceiling run -c 1,2 -R 1k http://127.0.0.1:8080/read?a=1&b")
		}, "ceiling run -R 2000 -c 1,2 'http://127.0.0.1:8080/read?a=1&b'"},
		"errors": {func(p *record.Plan) {
			curve(record.Knee{}, "")(p)
			p.Sweep.Curves[0].Says.Code = "curve.errors"
		}, "ceiling run -c 1 'http://127.0.0.1:8080/read?a=1&b'"},
		"rates, not reached": {rates(record.Knee{Low: 300, High: 400}, ""), "ceiling prove -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"pipelined": {func(p *record.Plan) {
			curve(record.Knee{Low: 8, High: 64}, "")(p)
			p.Experiment.Load.Pipelining, p.Experiment.Load.Threads = []spec.Count{16}, []spec.Count{2}
		}, "ceiling prove -p 16 -t 2 -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"interrupted": {func(p *record.Plan) { p.Ended = record.EndedInterrupted }, "ceiling run --resume 20261123-000000-abcd"},
		"hidden":      {func(p *record.Plan) { p.Ended, p.Hidden = record.EndedInterrupted, true }, ""},
		"going on":    {func(p *record.Plan) { p.Ended = "" }, ""},
		"capacity": {func(p *record.Plan) { p.Search = &record.Search{Capacity: record.Estimate{Mid: 100}} },
			"ceiling prove -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"capacity, of errors":     {limited(record.TargetRate, "errors<0.1%"), "ceiling run -c 64 -R 101 'http://127.0.0.1:8080/read?a=1&b'"},
		"capacity, mostly errors": {limited(record.Failures, "p99<1ms", "errors<0.1%"), "ceiling run -c 64 -R 101 'http://127.0.0.1:8080/read?a=1&b'"},
		"capacity, late":          {limited(record.ServerCPU, "p99<1ms", "errors<0.1%"), "ceiling prove -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"no capacity":             {func(p *record.Plan) { p.Search = &record.Search{} }, ""},
		"no rate passes": {func(p *record.Plan) { p.Search = &record.Search{Failed: []record.SLOTerm{{Term: "p99<1ms"}}} },
			"ceiling run -c 1 'http://127.0.0.1:8080/read?a=1&b'"},
		"concurrency": {func(p *record.Plan) { p.Proof = &record.Proof{Proved: record.PerturbConcurrency} },
			"ceiling run -c 64,128,256 'http://127.0.0.1:8080/read?a=1&b'"},
		"a wait":    {says("proof.waits"), "ceiling profile -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"several":   {says("proof.none"), "ceiling prove -c 64 --share 0.1 'http://127.0.0.1:8080/read?a=1&b'"},
		"undecided": {says("proof.undecided"), "ceiling prove -c 64 --blocks 32 'http://127.0.0.1:8080/read?a=1&b'"},
		"undecided, as typed": {func(p *record.Plan) {
			says("proof.undecided")(p)
			p.Command = strings.Fields("ceiling prove --blocks=8 -d 1s --separate-cpus h")
		}, "ceiling prove --blocks 32 -d 1s --separate-cpus h"},
		"of three blocks": {func(p *record.Plan) {
			p.Proof = &record.Proof{Resources: []record.Elasticity{{Resource: "generator", Blocks: 3}, {Resource: "server CPU", Blocks: 3}}}
		}, "ceiling prove -c 64 --blocks 7 'http://127.0.0.1:8080/read?a=1&b'"},
		"proved": {proved, "ceiling profile -c 64 'http://127.0.0.1:8080/read?a=1&b'"},
		"little in flight": {func(p *record.Plan) {
			p.Proof, p.Experiment.Load.Pipelining = &record.Proof{Proved: record.PerturbConcurrency}, []spec.Count{4}
		}, "ceiling run -p 4 -c 64,128,256 'http://127.0.0.1:8080/read?a=1&b'"},
		"proved of a command": {func(p *record.Plan) { proved(p); p.Experiment.Servers[0] = spec.Server{Serve: "x"} }, ""},
		"with a body":         {func(p *record.Plan) { proved(p); p.Experiment.Requests[0].Body = "x" }, ""},
		"with a field":        {func(p *record.Plan) { proved(p); p.Experiment.Requests[0].Header = []string{"A: b"} }, ""},
		"with a field, as typed": {func(p *record.Plan) {
			p.Search, p.Experiment.Requests[0].Header = &record.Search{Capacity: record.Estimate{Mid: 100}}, []string{"A: b"}
			p.Command = []string{"ceiling", "find", "--slo", "p99<5ms", "--max-rate=2k", "--arrivals", "poisson", "-H", "A: b", "-m", "POST", "http://h/"}
		}, "ceiling prove --slo 'p99<5ms' -H 'A: b' -m POST http://h/"},
		"over a socket": {func(p *record.Plan) { proved(p); p.Experiment.Load.Unix = "/x" }, ""},
		"at a rate":     {func(p *record.Plan) { proved(p); p.Experiment.Load.Rate = make([]unit.Rate, 1) }, ""},
	} {
		if got := NextCommand(made(c.change)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAgain: where an answer needs more blocks the command that made the plan is made
// again with twice as many, whatever number it had.
func TestAgain(t *testing.T) {
	unsure := &record.Comparison{Blocks: 12, Changes: []record.Change{{Decision: record.CannotTell}}}
	fewBlocks := &record.Comparison{Blocks: 3, Changes: slices.Repeat(unsure.Changes, 4)}
	sure := &record.Comparison{Blocks: 12, Changes: []record.Change{{Decision: record.Better}}}
	effects := func(decision string) *record.Factorial {
		return &record.Factorial{Blocks: 12, Effects: []record.Effect{{Decision: record.Higher}, {Decision: decision}}}
	}
	search := func(caveats ...record.Statement) record.Plan {
		s := &record.Search{Capacity: record.Estimate{Mid: 100, Low: 100, High: 101}, Caveats: caveats}
		p := record.Plan{Ending: record.Ending{Search: s}}
		p.Experiment.Load.Duration = spec.Time(time.Second)
		return p
	}
	few9 := &record.Factorial{Blocks: 3, Comparisons: 9, Effects: []record.Effect{{Decision: record.CannotTell}}}
	crossed := record.State("search.crossed", record.Values{"per_s": 101, "failing_per_s": 100})
	few := record.State("search.few-requests", record.Values{"per_s": 100, "requests": 100, "needed": 250})
	curves := []record.Curve{{Over: "connections", Knee: new(record.Knee), Says: record.State("curve.undecided", nil)}}
	sweep := record.Plan{Ending: record.Ending{Sweep: &record.Sweep{Curves: curves}}}
	sweep.Experiment.Repeats = 3
	for name, c := range map[string]struct {
		plan    record.Plan
		command string
		want    string
	}{
		"search, few requests":  {search(few), "ceiling find -d 1s --slo p99<5ms h", "ceiling find -d 3s --slo 'p99<5ms' h"},
		"search, runs disagree": {search(crossed), "ceiling find h", "ceiling find -d 2s h"},
		"sweep, undecided":      {sweep, "ceiling run -c 1,2 h", "ceiling run --repeats 6 -c 1,2 h"},
		"comparison":            {record.Plan{Ending: record.Ending{Comparison: unsure}}, "ceiling compare a b", "ceiling compare --blocks 24 a b"},
		"comparison, number":    {record.Plan{Ending: record.Ending{Comparison: unsure}}, "ceiling compare --blocks 12 a b", "ceiling compare --blocks 24 a b"},
		"comparison, few":       {record.Plan{Ending: record.Ending{Comparison: fewBlocks}}, "ceiling compare --blocks 3 a b", "ceiling compare --blocks 8 a b"},
		"comparison, joined":    {record.Plan{Ending: record.Ending{Comparison: unsure}}, "ceiling compare a --blocks=12 b", "ceiling compare --blocks 24 a b"},
		"comparison of a file":  {record.Plan{Ending: record.Ending{Comparison: unsure}}, "ceiling run f.yaml", ""},
		"comparison, told":      {record.Plan{Ending: record.Ending{Comparison: sure}}, "ceiling compare a b", "ceiling compare --profile a b"},
		"comparison, profiled":  {record.Plan{Ending: record.Ending{Comparison: sure}}, "ceiling compare a b --profile", ""},
		"factorial":             {record.Plan{Ending: record.Ending{Factorial: effects(record.CannotTell)}}, "ceiling run f.yaml", "ceiling run --repeats 24 f.yaml"},
		"factorial, number":     {record.Plan{Ending: record.Ending{Factorial: effects(record.CannotTell)}}, "ceiling run --repeats 12 f.yaml", "ceiling run --repeats 24 f.yaml"},
		"factorial, few":        {record.Plan{Ending: record.Ending{Factorial: few9}}, "ceiling run f.yaml", "ceiling run --repeats 9 f.yaml"},
		"factorial, conclusive": {record.Plan{Ending: record.Ending{Factorial: effects(record.NoChange)}}, "ceiling run f.yaml", ""},
		"factorial, no command": {record.Plan{Ending: record.Ending{Factorial: effects(record.CannotTell)}}, "", ""},
		"factorial, hidden":     {record.Plan{Ending: record.Ending{Factorial: effects(record.CannotTell)}, Hidden: true}, "ceiling run f.yaml", ""},
	} {
		c.plan.Ended, c.plan.Command = record.EndedComplete, strings.Fields(c.command)
		var text strings.Builder
		err := Plan(&text, &c.plan, Layout{Output: layout.Output{Columns: 120}})
		if got := text.String(); err != nil || strings.Contains(got, "next ") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the terminal has, %v:\n%s", name, err, got)
		}
		if got := NextCommand(&c.plan); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
