//go:build !linux

// Package observe samples what a host does during a run, on Linux.
package observe

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"

	"ceiling/record"
)

// errLinux is the reason why nothing is observed.
var errLinux = fmt.Errorf("hosts are observed only on Linux, and this is %s", runtime.GOOS) // read-only

// Emit receives the rows, of which there are none.
type Emit func(record.ObservedRow)

// Observer observes nothing here.
type Observer struct{}

// New fails.
func New(Config) (*Observer, error) { return nil, errLinux }

// Run does nothing.
func (*Observer) Run(context.Context, func() int64, Emit) {}

// Subject returns nil.
func (*Observer) Subject() []int { return nil }

// NotMeasured returns nil: New says that nothing is.
func (*Observer) NotMeasured() []record.NotMeasured { return nil }

// Close does nothing.
func (*Observer) Close() {}

// FindNamespace finds none.
func FindNamespace(netip.AddrPort) (pid int) { return 0 }

// TimeWait fails.
func TimeWait(netip.AddrPort) (int64, error) { return 0, errLinux }
