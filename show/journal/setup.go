package journal

import (
	"cmp"
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
	Rows     [][5]string // a role, and its machine, cores, memory and link
	Commands []command
}

// command is a command that was typed, or started, for a record.
type command struct{ Role, Of, Line string }

const notRecorded = "not recorded"

// Setup collects the setup from the entry's records; it has no rows if none is measured yet.
func (e *Entry) Setup() *setup {
	out := new(setup)
	for _, r := range e.Records {
		if r.Plan != nil {
			out.plan(r)
		} else if r.Run != nil {
			out.machines(r.Run.Run, &r.Run.Environment, nil, linkOf(r.Run.Run))
			out.add(command{"generator", r.Name, page.CommandLine(r.Run.Command)})
			out.add(command{"server", r.Name, programs(r.Run.Subject)})
			out.database(r.Name, r.Run.Run)
		}
	}
	return out
}

func (s *setup) plan(r *Record) {
	p := r.Plan
	var first *record.Run
	for i := range p.Runs {
		if run, err := r.member(p.Runs[i].Run); err == nil {
			first = run.Run.Run
			break
		}
	}
	s.machines(first, &p.Environment, p.CPUs, cmp.Or(p.Experiment.LinkSays(), linkOf(first)))
	s.database(r.Name, first)
	s.add(command{"generator", r.Name, page.CommandLine(p.Command)})
	servers := page.Servers(p)
	for i := range servers {
		of := &servers[i]
		line := page.Shown(strings.Join(append(slices.Clone(of.Env), of.Serve), " "))
		if of.Serve == "" {
			line = "ran already, at " + page.Shown(of.URL) + "; its command is " + notRecorded
		}
		s.add(command{"server", page.Shown(of.Label()), line})
	}
}

// database adds the server's database and its settings.
func (s *setup) database(of string, run *record.Run) {
	if run != nil && run.Database != nil {
		s.add(command{"database", of, page.Shown(run.Database.String())})
	}
}

// machines adds a row per end. A record knows only what the run found on the server's host:
// nothing if that is another machine without an agent.
func (s *setup) machines(run *record.Run, env *record.Environment, cpus *record.CPUSplit, link string) {
	cpus = cmp.Or(cpus, new(record.CPUSplit))
	memory := notRecorded
	if env.MemoryBytes > 0 {
		memory = unit.FormatBytesSI(int64(min(env.MemoryBytes, 1<<62)))
	}
	server := [5]string{"server", notRecorded, notRecorded, notRecorded, link}
	if run != nil && run.Subject != nil {
		server[1] = page.Shown(run.Subject.Host)
		if run.Subject.Host == env.Host {
			server = [5]string{"server", "the same machine", "the same", "the same", link}
		}
		if list := allowed(run.Subject); cpus.Server != "" || list != "" {
			server[2] = "CPUs " + page.Text(cmp.Or(cpus.Server, list))
		}
	}
	for _, row := range [][5]string{{"generator", machineName(env), coresOf(env, cpus.Generator), memory, link}, server} {
		if !slices.Contains(s.Rows, row) {
			s.Rows = append(s.Rows, row)
		}
	}
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
	parts := []string{cmp.Or(env.CPUModel, notRecorded)}
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
	var list []string
	if s != nil {
		for _, p := range s.Processes {
			list = append(list, cmp.Or(p.Exe, p.Comm))
		}
	}
	if len(list) == 0 {
		return notRecorded
	}
	slices.Sort(list)
	return page.Shown("ran already: " + strings.Join(slices.Compact(list), ", ") + " (its arguments are " + notRecorded + ")")
}

func (s *setup) add(c command) {
	c.Line = cmp.Or(c.Line, notRecorded)
	if !slices.Contains(s.Commands, c) {
		s.Commands = append(s.Commands, c)
	}
}

// Machines returns the machines as a table.
func (s *setup) Machines() (template.HTML, error) {
	t := page.Table{Caption: "Machines"}
	for _, name := range []string{"role", "machine", "cores", "memory", "link"} {
		t.Columns = append(t.Columns, page.Column{Name: name})
	}
	for _, row := range s.Rows {
		t.Rows = append(t.Rows, page.Cells(row[:]...))
	}
	return page.Blocks(t)
}
