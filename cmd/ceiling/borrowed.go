package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
)

// borrowed returns the targets of --targets or --curl: of a targets file, or of requests that another
// program wrote. What those leave out is said, and curl's flags apply where ceiling's own do not.
// An access log has no host: args has the URL of the server that its requests are for.
func (f *runFlags) borrowed(args []string, sh *shell) ([]spec.Target, error) {
	data, name, dir := []byte(nil), f.load.from.targets, ""
	speed, err := replaySpeed(f.load.rate)
	if err != nil {
		return nil, err
	}
	var set *borrowed.Set
	stdin := sh.Stdin
	switch {
	case f.load.from.curl != "":
		name = "--curl"
		set, err = borrowed.Curl(f.load.from.curl, opener("", &stdin))
	case name == "-":
		name, stdin = "standard input", nil
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
		set, err = readBorrowed(data, name, opener(dir, &stdin), args, speed > 0)
	}
	switch {
	case err != nil:
		return nil, err
	case speed > 0 && (set == nil || set.Order == nil):
		return nil, fmt.Errorf("-R log: %s is not an access log, which has times; give a rate, -R 100", name)
	case set == nil:
		return spec.ReadTargets(bytes.NewReader(data), name, dir)
	}
	for _, line := range set.Left {
		sh.Note("ceiling: %s: %s", name, line)
	}
	if speed > 0 {
		if err := f.replays(set, speed, sh); err != nil {
			return nil, err
		}
	}
	for flag, value := range set.Flags {
		if f.changed(flag) {
			continue
		}
		if err := f.set(flag, value); err != nil {
			return nil, fmt.Errorf("%s: --%s: %w", name, flag, err)
		}
	}
	return set.Targets(name + ", request")
}

// readBorrowed reads the requests of a file; nil if it is one of targets.
func readBorrowed(data []byte, name string, open borrowed.Opener, args []string, timed bool) (*borrowed.Set, error) {
	base := ""
	if len(args) > 0 {
		server, path, err := spec.SplitURL(args[0])
		if err == nil && path != "/" {
			err = fmt.Errorf("%s: the log has the paths; give %s", args[0], server)
		}
		if err != nil {
			return nil, err
		}
		base = server
	}
	set, err := borrowed.Log(data, name, base, timed)
	switch {
	case set != nil && base == "":
		return nil, fmt.Errorf("%s is an access log, which has no host; give the server as well: --targets %[1]s http://127.0.0.1:8080", name)
	case set == nil && base != "" && err == nil:
		return nil, fmt.Errorf("--targets: %s is not an access log, and other files have the URLs; remove %s", name, args[0])
	case set != nil || err != nil:
		return set, err
	}
	return borrowed.Read(data, name, open)
}

// opener reads body files, relative to a directory, and the standard input once: it is nil then.
func opener(dir string, stdin *io.Reader) borrowed.Opener {
	return func(name string) ([]byte, error) {
		in := *stdin
		switch {
		case name == "-" && in == nil:
			return nil, errors.New("@-: the standard input was read already; give a file")
		case name == "-":
			*stdin = nil
			return spec.ReadBody("@-", in)
		case !filepath.IsAbs(name):
			name = cmp.Or(dir, ".") + "/" + name // a file may be called -
		}
		return spec.ReadBody("@"+name, nil)
	}
}
