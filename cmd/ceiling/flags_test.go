//go:build linux

package main

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	laboratory "ceiling/cmd/internal/lab"
	"ceiling/experiment/spec"
	"ceiling/internal/authority"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
)

// form is a way to ask for a measurement: the command line that a flag is added to.
type form struct {
	name string
	args []string
}

const (
	nowhere   = "http://127.0.0.1:1/"
	elsewhere = "http://127.0.0.1:2/"
)

// forms returns every verb that measures in every form of load.
func forms(dir string) []form {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []form{
		{"one load", []string{"run", nowhere}},
		{"open loop", []string{"run", "-R", "100", nowhere}},
		{"number of requests", []string{"run", "-n", "9", nowhere}},
		{"list", []string{"run", "-c", "1,2", nowhere}},
		{"list of rates", []string{"run", "-R", "100,200", nowhere}},
		{"repeated load", []string{"run", "--repeats", "3", nowhere}},
		{"targets", []string{"run", "--targets", in("targets.txt")}},
		{"list of targets", []string{"run", "-c", "1,2", "--targets", in("targets.txt")}},
		{"https", []string{"run", "https://127.0.0.1:1/"}},
		{"https list", []string{"run", "-c", "1,2", "https://127.0.0.1:1/"}},
		{"websocket", []string{"run", "ws://127.0.0.1:1/"}},
		{"websocket list", []string{"run", "-c", "1,2", "ws://127.0.0.1:1/"}},
		{"agents", []string{"run", "--agents", "2", nowhere}},
		{"agents, list", []string{"run", "--agents", "2", "-c", "1,2", nowhere}},
		{"file", []string{"run", in("sweep.yaml")}},
		{"file of a search", []string{"run", in("find.yaml")}},
		{"file of an experiment with factors", []string{"run", in("factorial.yaml")}},
		{"search", []string{"find", "--slo", "p99<5ms", nowhere}},
		{"search by agents", []string{"find", "--agents", "2", "--slo", "p99<5ms", nowhere}},
		{"comparison", []string{"compare", nowhere, elsewhere}},
		{"comparison of commands", []string{"compare", "--serve", "a {addr}", "--serve", "b {addr}"}},
		{"file of a comparison", []string{"compare", in("compare.yaml")}},
		{"comparison of results", []string{"compare", in("a.txt"), in("b.txt")}},
		{"proof", []string{"prove", nowhere}},
		{"profile", []string{"profile", nowhere}},
		{"resume", []string{"run", "--resume", in("plan.ndjson")}},
		{"demo", []string{"demo"}},
		{"pipeline", []string{"ci", in("ci.yaml"), "--base", dir}},
		{"wrk's", []string{"wrk", nowhere}},
		{"go-wrk's", []string{"go-wrk", nowhere}},
		{"autocannon's", []string{"autocannon", nowhere}},
		{"vegeta's", []string{"vegeta", "attack", "-duration=1s", "-targets=" + in("targets.txt")}},
		{"race", []string{"race"}},
		{"calibrate", []string{"doctor", "--calibrate"}},
		{"selftest", []string{"selftest"}},
	}
}

// quietVerbs send no load of their own.
func quietVerbs() []string {
	return []string{"list", "show", "judge", "plan", "report", "export", "journal", "serve", "proxy", "tune",
		"fleet", "planted", "version", "hog", "baseline", "help", "completion"}
}

