package verdict

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/record"
)

// This file is what to do for a generator and a server that share CPUs, in the
// form that can be typed.

// separate says how to give the two sides CPUs of their own. Where agents load,
// neither --apart nor a proof is to be had.
func (f *cpuFacts) separate() record.Statement {
	switch {
	case len(f.run.Agents) > 0:
		return say("separate.agents", nil)
	case len(f.serverCPUs) < 2 && len(f.generatorCPUs) < 2:
		return say("separate.machine", nil)
	}
	return say("separate", with{"command": f.apartCommand()})
}

// separatingVerbs take --apart.
func separatingVerbs() []string { return []string{"run", "find", "prove", "compare"} }

// apartCommand is the command of this run with --apart: as it was typed, or
// where another verb made the run, by what is recorded of it.
func (f *runFacts) apartCommand() string {
	words := f.run.Command
	if len(words) < 2 || !slices.Contains(separatingVerbs(), words[1]) {
		return shellLine(f.ofSpec())
	}
	out := []string{filepath.Base(words[0]), words[1], "--apart"}
	for i := 2; i < len(words); i++ {
		name, _, joined := strings.Cut(words[i], "=")
		switch name {
		// What was pinned lay on common CPUs, and the record has its place already.
		case "--pin-generator", "--pin-server", "--out", "-o":
			if !joined {
				i++
			}
		case "--apart":
		default:
			out = append(out, words[i])
		}
	}
	return shellLine(out)
}

// ofSpec is a run of the first target under the same load.
func (f *runFacts) ofSpec() []string {
	s := &f.run.Spec
	out := []string{"ceiling", "run", "--apart"}
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
			out = append(out, "…") // more than a line should hold
		}
	}
	if url != "" {
		out = append(out, url)
	}
	return out
}

// shellLine is words as a shell takes them, without their secrets: pages show it.
func shellLine(words []string) string {
	var out []string
	for _, w := range secret.Plain().Command(words) {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]{}~#`!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// crowded says which threads of a server that was moved share its CPUs: a
// runtime counts its CPUs once, at its start, and has as many threads as there
// were then.
func (f *serverSide) crowded() record.Statement {
	var none record.Statement
	if f.run.Spec.PinServer == "" || !f.subject.known {
		return none
	}
	cpus, err := spec.ParseCPUList(f.run.Spec.PinServer)
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
	return say("separate.crowded", with{"threads": busy, "cpus": len(cpus), "list": f.run.Spec.PinServer})
}
