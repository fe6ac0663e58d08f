package main

import (
	"errors"
	"fmt"

	"ceiling/experiment/spec"
)

// readSession reads the file of --session, for the server of a URL, and returns its steps.
func (f *runFlags) readSession(args []string, fields []spec.Field) ([]spec.Target, error) {
	from := &f.load.from
	if from.targets != "" || from.curl != "" || from.lua != "" || from.once || f.load.method != "" || f.load.body != "" {
		return nil, errors.New("--session: the file has the requests; leave --targets, --curl, --lua, --once, -m and -b out")
	}
	if err := notURL(args[0]); err != nil {
		return nil, err
	}
	base, path, err := spec.SplitURL(args[0])
	switch {
	case err != nil:
		return nil, err
	case spec.IsWebSocket(args[0]):
		return nil, errors.New("--session: its steps are requests; give an http:// or https:// URL")
	case path != "" && path != "/":
		return nil, fmt.Errorf("--session: the file has the paths; give only the server: %s", base)
	}
	if f.session, err = spec.ReadSession(from.session); err != nil {
		return nil, fmt.Errorf("--session: %w", err)
	}
	list, err := f.session.Targets(base)
	if err != nil {
		return nil, fmt.Errorf("--session: %s: %w", from.session, err)
	}
	for i := range list {
		list[i].Header = append(list[i].Header, fields...)
	}
	return list, nil
}
