package report

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/stat"
	"ceiling/internal/text"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// commandMost is the longest command that is printed to be copied, in characters.
const commandMost = 240

// NextCommand is what follows a plan's answer, where one line does: resuming one that did not end,
// else a plan of a server that runs already, whose one request and load the line has whole. "" where
// there is none.
func NextCommand(p *record.Plan) string {
	switch {
	case p.Ended == record.EndedInterrupted || p.Ended == record.EndedFailed:
		if p.Hidden {
			return ""
		}
		return "ceiling run --resume " + p.ID
	case p.Ended == "":
		return ""
	}
	e := p.Experiment
	if p.Sweep != nil { // its answer takes the place of the rates
		e.Load.Rate = nil
	}
	n := follower{plan: p, of: &e}
	n.load, n.at = oneLoad(&e)
	switch a := p.Answer().(type) {
	case *record.Sweep:
		if len(a.Curves) == 1 {
			return n.afterSweep(&a.Curves[0])
		}
	case *record.Search:
		return n.afterSearch(a)
	case *record.Proof:
		return n.afterProof(a)
	case *record.Comparison:
		return afterComparison(p)
	case *record.Factorial:
		return afterFactorial(p)
	}
	return ""
}

// follower makes commands that load what a plan has loaded.
type follower struct {
	plan *record.Plan
	of   *spec.Experiment
	load []string // flags with their values, and at the URL; "" where they do not say all
	at   string
}

// command returns one of a verb, with a flag set: as typed or, where a file has the experiment, of the load.
// "" where several servers or requests were measured.
func (n *follower) command(verb string, flag ...string) string {
	e, typed := n.of, n.plan.Command
	one := len(e.Servers) == 1 && e.Servers[0].URL != "" && len(e.Requests) == 1
	if one && len(typed) > 2 && slices.Contains([]string{"run", "find", "prove"}, typed[1]) &&
		!slices.ContainsFunc(typed, spec.IsExperimentFile) {
		return line(record.Again(typed, verb, flag...))
	}
	if n.at == "" {
		return ""
	}
	words := []string{"ceiling", verb}
	for i := 0; i < len(n.load); i += 2 {
		if len(flag) == 0 || n.load[i] != flag[0] {
			words = append(words, n.load[i:i+2]...)
		}
	}
	return strings.Join(append(append(words, flag...), n.at), " ")
}

// afterSearch measures each rate for longer where that is what the answer lacks, else proves what limits
// the rate found, or shows the errors that do; where none passes it shows how long one request takes that
// waits for no other.
func (n *follower) afterSearch(s *record.Search) string {
	if times := longer(s); times > 1 && !n.plan.Hidden && slices.Contains(n.plan.Command, "find") {
		return Again(n.plan.Command, "-d", fmt.Sprintf("%gs", math.Ceil(times*float64(n.of.Load.Duration)/1e9)))
	}
	failing, _ := s.Says.With["failing_per_s"].(float64)
	late := slices.ContainsFunc(s.Failed, func(t record.SLOTerm) bool { return !strings.HasPrefix(t.Term, spec.MetricErrors) })
	switch {
	case failing > 0 && (s.Bottleneck == record.Failures || len(s.Failed) > 0 && !late):
		return n.command("run", "-R", fmt.Sprintf("%.0f", failing))
	case s.Capacity.Mid > 0:
		return n.command("prove")
	case len(s.Failed) > 0:
		return n.command("run", "-c", "1")
	}
	return ""
}

// longer returns how many times longer each run of a search should have been.
func longer(s *record.Search) float64 {
	times := 1.0
	for _, c := range slices.Concat(s.Caveats, s.Capacity.Warnings) {
		switch c.Code {
		case "search.few-requests":
			has, some := c.With["requests"].(float64)
			needed, known := c.With["needed"].(float64)
			if some && known && has > 0 {
				times = max(times, needed/has)
			}
		case "search.crossed", "search.runs-disagree":
			times = max(times, 2)
		}
	}
	return times
}

func (n *follower) afterProof(p *record.Proof) string {
	connections := n.of.Load.Connections
	switch {
	case p.Proved == string(record.ServerCPU):
		return n.command("profile")
	case p.Proved == record.PerturbConcurrency && len(connections) == 1:
		c := connections[0]
		return n.command("run", "-c", fmt.Sprintf("%d,%d,%d", c, 2*c, 4*c))
	case p.Proved == "" && blocksLack(p) > 0:
		return n.command("prove", "--blocks", fmt.Sprint(blocksLack(p)))
	}
	switch p.Says.Code {
	case "proof.waits": // its stacks show what it waits for
		return n.command("profile")
	case "proof.undecided": // four times as many halve the intervals
		return n.command("prove", "--blocks", fmt.Sprint(4*p.Resources[0].Blocks))
	case "proof.none":
		return n.command("prove", "--share", "0.1")
	}
	return ""
}

