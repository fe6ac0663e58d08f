//go:build !linux

// Package perturb takes away CPU, link or slots during a run, on Linux.
package perturb

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"ceiling/record"
)

// errLinux is the reason why nothing is perturbed.
var errLinux = fmt.Errorf("resources are taken away only on Linux, and this is %s", runtime.GOOS) // read-only

// Targets are none here.
type Targets struct {
	PinGenerator string
	Threads      int
}

// Survey fails.
func Survey(Request) (*Targets, error) { return nil, errLinux }

// Lacks says why nothing can be perturbed.
func (*Targets) Lacks(string) string { return errLinux.Error() }

// Taking takes nothing.
type Taking struct{ PinServer string }

// Begin fails.
func (*Targets) Begin(context.Context, *record.Step) (*Taking, error) { return nil, errLinux }

// End fails.
func (*Taking) End(time.Time, float64) (record.Perturbed, error) { return record.Perturbed{}, errLinux }

// Pinned pins nothing.
type Pinned struct{}

// Pin fails.
func Pin([]int, []int) (*Pinned, error) { return nil, errLinux }

// Restore has nothing to restore.
func (*Pinned) Restore() error { return nil }

// Restore has nothing to restore.
func Restore() error { return nil }

// StartTicks fails.
func StartTicks(int) (uint64, error) { return 0, errLinux }

// AllowedTo fails.
func AllowedTo([]int) ([]int, error) { return nil, errLinux }
