// Command ceiling measures how much an HTTP service can take, and names what
// stops it.
package main

import "os"

func main() {
	os.Exit(execute(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