// blocksLack returns the blocks that an interval of each elasticity takes, 0 if there are as many.
func blocksLack(p *record.Proof) int {
	rates := slices.DeleteFunc(slices.Clone(p.Resources), func(r record.Elasticity) bool { return r.Resource == record.PerturbConcurrency })
	least := stat.LeastBlocks(0.95, max(len(rates), 1))
	if !slices.ContainsFunc(p.Resources, func(r record.Elasticity) bool { return r.Blocks < least }) {
		return 0
	}
	return least
}

// afterComparison says which functions became dearer, and where nothing can be told asks
// for more blocks; both are the same comparison again.
func afterComparison(p *record.Plan) string {
	c := p.Comparison
	switch {
	case p.Hidden || len(c.Changes) == 0 || c.Incomparable != nil || !slices.Contains(p.Command, "compare"):
		return ""
	case c.Changes[0].Decision == record.CannotTell:
		return Again(p.Command, "--blocks", fmt.Sprint(max(2*c.Blocks, stat.LeastBlocks(0.95, len(c.Changes)))))
	case len(c.Profiles) == 0 && !slices.Contains(p.Command, "--profile"):
		return Again(p.Command, "--profile")
	}
	return ""
}

// afterFactorial asks for more blocks where an effect is inconclusive.
func afterFactorial(p *record.Plan) string {
	f := p.Factorial
	if p.Hidden || !slices.ContainsFunc(f.Effects, func(x record.Effect) bool { return x.Decision == record.CannotTell }) {
		return ""
	}
	return Again(p.Command, "--repeats", fmt.Sprint(max(2*f.Blocks, stat.LeastBlocks(0.95, f.Comparisons))))
}

// Again is a command with a flag set; "" where the record does not have it whole.
func Again(command []string, flag ...string) string {
	if len(command) < 2 {
		return ""
	}
	return line(record.Again(command, command[1], flag...))
}

// line is a command as it is typed; "" where it is too long to copy, or hides a secret.
func line(words []string) string {
	text := text.Shell(secret.Plain().Command(words))
	if len(text) > commandMost || strings.Contains(text, secret.Word) {
		return ""
	}
	return text
}

// oneLoad returns an experiment's load and URL as a command line has them; "" where connections, pipelining,
// threads and URL are not all of its load.
func oneLoad(e *spec.Experiment) (load []string, at string) {
	if len(e.Servers) != 1 || e.Servers[0].URL == "" || len(e.Requests) != 1 {
		return nil, ""
	}
	m, l := &e.Requests[0], &e.Load
	if len(m.Mix) > 0 || m.Method != "" && m.Method != "GET" || len(m.Header) > 0 || m.Body != "" ||
		l.NewConnections > 0 || len(l.Rate) > 0 || !reflect.ValueOf(l.Common).IsZero() {
		return nil, ""
	}
	for _, of := range []struct {
		flag   string
		values []spec.Count
		usual  spec.Count
	}{{"-c", l.Connections, 0}, {"-p", l.Pipelining, 1}, {"-t", l.Threads, 0}} {
		if len(of.values) == 1 && of.values[0] != of.usual {
			load = append(load, of.flag, fmt.Sprint(of.values[0]))
		}
	}
	return load, text.Word(e.Servers[0].URL + m.Path)
}

// afterSweep proves the bottleneck at the load from which more brings no more, adds the loads that the
// answer asks for where there is none, or the higher rate, and repeats where the runs differ too much to tell.
func (n *follower) afterSweep(c *record.Curve) string {
	extend, _ := c.Says.With["extend"].(record.Statement)
	flag, values, _ := strings.Cut(prose.Text(extend), " ")
	switch {
	case c.Says.Code == "curve.errors":
		return n.command("run", "-c", "1")
	case c.Says.Code == "curve.reached":
		return n.command("run", flag, values)
	case c.Knee == nil || c.Over == "":
		return ""
	case c.Says.Code == "curve.undecided" && !n.plan.Hidden:
		return Again(n.plan.Command, "--repeats", fmt.Sprint(2*n.of.Repeats))
	case c.Knee.High > 0 && c.Over == spec.OverRate:
		return n.command("prove")
	case c.Knee.High > 0:
		return n.command("prove", c.Over.Flag(), fmt.Sprintf("%.0f", c.Knee.High))
	case extend.IsZero():
		return ""
	}
	return n.command("run", flag, values)
}
