package command

import (
	"slices"
	"strings"
	"testing"
)

// TestHandIsAJob: resolving a verb of another program does not start that program.
func TestHandIsAJob(t *testing.T) {
	var got Job
	sh := &Shell{Args: []string{"ceiling", "race", "--rounds", "1"}, Performs: func(j Job) error { got = j; return nil }}
	c := sh.Hand("ceiling-lab", "race", "Race")
	c.SetArgs(sh.Args[2:])
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	if o, ok := got.(handOver); !ok || o.program != "ceiling-lab" || !slices.Equal(o.args, sh.Args[1:]) {
		t.Errorf("%+v", got)
	}
}

// TestVersion: a build without git has a version of its own too, which is not that of another.
func TestVersion(t *testing.T) {
	if v := Version(); v == "" || strings.Contains(v, "(devel)") || strings.ContainsAny(v, " \n") {
		t.Errorf("%q", v)
	}
	if id := buildID(); len(id) != 12 || id != buildID() {
		t.Errorf("build %q", id)
	}
}
