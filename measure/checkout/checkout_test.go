//go:build linux

package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// repository has commits one, two and three on main, and a branch of two with a commit of its own, which is
// checked out; its service lies in a directory.
func repository(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	needs.Program(t, "git")
	top := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	git = func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", top, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	dir = filepath.Join(top, "service")
	commit := func(text string) {
		t.Helper()
		write(t, filepath.Join(dir, "file"), text)
		git("add", ".")
		git("commit", "-q", "-m", text)
	}
	commit("one")
	commit("two")
	git("branch", "change")
	commit("three")
	git("update-ref", "refs/remotes/origin/main", "main")
	git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	git("checkout", "-q", "change")
	commit("mine")
	return dir, git
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBase: what is compared with, in the order that docs/ci.md has.
func TestBase(t *testing.T) {
	dir, git := repository(t)
	three := git("rev-parse", "main")
	base := func(ref string, env map[string]string, want string) {
		t.Helper()
		b, err := Base(t.Context(), dir, ref, func(name string) string { return env[name] })
		if err != nil {
			t.Errorf("%q %v: %v", ref, env, err)
			return
		}
		text, err := os.ReadFile(filepath.Join(b.Dir, "file"))
		if err != nil || string(text) != want {
			t.Errorf("%q %v: %q, %v, want %q (%s)", ref, env, text, err, want, b.Why)
		}
		if err := b.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.Dir); err == nil && b.Dir != ref {
			t.Errorf("%s is still there", b.Dir)
		}
	}
	base("main", nil, "three")
	base(dir, nil, "mine")
	base("", map[string]string{"GITHUB_BASE_REF": "main"}, "two")
	base("", map[string]string{"CI_MERGE_REQUEST_DIFF_BASE_SHA": three}, "three")
	base("", nil, "two") // the fork from origin/HEAD
	write(t, filepath.Join(dir, "file"), "changed")
	base("", nil, "mine") // HEAD, under changes
	git("checkout", "-q", "--", ".")
	git("checkout", "-q", "main")
	base("", nil, "two") // origin/HEAD is HEAD: its parent
	if entries := git("worktree", "list"); strings.Count(entries, "\n") > 0 {
		t.Errorf("it left a worktree: %s", entries)
	}
	if _, err := Base(t.Context(), dir, "nowhere", func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "no commit nowhere") {
		t.Errorf("%v", err)
	}
}
