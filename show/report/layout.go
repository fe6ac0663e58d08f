package report

import "ceiling/show/layout"

// Layout is how a report is written.
type Layout struct {
	layout.Output
	// Verbose omits nothing.
	Verbose bool
}
