// Package profiles reads, merges and summarises profiles in pprof's format, from net/http/pprof
// or from kernel stacks. Sample labels identify the process and the block of a run, so that one
// file holds both the total and its spread.
package profiles

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"ceiling/internal/text"
)

// Labels of a sample.
const (
	// Process is the label that names the process.
	Process = "process"
	// Block is a numeric label: the block of the run, from 1 because the format has no 0.
	Block = "block"
	// Idle labels waits of threads with nothing to do.
	Idle = "idle"
)

// plainMax limits an unpacked profile. A program with 100,000 different stacks takes 30 MB.
const plainMax = 128 << 20

// Parse parses a profile, gzipped or not.
func Parse(b []byte) (*profile.Profile, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("the profile cannot be unpacked: %w", err)
		}
		plain, err := io.ReadAll(io.LimitReader(z, plainMax+1))
		if err != nil {
			return nil, fmt.Errorf("the profile cannot be unpacked: %w", err)
		}
		if len(plain) > plainMax {
			return nil, fmt.Errorf("the profile has more than %d MB once it is unpacked", plainMax>>20)
		}
		b = plain
	}
	if len(b) == 0 {
		return nil, errors.New("the profile is empty")
	}
	p, err := profile.ParseUncompressed(b)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("not a profile in pprof's format: %s", text.FirstLine(err.Error()))
	}
	return p, nil
}

// Bytes returns a gzipped profile.
func Bytes(p *profile.Profile) ([]byte, error) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return b.Bytes(), nil
}

// Part is the profile of one process, in one block.
type Part struct {
	Process string // "" if unknown
	Block   int    // from 0; -1 for none
	Profile *profile.Profile
}

// Merge merges several profiles into one, with labels for their origin. It changes the parts'
// labels.
func Merge(parts []Part) (*profile.Profile, error) {
	if len(parts) == 0 {
		return nil, errors.New("no profile to merge")
	}
	var list []*profile.Profile
	for _, part := range parts {
		for _, s := range part.Profile.Sample {
			if part.Process != "" && s.Label[Process] == nil {
				if s.Label == nil {
					s.Label = map[string][]string{}
				}
				s.Label[Process] = []string{part.Process}
			}
			if part.Block >= 0 {
				if s.NumLabel == nil {
					s.NumLabel = map[string][]int64{}
				}
				s.NumLabel[Block] = []int64{int64(part.Block) + 1}
			}
		}
		list = append(list, part.Profile)
	}
	p, err := profile.Merge(list)
	if err != nil {
		return nil, fmt.Errorf("merge profiles: %w", err)
	}
	return p, nil
}

// Since returns the growth of a cumulative profile. It omits decreases due to rounding.
func Since(before, after *profile.Profile) (*profile.Profile, error) {
	taken := before.Copy()
	taken.Scale(-1)
	p, err := profile.Merge([]*profile.Profile{after, taken})
	if err != nil {
		return nil, fmt.Errorf("difference of two profiles: %w", err)
	}
	kept := p.Sample[:0]
	for _, s := range p.Sample {
		grew := false
		for i, v := range s.Value {
			s.Value[i] = max(v, 0)
			grew = grew || v > 0
		}
		if grew {
			kept = append(kept, s)
		}
	}
	p.Sample = kept
	return p, nil
}

// ValueNamed returns the index of the profile's value of a type, such as "cpu" or "alloc_space".
func ValueNamed(p *profile.Profile, name string) (int, error) {
	var names []string
	for i, t := range p.SampleType {
		if t.Type == name {
			return i, nil
		}
		names = append(names, t.Type)
	}
	return 0, fmt.Errorf("the profile has no %q; it has %q", name, names)
}
