package verdict

import (
	"testing"

	"ceiling/record"
)

// EachFixture judges every record of testdata for tests outside the package.
func EachFixture(t testing.TB, do func(name string, run *record.Run)) {
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		run.Verdict = Judge(run, series)
		do(f.path, run)
	}
}
