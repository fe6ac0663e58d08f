package export

import (
	"fmt"
	"strings"

	"ceiling/internal/profiles"
	"ceiling/record"
)

// Profiles returns the kinds of profile whose stacks the record holds.
func (s *Source) Profiles() []string {
	var kinds []string
	if s.Run.Profiling != nil {
		for _, p := range s.Run.Profiling.Profiles {
			if p.File != "" {
				kinds = append(kinds, p.Kind)
			}
		}
	}
	return kinds
}

// Pprof returns a profile in pprof's format, gzipped.
func (s *Source) Pprof(kind string) ([]byte, error) {
	p := s.Run.Profiling.Of(kind)
	if p != nil && p.File != "" {
		for i := range s.contents.Attachments {
			if a := &s.contents.Attachments[i]; a.Name == p.File {
				return a.Bytes(), nil
			}
		}
		return nil, fmt.Errorf("the record lacks the file of its %s profile", kind)
	}
	kinds := s.Profiles()
	if len(kinds) == 0 {
		return nil, fmt.Errorf("the run has no profiles; take them: ceiling profile %s", s.Run.Target)
	}
	return nil, fmt.Errorf("the run has no %s profile; it has %s", kind, strings.Join(kinds, ", "))
}

// Folded returns a profile as folded stacks, one "process;outermost;…;innermost value" per line.
func (s *Source) Folded(kind string) ([]byte, error) {
	b, err := s.Pprof(kind)
	if err != nil {
		return nil, err
	}
	p, err := profiles.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s profile: %w", kind, err)
	}
	value, err := profiles.ValueNamed(p, record.ProfileValue(kind))
	if err != nil {
		return nil, fmt.Errorf("%s profile: %w", kind, err)
	}
	return profiles.Fold(p, value), nil
}
