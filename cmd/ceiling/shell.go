package main

import "ceiling/cmd/internal/command"

// shell is a verb's environment.
type shell struct{ command.Shell }
