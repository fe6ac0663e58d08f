package spec_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
)

// TestOwnServers: what an agent would start for an experiment, and all that it would not.
func TestOwnServers(t *testing.T) {
	for line, want := range map[string]string{
		"ceiling serve fasthttp --addr {addr}":                                     "serve fasthttp",
		"ceiling serve fiber --prefork --workers 4 --addr={addr}":                  "serve fiber --prefork --workers 4",
		"ceiling serve fasthttp --db postgres --db-pool=2 --addr {addr}":           "serve fasthttp --db postgres --db-pool=2",
		"ceiling serve fasthttp --downstream fail=0.1%,slow=1%:20ms --addr {addr}": "serve fasthttp --downstream fail=0.1%,slow=1%:20ms",
		"ceiling serve fasthttp --kv own":                                          "serve fasthttp --kv own",
		"ceiling planted random --sleep 1ms --addr {addr} --n 4":                   "planted random --sleep 1ms --n 4",
	} {
		o, err := (&spec.Server{Serve: line, Env: []string{"GOMAXPROCS=2"}}).Own()
		if err != nil || strings.Join(o.Args, " ") != want || !slices.Equal(o.Env, []string{"GOMAXPROCS=2"}) {
			t.Errorf("%s: %+v, %v", line, o, err)
		}
	}
	for _, line := range []string{
		"", "ceiling", "ceiling serve", "ceiling serve --prefork", "python3 app.py {port}", "ceiling run http://h",
		"ceiling serve fiber; id", "ceiling serve fiber --pprof 0.0.0.0:1", "ceiling serve fiber --ca /etc/passwd", "ceiling serve fiber --addr 0.0.0.0:1",
		"ceiling serve fiber --db sqlite:/etc/passwd", "ceiling serve fiber --db postgres://h/x", "ceiling serve fiber --prefork=no", "ceiling serve ../x",
		"ceiling serve fiber --workers", "ceiling serve fiber --workers $(id)", "ceiling serve fiber --kv nats://h", "ceiling serve fiber extra", "ceiling planted far --to 10.0.0.1:1", "ceiling serve fiber --n 4", "ceiling fleet tokens",
	} {
		if o, err := (&spec.Server{Serve: line}).Own(); err == nil {
			t.Errorf("%q is accepted: %q", line, o.Args)
		}
	}
	for _, env := range []string{"LD_PRELOAD=/x.so", "PATH=.", "GOMAXPROCS=1 X=2", "GOGC="} {
		if _, err := (&spec.Server{Serve: "ceiling serve fiber", Env: []string{env}}).Own(); err == nil {
			t.Errorf("%q is accepted", env)
		}
	}
}

// TestShippedExperimentsOnAgents: every server of every shipped experiment can be started by an
// agent, in every cell.
func TestShippedExperimentsOnAgents(t *testing.T) {
	files, err := filepath.Glob("../../docs/experiments/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatal(files, err)
	}
	limited := 0
	for _, file := range files {
		e, err := spec.ReadExperiment(file)
		if err != nil {
			t.Fatal(err)
		}
		if e.Limited() {
			limited++
		}
		servers := slices.Clone(e.Servers)
		for _, c := range e.Cells() {
			servers = append(servers, c.With(e.Servers[c.Server]))
		}
		for _, s := range servers {
			if _, err := s.Own(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if limited != 5 { // docs/fleet.md
		t.Errorf("%d plant a link", limited)
	}
}
