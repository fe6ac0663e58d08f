package selftest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
)

func TestEveryRealPlantIsConfirmed(t *testing.T) {
	needs.Engine(t)
	known := map[string]bool{}
	for _, s := range knownSoftware() {
		known[s.name] = true
		if s.pkg == "" {
			t.Errorf("%s: which package has it?", s.name)
		}
	}
	all := RealScenarios()
	for i := range all {
		s := &all[i]
		for seed := range uint64(20) {
			checkReal(t, s, seed, known)
		}
	}
}

// checkReal holds one draw of a plant to what all of them promise.
func checkReal(t *testing.T, s *Scenario, seed uint64, known map[string]bool) {
	t.Helper()
	p := drawn(s, seed, 1)
	if p.Subject.In == "" || len(p.Accept) == 0 || p.accepted()[0] == string(record.Inconclusive) {
		t.Fatalf("%s: a program and a truth are wanted", s.Name)
	}
	if p.relieved == nil || p.More == "" || reflect.DeepEqual(p.values, p.relieved.values) {
		t.Fatalf("%s: nothing shows that it is the bottleneck", s.Name)
	}
	for _, pattern := range p.Text {
		if _, err := regexp.Compile(pattern); err != nil || pattern != strings.ToLower(pattern) && !strings.Contains(pattern, `\`) {
			t.Errorf("%s: %q: %v", s.Name, pattern, err)
		}
	}
	var used []string
	for _, x := range []*plan{&p, p.relieved} {
		if _, err := checked(x); err != nil {
			t.Errorf("%s, seed %d: %v", s.Name, seed, err)
		}
		for _, h := range []host{x.Helper, x.Subject} {
			if h.In == "" {
				continue
			}
			if err := h.render(t.TempDir(), x.values); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			for _, m := range regexp.MustCompile(`\{([a-z0-9-]+)\}`).FindAllStringSubmatch(h.Serve, -1) {
				used = append(used, m[1])
			}
		}
	}
	needs := strings.Fields(s.Needs)
	for _, name := range needs {
		if known[name] && !slices.Contains(used, name) || !known[name] && name != "cores" && name != "cgroup" {
			t.Errorf("%s needs %s: known %v, used %v", s.Name, name, known[name], slices.Contains(used, name))
		}
	}
	for _, name := range used {
		if known[name] && !slices.Contains(needs, name) {
			t.Errorf("%s uses %s without saying that it needs it", s.Name, name)
		}
	}
}

func TestNumberServedAtOnce(t *testing.T) {
	for text, want := range map[string]bool{
		"it serves 5 at a time":             true,
		"effective concurrency about 5 (x)": true,
		"effective concurrency about 5.6":   false,
		"effective concurrency about 50":    false,
		"a pool of 5":                       true,
		"it keeps 5 connections to x":       true,
		"5.1 at once":                       true,
		"4.82 at once":                      true,
		"5.6 at once":                       false,
		"4.2 at once":                       false,
		"5 of 5 workers busy":               true,
		"5 of 8 workers busy":               true,
		"1.95 of the server's 2 cores":      false,
		"15 at a time":                      false,
		"0.5 at a time":                     false,
		"2 cores, 50 at a time":             false,
		"python3 (5 processes)":             false,
		"a pool of 50":                      false,
		"where its threads sleep, of 5: 4":  false,
		"the fastest response took 5 ms":    false,
		"10 at a time, twice as many as 20": false,
	} {
		if got := explained(text, []string{atATime(5)}, ""); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"they wait for each other: a lock, a pool, or a downstream server that serves few requests at a time": false,
		"effective concurrency about 2 (a lock, or one worker); 4 would give":                                 false,
		"27 in futex_do_wait (for a lock, or work to do)":                                                     false,
		"threads blocked 98% in futex for a lock (3 threads)":                                                 true,
		"its threads run one at a time":                                                                       true, "it serves 1.1 at a time": true,
		"it serves 11 at a time": false,
	} {
		if got := explained(text, []string{`lock`, atATime(1)}, ""); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	helper := []string{`{helper}`}
	if !explained("measure 127.0.0.1:80 separately", helper, "127.0.0.1:80") || explained("127x0.0.1:80", helper, "127.0.0.1:80") {
		t.Error("the helper's address is not found, or where it is not")
	}
}

func TestMissingSoftwareIsSaid(t *testing.T) {
	g := prereqs{cpus: []int{0, 1}, missing: map[string]string{"java": "openjdk-17-jdk-headless", "javac": "openjdk-17-jdk-headless",
		"nginx": "nginx"}}
	if why := g.lacks("java nginx javac"); why != "not installed: apt-get install openjdk-17-jdk-headless nginx" {
		t.Errorf("%q", why)
	}
	if why := g.lacks("python"); why != "" {
		t.Errorf("%q", why)
	}
	var text strings.Builder
	if err := WriteSummary(&text, []Result{{Outcome: Outcome{Judged: NotRun, Why: "not installed: apt-get install php-cli nginx"}},
		{Outcome: Outcome{Judged: NotRun, Why: "not installed: apt-get install nginx"}}, {Outcome: Outcome{Judged: Right}}}); err != nil ||
		!strings.HasSuffix(text.String(), "\nfor those that were not run: apt-get install nginx php-cli\n") {
		t.Errorf("%v: %q", err, text.String())
	}
	r := play(t.Context(), &Options{Real: true}, &g, &Scenario{Needs: "java"}, 1, 1, &recordStore{base: t.TempDir()})
	if r.Judged != NotRun || !strings.HasPrefix(r.Why, "not installed: apt-get install") {
		t.Errorf("%+v", r)
	}
}

func TestUnconfirmedIsNoProof(t *testing.T) {
	for _, c := range []struct {
		planted, more float64
		want          bool
	}{{100, 200, true}, {100, 141, true}, {100, 120, false}, {100, 90, false}, {0, 50, false}} {
		if got := (&Confirmation{Planted: c.planted, More: c.more}).Holds(); got != c.want {
			t.Errorf("%v → %v: %v", c.planted, c.more, got)
		}
	}
}

// TestRealPlantsAreNamed is the short form, of what .ci/deps installs. All of
// them: ceiling selftest --real.
func TestRealPlantsAreNamed(t *testing.T) {
	areNamed(t, Options{Seed: 1, Real: true, Only: []string{"python-sleep", "python-gil", "nginx-gzip", "nginx-limit-req"}})
}
