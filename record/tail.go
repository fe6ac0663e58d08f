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

// Tail reads a record while another process writes it, or one that is finished. It
// writes nothing and belongs to one goroutine.
type Tail struct {
	src  *source
	rest []byte // the beginning of a line that is not whole yet
	// lines that were read and not handed out yet.
	lines []byte
	head  runHead
	plan  *Plan // nil of a single run
	// response times of the run under way, of a plan.
	response string
}

// Event is what a Tail has read: one of its fields.
type Event struct {
	// Start of a run, then Rows of it, and its Result, which one that was killed
	// lacks.
	Start  *Start
	Rows   *Series
	Result *Run
	// Plan as it is: when the first run has not begun yet, when one of them is
	// Measured, and with its answer.
	Plan     *Plan
	Measured *Measured
}

// tailStep is how much of a record is read at once: what a quick reader of a
// finished run takes from the memory of its host at a time.
const tailStep = 4 << 20

// OpenTail opens a record that has begun. The error wraps fs.ErrNotExist where
// there is none yet.
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

// Abandoned tells that no process writes the record any more, where that can be known:
// what is not in it by now will never be.
func (t *Tail) Abandoned() bool {
	return t.src.abandoned()
}

// first looks whether the head is there, and is one, and begins again before it.
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
		err = readHead(first.text, Schema, new(runHead))
	case first.kind == kindPlan:
		err = readHead(first.text, PlanSchema, &planHead{Plan: new(Plan)})
	default:
		err = errNoRecord
	}
	if err != nil {
		return err
	}
	return t.src.seek(place{})
}

// Next answers what was written since the last call, a part of it at a time, nil
// where nothing was. A line that is not whole yet is left for a later call. Lines
// that are none are counted in Rows.
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

// read gets more whole lines; false where there are none.
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
				t.rest = t.rest[:1] // a line that is none: what follows it is read again
			}
			continue
		}
		t.lines = append(bytes.Clone(t.rest), data[:whole]...)
		t.rest = bytes.Clone(data[whole:])
		return true, nil
	}
}

// event takes rows until a line that is none, or that line.
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
				return &Event{Rows: &rows}, nil // the line comes with the next call
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

// isTailed tells a kind that is no row.
func isTailed(kind string) bool {
	switch kind {
	case kindRun, kindHistogram, kindAttachment, kindResult, kindPlan, kindMeasured, kindResumed, kindAnswer, kindLeftOut:
		return true
	}
	return false
}

// document is the event of a line that is no row; nil where it is none by itself.
func (t *Tail) document(kind string, text []byte) (*Event, error) {
	var e Event
	var err error
	switch kind {
	case kindRun:
		t.head, t.response = runHead{}, ""
		if err = readHead(text, Schema, &t.head); err == nil {
			t.inherit()
			start := t.head.Start
			e.Start = &start
		}
	case kindResult:
		e.Result, err = t.head.result(text)
	case kindPlan:
		t.plan = new(Plan)
		err = readHead(text, PlanSchema, &planHead{Plan: t.plan})
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
			if h, err := hist.DecodeV2(t.response); err == nil { // a search that lacks it says nothing of what is left
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

// inherit gives the run what its plan's head has.
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

// planNow is the plan as it was read until now.
func (t *Tail) planNow() *Plan {
	p := *t.plan
	return &p
}

// Close ends the reading.
func (t *Tail) Close() error { return t.src.Close() }
