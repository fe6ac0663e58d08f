package command

import (
	"strings"
	"testing"
)

// TestVersion: a build without git has a version of its own too, which is not that of another.
func TestVersion(t *testing.T) {
	if v := Version(); v == "" || strings.Contains(v, "(devel)") || strings.ContainsAny(v, " \n") {
		t.Errorf("%q", v)
	}
	if id := buildID(); len(id) != 12 || id != buildID() {
		t.Errorf("build %q", id)
	}
}
