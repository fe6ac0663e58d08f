package verdict

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/text"
	"ceiling/record"
)

// This file has the advice for a generator and a server that share CPUs, as commands to type.

// separate says how to give the two sides separate CPUs. With agents, neither --separate-cpus nor prove
// is available.
func (f *cpuFacts) separate() record.Statement {
	switch {
	case len(f.base.run.Agents) > 0:
		return say("separate.agents", nil)
	case len(f.server.cpus) < 2 && len(f.generator.cpus) < 2:
		return say("separate.machine", nil)
	}
	return say("separate", with{"command": f.base.apartCommand()})
}

// apartCommand returns this run's command with --separate-cpus.
func (f *runFacts) apartCommand() string {
	if w := f.run.Command; len(w) > 1 && slices.Contains([]string{"run", "find", "prove", "compare"}, w[1]) {
		return f.again(w[1], "--separate-cpus")
	}
	return f.again("run", "--separate-cpus")
}

// again returns this run's command with one thing changed, its verb or a flag: as typed or, if
// another command made the run, or makes several of them, rebuilt from the record.
func (f *runFacts) again(verb string, flag ...string) string {
	words := f.run.Command
	if len(words) < 2 || words[1] != verb && (words[1] != "run" || slices.ContainsFunc(words[2:], ofSeveral)) {
		words = f.ofSpec([]string{"ceiling", verb})
	}
	return text.Shell(secret.Plain().Command(record.Again(words, verb, flag...))) // pages show it
}

// more returns twice the connections, and this run's command with them.
func (f *runFacts) more() with {
	twice := 2 * f.run.Load.Connections
	return with{"connections": twice, "command": f.again("run", "-c", strconv.Itoa(twice))}
}

// ofSeveral reports whether a word of a command line makes it one of several runs: a list of loads
// (-c 1,4), or the file of an experiment.
func ofSeveral(word string) bool {
	_, value, joined := strings.Cut(word, "=")
	if !joined {
		value = strings.TrimLeft(word, "-cpRt")
	}
	first, _, list := strings.Cut(value, ",")
	_, err := strconv.ParseFloat(strings.TrimRight(first, "kM"), 64)
	return list && err == nil || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(word))
}

// ofSpec continues a command with the same load on the first target.
func (f *runFacts) ofSpec(out []string) []string {
	s := &f.run.Spec
	if s.Connections > 0 {
		out = append(out, "-c", strconv.Itoa(s.Connections))
	}
	if s.Pipelining > 1 {
		out = append(out, "-p", strconv.Itoa(s.Pipelining))
	}
	if s.Open() {
		out = append(out, "-R", s.Rate.String())
	}
	if s.Duration > 0 {
		out = append(out, "-d", s.Duration.String())
	}
	url := f.run.Target
	if len(s.Targets) > 0 {
		url = s.Targets[0].URL
		if s.Targets[0].Method != "GET" || len(s.Targets[0].Header) > 0 || len(s.Targets) > 1 {
			out = append(out, "…") // too much for one line
		}
	}
	if url != "" {
		out = append(out, url)
	}
	return out
}

// crowded says which threads of a server that was moved share its CPUs: a runtime counts its CPUs
// once, at its start, and has as many threads as there were then.
func (f *serverSide) crowded() record.Statement {
	var none record.Statement
	if f.base.run.Spec.PinServer == "" || !f.subject.known {
		return none
	}
	cpus, err := spec.ParseCPUList(f.base.run.Spec.PinServer)
	if err != nil {
		return none
	}
	busy := 0
	for _, t := range f.subject.threads {
		if t.run+t.queue.value >= threadWorks {
			busy++
		}
	}
	if busy <= len(cpus) {
		return none
	}
	return say("separate.crowded", with{"threads": busy, "cpus": len(cpus), "list": f.base.run.Spec.PinServer})
}
