// Package checkout makes the tree that a change is compared with: a commit of the same git repository,
// in a directory of its own. It writes nothing to the repository.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"ceiling/internal/process"
	"ceiling/internal/scratch"
)

// Tree is the files of one side.
type Tree struct {
	// Dir is the directory that corresponds to the one asked about.
	Dir string
	// Commit in short; "" for a directory that is no repository.
	Commit string
	// Changed: files differ from the commit's.
	Changed bool
	// Why it is this one: "merge-base with origin/main".
	Why string

	own *scratch.Dir
}

// Of describes a directory as it is.
func Of(ctx context.Context, dir string) Tree {
	t := Tree{Dir: dir, Why: "the files as they are"}
	if commit, err := git(ctx, dir, "rev-parse", "--short", "HEAD"); err == nil {
		t.Commit = commit
		if changed, err := git(ctx, dir, "status", "--porcelain", "--untracked-files=no", "."); err == nil && changed != "" {
			t.Changed, t.Why = true, "with uncommitted changes"
		} else if err == nil {
			t.Why = "HEAD"
		}
	}
	return t
}

// Base checks out the commit that the files in dir are compared with. ref is a revision, or a
// directory that has the base already; "" for what the environment of a pipeline says, and without one
// for HEAD if the files have changed since, the fork from origin's default branch if they are on
// another, or HEAD's parent. Remove must be called.
func Base(ctx context.Context, dir, ref string, env func(string) string) (Tree, error) {
	if info, err := os.Stat(ref); ref != "" && err == nil && info.IsDir() {
		t := Of(ctx, ref)
		t.Why = "the directory " + ref
		return t, nil
	}
	if _, err := git(ctx, dir, "rev-parse", "--git-dir"); err != nil {
		return Tree{}, fmt.Errorf("%s is not in a git repository (%w); give the base as a directory: --base ../old", dir, err)
	}
	t, err := choose(ctx, dir, ref, env)
	if err != nil {
		return Tree{}, err
	}
	prefix, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if err != nil {
		return Tree{}, err
	}
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return Tree{}, err
	}
	if t.own, err = scratch.New(os.TempDir(), "ceiling-base-"); err != nil {
		return Tree{}, err
	}
	into := filepath.Join(t.own.Path, "tree")
	t.Dir = filepath.Join(into, prefix)
	// A clone of its own, and no worktree, which would leave an entry in the repository if this
	// process is killed. --shared copies no objects.
	_, err = git(ctx, top, "clone", "--quiet", "--shared", "--no-checkout", ".", into)
	if err == nil {
		_, err = git(ctx, into, "checkout", "--quiet", "--detach", t.Commit)
	}
	if err == nil {
		if _, missing := os.Stat(t.Dir); missing != nil {
			err = fmt.Errorf("%s has no directory %s", t.Commit, prefix)
		}
	}
	if err != nil {
		return Tree{}, errors.Join(err, t.Remove())
	}
	t.Commit, err = git(ctx, into, "rev-parse", "--short", "HEAD")
	return t, err
}

// Remove removes the files that Base made.
func (t *Tree) Remove() error {
	if t.own == nil {
		return nil
	}
	return t.own.Remove()
}

// Same reports whether two trees have the same files, as git counts them.
func Same(base, change *Tree) bool {
	return base.Commit != "" && base.Commit == change.Commit && !change.Changed
}

// choose finds the base's commit.
func choose(ctx context.Context, dir, ref string, env func(string) string) (Tree, error) {
	switch {
	case ref != "":
		return commit(ctx, dir, ref, ref)
	case env("GITHUB_BASE_REF") != "": // a pull request's target branch
		return fork(ctx, dir, "origin/"+env("GITHUB_BASE_REF"))
	case env("CI_MERGE_REQUEST_DIFF_BASE_SHA") != "": // GitLab's, for a merge request
		return commit(ctx, dir, env("CI_MERGE_REQUEST_DIFF_BASE_SHA"), "the merge request's base")
	}
	if Of(ctx, dir).Changed {
		return commit(ctx, dir, "HEAD", "HEAD, which the files have changed since")
	}
	if t, err := fork(ctx, dir, "origin/HEAD"); err == nil {
		if head, err := git(ctx, dir, "rev-parse", "HEAD"); err == nil && head != t.Commit {
			return t, nil
		}
	}
	return commit(ctx, dir, "HEAD^", "the parent of HEAD")
}

func commit(ctx context.Context, dir, ref, why string) (Tree, error) {
	id, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return Tree{}, fmt.Errorf("base: the repository has no commit %s%s", ref, shallow(ctx, dir))
	}
	return Tree{Commit: id, Why: why}, nil
}

// fork is the last common commit with a branch.
func fork(ctx context.Context, dir, branch string) (Tree, error) {
	id, err := git(ctx, dir, "merge-base", branch, "HEAD")
	if err != nil {
		return Tree{}, fmt.Errorf("base: no common commit of %s and HEAD%s", branch, shallow(ctx, dir))
	}
	return Tree{Commit: id, Why: "merge-base with " + branch}, nil
}

// shallow adds the usual cause of a missing commit in a pipeline, and its remedy.
func shallow(ctx context.Context, dir string) string {
	if is, err := git(ctx, dir, "rev-parse", "--is-shallow-repository"); err == nil && is == "true" {
		return ": it was cloned without its history; set fetch-depth: 0 (GitHub's checkout) or GIT_DEPTH: 0 (GitLab)"
	}
	return "; name one with --base REF, or a directory"
}

// git returns what a git command prints, without the last line break.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", fmt.Errorf("git %s: %s", args[0], lines[len(lines)-1])
	}
	return strings.TrimRight(string(out), "\n"), err
}

// Build runs a command in the tree, in a shell. The error has the last line that it printed.
func (t *Tree) Build(ctx context.Context, command string) error {
	cmd := process.Command{Name: "sh", Args: []string{"-c", command}, Dir: t.Dir, Group: true}
	p, err := cmd.Start()
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}
