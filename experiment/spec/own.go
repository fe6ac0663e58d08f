package spec

import (
	"fmt"
	"regexp"
	"strings"

	"ceiling/internal/lazy"
)

// Own is a server of ceiling's own, as another machine is asked to start it: a verb, a kind, and
// flags that name no file, no address and no program of that machine.
type Own struct {
	// Args follow "ceiling", without --addr: serve or planted, a kind, and flags.
	Args []string `json:"args"`
	// Env is NAME=value, of ownEnv.
	Env []string `json:"env,omitempty"`
}

var (
	ownKind = lazy.Regexp(`^[a-z]+(-[a-z]+)*$`)
	ownWord = lazy.Regexp(`^[0-9a-z.]{1,12}$`) // a number, a duration, a kind of fault
	ownList = lazy.Regexp(`^[a-z]+(=[A-Za-z0-9.%:]+)?(,[a-z]+=[A-Za-z0-9.%:]+)*$`)
)

// ownFlags are the flags that may be given, by verb, and their values; nil: they take none.
var ownFlags = map[string]map[string]func() *regexp.Regexp{
	"serve": {
		"--prefork": nil, "--tls": nil, "--workers": ownWord, "--list-kb": ownWord,
		"--db": lazy.Regexp(`^(sqlite|postgres)$`), "--db-pool": ownWord, "--db-group": ownWord,
		"--db-unprepared": nil, "--db-cached": nil, "--db-nosync": nil,
		"--downstream": ownList, "--kv": ownList,
	},
	"planted": {
		"--threads": ownWord, "--cpu": ownWord, "--sleep": ownWord, "--n": ownWord, "--every": ownWord, "--fault": ownWord,
		"--period": ownWord, "--bytes": ownWord, "--chunks": ownWord,
	},
} // read-only

// ownEnv are the variables that may be set: those that size Go's runtime.
var ownEnv = lazy.Regexp(`^(GOMAXPROCS|GOGC|GOMEMLIMIT)=[A-Za-z0-9]+$`)

// Own returns the server as another machine can start it. The error says why it cannot.
func (s *Server) Own() (*Own, error) {
	words := strings.Fields(s.Serve)
	if len(words) < 3 || words[0] != "ceiling" || ownFlags[words[1]] == nil {
		return nil, fmt.Errorf("%q is a command, and agents execute none: they start ceiling's own servers (ceiling serve KIND, ceiling planted KIND)", s.Serve)
	}
	if s.Dir != "" {
		return nil, fmt.Errorf("dir: %s is a directory of this machine; remove it with --agents", s.Dir)
	}
	o := &Own{Env: s.Env}
	for at := 1; at < len(words); at++ {
		switch {
		case words[at] == "--addr" && at+1 < len(words) && words[at+1] == "{addr}":
			at++
		case words[at] != "--addr={addr}":
			o.Args = append(o.Args, words[at])
		}
	}
	return o, o.Check()
}

// Check rejects what an agent does not start.
func (o *Own) Check() error {
	if len(o.Args) < 2 || ownFlags[o.Args[0]] == nil || !ownKind().MatchString(o.Args[1]) {
		return fmt.Errorf("no kind of server: %q", o.Args)
	}
	for at := 2; at < len(o.Args); at++ {
		name, value, given := strings.Cut(o.Args[at], "=")
		allowed, known := ownFlags[o.Args[0]][name]
		if !known {
			return fmt.Errorf("%s: agents do not take it: ceiling %s has no such flag, or it names something on their machine", name, o.Args[0])
		}
		if !given && allowed != nil && at+1 < len(o.Args) {
			at++
			value = o.Args[at]
		}
		if allowed == nil && value != "" || allowed != nil && !allowed().MatchString(value) {
			return fmt.Errorf("%s %s: agents do not take this value", name, value)
		}
	}
	for _, v := range o.Env {
		if !ownEnv().MatchString(v) {
			return fmt.Errorf("env: %s: agents set only GOMAXPROCS, GOGC and GOMEMLIMIT", v)
		}
	}
	return nil
}
