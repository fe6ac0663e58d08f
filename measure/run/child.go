package run

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/process"
)

// Child is a server that this process started and will end.
type Child struct {
	*process.Process
	// Addr as the server reported it: "127.0.0.1:8080".
	Addr string
}

const startTimeout = 30 * time.Second

// servesOn is what a server prints before its address once it accepts connections.
const servesOn = " serves on "

func servesAt(line string) (addr string, ok bool) {
	_, addr, ok = strings.Cut(line, servesOn)
	return addr, ok
}

// StartChild starts a command that prints a line "… serves on ADDR" once it accepts connections, as
// `ceiling serve` does, and waits for that line. The process ends with this one, even if this one
// is killed.
func StartChild(ctx context.Context, name string, args ...string) (*Child, error) {
	return StartChildOn(ctx, nil, name, args...)
}

// StartChildOn is StartChild on some CPUs only; nil: those of this process.
func StartChildOn(ctx context.Context, cpus []int, name string, args ...string) (*Child, error) {
	return startChild(ctx, &process.Command{Name: name, Args: args, CPUs: cpus})
}

// StartOwn starts one of ceiling's own servers on a free port of an address of this machine, on
// some CPUs only (nil: those of this process), and returns its own address.
func StartOwn(ctx context.Context, o *spec.Own, at netip.Addr, cpus []int) (Instance, string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	args := slices.Concat(o.Args, []string{"--addr", netip.AddrPortFrom(at, 0).String()})
	c, err := startChild(ctx, &process.Command{Name: exe, Args: args, Env: o.Env, CPUs: cpus})
	if err != nil {
		return nil, "", err
	}
	return c, c.Addr, nil
}

func startChild(ctx context.Context, cmd *process.Command) (*Child, error) {
	cmd.Ready = servesAt
	p, err := cmd.Start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no line %q within %s", strings.TrimSpace(servesOn), startTimeout))
	defer cancel()
	addr, err := p.Await(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("start %s %s: %w", cmd.Name, strings.Join(cmd.Args, " "), err)
	}
	return &Child{p, addr}, nil
}
