package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
)

// borrowed returns the targets of --targets or --curl: of a targets file, or of requests that another
// program wrote. What those leave out is said, and curl's flags apply where ceiling's own do not.
func (f *runFlags) borrowed(sh *shell) ([]spec.Target, error) {
	data, name, dir := []byte(nil), f.load.from.targets, ""
	set, err := (*borrowed.Set)(nil), error(nil)
	switch {
	case f.load.from.curl != "":
		name = "--curl"
		set, err = borrowed.Curl(f.load.from.curl, opener(""))
	case name == "-":
		name = "standard input"
		data, err = spec.ReadAtMost(sh.Stdin, spec.TargetsFileMax, name)
	default:
		dir = filepath.Dir(name)
		var file *os.File
		if file, err = os.Open(name); err != nil {
			return nil, fmt.Errorf("targets: %w", err)
		}
		defer file.Close()
		data, err = spec.ReadAtMost(file, spec.TargetsFileMax, name)
	}
	if err == nil && set == nil {
		set, err = borrowed.Read(data, name, opener(dir))
	}
	switch {
	case err != nil:
		return nil, err
	case set == nil:
		return spec.ReadTargets(bytes.NewReader(data), name, dir)
	}
	for _, line := range set.Left {
		sh.Note("ceiling: %s: %s", name, line)
	}
	for flag, value := range set.Flags {
		if f.changed(flag) {
			continue
		}
		if err := f.set(flag, value); err != nil {
			return nil, fmt.Errorf("%s: --%s: %w", name, flag, err)
		}
	}
	return spec.ReadTargets(bytes.NewReader(set.Lines()), name+", request", dir)
}

// opener reads body files, relative to a directory.
func opener(dir string) borrowed.Opener {
	return func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return spec.ReadBody("@"+name, nil)
	}
}
