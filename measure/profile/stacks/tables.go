//go:build linux

package stacks

import (
	"ceiling/measure/profile/symbol"
)

// Tables cache what the samplers read from programs' files, their lines and symbols. They do not change
// while a file stays the same, so consecutive runs share them. One run at a time uses them.
type Tables struct{ names symbol.Names }

// NewTables returns empty tables.
func NewTables() *Tables { return &Tables{} }

// Close drops them, and closes the programs' files.
func (t *Tables) Close() { t.names.Close() }
