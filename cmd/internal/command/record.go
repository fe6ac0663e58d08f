package command

import (
	"os"

	"ceiling/record"
)

// FindRecord returns the run or plan that the user named: "-" is a record on standard input.
func (sh *Shell) FindRecord(name string) (record.File, error) {
	if name == "-" {
		f, err := record.ReadFile(sh.Stdin)
		return f, Usage(err)
	}
	return FindRecord(name)
}

// FindRecord returns a record by name.
func FindRecord(name string) (record.File, error) {
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return record.File{}, err
	}
	f, err := store.Find(name)
	return f, Usage(err)
}
