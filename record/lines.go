package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// Start is what is known about a run before its first request: the first line of its record. In a plan
// it omits the command line and the environment if they equal the plan's.
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
	// Environment of the host that the run is started on.
	Environment *Environment `json:"environment,omitempty"`
}

// omit removes from a run what its head says.
func omit(run *Run, head *Start) {
	run.Schema, run.ID = "", ""
	if slices.Equal(run.Command, head.Command) {
		run.Command = nil
	}
	if reflect.DeepEqual(run.Spec, head.Spec) {
		run.Spec = spec.Spec{}
	}
	if head.Environment != nil && reflect.DeepEqual(run.Environment, *head.Environment) {
		run.Environment = Environment{}
	}
}

// finished returns the document of a finished run.
func finished(head *Start, text []byte) (*Run, error) {
	run := new(Run)
	if err := json.Unmarshal(text, run); err != nil {
		return nil, err
	}
	run.Schema, run.ID = head.Schema, head.ID
	if run.Command == nil {
		run.Command = head.Command
	}
	if reflect.ValueOf(run.Spec).IsZero() {
		run.Spec = head.Spec
	}
	if head.Environment != nil && reflect.ValueOf(run.Environment).IsZero() {
		run.Environment = *head.Environment
	}
	if run.Started.IsZero() { // nothing was sent: no connection was established
		run.Started = head.Created
	}
	return run, nil
}

type histogramLine struct {
	Of  string `json:"of"`
	HDR string `json:"hdr"` // HdrHistogram V2, compressed, base64
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

// goesOn discards an answer that more lines follow, except for the time taken until then.
func (p *Plan) goesOn() { p.Ending = Ending{TookS: p.TookS} }

// Omission is what a copy of a record lacks.
type Omission struct {
	// What it is: "series", or the name of an attachment; for a plan, over all its runs.
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

type leftOutLine struct {
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
