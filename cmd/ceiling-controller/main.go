// Command ceiling-controller coordinates several machines: agents join it, runs use it.
package main

import (
	"os"

	"ceiling/cmd/internal/controlling"
)

func main() { os.Exit(controlling.Main()) }
