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
	load, at := oneLoad(&e)
	switch a := p.Answer().(type) {
	case *record.Sweep:
		if len(a.Curves) == 1 {
			return afterSweep(p, &a.Curves[0], load, at)
		}
	case *record.Search:
		return afterSearch(p, a, load, at)
	case *record.Proof:
		return afterProof(p, a, load, at)
	case *record.Comparison:
		return afterComparison(p)
	case *record.Factorial:
		return afterFactorial(p)
	}
	return ""
}

// afterSearch measures each rate for longer where that is what the answer lacks, else proves what limits
// the rate found, or shows the errors that do; where none passes it shows how long one request takes that
// waits for no other.
func afterSearch(p *record.Plan, s *record.Search, load, at string) string {
	if times := longer(s); times > 1 && !p.Hidden && slices.Contains(p.Command, "find") {
		if line := Again(p.Command, "-d", fmt.Sprintf("%gs", math.Ceil(times*float64(p.Experiment.Load.Duration)/1e9))); line != "" {
			return line
		}
	}
	failing, _ := s.Says.With["failing_per_s"].(float64)
	late := slices.ContainsFunc(s.Failed, func(t record.SLOTerm) bool { return !strings.HasPrefix(t.Term, spec.MetricErrors) })
	switch {
	case at == "":
		return ""
	case failing > 0 && (s.Bottleneck == record.Failures || len(s.Failed) > 0 && !late):
		return fmt.Sprintf("ceiling run %s-R %.0f %s", load, failing, at)
	case s.Capacity.Mid > 0:
		return "ceiling prove " + load + at
	case len(s.Failed) > 0:
		return "ceiling run -c 1 " + at
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

func afterProof(plan *record.Plan, p *record.Proof, load, at string) string {
	prove := func(flag, value string) string { // as typed, with its other flags
		if line := Again(plan.Command, flag, value); slices.Contains(plan.Command, "prove") && line != "" {
			return line
		}
		return fmt.Sprintf("ceiling prove %s %s %s%s", flag, value, load, at)
	}
	connections := plan.Experiment.Load.Connections
	switch {
	case at == "":
		return ""
	case p.Proved == string(record.ServerCPU):
		return "ceiling profile " + load + at
	case p.Proved == record.PerturbConcurrency && len(connections) == 1:
		c := connections[0]
		return "ceiling run " + strings.Replace(load, fmt.Sprint(c), fmt.Sprintf("%d,%d,%d", c, 2*c, 4*c), 1) + at
	case p.Proved == "" && blocksLack(p) > 0:
		return prove("--blocks", fmt.Sprint(blocksLack(p)))
	}
	switch p.Says.Code {
	case "proof.waits": // its stacks show what it waits for
		return "ceiling profile " + load + at
	case "proof.undecided": // four times as many halve the intervals
		return prove("--blocks", fmt.Sprint(4*p.Resources[0].Blocks))
	case "proof.none":
		return prove("--share", "0.1")
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
	line := text.Shell(secret.Plain().Command(record.Again(command, command[1], flag...)))
	if len(line) > commandMost || strings.Contains(line, secret.Word) {
		return ""
	}
	return line
}

// oneLoad returns an experiment's load and URL as a command line has them; "" where connections, pipelining,
// threads and URL are not all of its load.
func oneLoad(e *spec.Experiment) (load, at string) {
	if len(e.Servers) != 1 || e.Servers[0].URL == "" || len(e.Requests) != 1 {
		return "", ""
	}
	m := &e.Requests[0]
	if len(m.Mix) > 0 || m.Method != "" && m.Method != "GET" || len(m.Header) > 0 || m.Body != "" {
		return "", ""
	}
	l := &e.Load
	if l.Kind != "" || l.TLS != nil || l.NewConnections > 0 || len(l.Rate) > 0 || !reflect.ValueOf(l.Dial).IsZero() {
		return "", ""
	}
	for _, of := range []struct {
		flag   string
		values []spec.Count
		usual  spec.Count
	}{{"-c", l.Connections, 0}, {"-p", l.Pipelining, 1}, {"-t", l.Threads, 0}} {
		if len(of.values) == 1 && of.values[0] != of.usual {
			load += fmt.Sprintf("%s %d ", of.flag, of.values[0])
		}
	}
	return load, text.Word(e.Servers[0].URL + m.Path)
}

// afterSweep proves the bottleneck at the load from which more brings no more, adds the loads that the
// answer asks for where there is none, or the higher rate, and repeats where the runs differ too much to tell.
func afterSweep(p *record.Plan, c *record.Curve, load, at string) string {
	extend, _ := c.Says.With["extend"].(record.Statement)
	flag, values, _ := strings.Cut(prose.Text(extend), " ")
	typed := Again(p.Command, flag, values) // with its other flags
	if extend.IsZero() || !strings.HasSuffix(typed, " "+at) {
		typed = ""
	}
	switch {
	case c.Says.Code == "curve.reached":
		return typed
	case c.Knee == nil:
		return ""
	case c.Says.Code == "curve.undecided" && !p.Hidden:
		return Again(p.Command, "--repeats", fmt.Sprint(2*p.Experiment.Repeats))
	case c.Over == "" || at == "":
		return ""
	case c.Knee.High > 0 && c.Over == "rate":
		return "ceiling prove " + load + at
	case c.Knee.High > 0:
		return fmt.Sprintf("ceiling prove %s%s %.0f %s", load, c.Over.Flag(), c.Knee.High, at)
	case extend.IsZero() || typed != "":
		return typed
	}
	return fmt.Sprintf("ceiling run %s%s %s %s", load, flag, values, at)
}
