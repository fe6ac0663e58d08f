package tune

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/text"
)

//go:embed profiles/*.yaml
var embeddedProfiles embed.FS

// Profile is a file with settings and their reasons.
type Profile struct {
	Name string `yaml:"name" json:"name"`
	// About says in a sentence or two what it is for, and what it costs.
	About    string    `yaml:"about" json:"about"`
	Settings []Setting `yaml:"settings" json:"settings"`
}

// Setting sets one knob.
type Setting struct {
	// Set is the knob: a sysctl's name, or one of Knobs.
	Set string `yaml:"set" json:"set"`
	// To is the value. Knobs with CPUs take all, near, interrupts, workers, none or a list like
	// 0-3,8.
	To string `yaml:"to" json:"to"`
	// Least keeps a number that is already higher.
	Least bool `yaml:"least,omitempty" json:"least,omitempty"`
	// Optional settings are skipped if the host lacks them.
	Optional bool   `yaml:"optional,omitempty" json:"optional,omitempty"`
	Why      string `yaml:"why" json:"why"`
}

// Profiles returns the built-in profiles, by name.
func Profiles() (all []Profile, err error) {
	files, err := fs.Glob(embeddedProfiles, "profiles/*.yaml")
	for _, file := range files {
		data, err := embeddedProfiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p, err := ParseProfile(data, path.Base(file))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, err
}

// profileMax bounds a profile file, in bytes.
const profileMax = 1 << 16

// Load loads a built-in profile by name, or a file (*.yaml, or with a slash).
func Load(name string) (Profile, error) {
	if !strings.Contains(name, "/") && filepath.Ext(name) == "" {
		all, err := Profiles()
		var names []string
		for _, p := range all {
			if p.Name == name {
				return p, nil
			}
			names = append(names, p.Name)
		}
		return Profile{}, errors.Join(err, fmt.Errorf("unknown profile %q; use %s, or give a file: ./%[1]s.yaml", name, strings.Join(names, ", ")))
	}
	f, err := os.Open(name)
	if err != nil {
		return Profile{}, err
	}
	defer f.Close()
	data, err := spec.ReadAtMost(f, profileMax, "profile "+name)
	if err != nil {
		return Profile{}, err
	}
	return ParseProfile(data, name)
}

// ParseProfile parses a profile; file is its name in errors.
func ParseProfile(data []byte, file string) (Profile, error) {
	var p Profile
	if err := spec.ParseYAML(data, file, "docs/tuning.md", &p); err != nil {
		return p, err
	}
	if p.Name == "" {
		p.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	p.About = text.Line(p.About)
	for i := range p.Settings {
		s := &p.Settings[i]
		s.Why = text.Line(s.Why)
		if err := s.Check(); err != nil {
			return p, fmt.Errorf("%s: setting %d: %w", file, i+1, err)
		}
	}
	if len(p.Settings) == 0 {
		return p, fmt.Errorf("%s: it has no settings; docs/tuning.md has an example", file)
	}
	return p, nil
}

// Check rejects unknown knobs, before reading a host.
func (s *Setting) Check() error {
	known := isSysctl(s.Set) || strings.HasPrefix(s.Set, nicOffloadPre) || slices.Contains(knobs(), s.Set)
	switch {
	case !known || strings.ContainsAny(s.Set, "/\\\x00") || strings.Contains(s.Set, ".."):
		return fmt.Errorf("unknown knob %q; use a sysctl, offload NAME, or %s", s.Set, strings.Join(knobs(), ", "))
	case s.To == "":
		return fmt.Errorf("%s has no value; write one behind to:, as in to: 4096", s.Set)
	case strings.ContainsAny(s.To, "\n\x00"):
		return fmt.Errorf("%s: a value is one line", s.Set)
	}
	return nil
}