// given returns a value for every flag, other than its default.
func given(dir string) map[string]string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return map[string]string{
		"connections": "3", "threads": "1", "duration": "4s", "z": "4s", "rate": "50", "pipelining": "2", "method": "PUT", "header": "X-A: b", "user": "me:secret",
		"body": "{}", "timeout": "7s", "warmup": "123ms", "engine": "epoll", "arrivals": "poisson", "slo": "p99<1s", "expect": "404",
		"targets": in("others.txt"), "curl": "curl http://127.0.0.1:1/d", "lua": in("wrk.lua"), "lua-arg": "x", "feed": in("rows.csv"), "session": in("session.yaml"), "once": "true", "abort-errors": "10%", "connect-ramp": "1s", "new-connections": "3",
		"http": "1.1", "insecure": "true", "cacert": in("ca.pem"), "cert": in("ca.pem"), "key": in("ca.pem"), "sni": "a.example",
		"resume": "true", "tls-resume": "true", "tls-version": "1.3", "ciphers": "ECDHE-RSA-AES128-GCM-SHA256", "curves": "X25519",
		"no-unloaded": "true", "source-ips": "127.0.0.1", "resolve": "127.0.0.1:1:127.0.0.2", "proxy": "127.0.0.1:3128", "all-addresses": "true", "location": "true", "unix": "/tmp/x.sock",
		"pin-generator": "0", "pin-server": "0", "separate-cpus": "true", "link-speed": "1Gbps", "pprof": "off", "database": "postgres://127.0.0.1:1/x",
		"profile": "true", "seed": "7", "prometheus": ":0", "agents": "3", "observe": "web1",
		"allow-loss": "true", "controller": dir, "verbose": "true", "json": "true", "live": "127.0.0.1:0", "out": in("out"),
		"keep-secrets": "true", "requests": "5", "repeats": "2", "pause": "1s", "dry-run": "true", "quiet": "true", "files": in("profiles"),
		"start": "10", "max-rate": "9000", "precision": "0.1", "serve": "c {addr}", "path": "/x", "fail-on": "p99>+10%", "blocks": "3",
		"noise-blocks": "3", "share": "0.5", "interface": "lo", "namespace": "x", "rounds": "3", "workers": "2", "only": "a",
		"base": "/",
		"case": "a", "output": in("kept"), "report": in("page.html"), "server": "nethttp", "patience": "1s", "keep": in("kept"), "real": "true", "calibrate": "true",
	}
}

