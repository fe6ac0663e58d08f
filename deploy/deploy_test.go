// Package deploy holds the tests of what places agents: each runs the real tool
// on the real files. .ci/deploy fetches the tools and names them.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long one command of a tool may take on a loaded machine.
const patience = 3 * time.Minute

// tool is a tool's path in the directory that tools.sh printed.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CEILING_DEPLOY_TOOLS")
	if dir == "" {
		t.Fatal("CEILING_DEPLOY_TOOLS is not set: run .ci/deploy, or set it to what deploy/tools.sh prints")
	}
	return filepath.Join(dir, name)
}

// built is a binary of this repository, as .ci/deploy has just built it.
func built(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../bin/deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run .ci/deploy, which builds it", err)
	}
	return file
}

// output is what a command said, and its exit code.
type output struct {
	stdout, stderr string
	code           int
}

func (o output) String() string {
	return o.stdout + o.stderr
}

// run runs a command with additions to the environment.
func run(t *testing.T, dir string, env []string, name string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v, %v\n%s%s", name, strings.Join(args, " "), err, ctx.Err(), &stdout, &stderr)
	}
	return output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// must is run for what has to go well.
func must(t *testing.T, dir string, env []string, name string, args ...string) output {
	t.Helper()
	o := run(t, dir, env, name, args...)
	if o.code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s", name, strings.Join(args, " "), o.code, o)
	}
	return o
}

// eventually waits for a condition on a machine that may be slow.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
