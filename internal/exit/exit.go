// Package exit has the codes with which the programs of this repository exit. docs/record.md lists them.
package exit

import "errors"

const (
	Pass        = 0 // and valid
	Error       = 1
	Refused     = 2
	Fail        = 3
	Invalid     = 4
	Interrupted = 130
)

// ErrRefused wraps what is wrong with the request itself, found before anything was sent: exit code
// Refused.
var ErrRefused = errors.New("refused")
