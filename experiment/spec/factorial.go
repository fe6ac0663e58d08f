package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// Limits of a factorial experiment: a larger table of effects would be unreadable.
const (
	factorsMax = 6
	levelsMax  = 8
	cellsMax   = 64
)

// Factorial defines what an experiment varies.
type Factorial struct {
	// Factors with their levels. Every combination is a cell, unless Cells lists some.
	Factors []Factor `json:"factors,omitempty" yaml:"factors,omitempty" jsonschema:"what is varied, each on its own"`
	// Cells to measure: one level name per factor, in the order of the factors.
	Cells [][]string `json:"cells,omitempty" yaml:"cells,omitempty" jsonschema:"combinations to measure, by the names of their levels; every combination where none is given"`
	// Interface with the tuned queues and interrupts; "" for the one that the load crosses.
	Interface string `json:"interface,omitempty" yaml:"interface,omitempty" jsonschema:"network interface that is tuned; the one that the load crosses where none is given"`
	// Within is the ± share within which "no effect" may be concluded; 0 for the metric's
	// default.
	Within float64 `json:"within,omitempty" yaml:"within,omitempty" jsonschema:"no effect is one within this share: 0.05 and for p99 0.2 where none is given"`
}

// Factor is a factor of the experiment.
type Factor struct {
	Name string `json:"name" yaml:"name" jsonschema:"as tables call it"`
	// Levels, two or more. Effects are relative to the first.
	Levels []Level `json:"levels" yaml:"levels" jsonschema:"two or more; the others are compared with the first"`
}

