//go:build linux

package perturb

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/experiment/spec"
)

// TestMain lets the test binary be a hog, a process that is idle, and one
// that changes something and then waits to be killed.
func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case hogVerb:
		err = hogRole(os.Args[2:])
	case "idle":
		fmt.Println("idle")
		_, err = io.Copy(io.Discard, os.Stdin)
	case "hold":
		err = holdRole(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hogRole is the verb hog.
func hogRole(args []string) error {
	var o HogOptions
	f := flag.NewFlagSet(hogVerb, flag.ContinueOnError)
	cpus := f.String("cpus", "", "")
	f.Float64Var(&o.Share, "share", 0, "")
	f.BoolVar(&o.Polite, "polite", false, "")
	err := f.Parse(args)
	if err == nil {
		o.CPUs, err = spec.ParseCPUList(*cpus)
	}
	if err != nil {
		return err
	}
	return Hog(context.Background(), o, os.Stdin, os.Stdout)
}

// holdRole changes something, says so, and waits for its end.
func holdRole(args []string) error {
	switch args[0] {
	case "pin":
		var pid, cpu int
		if _, err := fmt.Sscan(args[1], &pid); err != nil {
			return err
		}
		if _, err := fmt.Sscan(args[2], &cpu); err != nil {
			return err
		}
		if _, err := Pin([]int{pid}, []int{cpu}); err != nil {
			return err
		}
		fmt.Println("held")
	case "link":
		l, err := findLink(args[1], args[2], 1e9)
		if err != nil {
			return err
		}
		if _, _, _, err := l.slow(0.25); err != nil {
			return err
		}
		fmt.Println("held")
	case hogVerb:
		cpus, err := spec.ParseCPUList(args[1])
		if err != nil {
			return err
		}
		t, err := startHog(context.Background(), os.Args[0], cpus, 0.1, false)
		if err != nil {
			return err
		}
		fmt.Println(t.PID)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// peer is this binary in another role.
type peer struct {
	cmd  *exec.Cmd
	said string // its first line
}

func start(t *testing.T, role ...string) *peer {
	t.Helper()
	p := &peer{cmd: exec.Command(os.Args[0], role...)}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		p.kill()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v said nothing: %v", role, err)
	}
	p.said = strings.TrimSpace(line)
	return p
}

// kill ends it without a warning and waits until it has ended.
func (p *peer) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// waitFor polls: other processes tell nobody.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this did not come: %s", what)
		}
	}
}
