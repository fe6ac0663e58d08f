package stacks

import (
	"github.com/cilium/ebpf/btf"

	"ceiling/measure/profile/symbol"
)

// Tables are what the samplers read of the kernel and of programs' files: the
// kernel's types, the programs' lines and symbols. They take 20 ms to read and do
// not change while a host is up and a file is as it was, so runs that follow each
// other share them. One run at a time uses them.
type Tables struct {
	// Types of the kernel, for whatever else loads BPF programs.
	Types *btf.Cache

	names symbol.Names
}

// NewTables has nothing read yet.
func NewTables() *Tables { return &Tables{Types: btf.NewCache()} }

// Close forgets them, and closes the programs' files.
func (t *Tables) Close() { t.names.Close() }
