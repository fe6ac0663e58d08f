// Command suite runs go test and prints what a person needs of its output: a line for each
// package, the output of the tests that failed, and at the end how many passed, failed and were
// skipped, with the needs of those (package needs). Arguments are those of go test.
//
// With SUITE_COMPLETE=1 a skipped test fails the run.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"ceiling/internal/needs"
)

func main() {
	c := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
	r := newReport(os.Stdout)
	err = r.read(out)
	if waited := c.Wait(); err == nil {
		err = waited
	}
	r.summarize()
	complete := os.Getenv("SUITE_COMPLETE") == "1"
	if complete && r.skipped > 0 {
		fmt.Println("suite: nothing may be skipped here")
	}
	if err != nil || r.failed > 0 || complete && r.skipped > 0 {
		os.Exit(1)
	}
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// key names the test, or the subtest.
func (e *event) key() string { return e.Package + " " + e.Test }

// report counts the tests of a run. Subtests count as part of their test, unless skipped. A test
// that runs only when asked for makes something, and is no test here.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[string][]string // of a test that has not ended, by package and name
	said                    map[string]string   // the last message of a test, by package and whole name
	needs                   map[string][]string // the tests skipped, by what they need
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}, said: map[string]string{}, needs: map[string][]string{}}
}

// read consumes the events. A line that is none is printed as it is.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a test may print long lines
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.add(e)
	}
	return lines.Err()
}

func (r *report) add(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.addOutput(e)
	case "pass", "fail", "skip":
		r.end(e)
	}
}

// addOutput keeps a test's output until its end, and prints the line of a package.
func (r *report) addOutput(e event) {
	if e.Test != "" {
		key := e.key()
		r.output[key] = append(r.output[key], e.Output)
		if text := message(e.Output); text != "" {
			r.said[key] = text
		}
		return
	}
	for _, begin := range []string{"ok ", "PASS", "?", "testing: warning: no tests to run"} {
		if strings.HasPrefix(e.Output, begin) {
			if begin == "ok " {
				fmt.Fprint(r.out, e.Output)
			}
			return
		}
	}
	fmt.Fprint(r.out, e.Output)
}

// end counts a test, and prints the output of one that failed; its subtests print theirs.
func (r *report) end(e event) {
	key := e.key()
	switch {
	case e.Test == "" && e.Action == "fail": // a crash or the time limit leaves tests without an end
		for _, k := range slices.Sorted(maps.Keys(r.output)) {
			if strings.HasPrefix(k, e.Package+" ") {
				fmt.Fprint(r.out, strings.Join(r.output[k], ""))
				delete(r.output, k)
			}
		}
		return
	case e.Test == "":
		return
	case e.Action == "skip":
		r.skip(e)
	case e.Action == "fail":
		fmt.Fprint(r.out, strings.Join(r.output[key], ""))
	}
	delete(r.output, key)
	switch sub := strings.Contains(e.Test, "/"); {
	case sub:
	case e.Action == "pass":
		r.passed++
	case e.Action == "fail":
		r.failed++
	}
}

// skip notes what a skipped test needs.
func (r *report) skip(e event) {
	need := cmp.Or(r.said[e.key()], "no reason given")
	if strings.HasPrefix(need, needs.AskedFor) {
		return
	}
	r.skipped++
	r.needs[need] = append(r.needs[need], strings.TrimPrefix(e.Package, "ceiling/")+" "+e.Test)
}

// message returns what a test, or a script in it, says in a line: "    file_test.go:12: needs root",
// "> [short] skip 'needs root'"; "" if it is no such line.
func message(line string) string {
	if _, text, ok := strings.Cut(line, " skip '"); ok {
		text, _, _ = strings.Cut(text, "'")
		return text
	}
	if _, text, ok := strings.Cut(line, ".go:"); ok {
		_, text, _ = strings.Cut(text, ": ")
		return strings.TrimSpace(text)
	}
	return ""
}

// summarize prints what was skipped and why, then the counts.
func (r *report) summarize() {
	var beyond []string
	for _, reason := range slices.Sorted(maps.Keys(r.needs)) {
		tests := r.needs[reason]
		if need, ok := strings.CutPrefix(reason, needs.Prefix); ok {
			beyond = append(beyond, fmt.Sprintf("%s (%d)", need, len(tests)))
			continue
		}
		fmt.Fprintf(r.out, "skipped: %s: %s\n", strings.Join(tests, ", "), reason)
	}
	if len(beyond) > 0 {
		fmt.Fprintf(r.out, "left to make test-all, by what the tests need: %s\n", strings.Join(beyond, ", "))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}
