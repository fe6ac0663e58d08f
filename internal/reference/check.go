package reference

import (
	"os"
	"testing"
)

// Check fails a test if a file is not the page that the comments make; with UPDATE_GOLDEN=1 it writes the file.
func Check(t *testing.T, f *Format, file, intro string, parts ...Part) {
	t.Helper()
	page, err := f.Page(intro, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page {
		t.Errorf("%s is not what the comments say; write it: UPDATE_GOLDEN=1 go test -run %s", file, t.Name())
	}
}
