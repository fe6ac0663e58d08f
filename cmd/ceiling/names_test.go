//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/show/export"
)

// TestFileInPlaceOfURL: a file that another tool would run is called what it is, before anything
// is looked up; what may be a host stays one.
func TestFileInPlaceOfURL(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"script.py", "there", "there.com"} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"script.js": "is a script, as k6", "./load.ts": "is a script", "/tmp/a.mjs": "is a script", "wrk.lua": "like wrk's", "plan.jmx": "JMeter",
		"a.har": "recording", "targets.txt": "ceiling run --targets targets.txt", "out.json": "ceiling judge out.json", "a.scala": "Gatling",
		"sweep.yaml": "ceiling run sweep.yaml", "a.ndjson.gz": "ceiling show a.ndjson.gz", "site.toml": "ceiling proxy site.toml",
		"script.py": "is a file", "there": "is a file", "there.com": "is a file",
	} {
		for _, verb := range []string{"find", "profile", "prove", "doctor", "run"} {
			if verb == "run" && strings.HasSuffix(name, ".yaml") {
				continue // it is one of its arguments
			}
			args := []string{verb, name}
			if verb == "find" {
				args = append(args, "--slo", "p99<1s")
			}
			_, err := resolve(args...)
			if err == nil || !command.IsUsage(err) || !strings.HasPrefix(err.Error(), name+" ") || !strings.Contains(err.Error(), want) {
				t.Errorf("ceiling %s %s: %v", verb, name, err)
			}
		}
	}
	for _, url := range []string{"localhost", "example.com", "example.py", "example.com/app.js", "localhost:8080/app.js", "http://h/a.json",
		":8080/targets.txt", "10.0.0.1/x.lua", "there:80/"} {
		if err := notURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestFormatInPlaceOfFile: -o with the name of a format says what to write, and makes nothing.
func TestFormatInPlaceOfFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("csv", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"json": "--json > result.json; for a directory of that name: ./json", "JSON": "--json", "out.json": "--json", "dir/out.json": "--json",
		"html": "ceiling report", "report.html": "ceiling report", "a.md": "ceiling report", "text": "standard output", "table": "standard output",
		"run.txt": "standard output", "run.csv": "ceiling export ID --format csv", "ndjson": "--format ndjson", "prometheus": "--format prometheus",
		"run.hgrm": "--format hgrm", "yaml": "--json",
	} {
		for _, args := range [][]string{{"run", "-o", name, nowhere}, {"run", "-c", "1,2", "-o", name, nowhere}, {"find", "--slo", "p99<1s", "-o", name, nowhere},
			{"race", "-o", name}, {"selftest", "--keep", name}} {
			_, err := resolve(args...)
			if err == nil || !command.IsUsage(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("ceiling %s: %v", strings.Join(args, " "), err)
			}
		}
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	for _, name := range []string{"", "record", "./json", "csv", "runs/html", "/tmp/text", "a.ndjson", "a.ndjson.gz", "v1.2"} {
		if err := command.NotFormat("-o", name); err != nil {
			t.Errorf("-o %s: %v", name, err)
		}
	}
	if err := (&exportFlags{format: "json", out: "csv"}).check(); err == nil || !strings.Contains(err.Error(), "--format csv") {
		t.Errorf("export -o csv: %v", err)
	}
	if left, err := filepath.Glob("*"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestEnumeratedFlags: a value that there is not is refused with those that there are.
func TestEnumeratedFlags(t *testing.T) {
	for _, k := range []struct{ args, want string }{
		{"list --verdict green", "pass, valid, fail"}, {"list --verdict PASS", "pass, valid, fail"}, {"list --kind test", "run, sweep, find"},
		{"run --engine io http://h/", "auto, uring, epoll or portable"}, {"run -R 10 --arrivals even http://h/", "constant or poisson"},
		{"run --http 3 http://h/", "1.1 or 2"}, {"run --tls-version 1.1 https://h/", "1.2"},
		{"doctor --calibrate --engine io", "auto, uring or epoll"},
		{"run --curves Q https://h/", "X25519"}, {"export x --format xml", "json, ndjson, csv"},
		{"export x --format csv --table nope", "load, cpu"}, {"export x --format ndjson --table nope", "load, cpu"},
		{"export x --format hgrm --of nope", "response, service, lag"}, {"serve apache", "nethttp, fasthttp"}, {"baseline apache", "fasthttp"},
		{"planted nope", "pool"},
	} {
		_, err := resolve(strings.Fields(k.args)...)
		if err == nil || !command.IsUsage(err) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("ceiling %s: %v", k.args, err)
		}
	}
	flags := listFlags{}
	for _, flags.verdict = range verdicts() {
		if _, err := flags.filter(time.Now()); err != nil {
			t.Errorf("--verdict %s: %v", flags.verdict, err)
		}
	}
}

// TestExports: what is refused as a format is every format of an export.
func TestExports(t *testing.T) {
	if got := command.Exports(); !slices.Equal(got, export.Formats()) {
		t.Errorf("%v, exported are %v", got, export.Formats())
	}
}
