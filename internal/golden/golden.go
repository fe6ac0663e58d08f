// Package golden compares what a program writes with a file that is checked in.
package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Text fails a test if got differs from the content of file. With UPDATE_GOLDEN=1 it writes the file
// first: read the difference before you commit it.
func Text(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs; to write it: UPDATE_GOLDEN=1 go test -run %s\n-want +got\n%s", file, t.Name(), diff)
	}
}
