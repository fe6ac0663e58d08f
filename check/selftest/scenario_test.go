package selftest

import (
	"cmp"
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
	for i := range all {
		s := &all[i]
		for seed := range uint64(20) {
			p := drawn(s, seed, 1)
			if _, err := checked(&p); err != nil {
				t.Errorf("%s, seed %d: %v", s.Name, seed, err)
			}
			if strings.Contains(strings.Join(append(p.Accept, p.Says, p.Subject.Serve), " "), "{") && p.Helper.Serve == "" {
				t.Errorf("%s: a name without a value: %+v", s.Name, p)
			}
			for i, a := range p.Accept {
				name, _, words := strings.Cut(a, " saying ")
				if inconclusive := name == string(record.Inconclusive); inconclusive && (i == 0 || !words) {
					t.Errorf("%s: inconclusive has to say why, and is not the truth", s.Name)
				}
				if p.Generator && strings.HasPrefix(name, "server") {
					t.Errorf("%s: the generator is the wall, and %s would be right", s.Name, name)
				}
			}
			needs := strings.Fields(s.Needs)
			if (p.Apart || len(p.Subject.CPUs)+len(p.Helper.CPUs) > 0) && !slices.Contains(needs, "cores") {
				t.Errorf("%s keeps the sides apart without saying that it needs to", s.Name)
			}
			if (p.Bits+p.Packets > 0) != slices.Contains(needs, "namespaces") || (p.Quota+p.GeneratorQuota > 0) != slices.Contains(needs, "cgroup") {
				t.Errorf("%s: what it needs is not what it uses", s.Name)
			}
		}
	}
}

// checked is the plan's run against any server.
func checked(p *plan) (spec.Spec, error) {
	s, err := p.run("http://127.0.0.1:80")
	return s, cmp.Or(err, s.Check())
}

func TestEveryCeilingIsPlanted(t *testing.T) {
	planted := map[record.Bottleneck]bool{}
	for _, s := range Scenarios() {
		p := drawn(&s, 1, 1)
		planted[record.Bottleneck(p.accepted()[0])] = true
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
	all := Scenarios()
	for i := range all {
		s := &all[i]
		a, b := drawn(s, 5, 1), drawn(s, 5, 1)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the same seed gave %s and %s", s.Name, a.Says, b.Says)
		}
		for _, other := range []plan{drawn(s, 6, 1), drawn(s, 5, 2)} {
			if reflect.DeepEqual(a, other) {
				t.Errorf("%s: another seed or round changed nothing", s.Name)
			}
		}
	}
}

func TestValuesAreExpanded(t *testing.T) {
	v := values{"n": "5", "d": "12.5ms", "x": "0.30", "word": "await"}
	for text, want := range map[string]string{
		"{n} {n*2} {n/2} {n+1} {n*n}": "5 10 2 6 25", "{d} {d/2} {d*2|ms} {d|us}": "12.5ms 6.25ms 25 12500",
		"{x} {x*2} {x+x|percent}": "0.30 0.60 60%", "{word} {unknown} { n } {}": "await {unknown} { n } {}", "{n*4000|si}": "20.0k",
	} {
		if got := v.expand(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	p := plan{Accept: []string{"generator", "inconclusive saying throttl|quota"}, Generator: true}
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
		if got, _ := p.judge(&c.v, nil, ""); got != c.want {
			t.Errorf("%+v is %s, want %s", c.v, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	o := &Options{Only: []string{"pool", "errors-503"}}
	chosen, err := o.chosen()
	if err != nil || len(chosen) != 2 {
		t.Errorf("%v, %v", chosen, err)
	}
	o.Only = append(o.Only, "swimming")
	if _, err := o.chosen(); err == nil || !strings.Contains(err.Error(), `"swimming"`) ||
		!strings.Contains(err.Error(), "mutex-sleep") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestWhatIsMissingIsNotRun(t *testing.T) {
	g := prereqs{cpus: []int{0}, lack: map[string]string{"cores": "one CPU", "namespaces": "no root", "cgroup": "no cgroup", "disk": "no disk",
		"device": "no loop"}, missing: map[string]string{"initdb": "postgresql"}}
	all := Scenarios()
	keep := &recordStore{base: t.TempDir()}
	for i := range all {
		s := &all[i]
		if s.Needs == "" {
			continue
		}
		r := play(t.Context(), &Options{}, &g, s, 1, 1, keep)
		if r.Judged != NotRun || !slices.Contains([]string{"one CPU", "no root", "no cgroup", "no disk", "no loop",
			"not installed: apt-get install postgresql"}, r.Why) || r.Verdict != nil {
			t.Errorf("%s: %+v", s.Name, r)
		}
	}
}
