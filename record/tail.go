package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"ceiling/internal/hist"
)

// Tail reads a record while another process writes it, or a finished one. It writes nothing and
// is for one goroutine.
type Tail struct {
	src  *source
	rest []byte // an incomplete line
	// lines read but not returned yet.
	lines []byte
	head  Start
	plan  *Plan // nil for a single run
	// response is the current run's response times, in a plan.
	response string
}

// Event is what a Tail has read; one of its fields is set.
type Event struct {
	// Start of a run, then its Rows and its Result; a run that was killed has no Result.
	Start  *Start
	Rows   *Series
	Result *Run
	// Plan in its current state: before its first run, when one of its runs is Measured, and with
	// its answer.
	Plan     *Plan
	Measured *Measured
}

// tailStep is how much of a record is read at once, in bytes: the memory that a reader of a
// finished run uses at a time.
const tailStep = 4 << 20

// OpenTail opens a record that has begun. The error wraps fs.ErrNotExist if there is none yet.
func OpenTail(f File) (*Tail, error) {
	src, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	t := &Tail{src: src}
	if err := t.first(&f); err != nil {
		return nil, errors.Join(fmt.Errorf("follow %s: %w", f, err), src.Close())
	}
	return t, nil
}

// Abandoned reports whether it is known that no process writes the record any more: what is
// missing now stays missing.
func (t *Tail) Abandoned() bool {
	return t.src.abandoned()
}

// first checks whether the head is there and valid, and rewinds to it.
func (t *Tail) first(f *File) error {
	in := newLines(t.src)
	first, err := in.line()
	switch {
	case err == io.EOF && t.src.damage == nil:
		return fmt.Errorf("it has no head yet: %w", fs.ErrNotExist)
	case err == io.EOF:
		return t.src.damage
	case err != nil:
		return err
	case f.Run != "":
		return errors.New("one run of a plan cannot be followed, the plan can")
	case first.kind == kindRun:
		err = readHead(first.text, Schema, new(Start))
	case first.kind == kindPlan:
		err = readHead(first.text, PlanSchema, new(Plan))
	default:
		err = errNoRecord
	}
	if err != nil {
		return err
	}
	return t.src.seek(place{})
}

// Next returns what was written since the last call, a part at a time, or nil if nothing was. It
// leaves an incomplete line for a later call, and counts invalid lines in Rows.
func (t *Tail) Next() (*Event, error) {
	for {
		if len(t.lines) == 0 {
			some, err := t.read()
			if err != nil || !some {
				return nil, err
			}
		}
		e, err := t.event()
		if err != nil || e != nil {
			return e, err
		}
	}
}

// read gets more whole lines; false if there are none.
func (t *Tail) read() (bool, error) {
	for {
		data, err := io.ReadAll(io.LimitReader(t.src, tailStep))
		if err != nil {
			return false, fmt.Errorf("follow: %w", err)
		}
		if len(data) == 0 && t.src.damage != nil {
			return false, fmt.Errorf("follow: %w", t.src.damage)
		}
		if len(data) == 0 {
			return false, nil
		}
		whole := bytes.LastIndexByte(data, '\n') + 1
		if whole == 0 {
			t.rest = append(t.rest, data...)
			if n := len(t.rest); n > documentMax || n > lineMax && !isDocument(t.rest) {
				t.rest = t.rest[:1] // an invalid line: the rest is scanned again
			}
			continue
		}
		t.lines = append(bytes.Clone(t.rest), data[:whole]...)
		t.rest = bytes.Clone(data[whole:])
		return true, nil
	}
}

// event collects rows until another kind of line, or returns that line.
func (t *Tail) event() (*Event, error) {
	var rows Series
	for len(t.lines) > 0 {
		text, rest, _ := bytes.Cut(t.lines, []byte{'\n'})
		kind, err := kindOf(bytes.TrimSpace(text))
		switch {
		case len(bytes.TrimSpace(text)) == 0:
		case err != nil, len(text) > lineMax && !isDocument(text):
			rows.Bad++
		case isTailed(kind):
			if !rows.empty() {
				return &Event{Rows: &rows}, nil // the line follows with the next call
			}
			t.lines = rest
			return t.document(kind, text)
		case rows.take(kind, text) != nil:
			rows.Bad++
		}
		t.lines = rest
	}
	if rows.empty() {
		return nil, nil
	}
	rows.Observed.sort()
	return &Event{Rows: &rows}, nil
}

func (s *Series) empty() bool {
	return len(s.Load)+len(s.Agents)+s.Observed.Len()+len(s.NotMeasured)+len(s.Raw)+s.Bad == 0
}

// isTailed reports whether a kind is not a row.
func isTailed(kind string) bool {
	switch kind {
	case kindRun, kindHistogram, kindAttachment, kindResult, kindPlan, kindMeasured, kindResumed, kindAnswer, kindLeftOut:
		return true
	}
	return false
}

// document returns the event of a line that is not a row; nil if it makes none by itself.
func (t *Tail) document(kind string, text []byte) (*Event, error) {
	var e Event
	var err error
	switch kind {
	case kindRun:
		t.head, t.response = Start{}, ""
		if err = readHead(text, Schema, &t.head); err == nil {
			t.inherit()
			start := t.head
			e.Start = &start
		}
	case kindResult:
		e.Result, err = finished(&t.head, text)
	case kindPlan:
		t.plan = new(Plan)
		err = readHead(text, PlanSchema, t.plan)
		e.Plan = t.planNow()
	case kindHistogram:
		var h histogramLine
		if err = json.Unmarshal(text, &h); err == nil && h.Of == "response" {
			t.response = h.HDR
		}
		return nil, err
	case kindMeasured, kindAnswer, kindResumed:
		if t.plan == nil {
			return nil, nil
		}
		if err = t.plan.line(&line{kind: kind, text: text}, nil, nil, nil); err != nil {
			break
		}
		if kind == kindMeasured {
			m := &t.plan.Runs[len(t.plan.Runs)-1]
			if h, err := hist.DecodeV2(t.response); err == nil { // a search without it says nothing about the rest
				m.Histogram = hist.FromHDR(h)
			}
			e.Measured = m
		}
		e.Plan = t.planNow()
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return &e, nil
}

// inherit copies the plan head's fields into the run.
func (t *Tail) inherit() {
	if t.plan == nil {
		return
	}
	if t.head.Command == nil {
		t.head.Command = t.plan.Command
	}
	if t.head.Environment == nil {
		t.head.Environment = &t.plan.Environment
	}
}

// planNow returns the plan as read so far.
func (t *Tail) planNow() *Plan {
	p := *t.plan
	return &p
}

// Close closes the record.
func (t *Tail) Close() error { return t.src.Close() }
