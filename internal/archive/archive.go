// Package archive reads test fixtures from archives (txtar) in testdata: one archive for many
// small files, with their origin in its head.
package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// File is a file of an archive.
type File struct {
	Archive string // archive path
	Name    string // within the archive
	Data    []byte // ends with a line feed, even if the input did not
}

// String is the file's name in subtests and failures: wrk.txtar/wrk_404.txt.
func (f File) String() string { return filepath.Base(f.Archive) + "/" + f.Name }

// All returns the files of all archives whose path matches the pattern, in order.
func All(t testing.TB, pattern string) []File {
	t.Helper()
	archives, err := filepath.Glob(pattern)
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archive %s, %v", pattern, err)
	}
	var list []File
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range a.Files {
			if seen[f.Name] {
				t.Fatalf("%s has %s twice", path, f.Name)
			}
			seen[f.Name] = true
			list = append(list, File{path, f.Name, f.Data})
		}
	}
	return list
}

// Read returns a file of the archives whose path matches the pattern.
func Read(t testing.TB, pattern, name string) []byte {
	t.Helper()
	for _, f := range All(t, pattern) {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("%s has no %s", pattern, name)
	return nil
}

// Extract writes the files of an archive below dir.
func Extract(t testing.TB, archive, dir string) {
	t.Helper()
	for _, f := range All(t, archive) {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Update replaces or appends a file of an archive, for a test's -update.
func Update(t testing.TB, archive, name string, data []byte) {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if a == nil {
		a = new(txtar.Archive)
	}
	if txtar.NeedsQuote(data) {
		t.Fatalf("%s: %s has a line that begins a file of an archive", archive, name)
	}
	found := false
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data, found = data, true
		}
	}
	if !found {
		a.Files = append(a.Files, txtar.File{Name: name, Data: data})
	}
	if err := os.WriteFile(archive, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}
