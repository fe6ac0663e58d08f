package selftest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/record/recordtest"
)

func drawn(s *Scenario, seed uint64, round int) plan {
	return s.draw(&params{seedOf(seed, round, s.Name), []int{0, 1}})
}

func TestEveryScenarioCanBeAsked(t *testing.T) {
	all := Scenarios()
	if len(all) < 20 {
		t.Errorf("%d scenarios, at least 20 are wanted", len(all))
	}
	names := map[string]bool{}
	for i := range all {
		s := &all[i]
		if names[s.Name] || s.Name == "" || s.Planted == "" {
			t.Errorf("%q: a name of its own and a line are wanted", s.Name)
		}
		names[s.Name] = true
		for seed := range uint64(20) {
			p := drawn(s, seed, 1)
			p.spec.Targets = []spec.Target{{Method: "GET", URL: "http://127.0.0.1:80/", Weight: 1}}
			if err := p.spec.Check(); err != nil {
				t.Errorf("%s, seed %d: %v", s.Name, seed, err)
			}
			if len(p.accept) == 0 || p.accept[0].ceiling == record.Inconclusive {
				t.Errorf("%s: what is right?", s.Name)
			}
			for _, a := range p.accept {
				if a.ceiling == record.Inconclusive && len(a.reasons) == 0 {
					t.Errorf("%s: inconclusive has to say why", s.Name)
				}
				if p.generator && strings.HasPrefix(string(a.ceiling), "server") {
					t.Errorf("%s: the generator is the wall, and %s would be right", s.Name, a.ceiling)
				}
			}
			if pinned := p.spec.PinServer != ""; (pinned || len(p.subject.params.CPUs) > 0) && !s.needs.twoCPUs {
				t.Errorf("%s keeps the sides apart without saying that it needs to", s.Name)
			}
			if (p.link != nil) != s.needs.namespaces || (p.quota+p.generatorQuota > 0) != s.needs.cgroup {
				t.Errorf("%s: what it needs is not what it uses", s.Name)
			}
		}
	}
}

func TestEveryCeilingIsPlanted(t *testing.T) {
	planted := map[record.Bottleneck]bool{}
	for _, s := range Scenarios() {
		planted[drawn(&s, 1, 1).accept[0].ceiling] = true
	}
	for _, name := range []record.Bottleneck{
		record.LoadGenerator, record.ServerCPU, record.SharedCPU, record.ServerThread, record.ServerBlocked, record.Uneven, record.Bandwidth,
		record.Packets, record.AcceptQueue, record.Concurrency, record.HTTP2Window, record.TargetRate, record.Failures,
	} {
		if !planted[name] {
			t.Errorf("nobody plants %s", name)
		}
	}
}

func TestSeedDecidesTheParameters(t *testing.T) {
	same, moved := 0, 0
	all := Scenarios()
	for i := range all {
		s := &all[i]
		a, b, c, d := drawn(s, 5, 1), drawn(s, 5, 1), drawn(s, 6, 1), drawn(s, 5, 2)
		if a.says != b.says || !reflect.DeepEqual(a.spec, b.spec) || !reflect.DeepEqual(a.subject, b.subject) {
			t.Errorf("%s: the same seed gave %s and %s", s.Name, a.says, b.says)
		}
		for _, other := range []plan{c, d} {
			if reflect.DeepEqual(a.spec, other.spec) && reflect.DeepEqual(a.subject, other.subject) {
				same++
			} else {
				moved++
			}
		}
	}
	if same > 0 {
		t.Errorf("%d of %d draws with another seed or round changed nothing", same, same+moved)
	}
}

func TestJudge(t *testing.T) {
	p := plan{accept: only(record.LoadGenerator), generator: true}.orInconclusive("throttl")
	for _, c := range []struct {
		v    record.Verdict
		want string
	}{
		{record.Verdict{Bottleneck: record.LoadGenerator}, Right},
		{record.Verdict{Bottleneck: record.ServerCPU}, Wrong},
		{record.Verdict{Bottleneck: record.Inconclusive, Because: recordtest.Says("who knows")}, Wrong},
		{record.Verdict{Bottleneck: record.Inconclusive, Because: recordtest.Says("its cgroup was Throttled")}, Right},
		{record.Verdict{Bottleneck: record.Inconclusive, Caveats: recordtest.Says("throttling")}, Right},
		{record.Verdict{Bottleneck: record.Inconclusive, Evidence: []record.Evidence{{Says: recordtest.Say("throttled")}}}, Right},
		{record.Verdict{}, Wrong},
	} {
		if got, _ := p.judge(&c.v, ""); got != c.want {
			t.Errorf("%+v is %s, want %s", c.v, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose(Scenarios(), []string{"pool", "errors-503"})
	if err != nil || len(chosen) != 2 {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := choose(Scenarios(), []string{"pool", "swimming"}); err == nil || !strings.Contains(err.Error(), `"swimming"`) ||
		!strings.Contains(err.Error(), "mutex-sleep") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestWhatIsMissingIsNotRun(t *testing.T) {
	g := prereqs{cpus: []int{0}, noCPUs: "one CPU", noNamespaces: "no root", noCgroup: "no cgroup", noDisk: "no disk", noDevice: "no loop",
		missing: map[string]string{"initdb": "postgresql"}}
	all := Scenarios()
	keep := &recordStore{base: t.TempDir()}
	for i := range all {
		s := &all[i]
		if s.needs == (need{}) {
			continue
		}
		r := play(t.Context(), &Options{}, &g, s, 1, 1, keep)
		if r.Judged != NotRun || !slices.Contains([]string{"one CPU", "no root", "no cgroup", "no disk", "no loop",
			"not installed: apt-get install postgresql"}, r.Why) || r.Verdict != nil {
			t.Errorf("%s: %+v", s.Name, r)
		}
	}
}
