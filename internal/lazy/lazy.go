// Package lazy initialises values on first use. Package-level compilation slows down every start
// of the program, needed or not: 40 regular expressions took 0.4 ms.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression once. It panics like regexp.MustCompile
// if text is invalid, so a test must call it.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
