//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/faces"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/golden"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
)

// TestFacesAreDocumented: docs/faces.md is made from the tables that read the command lines.
func TestFacesAreDocumented(t *testing.T) {
	intro, err := os.ReadFile("testdata/faces.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(intro)
	for _, one := range faces.All() {
		fmt.Fprintf(&b, "\n## %s\n\n```\nceiling %s\n```\n\n| flag | in ceiling |\n|---|---|\n", one.Name, one.Example)
		for _, o := range one.Options() {
			fmt.Fprintf(&b, "| `%s` | %s |\n", o.Written(one), strings.ReplaceAll(o.Says(), "|", `\|`))
		}
	}
	golden.Text(t, "../../docs/faces.md", b.String())
}

// faced returns the run that a command line asks for.
func faced(t *testing.T, args ...string) (*spec.Spec, *faces.CommandLine, error) {
	t.Helper()
	var w *worn
	sh := &shell{command.Shell{Args: args, Stdin: strings.NewReader("GET http://127.0.0.1:1/x\n"), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}}
	sh.Performs = func(j command.Job) error {
		w, _ = j.(*worn)
		return nil
	}
	root := newRoot(sh)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return nil, nil, err
	}
	if w == nil {
		return nil, nil, nil
	}
	return w.order.one, w.given, nil
}

