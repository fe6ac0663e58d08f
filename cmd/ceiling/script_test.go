//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ceiling/cmd/internal/controlling"
	laboratory "ceiling/cmd/internal/lab"
	"ceiling/cmd/internal/proxies"
	"ceiling/cmd/internal/testbed"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
)

func TestMain(m *testing.M) {
	testscript.Main(ownStore{m}, map[string]func(){"ceiling": main,
		proxyProgram: func() { os.Exit(proxies.Main()) }, labProgram: func() { os.Exit(laboratory.Main()) },
		controllerProgram: func() { os.Exit(controlling.Main()) }})
}

// ownStore runs the tests with a store of theirs, and more of them side by side than
// there are CPUs: those that say t.Parallel wait for the most part, and what they
// measure is of no account.
type ownStore struct{ *testing.M }

func (m ownStore) Run() int {
	dir, err := os.MkdirTemp("", "ceiling-store-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	err = flag.Set("test.parallel", "4")
	for _, name := range []string{"DATA", "STATE", "CACHE"} {
		err = errors.Join(err, os.Setenv("XDG_"+name+"_HOME", filepath.Join(dir, strings.ToLower(name))))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// TestScripts runs the command as a person would: testdata/script/*.txtar. A script says what it
// needs, as a test does.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, slices.DeleteFunc(files, func(file string) bool { return file == calibrateScript })...)
}

// TestCalibrateScript is alone: a calibration is compared with others, and with runs.
func TestCalibrateScript(t *testing.T) {
	needs.Quiet(t)
	runScripts(t, calibrateScript)
}

const calibrateScript = "testdata/script/calibrate.txtar"

func runScripts(t *testing.T, files ...string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, "data"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state-home"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("COLUMNS", "1000") // a sentence is one line
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    scriptServe,
			"closed":   scriptClosed,
			"fails":    scriptFails,
			"json":     scriptJSON,
			"exits":    scriptExits,
			"measures": scriptMeasures,
			"fleet":    scriptFleet,
			"until":    scriptUntil,
			"capture":  scriptCapture,
		},
	})
}

// scriptServe starts a server as a child and puts its address into $ADDR:
// serve KIND [flags].
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve KIND [flags]")
	}
	child, err := run.StartChild(context.Background(), program(ts), append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	ts.Check(err)
	ts.Defer(child.Stop)
	ts.Setenv("ADDR", child.Addr)
}

// scriptFails puts the address of a server into $ADDR that answers 500.
func scriptFails(ts *testscript.TestScript, _ bool, _ []string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the database is gone", http.StatusInternalServerError)
	}))
	ts.Defer(s.Close)
	ts.Setenv("ADDR", s.Listener.Addr().String())
}

// program is a file of the command: testscript starts it by the name that the
// binary is called with.
func program(ts *testscript.TestScript) string {
	exe, err := os.Executable()
	ts.Check(err)
	link, err := linked(exe, filepath.Join(ts.MkAbs("."), "ceiling-under-test"))
	ts.Check(err)
	return link
}

// linked makes a directory with this test binary under the names of the programs, and returns
// the first one's path.
func linked(exe, dir string) (string, error) {
	link := filepath.Join(dir, "ceiling")
	if _, err := os.Lstat(link); err == nil {
		return link, nil
	}
	err := os.MkdirAll(dir, 0o755)
	for _, name := range []string{"ceiling", proxyProgram, labProgram, controllerProgram} {
		err = errors.Join(err, os.Symlink(exe, filepath.Join(dir, name)))
	}
	return link, err
}

