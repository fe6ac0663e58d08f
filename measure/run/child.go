package run

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	p, err := (&process.Command{Name: name, Args: args, CPUs: cpus, Ready: servesAt}).Start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no line %q within %s", strings.TrimSpace(servesOn), startTimeout))
	defer cancel()
	addr, err := p.Await(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("start %s %s: %w", name, strings.Join(args, " "), err)
	}
	return &Child{p, addr}, nil
}
