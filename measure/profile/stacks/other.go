//go:build !linux

// Package stacks samples stacks of a server's processes through the kernel, on Linux.
package stacks

import (
	"fmt"
	"runtime"
)

// errLinux is the reason why there are no stacks.
var errLinux = fmt.Errorf("stacks are sampled only on Linux, and this is %s", runtime.GOOS) // read-only

// Tables are empty.
type Tables struct{}

// NewTables makes them.
func NewTables() *Tables { return &Tables{} }

// Close does nothing.
func (*Tables) Close() {}

// sampler has the methods of both; there is never one.
type sampler struct{}

func (*sampler) Watch(int)           {}
func (*sampler) WatchPeer(int, int)  {}
func (*sampler) Answers(int, string) {}
func (*sampler) Mark(int)            {}
func (*sampler) Pause()              {}
func (*sampler) Stop()               {}

// CPUSampler samples no CPU here.
type CPUSampler struct{ sampler }

// NewCPUSampler fails.
func NewCPUSampler([]int, float64) (*CPUSampler, error) { return nil, errLinux }

// Start fails.
func (*CPUSampler) Start() error { return errLinux }

// OffSampler samples no waits here.
type OffSampler struct{ sampler }

// NewOffSampler fails.
func NewOffSampler(*Tables, uint16, float64) (*OffSampler, error) { return nil, errLinux }

// Start does nothing.
func (*OffSampler) Start(*CPUSampler, []int) {}

// Summarize has nothing to sum up.
func Summarize(*Tables, *CPUSampler, *OffSampler) Summary { return Summary{} }