// TestFaceCommandLines: command lines as people have them, and what they ask for.
func TestFaceCommandLines(t *testing.T) {
	cpus, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	const url = "http://127.0.0.1:1/x"
	file := filepath.Join(t.TempDir(), "targets.txt")
	if err := os.WriteFile(file, []byte("GET "+url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(filepath.Dir(file), "script_rw.lua")
	if err := os.WriteFile(script, []byte("n = 0; request = function() n = n + 1; return wrk.format(nil, '/' .. n) end"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want func(*spec.Spec) bool
	}{
		{"wrk -t4 -c100 -d90s --latency --script " + script + " " + url + " -- read write", func(s *spec.Spec) bool {
			return s.Threads == 4 && s.Connections == 100 && s.Duration == 90*time.Second && s.HTTP == spec.HTTP11 &&
				s.Targets[0].From.What == spec.OriginScript
		}},
		{"wrk -t4 -c100 -d90s --latency " + url, func(s *spec.Spec) bool {
			return s.Threads == min(4, len(cpus)) && s.Connections == 100 && s.Duration == 90*time.Second && s.Warmup == 0 &&
				s.Timeout == 2*time.Second
		}},
		{"wrk " + url + " -c 12 -d 2m -T 500ms -H A:b", func(s *spec.Spec) bool {
			return s.Connections == 12 && s.Duration == 2*time.Minute && s.Timeout == 500*time.Millisecond &&
				s.Targets[0].Header[0] == spec.Field{Name: "A", Value: "b"}
		}},
		{"wrk --threads=2 --connections=8 --duration=3 " + url, func(s *spec.Spec) bool {
			return s.Threads == min(2, len(cpus)) && s.Connections == 8 && s.Duration == 3*time.Second
		}},
		{"go-wrk -c 60 -d 120 " + url, func(s *spec.Spec) bool {
			return s.Connections == 60 && s.Duration == 2*time.Minute && s.Timeout == time.Second
		}},
		{"go-wrk -M POST -body hello -T 300 --no-ka " + url, func(s *spec.Spec) bool {
			return s.Targets[0].Method == "POST" && string(s.Targets[0].Body) == "hello" && s.Timeout == 300*time.Millisecond && s.NewConnections == 1
		}},
		{"autocannon --connections 1000 --pipelining 100 --workers 120 --duration 30 " + url, func(s *spec.Spec) bool {
			return s.Connections == 1000 && s.Pipelining == 100 && s.Duration == 30*time.Second && s.Threads >= 1
		}},
		{"autocannon -c 4 -a 500 -m PUT -b x -H K=v -j " + url, func(s *spec.Spec) bool {
			return s.Connections == 4 && s.Requests == 500 && s.Targets[0].Method == "PUT" && s.Targets[0].Header[0] == spec.Field{Name: "K", Value: "v"}
		}},
		{"vegeta attack -rate=100000 -duration=30s -targets=" + file, func(s *spec.Spec) bool {
			return s.Rate.From.PerSecond() == 100_000 && s.Duration == 30*time.Second && s.Connections == 1000 && s.Timeout == 30*time.Second
		}},
		{"vegeta attack -rate 500000 -duration 5s", func(s *spec.Spec) bool { return s.Connections == 5000 && s.Targets[0].URL == url }},
		{"vegeta attack -rate=0 -max-workers=12 -duration=1m --keepalive=false", func(s *spec.Spec) bool {
			return s.Rate.IsZero() && s.Connections == 12 && s.NewConnections == 1
		}},
		{"vegeta attack -duration=1s -http2=false -insecure=false -keepalive", func(s *spec.Spec) bool {
			return s.HTTP == spec.HTTP11 && s.NewConnections == 0
		}},
		{"autocannon -R 500 -d 5 " + url, func(s *spec.Spec) bool { return s.Rate.From.PerSecond() == 500 }},
	} {
		s, _, err := faced(t, strings.Fields(c.line)...)
		if err != nil || !c.want(s) {
			t.Errorf("%s: %+v, %v", c.line, s, err)
		}
	}
	for line, want := range map[string]string{
		"wrk":                                "the URL is missing",
		"wrk -c":                             "-c: its N is missing",
		"wrk -x " + url:                      "-x: wrk has no such flag",
		"wrk --conections 3 " + url:          "--conections: wrk has no such flag",
		"wrk -t8 -c4 " + url:                 "number of connections must be >= threads",
		"wrk -s a.lua " + url:                "--lua: open a.lua",
		"wrk -d soon " + url:                 "-d soon: not a time",
		"wrk 127.0.0.1:1":                    "wrk wants http:// before it",
		"wrk " + url + " " + url:             "a second URL",
		"wrk -c 1,2 " + url:                  "a list of values",
		"vegeta attack":                      "-duration: without it",
		"vegeta attack -duration=1s x":       "it takes no arguments",
		"vegeta attack -rate=0 -duration=1s": "-rate=0 requires",
		"vegeta plot":                        "ceiling report --open",
		"vegeta storm":                       "none of attack, report, encode",
		"vegeta report -every=1s":            "-every",
		"vegeta report -type=hist[5ms,1ms]":  "ascending",
		"go-wrk -no-ka=3 " + url:             "it takes no value",
		"autocannon -I " + url:               "-I: requests are prepared",
		"autocannon -w none " + url:          "-w none: not a whole number",
		"autocannon -H nothing " + url:       "not a header",
		"autocannon -c 4 --forever " + url:   "--forever: ", // of several letters, with its short name
	} {
		_, _, err := faced(t, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) || !command.IsUsage(err) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, one := range faces.All() {
		if s, _, err := faced(t, append(strings.Fields(one.Name), "--help")...); s != nil || err != nil {
			t.Errorf("%s --help: %v", one.Name, err)
		}
	}
}

// hollow leaves of a text what does not depend on the measurement.
func hollow(text string) []string {
	text = regexp.MustCompile(`[0-9][0-9,]*(\.[0-9]+)?[ ]?(us|µs|ms|ns|s|kB|MB|GB|KB|B|bytes|k|M|G|K)?\b`).ReplaceAllString(text, "9")
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(strings.NewReplacer("─", "", "│", "").Replace(line)), " ")
		lines = append(lines, line)
	}
	return lines
}

// looks runs a face against a server of this process, and returns both its outputs.
func looks(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	var out, errs bytes.Buffer
	if code := execute(args, strings.NewReader(""), &out, &errs); code != exit.Pass {
		t.Fatalf("%q: exit %d: %s%s", args, code, &out, &errs)
	}
	return out.String(), errs.String()
}

func answering(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
	t.Cleanup(server.Close)
	return server.URL
}

// TestFacesLookAlike: line by line what the tools themselves print, numbers apart (testdata/faces: wrk
// 4.1, go-wrk 0.10, autocannon 9.0, against the same server); and the verdict on standard error.
func TestFacesLookAlike(t *testing.T) {
	needs.Processes(t)
	url := answering(t) + "/simple"
	for name, line := range map[string]string{
		"wrk": "/bin/wrk -t1 -c2 -d1s --latency ", "go-wrk": "ceiling go-wrk -c 2 -d 1 ", "autocannon": "autocannon -c 2 -d 1 -l -p 2 ",
	} {
		stdout, stderr := looks(t, append(strings.Fields(line), url)...)
		text := stdout
		if name == "autocannon" {
			text, stderr, _ = strings.Cut(stderr, "ceiling: ")
			stderr = "ceiling: " + stderr
		}
		want, err := os.ReadFile(filepath.Join("testdata/faces", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := hollow(text), hollow(string(want)); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nis not like\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !strings.HasPrefix(stderr, "ceiling: ") || !strings.Contains(stderr, "more: ceiling show -v ") {
			t.Errorf("%s: on standard error:\n%s", name, stderr)
		}
	}
}

// TestAutocannonJSON: every field of the tool's own document, of the same type.
func TestAutocannonJSON(t *testing.T) {
	needs.Processes(t)
	stdout, _ := looks(t, "ceiling", "autocannon", "-c", "2", "-d", "1", "-j", answering(t))
	var got, want map[string]any
	kept, err := os.ReadFile("testdata/faces/autocannon.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(kept, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	var compare func(at string, got, want map[string]any)
	compare = func(at string, got, want map[string]any) {
		for key, value := range want {
			has, there := got[key]
			if !there || fmt.Sprintf("%T", has) != fmt.Sprintf("%T", value) {
				t.Errorf("%s%s is %v, and %v there", at, key, has, value)
				continue
			}
			if below, is := value.(map[string]any); is {
				compare(at+key+".", has.(map[string]any), below)
			}
		}
	}
	compare("", got, want)
	if requests := got["requests"].(map[string]any); requests["total"].(float64) < 100 || got["2xx"] != requests["total"] {
		t.Errorf("%v", got)
	}
}

// TestVegetaPipeline: an attack's results, through a pipe and files, in all three formats.
func TestVegetaPipeline(t *testing.T) {
	needs.Processes(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	var served atomic.Uint64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := served.Add(1); n%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	do := func(in string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := execute(append([]string{"/usr/bin/vegeta"}, args...), strings.NewReader(in), &out, &errs); code != exit.Pass {
			t.Fatalf("%q: exit %d: %s", args, code, &errs)
		}
		return out.String()
	}
	results := do("GET "+server.URL+"\n", "attack", "-rate=400", "-duration=1s", "-name=first")
	text := do(results, "report")
	for _, want := range []string{"Requests      [total, rate, throughput]         400, 40", "Success       [ratio]                           90.",
		"Status Codes  [code:count]                      200:360  503:40", "Error Set:\n503 Service Unavailable\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	whole := do(results, "report", "-type=json")
	for _, as := range []string{"json", "csv", "gob"} {
		file := filepath.Join(t.TempDir(), as)
		do(results, "encode", "-to", as, "-output", file)
		if got := do("", "report", "-type", "json", file); got != whole {
			t.Errorf("%s: %s is not %s", as, got, whole)
		}
	}
	if hist := do(results, "report", "-type=hist[0,100ms]"); !strings.Contains(hist, "[0s,     100ms]  400  100.00%") {
		t.Errorf("%s", hist)
	}
}

// TestWrkBesideUs: the same command line to both programs, what they print read the same way.
func TestWrkBesideUs(t *testing.T) {
	needs.Program(t, "wrk")
	url := answering(t)
	line := []string{"-t1", "-c4", "-d1s", "--latency", url}
	if ours, theirs := besideWrk(t, line); !slices.Equal(hollow(ours), hollow(theirs)) {
		t.Errorf("%s\nis not like\n%s", ours, theirs)
	}
}

// besideWrk has both programs do the same at the same time, whose figures are not compared, and returns what they print.
func besideWrk(t *testing.T, line []string) (ours, theirs string) {
	t.Helper()
	var out strings.Builder
	wrk := exec.Command("wrk", line...)
	wrk.Stdout = &out
	if err := wrk.Start(); err != nil {
		t.Fatal(err)
	}
	ours, _ = looks(t, append([]string{"ceiling", "wrk"}, line...)...)
	if err := wrk.Wait(); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return ours, out.String()
}

// scripted is a server that gives out a token, and wants it back.
func scripted(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Path == "/login":
			w.Header().Set("X-Token", "secret")
		case r.URL.Path == "/private" && r.Header.Get("X-Token") != "secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/post" && (r.Method != "POST" || string(body) != "a=1"):
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintln(w, "answer to", r.URL.RequestURI())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestWrksScripts: the same scripts to both programs, of every function that wrk calls.
func TestWrksScripts(t *testing.T) {
	needs.Program(t, "wrk")
	url := scripted(t)
	for name, c := range map[string]struct{ script, want string }{
		"constant POST": {`wrk.method = "POST"; wrk.path = "/post"; wrk.body = "a=1"; wrk.headers["Content-Type"] = "text/plain"`, "requests in"},
		"requests in one": {`init = function() all = wrk.format(nil, "/1") .. wrk.format(nil, "/2") .. wrk.format(nil, "/3") end
			request = function() return all end`, "requests in"},
		"a counter": {`n = 0; request = function() n = n + 1; return wrk.format(nil, "/" .. n) end`, "requests in"},
		"a login": {`local path = "/login"
			request = function() return wrk.format("GET", path) end
			response = function(status, headers, body)
				if status == 200 and headers["X-Token"] then path = "/private"; wrk.headers["X-Token"] = headers["X-Token"] end
			end
			done = function(summary) print("status errors: " .. summary.errors.status) end`, "status errors: 0"},
		"delays": {`delay = function() return math.random(5, 20) end`, "requests in"},
		"threads and results": {`local threads = {}
			setup = function(thread) table.insert(threads, thread); thread:set("number", #threads) end
			init = function(args) print("thread " .. number .. " with " .. args[1]); requests = 0; responses = 0 end
			request = function() requests = requests + 1; return wrk.request() end
			response = function() responses = responses + 1 end
			done = function(summary, latency)
				for _, t in ipairs(threads) do
					print(t:get("requests") - t:get("responses") < 40, t:get("number"))
				end
				print(latency:percentile(99) >= latency:percentile(50), latency.max >= latency.mean, summary.requests > 0, summary.bytes > 0)
			end`, "true\ttrue\ttrue\ttrue"},
	} {
		file := filepath.Join(t.TempDir(), "script.lua")
		if err := os.WriteFile(file, []byte(c.script), 0o600); err != nil {
			t.Fatal(err)
		}
		line := []string{"-t2", "-c4", "-d1s", "--latency", "-s", file, url + "/start", "--", "an-argument"}
		ours, theirs := besideWrk(t, line)
		if !slices.Equal(hollow(ours), hollow(theirs)) || !strings.Contains(ours, c.want) {
			t.Errorf("%s:\n%s\nis not like\n%s", name, ours, theirs)
		}
	}
}

// TestFaceRunsAs: what a face records can be typed to ceiling run, and measures the same.
func TestFaceRunsAs(t *testing.T) {
	script := filepath.Join(t.TempDir(), "s.lua")
	if err := os.WriteFile(script, []byte("wrk.path = '/x'"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"wrk -t1 -c10 -d3s -s " + script + " http://127.0.0.1:1/a", "go-wrk -c 6 -d 12 http://127.0.0.1:1/",
		"autocannon -c 4 -d 2 -p 3 http://127.0.0.1:1/"} {
		words := strings.Fields(line)
		f, err := faces.Of(words[0]).Parse(words[1:])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		ran := ranAs(f)
		if strings.Join(ran[:4], " ") != "ceiling run --warmup 0s" || ran[len(ran)-1] != f.URL ||
			strings.Contains(line, script) != slices.Contains(ran, script) {
			t.Errorf("%s: %q", line, ran)
		}
	}
}
