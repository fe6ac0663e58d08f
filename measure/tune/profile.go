//go:build linux

package tune

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
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
func Profiles() ([]Profile, error) {
	entries, err := embeddedProfiles.ReadDir("profiles")
	if err != nil {
		return nil, err
	}
	var all []Profile
	for _, e := range entries {
		p, err := embedded(strings.TrimSuffix(e.Name(), ".yaml"))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func embedded(name string) (Profile, error) {
	data, err := embeddedProfiles.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return Profile{}, err
	}
	return ParseProfile(data, name+".yaml")
}

// profileMax bounds a profile file, in bytes.
const profileMax = 1 << 16

// Load loads a built-in profile by name, or a file (*.yaml, or with a slash).
func Load(name string) (Profile, error) {
	if !strings.Contains(name, "/") && filepath.Ext(name) == "" {
		p, err := embedded(name)
		if err != nil {
			var names []string
			all, failed := Profiles()
			for _, p := range all {
				names = append(names, p.Name)
			}
			return p, errors.Join(failed, fmt.Errorf("unknown profile %q; use %s, or give a file: ./%[1]s.yaml", name, strings.Join(names, ", ")))
		}
		return p, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return Profile{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, profileMax+1))
	if err != nil {
		return Profile{}, err
	}
	return ParseProfile(data, name)
}

// ParseProfile parses a profile; file is its name in errors.
func ParseProfile(data []byte, file string) (Profile, error) {
	var p Profile
	if len(data) > profileMax {
		return p, fmt.Errorf("%s: a profile has at most %d bytes", file, profileMax)
	}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&p); err != nil {
		var at yaml.Error
		switch {
		case errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil:
			return p, fmt.Errorf("%s:%d: %s", file, at.GetToken().Position.Line, strings.ReplaceAll(at.GetMessage(), "\n", " "))
		case errors.Is(err, io.EOF):
			return p, fmt.Errorf("%s: it is empty; docs/tuning.md has an example", file)
		}
		return p, fmt.Errorf("%s: %s", file, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if p.Name == "" {
		p.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	p.About = strings.Join(strings.Fields(p.About), " ")
	for i := range p.Settings {
		s := &p.Settings[i]
		s.Why = strings.Join(strings.Fields(s.Why), " ")
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
	known := isSysctl(s.Set) || strings.HasPrefix(s.Set, nicOffloadPre) ||
		slices.ContainsFunc(Knobs(), func(k Knob) bool { return k.Name == s.Set })
	switch {
	case s.Set == "":
		return errors.New("set: names no knob")
	case !known || strings.ContainsAny(s.Set, "/\\\x00") || strings.Contains(s.Set, ".."):
		return fmt.Errorf("unknown knob %q; ceiling tune show lists them", s.Set)
	case s.To == "":
		return fmt.Errorf("%s has no value; write one behind to:, as in to: 4096", s.Set)
	case strings.ContainsAny(s.To, "\n\x00"):
		return fmt.Errorf("%s: a value is one line", s.Set)
	}
	return nil
}
