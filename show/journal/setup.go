package journal

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/page"
)

// setup is the environment in which an entry's records were measured.
type setup struct {
	Rows     []setupRow
	Commands []command
}

// setupRow is a machine and its role.
type setupRow struct{ Role, Machine, Cores, Memory, Link string }

// command is a command that was typed, or started, for a record.
type command struct{ Role, Of, Line string }

const notRecorded = "not recorded"

// setup collects the setup from the entry's records; nil if it has none yet.
func (e *Entry) setup() *setup {
	out := new(setup)
	for _, r := range e.Records {
		switch {
		case r.Pending():
		case r.Plan != nil:
			e.planSetup(out, r)
		default:
			out.machines(r.Run.Run, &r.Run.Environment, cpuSplit(nil))
			out.add(command{"generator", r.Name, page.CommandLine(r.Run.Command)})
			out.add(command{"server", r.Name, programs(r.Run.Subject)})
			out.database(r.Name, r.Run.Run)
		}
	}
	if e.ladder != nil {
		out.ladder(e.ladder)
	}
	if len(out.Rows) == 0 {
		return nil
	}
	return out
}

func (e *Entry) planSetup(out *setup, r *Record) {
	p := r.Plan
	var first *record.Run
	for i := range p.Runs {
		if run, err := e.openedRun(r, p.Runs[i].Run); err == nil {
			first = run.Run
			break
		}
	}
	out.machines(first, &p.Environment, cpuSplit(p.CPUs))
	if link := p.Experiment.LinkSays(); link != "" {
		for i := range out.Rows {
			out.Rows[i].Link = link
		}
	}
	out.database(r.Name, first)
	out.add(command{"generator", r.Name, page.CommandLine(p.Command)})
	servers := page.Servers(p)
	for i := range servers {
		s := &servers[i]
		line := page.Shown(strings.Join(append(slices.Clone(s.Env), s.Serve), " "))
		if s.Serve == "" {
			line = "ran already, at " + page.Shown(s.URL) + "; its command is " + notRecorded
		}
		out.add(command{"server", page.Shown(s.Label()), line})
	}
}

// database adds the server's database and its settings.
func (s *setup) database(of string, run *record.Run) {
	if run != nil && run.Database != nil {
		s.add(command{"database", of, page.Shown(run.Database.String())})
	}
}

// split is the CPUs of the two ends; "" if not pinned.
type split struct{ generator, server string }

func cpuSplit(c *record.CPUSplit) split {
	if c == nil {
		return split{}
	}
	return split{c.Generator, c.Server}
}

// machines adds a row per end. A record knows only what the run found on the server's host:
// nothing if that is another machine without an agent.
func (s *setup) machines(run *record.Run, env *record.Environment, cpus split) {
	link := linkOf(run)
	generator := setupRow{"generator", machineName(env), coresOf(env, cpus.generator), notRecorded, link}
	if env.MemoryBytes > 0 {
		generator.Memory = unit.FormatBytesSI(int64(min(env.MemoryBytes, 1<<62)))
	}
	server := setupRow{"server", notRecorded, notRecorded, notRecorded, link}
	if run != nil && run.Subject != nil {
		server.Machine = page.Shown(run.Subject.Host)
		if run.Subject.Host == env.Host {
			server.Machine, server.Memory = "the same machine", "the same"
			server.Cores = "the same"
		}
		if list := allowed(run.Subject); cpus.server != "" || list != "" {
			server.Cores = "CPUs " + page.Text(firstOf(cpus.server, list))
		}
	}
	for _, row := range []setupRow{generator, server} {
		if !slices.Contains(s.Rows, row) {
			s.Rows = append(s.Rows, row)
		}
	}
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// allowed returns the CPUs that all of the server's processes may use, "" if they differ.
func allowed(s *record.Subject) string {
	list := ""
	for i, p := range s.Processes {
		if i > 0 && p.CPUsAllowed != list {
			return ""
		}
		list = p.CPUsAllowed
	}
	return list
}

func machineName(env *record.Environment) string {
	parts := []string{firstOf(env.CPUModel, notRecorded)}
	if env.Virtual != "" {
		parts = append(parts, "virtual")
	}
	if env.Kernel != "" {
		parts = append(parts, "Linux "+env.Kernel)
	}
	return page.Shown(strings.Join(parts, ", "))
}

func coresOf(env *record.Environment, cpus string) string {
	switch {
	case env.CoresAllowed == 0:
		return notRecorded
	case cpus != "":
		return fmt.Sprintf("CPUs %s of %d", page.Text(cpus), env.CoresOnline)
	case env.CoresOnline > env.CoresAllowed:
		return fmt.Sprintf("%d of %d", env.CoresAllowed, env.CoresOnline)
	}
	return fmt.Sprint(env.CoresAllowed)
}

// linkOf returns the link between the ends, if known.
func linkOf(run *record.Run) string {
	if run == nil {
		return notRecorded
	}
	if run.Spec.LinkBitsPerSecond > 0 {
		return unit.FormatBits(unit.BitsPerSecond(run.Spec.LinkBitsPerSecond))
	}
	if u, err := url.Parse(run.Target); err == nil && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1") {
		return "loopback"
	}
	return notRecorded
}

// programs lists the programs of a server that was already running.
func programs(s *record.Subject) string {
	if s == nil {
		return notRecorded
	}
	var list []string
	for _, p := range s.Processes {
		list = append(list, firstOf(p.Exe, p.Comm))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 {
		return notRecorded
	}
	return page.Shown("ran already: " + strings.Join(list, ", ") + " (its arguments are " + notRecorded + ")")
}

func (s *setup) add(c command) {
	if c.Line == "" {
		c.Line = notRecorded
	}
	if !slices.Contains(s.Commands, c) {
		s.Commands = append(s.Commands, c)
	}
}

// Table returns the machines.
func (s *setup) Table() (template.HTML, error) {
	t := page.Table{Caption: "Machines"}
	for _, name := range []string{"role", "machine", "cores", "memory", "link"} {
		t.Columns = append(t.Columns, page.Column{Name: name})
	}
	for _, r := range s.Rows {
		t.Rows = append(t.Rows, []page.Cell{{Text: r.Role}, {Text: r.Machine}, {Text: r.Cores}, {Text: r.Memory}, {Text: r.Link}})
	}
	return page.Blocks(t)
}
