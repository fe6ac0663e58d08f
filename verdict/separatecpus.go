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
// another command made the run, rebuilt from the record.
func (f *runFacts) again(verb string, flags ...string) string {
	words := f.run.Command
	if len(words) < 2 || words[1] != verb && words[1] != "run" {
		return shellLine(f.ofSpec(append([]string{"ceiling", verb}, flags...)))
	}
	out := append([]string{filepath.Base(words[0]), verb}, flags...)
	for i := 2; i < len(words); i++ {
		name, _, joined := strings.Cut(words[i], "=")
		switch name {
		// The pinned CPUs overlapped, and the record's file already exists.
		case "--pin-generator", "--pin-server", "--out", "-o":
			if !joined {
				i++
			}
		case "--separate-cpus", "--profile", "-v", "--verbose", "--json", "--live":
		default:
			out = append(out, words[i])
		}
	}
	return shellLine(out)
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

// shellLine quotes words for a shell, without their secrets, because pages show it.
func shellLine(words []string) string { return text.Shell(secret.Plain().Command(words)) }

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
