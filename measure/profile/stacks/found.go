package stacks

import (
	"github.com/google/pprof/profile"

	"ceiling/record"
)

// Summary is the result of both samplers, either of which may be nil.
type Summary struct {
	Stacks *record.Stacks
	// CPU and OffCPU are the folded stacks: samples, and microseconds.
	CPU, OffCPU []byte
	// OnProfile and OffProfile are the server's stacks in pprof's format, each sample with its
	// process and its block; nil if there was no block.
	OnProfile, OffProfile *profile.Profile
}
