// Package records is what the programs that show records have in common: how they find them, and how
// they write pages about them.
package records

import (
	"io"
	"os"

	"ceiling/cmd/internal/command"
	"ceiling/record"
	"ceiling/show/report"
)

// Layout returns how a report is written to w.
func Layout(w io.Writer, verbose bool) report.Layout {
	return report.Layout{Output: command.Output(w), Verbose: verbose}
}

// Find returns the run or plan that the user named: "-" is a record on standard input.
func Find(sh *command.Shell, name string) (record.File, error) {
	if name == "-" {
		f, err := record.ReadFile(sh.Stdin)
		return f, command.Usage(err)
	}
	return InStore(name)
}

// InStore returns a record by name.
func InStore(name string) (record.File, error) {
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return record.File{}, err
	}
	f, err := store.Find(name)
	return f, command.Usage(err)
}
