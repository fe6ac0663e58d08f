package run

import (
	"os"
	"sync/atomic"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/record"
)

// redactor hides the secrets in what leaves this package: records, errors, and callback arguments. The
// load itself gets the spec as given. A nil veil hides nothing.
type redactor struct {
	hider *secret.Hider
	// alone says why equal values of other runs do not look equal; nil if they do.
	alone atomic.Pointer[string]
}

// newRedactor creates the veil of a run or of a plan.
func newRedactor(o *Options) *redactor {
	if o.KeepSecrets {
		return nil
	}
	v := &redactor{}
	v.hider = secret.New(func() []byte {
		key, err := record.SecretKey(os.Getenv)
		if err != nil {
			why := err.Error()
			v.alone.Store(&why)
		}
		return key
	})
	return v
}

// spec returns a spec as others see it.
func (v *redactor) spec(s *spec.Spec) *spec.Spec {
	if v == nil {
		return s
	}
	shown := s.Concealed(v.hider)
	return &shown
}

// experiment does the same; hidden reports whether anything was hidden.
func (v *redactor) experiment(e spec.Experiment) (shown spec.Experiment, hidden bool) {
	if v == nil {
		return e, false
	}
	return e.Concealed(v.hider)
}

func (v *redactor) command(words []string) []string {
	if v == nil {
		return words
	}
	return v.hider.Command(words)
}

// text hides secrets in a sentence: an error, or a server's response.
func (v *redactor) text(s string) string {
	if v == nil {
		return s
	}
	return v.hider.Text(s)
}

// shownError is an error with its text as others see it.
type shownError struct {
	error
	text string
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.error }

func (v *redactor) error(err error) error {
	if v == nil || err == nil {
		return err
	}
	if text := v.text(err.Error()); text != err.Error() {
		return &shownError{err, text}
	}
	return err
}

// notMeasured hides secrets in a reason.
func (v *redactor) notMeasured(n record.NotMeasured) record.NotMeasured {
	n.What, n.Why = v.text(n.What), v.text(n.Why)
	return n
}

// missing reports that the key could not be stored, if it was needed.
func (v *redactor) missing() []record.NotMeasured {
	if v == nil || v.alone.Load() == nil {
		return nil
	}
	return []record.NotMeasured{{What: "equality of hidden values with other runs' values", Why: *v.alone.Load(), Part: true}}
}

// worked hides secrets in a run's result.
func (v *redactor) worked(w *RunResult) {
	if v == nil {
		return
	}
	for i := range w.Result.Errors {
		w.Result.Errors[i].Line = v.text(w.Result.Errors[i].Line)
	}
	for i := range w.Agents {
		w.Agents[i].Lost = v.text(w.Agents[i].Lost)
	}
}
