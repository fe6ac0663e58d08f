package archive

import (
	"os"
	"path/filepath"
	"testing"
)

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.txtar")
	if err := os.WriteFile(archive, []byte("From a machine.\n-- x/one --\n1\n-- two --\n2\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	Update(t, archive, "x/one", []byte("one"))
	Update(t, archive, "x/y/three", []byte("3\n"))
	text, err := os.ReadFile(archive)
	if want := "From a machine.\n-- x/one --\none\n-- two --\n2\r\n-- x/y/three --\n3\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
	Update(t, filepath.Join(dir, "b.txtar"), "four", []byte("4\n"))
	var names string
	for _, f := range All(t, filepath.Join(dir, "*.txtar")) {
		names += f.String() + " "
	}
	if names != "a.txtar/x/one a.txtar/two a.txtar/x/y/three b.txtar/four " {
		t.Error(names)
	}
	if got := Read(t, filepath.Join(dir, "*.txtar"), "four"); string(got) != "4\n" {
		t.Errorf("%q", got)
	}
	Extract(t, archive, filepath.Join(dir, "out"))
	for name, want := range map[string]string{"x/one": "one\n", "x/y/three": "3\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, "out", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
