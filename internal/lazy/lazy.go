// Package lazy makes things when they are first asked for. What a package
// compiles as it is loaded is paid by every start of the program, also of those
// that never use it: 40 expressions took 0.4 ms.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp is the expression that text is, compiled once; it panics like
// regexp.MustCompile where text is none, so a test has to call it.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