// Level is one setting of a factor. Fields left empty keep the experiment's value.
type Level struct {
	// Name in tables; defaults to its settings.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"as tables call it; what it sets where none is given"`
	// Server and Request name one of the experiment's.
	Server  string `json:"server,omitempty" yaml:"server,omitempty" jsonschema:"name of one of the servers"`
	Request string `json:"request,omitempty" yaml:"request,omitempty" jsonschema:"name, or path, of one of the requests"`
	// Args are appended to the serve command, Env to its environment.
	Args string   `json:"args,omitempty" yaml:"args,omitempty" jsonschema:"added to the command that serves"`
	Env  []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"of the command that serves, NAME=value"`
	// Tune are profiles and settings of this host during the run: rps-rfs, a file with a
	// slash in its name, or rps_cpus=all (docs/tuning.md).
	Tune []string `json:"tune,omitempty" yaml:"tune,omitempty" jsonschema:"profiles of ceiling tune, and settings as in rps_cpus=all, in force during the run"`
	// Link has what the level changes of the experiment's.
	Link Link `json:"link,omitzero" yaml:"link,omitempty" jsonschema:"what changes of the link to the servers"`
	// Lists of one value each, and Settings, take the place of the load's.
	Lists    `yaml:",inline"`
	Settings `yaml:",inline"`
}

// Cell is one combination of levels.
type Cell struct {
	// Levels are indices into the levels of each factor.
	Levels []int
	// Server and Mix are indices into the experiment's lists.
	Server, Mix int
	Condition
	// Settings of the levels; those that none of them sets are the experiment's.
	Settings
	// Args and Env are added to those of the server.
	Args, Env []string
	// Tune is the host settings during the run.
	Tune []string
	// Link to the server.
	Link Link
}

// Label is the level's name in tables.
func (f *Factor) Label(level int) string {
	l := &f.Levels[level]
	if l.Name != "" {
		return l.Name
	}
	var parts []string
	for _, g := range l.given() {
		parts = append(parts, strings.TrimPrefix(g.label, f.Name+"="))
	}
	return strings.Join(parts, ", ")
}

// CellLabel names a combination of levels: GOMAXPROCS=1, route=/simple.
func (e *Experiment) CellLabel(levels []int) string {
	var parts []string
	for i, at := range levels {
		if i < len(e.Factorial.Factors) && at >= 0 && at < len(e.Factorial.Factors[i].Levels) {
			f := &e.Factorial.Factors[i]
			parts = append(parts, f.Name+"="+f.Label(at))
		}
	}
	return strings.Join(parts, ", ")
}

// Cells returns the combinations to measure.
func (e *Experiment) Cells() []Cell {
	var cells []Cell
	for _, levels := range e.Factorial.grid() {
		cells = append(cells, e.Cell(levels))
	}
	return cells
}

// Same returns the condition of a run; ok: all runs have its value of a dimension, which is not 0.
func (e *Experiment) Same(d Dimension) (c Condition, ok bool) {
	all := e.Load.Conditions()
	if cells := e.Cells(); len(cells) > 0 {
		all = nil
		for i := range cells {
			all = append(all, cells[i].Condition)
		}
	}
	value := d.Of(&all[0])
	return all[0], value != 0 && !slices.ContainsFunc(all, func(c Condition) bool { return d.Of(&c) != value })
}

// grid returns the levels of every cell, the last factor varying fastest. It omits cells with an
// unknown level: Check rejects them.
func (f *Factorial) grid() [][]int {
	if len(f.Cells) > 0 {
		var list [][]int
		for _, names := range f.Cells {
			if levels, err := f.levelsOf(names); err == nil {
				list = append(list, levels)
			}
		}
		return list
	}
	if len(f.Factors) == 0 || f.combinations() > cellsMax { // Check rejects that
		return nil
	}
	list := [][]int{nil}
	for i := range f.Factors {
		var longer [][]int
		for _, levels := range list {
			for at := range f.Factors[i].Levels {
				longer = append(longer, append(slices.Clone(levels), at))
			}
		}
		list = longer
	}
	return list
}

// combinations counts the cells of the full grid, saturating at one more than cellsMax.
func (f *Factorial) combinations() int {
	n := 1
	for i := range f.Factors {
		if n *= len(f.Factors[i].Levels); n > cellsMax {
			return cellsMax + 1
		}
	}
	return n
}

// levelsOf finds the levels that a cell names.
func (f *Factorial) levelsOf(names []string) ([]int, error) {
	if len(names) != len(f.Factors) {
		return nil, fmt.Errorf("%d levels are named and there are %d factors; name one level of each, in their order", len(names), len(f.Factors))
	}
	levels := make([]int, len(names))
	for i, name := range names {
		factor := &f.Factors[i]
		all := factor.labels()
		if levels[i] = slices.Index(all, name); levels[i] < 0 {
			return nil, fmt.Errorf("%s has no level %s; there are %s", factor.Name, quoteShort(name), strings.Join(all, ", "))
		}
	}
	return levels, nil
}

func (f *Factor) labels() []string {
	var all []string
	for i := range f.Levels {
		all = append(all, f.Label(i))
	}
	return all
}

// Cell returns the settings of a combination of levels.
func (e *Experiment) Cell(levels []int) Cell {
	c := Cell{Levels: levels, Condition: e.Load.First(), Link: e.Link}
	for i, at := range levels {
		if i >= len(e.Factorial.Factors) || at < 0 || at >= len(e.Factorial.Factors[i].Levels) {
			continue // levels of another experiment
		}
		l := &e.Factorial.Factors[i].Levels[at]
		c.Server = cmp.Or(max(e.serverCalled(l.Server), 0), c.Server)
		c.Mix = cmp.Or(max(e.mixCalled(l.Request), 0), c.Mix)
		c.Condition = l.Lists.over(c.Condition)
		c.Settings = l.Settings.Onto(c.Settings)
		c.Link = c.Link.with(l.Link)
		if l.Args != "" {
			c.Args = append(c.Args, l.Args)
		}
		c.Env, c.Tune = append(c.Env, l.Env...), append(c.Tune, l.Tune...)
	}
	return c
}

// With returns a server with the cell's settings.
func (c *Cell) With(s Server) Server {
	if len(c.Args) > 0 {
		s.Serve += " " + strings.Join(c.Args, " ")
	}
	s.Env = slices.Concat(s.Env, c.Env)
	return s
}

func (e *Experiment) serverCalled(name string) int {
	return slices.IndexFunc(e.Servers, func(s Server) bool { return s.Label() == name })
}

func (e *Experiment) mixCalled(name string) int {
	return slices.IndexFunc(e.Requests, func(m Mix) bool { return m.Label() == name })
}

// checkFactorial rejects factors that do not form an experiment.
func (e *Experiment) checkFactorial() error {
	f := &e.Factorial
	if n := len(f.Factors); n == 0 || n > factorsMax {
		return fmt.Errorf("factorial.factors: %d are given, from 1 to %d can be", n, factorsMax)
	}
	if !(f.Within >= 0 && f.Within <= 0.5) {
		return fmt.Errorf("factorial.within: %v: must be 0–0.5; 0.05 is 5%%", f.Within)
	}
	owner := map[string]string{} // setting to factor
	for i := range f.Factors {
		if err := e.checkFactor(i, owner); err != nil {
			return fmt.Errorf("factorial.factors[%d]%s: %w", i+1, named(f.Factors[i].Name), err)
		}
	}
	for _, list := range []struct {
		what string
		n    int
	}{{"server", len(e.Servers)}, {"request", len(e.Requests)}} {
		if list.n > 1 && owner[list.what] == "" {
			return fmt.Errorf("%ss: %d are given and no factor chooses between them; give its levels as - %s: NAME", list.what, list.n, list.what)
		}
	}
	return e.checkCells()
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return " " + quoteShort(name)
}

func (e *Experiment) checkFactor(at int, owner map[string]string) error {
	f := &e.Factorial.Factors[at]
	switch n := len(f.Levels); {
	case f.Name == "":
		return errors.New("it has no name; give name: GOMAXPROCS")
	case slices.ContainsFunc(e.Factorial.Factors[:at], func(o Factor) bool { return o.Name == f.Name }):
		return errors.New("there are two of that name; give them different names")
	case n < 2 || n > levelsMax:
		return fmt.Errorf("%s given, a factor has from 2 to %d", unit.Plural(n, "level is", "levels are"), levelsMax)
	}
	labels := f.labels()
	for i := range f.Levels {
		switch {
		case labels[i] == "":
			return fmt.Errorf("level %d sets nothing; give it a name, as in name: default", i+1)
		case slices.Contains(labels[:i], labels[i]):
			return fmt.Errorf("levels: there are two called %s; give them different names", quoteShort(labels[i]))
		}
		if err := e.checkLevel(f, &f.Levels[i], owner); err != nil {
			return fmt.Errorf("level %d %s: %w", i+1, quoteShort(labels[i]), err)
		}
	}
	if !slices.ContainsFunc(f.Levels, func(l Level) bool { return len(l.given()) > 0 }) {
		return errors.New("its levels set nothing: give server, request, args, env, tune, link, or keys of load: connections, pipelining, rate, threads, engine, new_connections")
	}
	return nil
}

// checkLevel validates one level; owner maps settings to factors, so that no two set the same.
// Arguments accumulate.
func (e *Experiment) checkLevel(f *Factor, l *Level, owner map[string]string) error {
	for _, g := range l.given() {
		if other := owner[g.key]; other != "" && other != f.Name && g.key != "args" {
			return fmt.Errorf("%s is set by %s already: two factors cannot set the same", g.key, other)
		}
		owner[g.key] = f.Name
	}
	if l.Server != "" && e.serverCalled(l.Server) < 0 {
		return fmt.Errorf("no server is called %s; there are %s", quoteShort(l.Server), labelsOf(e.Servers, (*Server).Label))
	}
	if l.Request != "" && e.mixCalled(l.Request) < 0 {
		return fmt.Errorf("no request is called %s; there are %s", quoteShort(l.Request), labelsOf(e.Requests, (*Mix).Label))
	}
	for _, v := range l.Env {
		if err := checkVariable(v); err != nil {
			return err
		}
	}
	for _, t := range l.Tune {
		if name, value, setting := strings.Cut(t, "="); name == "" || setting && value == "" {
			return fmt.Errorf("tune %s is neither a profile nor KNOB=value; ceiling tune show lists them", quoteShort(t))
		}
	}
	if running := slices.IndexFunc(e.Servers, func(s Server) bool { return s.URL != "" }); running >= 0 && (l.Args != "" || len(l.Env) > 0) {
		return fmt.Errorf("args and env are for a command that is started; %s runs already", e.Servers[running].URL)
	}
	for i := range dimensions {
		if d := &dimensions[i]; d.values(&l.Lists) > 1 {
			return fmt.Errorf("%s: a level has one value, not %d; give each a level", d.Dimension, d.values(&l.Lists))
		} else if d.of(new(l.Lists.over(Condition{}))) < 0 {
			return fmt.Errorf("%s: 1 or more", d.Dimension)
		}
	}
	if l.Link.Queues != 0 {
		return errors.New("link.queues: the queues are the same in all runs; give them in the experiment's link")
	}
	return nil
}

func labelsOf[T any](list []T, label func(*T) string) string {
	var all []string
	for i := range list {
		all = append(all, label(&list[i]))
	}
	return strings.Join(all, ", ")
}

// checkCells validates the combinations.
func (e *Experiment) checkCells() error {
	f := &e.Factorial
	if n := f.combinations(); n > cellsMax && len(f.Cells) == 0 || len(f.Cells) > cellsMax {
		return fmt.Errorf("factorial: the factors make more than %d cells; give fewer levels, or a list of cells", cellsMax)
	}
	var seen [][]int
	for i, names := range f.Cells {
		levels, err := f.levelsOf(names)
		if err != nil {
			return fmt.Errorf("factorial.cells[%d]: %w", i+1, err)
		}
		if slices.ContainsFunc(seen, func(o []int) bool { return slices.Equal(o, levels) }) {
			return fmt.Errorf("factorial.cells[%d]: duplicate %s; repeats say how often each is measured", i+1, e.CellLabel(levels))
		}
		seen = append(seen, levels)
	}
	if len(f.Cells) == 1 {
		return errors.New("factorial.cells: one cell has nothing to be compared with; give two or more, or remove cells")
	}
	cells, open := e.Cells(), 0
	for i := range cells {
		c := &cells[i]
		s, err := e.Spec(placeholder, c.Mix, &c.Condition)
		if err == nil {
			s.Settings = c.Settings.Onto(s.Settings)
			err = s.Check()
		}
		if err == nil {
			err = c.Link.check()
		}
		if err == nil && c.Threads > c.Connections {
			err = fmt.Errorf("threads: %d threads cannot share %d connections", c.Threads, c.Connections)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
		}
		if s.Open() {
			open++
		}
	}
	if open > 0 && open < len(cells) {
		return errors.New("rate: some cells have one and others are closed loops, which cannot be compared; give every level of that factor a rate")
	}
	if runs := e.Repeats * len(cells); runs > RunsMax {
		return fmt.Errorf("factorial: %d cells × %d repeats are %d runs, at most %d are done; give fewer of either", len(cells), e.Repeats, runs,
			RunsMax)
	}
	return nil
}
