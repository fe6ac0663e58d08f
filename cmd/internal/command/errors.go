package command

import (
	"errors"
	"strings"

	"ceiling/internal/exit"
)

// usageError marks a user's mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func IsUsage(err error) bool {
	var u usageError
	return errors.As(err, &u) || errors.Is(err, exit.ErrRefused) ||
		// cobra gives these no type
		strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "required flag")
}

// OneLine joins an error of several lines into one.
func OneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), exit.ErrRefused.Error()+": ")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
