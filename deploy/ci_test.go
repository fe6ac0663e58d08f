package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// action is what action.yml says, as far as it is run here.
type action struct {
	Inputs map[string]struct {
		Default string `yaml:"default"`
	} `yaml:"inputs"`
	Runs struct {
		Steps []struct {
			ID, Name, Run string
			Env           map[string]string
		} `yaml:"steps"`
	} `yaml:"runs"`
}

// TestActionsSteps runs the steps of the action as GitHub does, on a service of two commits: noise
// passes, and a regression fails.
func TestActionsSteps(t *testing.T) {
	data, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	repository := serviceOfTwoCommits(t)
	if result, summary := runAction(t, &a, repository); result != "passed" && result != "inconclusive" || !strings.Contains(summary, "### ceiling: "+result) {
		t.Errorf("a change of nothing: %s\n%s", result, summary)
	}
	write(t, filepath.Join(repository, "kind"), "nethttp", 0o600)
	if result, summary := runAction(t, &a, repository); result != "failed" || !strings.Contains(summary, "cpu&gt;+40% failed") {
		t.Errorf("a regression: %s\n%s", result, summary)
	}
}

// runAction returns the action's result, and the summary of its run.
func runAction(t *testing.T, a *action, repository string) (result, summary string) {
	t.Helper()
	temp := t.TempDir()
	at := func(name string) string { return filepath.Join(temp, name) }
	for _, name := range []string{"output", "path", "summary"} {
		write(t, at(name), "", 0o600)
	}
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"GITHUB_ACTION_PATH=" + here, "GITHUB_OUTPUT=" + at("output"), "GITHUB_PATH=" + at("path"), "GITHUB_STEP_SUMMARY=" + at("summary"),
		"RUNNER_TEMP=" + temp, "PATH=" + filepath.Dir(built(t, "ceiling")) + ":" + os.Getenv("PATH"), "XDG_DATA_HOME=" + at("data")}
	code := 0
	for _, step := range a.Runs.Steps {
		with := env
		for name, value := range step.Env {
			input := strings.TrimSuffix(strings.TrimPrefix(value, "${{ inputs."), " }}")
			given := a.Inputs[input].Default
			if input == "records" {
				given = at("records")
			}
			with = append(with, name+"="+given)
		}
		if o := run(t, repository, with, "bash", "-e", "-o", "pipefail", "-c", step.Run); o.code != 0 {
			t.Logf("%s: exit %d\n%s", step.Name, o.code, o)
			code = o.code
			break
		}
	}
	result = strings.TrimPrefix(strings.TrimSpace(read(t, at("output"))), "result=")
	if want := map[string]int{"failed": 3}[result]; code != want {
		t.Errorf("%s: exit %d, want %d", result, code, want)
	}
	return result, read(t, at("summary"))
}

// serviceOfTwoCommits is a repository whose second commit changes nothing that matters.
func serviceOfTwoCommits(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".ceiling.yaml"), `serve: sh serve.sh {addr}
loads:
  - path: /simple
    load: {connections: 8, duration: 200ms}
    fail_on: cpu>+40%
    blocks: 14
`, 0o600)
	write(t, filepath.Join(dir, "serve.sh"), `exec ceiling serve $(cat kind) --addr "$1"`, 0o600)
	write(t, filepath.Join(dir, "kind"), "fasthttp", 0o600)
	git := func(args ...string) {
		t.Helper()
		env := []string{"GIT_CONFIG_GLOBAL=/dev/null"}
		if o := run(t, dir, env, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...); o.code != 0 {
			t.Fatalf("git %v: %s", args, o)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	write(t, filepath.Join(dir, "note"), "nothing that matters", 0o600)
	git("add", ".")
	git("commit", "-q", "-m", "two")
	return dir
}
