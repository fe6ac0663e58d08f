package command

import (
	"slices"
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
