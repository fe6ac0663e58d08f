package stacks

import (
	"github.com/cilium/ebpf/btf"

	"ceiling/measure/profile/symbol"
)

// Tables cache what the samplers read from the kernel and from programs' files: the kernel's types,
// the programs' lines and symbols. Reading them takes 20 ms, and they do not change while a host is
// up and a file stays the same, so consecutive runs share them. One run at a time uses them.
type Tables struct {
	// Types of the kernel, also for other users that load BPF programs.
	Types *btf.Cache

	names symbol.Names
}

// NewTables returns empty tables.
func NewTables() *Tables { return &Tables{Types: btf.NewCache()} }

// Close drops them, and closes the programs' files.
func (t *Tables) Close() { t.names.Close() }