// writeForms writes the files that forms and flags name.
func writeForms(t *testing.T, dir string) {
	t.Helper()
	ca, err := authority.New("flags")
	if err != nil {
		t.Fatal(err)
	}
	head := "servers: [{url: 'http://127.0.0.1:1'}]\nrequests: [{path: /}]\n"
	for name, text := range map[string]string{
		"targets.txt":    "GET http://127.0.0.1:1/a\nGET http://127.0.0.1:1/b\n",
		"session.yaml":   "steps: [{request: GET /}]\n",
		"others.txt":     "GET http://127.0.0.1:1/c\n",
		"sweep.yaml":     "kind: sweep\nload: {connections: [1, 2]}\n" + head,
		"find.yaml":      "kind: find\nslo: p99<5ms\n" + head,
		"factorial.yaml": "kind: factorial\nfactorial: {factors: [{name: c, levels: [{connections: 1}, {connections: 2}]}]}\n" + head,
		"compare.yaml":   "kind: compare\nservers: [{url: 'http://127.0.0.1:1'}, {url: 'http://127.0.0.1:2'}]\nrequests: [{path: /}]\n",
		"rows.csv":       "user\na\n",
		"wrk.lua":        "wrk.method = 'PUT'",
		"ci.yaml":        "serve: ./a {addr}\nloads: [{path: /}]\n",
		"a.txt":          "a", "b.txt": "b", "ca.pem": string(ca.PEM()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := spec.Experiment{Kind: spec.KindSweep, Servers: []spec.Server{{URL: "http://127.0.0.1:1"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}}}
	e.Complete(1)
	w, err := record.CreatePlan(filepath.Join(dir, "plan.ndjson"), &record.Plan{ID: record.NewID(time.Now()), Created: time.Now(), Experiment: e})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// rootOf returns the program that has a verb.
func rootOf(sh *shell, verb string) *cobra.Command {
	switch verb {
	case "race", "baseline", "selftest", "planted":
		return laboratory.New(&sh.Shell)
	}
	return newRoot(sh)
}

// resolve returns the job of a command line, without doing it.
func resolve(args ...string) (got command.Job, err error) {
	sh := &shell{Shell: command.Shell{Args: append([]string{"ceiling"}, args...), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Performs: func(j command.Job) error { got = j; return nil }}}
	root := rootOf(sh, args[0])
	command.Prepare(root)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err = root.Execute()
	return got, err
}

// plannedRun is what one run of a plan is made with.
type plannedRun struct {
	step record.Step
	spec spec.Spec
}

// effect is what a job does: of an experiment only what its runs, or the choice of them, depend on.
func effect(t *testing.T, j command.Job) any {
	t.Helper()
	o, is := j.(*order)
	if !is {
		return j
	}
	e := o.plan
	does := struct {
		one           *spec.Spec
		runs          []plannedRun
		search        spec.Find
		repeats       int
		perturb       spec.Prove
		failOn        string
		servers       []spec.Server
		rest          spec.Time
		apart         bool
		output        outputFlags
		dryRun        bool
		database      string
		prometheus    string
		fleet         fleetFlags
		connectionsAt string
		abort         float64
	}{one: o.one, abort: o.abort, output: o.outputFlags, dryRun: o.dryRun, database: o.database, prometheus: o.prometheus, fleet: o.fleet}
	if o.one != nil {
		return does
	}
	does.search, does.perturb, does.failOn, does.servers, does.rest = e.Find, e.Prove, e.Compare.FailOn, e.Servers, e.Rest
	does.apart = e.Load.Apart != nil && *e.Load.Apart
	steps := o.steps
	if e.Kind == spec.KindFind {
		rate, err := unit.ParseRate("1000")
		if err != nil {
			t.Fatal(err)
		}
		does.repeats = e.Repeats
		steps = []record.Step{{Condition: spec.Condition{Connections: 1, Pipelining: int(e.Load.Pipelining[0]), Rate: rate}}}
		if len(e.Load.Connections) > 0 {
			steps[0].Connections = int(e.Load.Connections[0])
		}
	}
	for _, step := range steps {
		s, err := e.Spec(cmp.Or(e.Servers[step.Server].URL, "https://127.0.0.1:1"), step.Mix, &step.Condition)
		if err != nil {
			t.Fatal(err)
		}
		does.runs = append(does.runs, plannedRun{step, s})
	}
	return does
}

// names reports whether a message names a flag and says more than that.
func names(message string, f *pflag.Flag) bool {
	name := "--" + f.Name
	switch {
	case f.Name == "z": // the same flag by wrk's and hey's letter
		name += "|--duration|-d"
	case f.Shorthand != "":
		name += "|-" + f.Shorthand
	}
	what, _, _ := strings.Cut(message, ": ")
	named := what == f.Name || regexp.MustCompile(`(^|[ ,:;(])(`+name+`)\b`).MatchString(message)
	return named && strings.ContainsAny(message, ":;")
}

// TestEveryFlagHasAnEffect: in every form of every verb that measures, a flag changes what is
// done, or is refused with the reason. A flag that does nothing makes a user believe that it did.
func TestEveryFlagHasAnEffect(t *testing.T) {
	needs.Processes(t)
	dir := t.TempDir()
	writeForms(t, dir)
	values := given(dir)
	for _, k := range forms(dir) {
		args := k.args
		verb, _, err := rootOf(&shell{}, args[0]).Find(args)
		if err != nil {
			t.Fatal(err)
		}
		before, err := resolve(args...)
		if o, is := before.(*order); is && o.plan.Seed != 0 { // a random one, unless the same is given
			args = append(slices.Clone(args), "--seed", "1")
			before, err = resolve(args...)
		}
		if err != nil || before == nil {
			t.Errorf("%s: ceiling %s: %v", k.name, strings.Join(args, " "), err)
			continue
		}
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			other := f.Name == "calibrate" || f.Name == "resume" // without it, the form is another verb's
			if f.Name == "help" || other && slices.Contains(args, "--"+f.Name) {
				return
			}
			value, known := values[f.Name]
			if verb.Name() == "profile" && f.Name == "profile" {
				value = "false" // it is on already
			}
			if !known {
				t.Errorf("%s --%s: given has no value for it", verb.Name(), f.Name)
				return
			}
			after, err := resolve(append(slices.Clone(args), "--"+f.Name+"="+value)...)
			switch {
			case err != nil && !command.IsUsage(err):
				t.Errorf("%s --%s: it fails: %v", k.name, f.Name, err)
			case err != nil && !names(err.Error(), f):
				t.Errorf("%s --%s: it is refused without its name: %v", k.name, f.Name, err)
			case err == nil && after == nil:
				t.Errorf("%s --%s: there is no job", k.name, f.Name)
			case err == nil && reflect.DeepEqual(effect(t, before), effect(t, after)):
				t.Errorf("%s --%s=%s: it does nothing: ceiling %s", k.name, f.Name, value, strings.Join(args, " "))
			}
		})
	}
}

// TestEveryMeasuringVerbHasAForm: a new verb is either walked over by the test above, or sends
// nothing.
func TestEveryMeasuringVerbHasAForm(t *testing.T) {
	root := newRoot(&shell{})
	for _, c := range root.Commands() {
		has := slices.ContainsFunc(forms(""), func(k form) bool { return k.args[0] == c.Name() })
		if has == slices.Contains(quietVerbs(), c.Name()) {
			t.Errorf("%s is in one of forms and quietVerbs: %v", c.Name(), has)
		}
	}
}

// TestDryRunSendsNothing: --dry-run prints what would be done, in every form that accepts it, and
// opens no connection to the server.
func TestDryRunSendsNothing(t *testing.T) {
	needs.Processes(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = c.Close() // nobody should have opened it
		}
	}()
	dir := t.TempDir()
	writeForms(t, dir)
	tried := 0
	for _, k := range forms(dir) {
		verb, _, err := rootOf(&shell{}, k.args[0]).Find(k.args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = resolve(append(slices.Clone(k.args), "--dry-run")...)
		if verb.Flags().Lookup("dry-run") == nil || err != nil {
			continue // the test above holds that the refusal says why
		}
		tried++
		args := []string{"ceiling"}
		for _, arg := range k.args {
			arg = retarget(t, arg, ln.Addr().String())
			args = append(args, arg)
		}
		var stdout, stderr bytes.Buffer
		if code := execute(append(args, "--dry-run"), strings.NewReader(""), &stdout, &stderr); code != 0 || stdout.Len() == 0 {
			t.Errorf("%s: exit code %d, it says %q and %q", k.name, code, stdout.String(), stderr.String())
		}
	}
	_ = ln.Close() // ends the loop above, which has counted all that came
	<-ended
	if n := accepted.Load(); n > 0 || tried < 15 {
		t.Errorf("%d connections in %d dry runs", n, tried)
	}
}

// retarget replaces the address of a URL, and of the URLs in a file, by one that listens.
func retarget(t *testing.T, arg, addr string) string {
	t.Helper()
	replace := func(text string) string { return strings.ReplaceAll(text, "127.0.0.1:1", addr) }
	if text, err := os.ReadFile(arg); err == nil {
		if err := os.WriteFile(arg, []byte(replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return replace(arg)
}

// TestRepeatedLoad: --repeats on one load makes that many runs, as it does on a list.
func TestRepeatedLoad(t *testing.T) {
	for _, k := range []struct {
		args []string
		runs int
		one  bool
	}{
		{[]string{"run", nowhere}, 1, true}, {[]string{"run", "--repeats", "1", nowhere}, 1, true},
		{[]string{"run", "--repeats", "4", nowhere}, 4, false}, {[]string{"run", "-c", "1,2", nowhere}, 6, false},
		{[]string{"run", "-n", "5", nowhere}, 1, true}, {[]string{"profile", nowhere}, 1, true},
	} {
		j, err := resolve(k.args...)
		o, is := j.(*order)
		if err != nil || !is || len(o.steps) != k.runs || (o.one != nil) != k.one {
			t.Errorf("ceiling %s: %+v, %v", strings.Join(k.args, " "), j, err)
		}
	}
}

// TestEndOfARun: -n ends a run by itself, and together with -d whichever comes first.
func TestEndOfARun(t *testing.T) {
	for _, k := range []struct {
		args     []string
		requests uint64
		duration time.Duration
		warmup   time.Duration
	}{
		{nil, 0, 10 * time.Second, time.Second}, {[]string{"-n", "5"}, 5, 0, 0}, {[]string{"-n", "5", "-d", "3s"}, 5, 3 * time.Second, 0},
		{[]string{"-n", "5", "-z", "3s", "--warmup", "1s"}, 5, 3 * time.Second, time.Second}, {[]string{"--warmup", "0s"}, 0, 10 * time.Second, 0},
	} {
		j, err := resolve(append([]string{"run", nowhere}, k.args...)...)
		if err != nil {
			t.Errorf("%v: %v", k.args, err)
			continue
		}
		s := j.(*order).one
		if s.Requests != k.requests || s.Duration != k.duration || s.Warmup != k.warmup {
			t.Errorf("%v: %d requests, %s after %s", k.args, s.Requests, s.Duration, s.Warmup)
		}
	}
}
