package process

import (
	"strings"
	"testing"
)

// TestTail: of whatever was written, in whatever pieces, the last line that is not
// empty, and no more memory than is kept.
func TestTail(t *testing.T) {
	var w tail
	if got := w.last(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	for range 1000 {
		for _, piece := range []string{"panic: ", "first\n", "exit ", "status 2\n", "\n"} {
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if got := w.last(); got != "exit status 2" {
		t.Errorf("%q", got)
	}
	if len(w.b) > 2*kept {
		t.Errorf("%d bytes are kept", len(w.b))
	}
	if _, err := w.Write([]byte(strings.Repeat("x", 2*kept))); err != nil || len(w.last()) != kept {
		t.Errorf("%v, %d bytes of a long line", err, len(w.last()))
	}
}
