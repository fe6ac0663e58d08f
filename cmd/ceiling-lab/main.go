// Command ceiling-lab checks ceiling's verdicts, and measures what kinds of work cost.
package main

import (
	"os"

	"ceiling/cmd/internal/lab"
)

func main() { os.Exit(lab.Main()) }
