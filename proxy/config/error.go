package config

import (
	"fmt"
	"strings"
)

// Error is an error at a place in a file.
type Error struct {
	File string
	Line int // 0 for the whole file
	What string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.What
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What)
}

// Errors are all errors, by file and line.
type Errors []*Error

func (e Errors) Error() string {
	var lines []string
	for _, one := range e {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}
