package load

import "errors"

// errSoon stands until the bodies follow.
var errSoon = errors.New("load: not yet")

// NewResult is an empty result of a run with so many targets, to be decoded
// into.
func NewResult(targets int) *Result {
	return &Result{Total: *newTally(targets), Setup: map[Fault]uint64{}}
}

// AppendBinary adds the exact binary form of a tally to b: every exported field.
// The form is versioned; an agent and its controller speak the same.
func (t *Tally) AppendBinary(b []byte) ([]byte, error) { return b, errSoon }

// UnmarshalBinary reads what AppendBinary wrote, all of b, in place of what t
// holds. t has to be made for the number of the run's targets (NewTally). It
// refuses what no tally can be, and then t is empty. Besides t's own memory it
// takes no more than the length of b warrants.
func (t *Tally) UnmarshalBinary(b []byte) error { return errSoon }

// AppendBinary adds the exact binary form of a result to b: every exported
// field, those of the workers too. Started keeps its instant, not its zone.
func (r *Result) AppendBinary(b []byte) ([]byte, error) { return b, errSoon }

// UnmarshalBinary reads what AppendBinary wrote, all of b, in place of what r
// holds; see Tally.UnmarshalBinary, and NewResult.
func (r *Result) UnmarshalBinary(b []byte) error { return errSoon }
