package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A record that cannot be kept says where else it could be.
func TestRecordsElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const advice = "keep records elsewhere: -o DIR, or set XDG_DATA_HOME"
	_, inStore := Store{Dir: file + "/runs"}.Create("20260101-000000-abcd")
	_, inDir := Create("/proc/no/such", "20260101-000000-abcd")
	_, plan := CreatePlan("/proc/no/such", &Plan{})
	for _, err := range []error{inStore, inDir, plan} {
		if err == nil || !strings.HasSuffix(err.Error(), advice) {
			t.Error(err)
		}
	}
	full := fmt.Errorf("write result.json: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if got, want := Incomplete("/d", errors.Join(full, full)),
		"the record in /d is incomplete: no space left on device; "+advice; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Incomplete("/d", errors.Join(errors.New("one"), errors.New("two"))),
		"the record in /d is incomplete: one; two"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestApart(t *testing.T) {
	for _, c := range [][4]string{
		{"ceiling serve fasthttp --addr {addr}", "ceiling serve nethttp --addr {addr}", "fasthttp", "nethttp"},
		{"http://a:1/", "http://a:2/", "http://a:1/", "http://a:2/"},
		{"serve", "serve --slow", "", "--slow"},
		{"", "", "", ""},
	} {
		if a, b := Apart(c[0], c[1]); a != c[2] || b != c[3] {
			t.Errorf("%q, %q: %q, %q", c[0], c[1], a, b)
		}
	}
}
