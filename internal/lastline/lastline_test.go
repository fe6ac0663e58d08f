package lastline

import (
	"strings"
	"testing"
)

// TestText: of whatever was written, in whatever pieces, the last line that is not
// empty, and no more memory than is kept.
func TestText(t *testing.T) {
	var w Writer
	if got := w.Text(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	for range 1000 {
		for _, piece := range []string{"panic: ", "first\n", "exit ", "status 2\n", "\n"} {
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if got := w.Text(); got != "exit status 2" {
		t.Errorf("%q", got)
	}
	if len(w.b) > kept {
		t.Errorf("%d bytes are kept", len(w.b))
	}
	if _, err := w.Write([]byte(strings.Repeat("x", 2*kept))); err != nil || len(w.Text()) != kept {
		t.Errorf("%v, %d bytes of a long line", err, len(w.Text()))
	}
}
