//go:build linux

package tune

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ceiling/internal/archive"
)

// TestMain lets the test binary be a process that is killed in the middle of a tuning.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "held" {
		if err := heldRole(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fixture lays out a host of testdata.
func fixture(t testing.TB, name string) *Host {
	t.Helper()
	dir := t.TempDir()
	archive.Extract(t, filepath.Join("testdata", name+".txtar"), dir)
	if links, err := os.ReadFile(filepath.Join(dir, "links")); err == nil {
		for line := range strings.Lines(string(links)) {
			from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			path := filepath.Join(dir, from)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &Host{Root: dir, State: filepath.Join(t.TempDir(), "state"), back: services{machine{dir}}}
}

// services has those of a fixture: a process with their name.
type services struct{ machine }

func (s services) write(kind, path, value string) error {
	if kind != KindService {
		return s.machine.write(kind, path, value)
	}
	comm := filepath.Join(s.root, "proc/812/comm")
	if value == stopped {
		return os.Remove(comm)
	}
	return os.WriteFile(comm, []byte(path+"\n"), 0o644)
}

// snapshot is every file of a tree, and its empty directories.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			files[name] = strings.Join(strings.Fields(string(data)), " ")
			return err
		}
		files[name] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameTree compares two snapshots.
func sameTree(t testing.TB, before, after map[string]string) {
	t.Helper()
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was %q, is %q", name, text, after[name])
		}
	}
	for name := range after {
		if _, was := before[name]; !was {
			t.Errorf("%s is left", name)
		}
	}
}

// untouched tells that nothing is left of a tuning.
func untouched(t testing.TB, h *Host, before map[string]string) {
	t.Helper()
	sameTree(t, before, snapshot(t, h.Root))
	if _, err := os.Stat(filepath.Join(h.State, journalName)); err == nil {
		t.Error("the journal is left")
	}
}

// stopper counts what is done to a host and stops at a step: before it, after it, or,
// of a line of the journal, in its middle.
type stopper struct {
	backend
	at   int
	how  string
	done int
}

func (s *stopper) write(kind, path, value string) error {
	return s.step(func() error { return s.backend.write(kind, path, value) }, func() {})
}

func (s *stopper) note(file *os.File, line []byte) error {
	return s.step(func() error { return s.backend.note(file, line) }, func() {
		if _, err := file.Write(line[:len(line)/2]); err != nil {
			panic(err)
		}
	})
}

func (s *stopper) step(do func() error, half func()) error {
	s.done++
	if s.done != s.at {
		return do()
	}
	switch s.how {
	case "after":
		if err := do(); err != nil {
			return err
		}
	case "half":
		half()
	}
	fmt.Println("held")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// heldRole applies a profile to a fixture, or reverts it, and waits at a step to be
// killed: VERB ROOT STATE PROFILE STEP HOW.
func heldRole(args []string) error {
	s := &stopper{backend: services{machine{args[1]}}, how: args[5]}
	if _, err := fmt.Sscan(args[4], &s.at); err != nil {
		return err
	}
	h := &Host{Root: args[1], State: args[2], back: s}
	if args[0] == "revert" {
		_, err := h.Revert()
		fmt.Println("done")
		return err
	}
	p, err := Load(args[3])
	if err != nil {
		return err
	}
	plan, err := h.Plan(p, Options{})
	if err != nil {
		return err
	}
	_, err = plan.Apply(context.Background(), Owner{Who: "a test", Stays: true})
	fmt.Println("done")
	return err
}

// killedAt runs a role and kills it at a step; it tells whether there was such a step.
func killedAt(t *testing.T, h *Host, verb, profile string, step int, how string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "held", verb, h.Root, h.State, profile, fmt.Sprint(step), how)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Signal(syscall.SIGKILL) // one that is done may have ended
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("%s said nothing: %v", verb, err)
	}
	return line == "held\n"
}
