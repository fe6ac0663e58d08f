package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ceiling/experiment/spec"
)

// Kinds of lines that are no rows of a series. A file begins with a head, of a run
// or of a plan.
const (
	kindRun        = "run"        // head of a run
	kindHistogram  = "histogram"  // of a latency of a whole run
	kindAttachment = "attachment" // what else was kept of a run
	kindResult     = "result"     // of a run, its last line
	kindPlan       = "plan"       // head of a plan
	kindMeasured   = "measured"   // what a plan knows of one of its runs
	kindResumed    = "resumed"    // a plan goes on
	kindAnswer     = "answer"     // of a plan
	kindLeftOut    = "left_out"   // what a copy lacks
)

// Start is what is known of a run before its first request: its head, with the
// environment.
type Start struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	// Created is when the run was begun, by the wall clock: before the
	// connections were opened and the warm-up.
	Created time.Time `json:"created"`
	// Command is the command line as it was typed.
	Command []string  `json:"command,omitempty"`
	Spec    spec.Spec `json:"spec"`
	// Agents that take part in a run of several: their names, roles, shares and
	// environments. They have no figures yet.
	Agents []Agent `json:"agents,omitempty"`
}

// target is the URL of the first target.
func (s *Start) target() string {
	if len(s.Spec.Targets) == 0 {
		return ""
	}
	return s.Spec.Targets[0].URL
}

// runHead is the first line of a run. In a plan it has neither the command line
// nor the environment where they are those of the plan.
type runHead struct {
	Kind string `json:"kind"`
	Start
	Environment *Environment `json:"environment,omitempty"`
}

// resultLine is a Run without what its head says already: fields of the outer
// struct hide those of the inner one, and stay away where they are empty.
type resultLine struct {
	Kind string `json:"kind"`
	*Run
	Schema      string       `json:"schema,omitempty"`
	ID          string       `json:"id,omitempty"`
	Command     []string     `json:"command,omitempty"`
	Spec        *spec.Spec   `json:"spec,omitempty"`
	Environment *Environment `json:"environment,omitempty"`
}

type histogramLine struct {
	Kind string `json:"kind"`
	Of   string `json:"of"`
	HDR  string `json:"hdr"` // HdrHistogram V2, compressed, base64
}

// Attachment is what else was kept of a run: a profile, stacks.
type Attachment struct {
	Name string `json:"name"`
	// Text of it, or Data in base64 where it is not text.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// Bytes of the attachment.
func (a *Attachment) Bytes() []byte {
	if a.Data != nil {
		return a.Data
	}
	return []byte(a.Text)
}

type attachmentLine struct {
	Kind string `json:"kind"`
	Attachment
}

// planHead is the first line of a plan.
type planHead struct {
	Kind string `json:"kind"`
	*Plan
	// Runs are lines of their own; Exit is not known yet.
	Runs []Measured `json:"runs,omitempty"`
	Exit int        `json:"exit,omitempty"`
}

type measuredLine struct {
	Kind string `json:"kind"`
	*Measured
}

type resumedLine struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
}

// answerLine is what a plan has come to.
type answerLine struct {
	Kind string `json:"kind"`
	// Made is how many runs it is the answer of.
	Made       int         `json:"made"`
	Ended      string      `json:"ended"`
	Because    Statement   `json:"because,omitzero"`
	TookS      float64     `json:"took_s,omitempty"`
	Exit       int         `json:"exit"`
	Sweep      *Sweep      `json:"sweep,omitempty"`
	Search     *Search     `json:"search,omitempty"`
	Proof      *Proof      `json:"proof,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	Factorial  *Factorial  `json:"factorial,omitempty"`
}

// answer is the plan's, to write down.
func (p *Plan) answer() answerLine {
	return answerLine{
		Kind: kindAnswer, Made: len(p.Runs), Ended: p.Ended, Because: p.Because, TookS: p.TookS, Exit: p.Exit,
		Sweep: p.Sweep, Search: p.Search, Proof: p.Proof, Comparison: p.Comparison, Factorial: p.Factorial,
	}
}

// take makes the answer the plan's.
func (p *Plan) take(a *answerLine) {
	p.Ended, p.Because, p.TookS, p.Exit = a.Ended, a.Because, a.TookS, a.Exit
	p.Sweep, p.Search, p.Proof, p.Comparison, p.Factorial = a.Sweep, a.Search, a.Proof, a.Comparison, a.Factorial
}

// goesOn tells that there is more behind an answer: it is none anymore, but for
// the time that was taken until then.
func (p *Plan) goesOn() {
	if p.Ended != "" {
		p.take(&answerLine{TookS: p.TookS})
	}
}

// over tells that a plan needs no further run.
func (p *Plan) over() bool {
	return p.Ended == EndedComplete || p.Ended == EndedConverged || p.Ended == EndedEarly
}

// LeftOut is what a copy of a record lacks.
type LeftOut struct {
	// What it is: "series", or the name of an attachment; of a plan, of all its runs
	// together.
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

type leftOutLine struct {
	Kind    string    `json:"kind"`
	LeftOut []LeftOut `json:"left_out"`
}

// isDocument tells a line that may be larger than a row: one with bodies, or a
// profile. The writer has the kind first.
func isDocument(line []byte) bool {
	switch kindFirst(line) {
	case kindRun, kindPlan, kindResult, kindAnswer, kindAttachment:
		return true
	}
	return false
}

// kindFirst is the kind of a line that has it first, as the writer makes them; ""
// for any other.
func kindFirst(line []byte) string {
	rest, found := bytes.CutPrefix(line, []byte(`{"kind":"`))
	if !found {
		return ""
	}
	end := bytes.IndexByte(rest[:min(len(rest), 64)], '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return ""
	}
	return string(rest[:end])
}

// histogramNames are the latencies of a run.
func histogramName(name string) error {
	switch name {
	case "response", "service", "lag":
		return nil
	}
	return fmt.Errorf("there is no latency %q", name)
}

// errNoRecord is of a file that does not begin as one.
var errNoRecord = errors.New("it is no record: it does not begin with the head of a run or of a plan")

// attachmentName is what an attachment is called.
func attachmentName(text []byte) string {
	var a struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(text, &a) != nil {
		return "" // a line that is none: a reader counts it
	}
	return a.Name
}