// scriptFleet starts a controller, whose state is in $STATE, and agents: fleet
// NAME…. $JOIN is where to join it.
func scriptFleet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fleet NAME…")
	}
	state := filepath.Join(ts.MkAbs("."), "state")
	ts.Setenv("STATE", state)
	start := func(token, says string, args ...string) string {
		out := filepath.Join(ts.MkAbs("."), "out-"+filepath.Base(args[len(args)-1]))
		f, err := os.Create(out)
		ts.Check(err)
		defer f.Close()
		c := exec.Command(program(ts), args...)
		c.Env = append(os.Environ(), testbed.TokenEnv+"="+token)
		c.Stdout, c.Stderr = f, f
		ts.Check(c.Start())
		ts.Defer(func() {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait() // 0 or by the signal
		})
		line := (&started{cmd: c, out: out}).line(says)
		if line == "" {
			ts.Fatalf("%v: no %q within a minute: %s", args, says, ts.ReadFile(out))
		}
		return line
	}
	join := strings.Fields(start("", "ceiling fleet agent --join", "fleet", "controller", "--listen", "127.0.0.1", "--state", state))
	token, err := os.ReadFile(filepath.Join(state, bus.TokenFile))
	ts.Check(err)
	ts.Setenv("JOIN", join[4])
	for _, name := range args {
		start(string(token), "joined test bed", "fleet", "agent", "--join", join[4], "--name", name)
	}
}

// scriptClosed puts an address where nobody listens into $ADDR.
func scriptClosed(ts *testscript.TestScript, _ bool, _ []string) {
	address, release, err := porttest.Refuse()
	ts.Check(err)
	ts.Defer(release)
	ts.Setenv("ADDR", address)
}

// scriptExits runs ceiling and checks its exit code: exits CODE args….
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE args…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, args[1:]); got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}

// scriptUntil runs ceiling until a line of its output matches, for a minute:
// until PATTERN args….
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN args…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if exitCode(ts, args[1:]) == 0 && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("no %q within a minute", args[0])
		}
	}
}

// scriptCapture puts what a pattern's group matches in a file (or stdout,
// stderr) into a variable: capture VARIABLE PATTERN FILE.
func scriptCapture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture VARIABLE PATTERN FILE")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile(args[2]))
	if len(found) != 2 {
		ts.Fatalf("%q is not in %s, or has no group", args[1], args[2])
	}
	ts.Setenv(args[0], found[1])
}

// scriptMeasures runs ceiling and wants one of the exit codes that it names: on a
// busy machine a short run may be invalid (4), and fail its SLO (3) where it has one.
func scriptMeasures(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: measures CODE,… args…")
	}
	if got := exitCode(ts, args[1:]); !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit %d, want one of %s", got, args[0])
	}
}

func exitCode(ts *testscript.TestScript, args []string) int {
	err := ts.Exec("ceiling", args...)
	if err == nil {
		return 0
	}
	coded, ok := err.(interface{ ExitCode() int })
	if !ok {
		ts.Fatalf("ceiling: %v", err)
	}
	return coded.ExitCode()
}

// scriptJSON checks a value of the JSON document in a file: json FILE PATH OP
// VALUE, with a path such as requests.sent and = or > as OP; a value that
// begins with . is a path itself.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: json FILE PATH OP VALUE")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	got := fmt.Sprint(lookUp(ts, doc, args[1]))
	want := args[3]
	if path, ok := strings.CutPrefix(want, "."); ok {
		want = fmt.Sprint(lookUp(ts, doc, path))
	}
	holds := got == want
	if args[2] == ">" {
		g, err1 := strconv.ParseFloat(got, 64)
		w, err2 := strconv.ParseFloat(want, 64)
		if err1 != nil || err2 != nil {
			ts.Fatalf("%s: %s and %s are not both numbers", args[1], got, want)
		}
		holds = g > w
	}
	if holds == neg {
		ts.Fatalf("%s is %s, not %s %s", args[1], got, args[2], want)
	}
}

func lookUp(ts *testscript.TestScript, doc any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[key]
			if !ok {
				ts.Fatalf("%s: no key %s", path, key)
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(d) {
				ts.Fatalf("%s: no element %s of %d", path, key, len(d))
			}
			doc = d[i]
		default:
			ts.Fatalf("%s: %v has no keys", path, reflect.TypeOf(doc))
		}
	}
	if f, ok := doc.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return doc
}
