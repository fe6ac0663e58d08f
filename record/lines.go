package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ceiling/experiment/spec"
)

// Kinds of lines other than series rows. A file begins with the head of a run or of a plan.
const (
	kindRun        = "run"        // head of a run
	kindHistogram  = "histogram"  // a latency of a whole run
	kindAttachment = "attachment" // a file attached to a run
	kindResult     = "result"     // of a run, its last line
	kindPlan       = "plan"       // head of a plan
	kindMeasured   = "measured"   // what a plan stores about one of its runs
	kindResumed    = "resumed"    // a plan was resumed
	kindAnswer     = "answer"     // of a plan
	kindLeftOut    = "left_out"   // what a copy lacks
)

// Start is what is known about a run before its first request: its head and the environment.
type Start struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	// Created is the wall-clock time at which the run began, before connecting and warm-up.
	Created time.Time `json:"created"`
	// Command is the command line as typed.
	Command []string  `json:"command,omitempty"`
	Spec    spec.Spec `json:"spec"`
	// Agents of a multi-agent run: names, roles, shares and environments, without figures.
	Agents []Agent `json:"agents,omitempty"`
}

// target returns the URL of the first target.
func (s *Start) target() string {
	if len(s.Spec.Targets) == 0 {
		return ""
	}
	return s.Spec.Targets[0].URL
}

// runHead is the first line of a run. In a plan it omits the command line and the environment if
// they equal the plan's.
type runHead struct {
	Kind string `json:"kind"`
	Start
	Environment *Environment `json:"environment,omitempty"`
}

// resultLine is a Run without what its head already says: the outer struct's fields hide the
// inner ones, and are omitted if empty.
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

// Attachment is a file stored with a run: a profile, stacks.
type Attachment struct {
	Name string `json:"name"`
	// Text of it, or Data in base64 if it is not text.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// Bytes returns the attachment's content.
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
	// Runs are separate lines; Exit is not known yet.
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

// answerLine is a plan's answer.
type answerLine struct {
	Kind string `json:"kind"`
	// Made is the number of runs it is based on.
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

// answer returns the plan's answer for writing.
func (p *Plan) answer() answerLine {
	return answerLine{
		Kind: kindAnswer, Made: len(p.Runs), Ended: p.Ended, Because: p.Because, TookS: p.TookS, Exit: p.Exit,
		Sweep: p.Sweep, Search: p.Search, Proof: p.Proof, Comparison: p.Comparison, Factorial: p.Factorial,
	}
}

// take sets the plan's answer.
func (p *Plan) take(a *answerLine) {
	p.Ended, p.Because, p.TookS, p.Exit = a.Ended, a.Because, a.TookS, a.Exit
	p.Sweep, p.Search, p.Proof, p.Comparison, p.Factorial = a.Sweep, a.Search, a.Proof, a.Comparison, a.Factorial
}

// goesOn discards an answer that more lines follow, except for the time taken until then.
func (p *Plan) goesOn() {
	if p.Ended != "" {
		p.take(&answerLine{TookS: p.TookS})
	}
}

// Omission is what a copy of a record lacks.
type Omission struct {
	// What it is: "series", or the name of an attachment; for a plan, over all its runs.
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

type leftOutLine struct {
	Kind    string     `json:"kind"`
	LeftOut []Omission `json:"left_out"`
}

// isDocument reports whether a line may be larger than a row: one with bodies, or a profile. The
// writer puts the kind first.
func isDocument(line []byte) bool {
	switch kindFirst(line) {
	case kindRun, kindPlan, kindResult, kindAnswer, kindAttachment:
		return true
	}
	return false
}

// kindFirst returns the kind of a line that begins with it, as the writer's do; "" for any other.
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

// histogramName rejects names that are not a latency of a run.
func histogramName(name string) error {
	switch name {
	case "response", "service", "lag":
		return nil
	}
	return fmt.Errorf("unknown latency %q", name)
}

// errNoRecord is the error for a file without a record's head.
var errNoRecord = errors.New("not a ceiling record: it does not begin with the head of a run or a plan")

// attachmentName returns an attachment's name.
func attachmentName(text []byte) string {
	var a struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(text, &a) != nil {
		return "" // not an attachment: a reader counts it
	}
	return a.Name
}
