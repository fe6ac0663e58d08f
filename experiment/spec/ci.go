package spec

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
)

// CIFile is where a project keeps what its pipeline measures.
const CIFile = ".ceiling.yaml"

// CI is what a pipeline measures of every change: the content of .ceiling.yaml.
type CI struct {
	// Build is a command that is run once in either tree, before anything is started; "" for none.
	Build string `yaml:"build,omitempty" jsonschema:"a command that builds the service, in a shell in the file's directory"`
	// Serve, Env and TLS as of a Server; the command starts in the file's directory.
	Serve string   `yaml:"serve" jsonschema:"the command that starts it; {addr} is replaced by a free address"`
	Env   []string `yaml:"env,omitempty" jsonschema:"of both commands, NAME=value"`
	TLS   bool     `yaml:"tls,omitempty" jsonschema:"the service speaks https"`
	Loads []CILoad `yaml:"loads" jsonschema:"what is measured: each load is a separate comparison"`
}

// CILoad is one load of a pipeline, and what it must hold.
type CILoad struct {
	Mix  `yaml:",inline"`
	Load Load `yaml:"load,omitempty" jsonschema:"how it is sent, as in an experiment"`
	// Expect is what a response must be like.
	Expect Expect `yaml:"expect,omitempty" jsonschema:"what a response must be like: statuses, or a list with body contains \"ok\""`
	// SLO that the change must meet.
	SLO SLO `yaml:"slo,omitempty" jsonschema:"what the change must hold: p99<5ms,errors<0.1%"`
	// FailOn has the losses against the base that fail it; "" for FailOnRate or FailOnCost.
	FailOn string `yaml:"fail_on,omitempty" jsonschema:"losses that fail it: rps<-5%,p99>+10%"`
	// Blocks of A B B A; 0 for as many as 95% needs.
	Blocks int `yaml:"blocks,omitempty" jsonschema:"of A B B A; 0 chooses"`
}

// What fails a load that names no loss and no SLO: in a closed loop, and in an open one, whose rate is
// given. Rate and CPU per request vary less between runs than quantiles do.
const (
	FailOnRate = "rps<-5%,cpu>+5%"
	FailOnCost = "cpu>+5%"
)

// ReadCI reads a pipeline's file. Its errors are one line that begins with FILE:LINE, or with FILE.
func ReadCI(path string) (CI, error) {
	var c CI
	data, err := readFile(path, experimentMax, "pipeline")
	if err != nil {
		return c, err
	}
	if err := ParseYAML(data, path, "docs/ci.md", &c); err != nil {
		return c, err
	}
	dir := filepath.Dir(path)
	for i := range c.Loads {
		l := &c.Loads[i]
		if err := errors.Join(l.Load.TLS.Read(dir), l.Mix.read(dir)); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *CI) check() error {
	switch {
	case c.Serve == "":
		return errors.New("serve: the command that starts the service is missing; give serve: ./app --listen {addr}")
	case len(c.Loads) == 0:
		return errors.New("loads: none is given; give loads: [{path: /}]")
	}
	seen := map[string]bool{}
	for i := range c.Loads {
		label := c.Loads[i].Label()
		if seen[label] {
			return fmt.Errorf("loads %d: there are two called %s; give them different names", i+1, quoteShort(label))
		}
		seen[label] = true
		e := c.Compared(i, Server{Name: "base", Serve: c.Serve}, Server{Name: "change", Serve: c.Serve})
		e.Complete(1)
		if err := e.Check(); err != nil {
			return fmt.Errorf("loads %d: %w", i+1, err)
		}
	}
	return nil
}

// Server is the service in one tree.
func (c *CI) Server(name, dir string) Server {
	return Server{Name: name, Serve: c.Serve, Dir: dir, Env: c.Env, TLS: c.TLS}
}

// Compared is the experiment of one load with the base and the change.
func (c *CI) Compared(load int, base, change Server) Experiment {
	l := &c.Loads[load]
	e := l.experiment(KindCompare, base, change)
	e.Compare = Compare{Blocks: l.Blocks, FailOn: l.FailOn}
	if l.FailOn == "" && len(l.SLO) == 0 {
		e.Compare.FailOn = FailOnRate
		if len(l.Load.Rate) > 0 {
			e.Compare.FailOn = FailOnCost
		}
	}
	return e
}

// Alone is the experiment of one load with the change only, where there is no base.
func (c *CI) Alone(load int, change Server) Experiment {
	e := c.Loads[load].experiment(KindSweep, change)
	e.Load.Duration = cmp.Or(e.Load.Duration, Time((&Experiment{Kind: KindCompare}).kind().runTime))
	return e
}

func (l *CILoad) experiment(kind string, servers ...Server) Experiment {
	return Experiment{Kind: kind, Servers: servers, Requests: []Mix{l.Mix}, Load: l.Load, Expect: l.Expect, SLO: l.SLO}
}
