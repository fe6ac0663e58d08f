// Package leak fails tests that leave goroutines. goleak gives those that are ending about a second,
// which is not enough where a machine lends half a core: here they have twenty.
package leak

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is far more than the end of a goroutine takes.
const patience = 20 * time.Second

// Find waits for goroutines to end, and returns an error that names those that do not.
func Find(options ...goleak.Option) (err error) {
	for limit := time.Now().Add(patience); ; {
		if err = goleak.Find(options...); err == nil || time.Now().After(limit) {
			return err
		}
	}
}

// Main runs a package's tests, and fails when goroutines are left.
func Main(tests interface{ Run() int }, options ...goleak.Option) {
	code := tests.Run()
	if code == 0 {
		if err := Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
