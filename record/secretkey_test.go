package record

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSecretKeyIsKept(t *testing.T) {
	data := t.TempDir()
	getenv := func(string) string { return data }
	var keys [8][]byte
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = SecretKey(getenv); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, k := range keys {
		if len(k) != secretKeyBytes || !bytes.Equal(k, keys[0]) {
			t.Fatalf("%d bytes, and not all the same", len(k))
		}
	}
	names, err := os.ReadDir(filepath.Join(data, "ceiling"))
	if err != nil || len(names) != 1 || names[0].Name() != secretKeyFile {
		t.Errorf("%v, %v", names, err)
	}
	info, err := os.Stat(filepath.Join(data, "ceiling", secretKeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestSecretKeyThatCannotBeKept(t *testing.T) {
	check := func(what string, prepare func(path string) error, want string) {
		t.Helper()
		data := t.TempDir()
		path := filepath.Join(data, "ceiling", secretKeyFile)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		one, err := SecretKey(func(string) string { return data })
		two, _ := SecretKey(func(string) string { return data })
		if err == nil || !strings.Contains(err.Error(), want) || len(one) != secretKeyBytes || bytes.Equal(one, two) {
			t.Errorf("%s: %v, %d bytes, the same twice: %v", what, err, len(one), bytes.Equal(one, two))
		}
	}
	write := func(text string, mode fs.FileMode) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), mode) }
	}
	check("a damaged one", write("abc\n", 0o600), "not a key; delete it")
	check("one that others can read", write(strings.Repeat("ab", secretKeyBytes), 0o644), "others can read")
	check("a long one", write(strings.Repeat("ab", 1000), 0o600), "not a key")
	check("a directory", func(path string) error { return os.Mkdir(path, 0o700) }, "not a key")
	if key, err := SecretKey(func(string) string { return "" }); err == nil || len(key) != secretKeyBytes {
		t.Errorf("no home: %v, %d bytes", err, len(key))
	}
}

// TestRecordsAreForTheirOwner walks what writers leave, also in a directory that
// was given.
func TestRecordsAreForTheirOwner(t *testing.T) {
	root := t.TempDir()
	given := filepath.Join(root, "given") // there already: its mode stays
	if err := os.Mkdir(given, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(given, 0o755); err != nil {
		t.Fatal(err)
	}
	id := NewID(time.Date(2026, 11, 21, 9, 30, 12, 0, time.UTC))
	var writers []*Writer
	for _, dir := range []string{filepath.Join(root, "new", "deep"), given} {
		w, err := Create(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	w, err := Store{Dir: filepath.Join(root, "store")}.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range append(writers, w) {
		w.AppendLoad(&LoadRow{})
		if err := w.Start(Start{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Attach("profile", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(&Run{}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := CreatePlan(filepath.Join(root, "plan"), &Plan{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(&Plan{}); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case path == given:
			want = 0o755
		case d.IsDir():
			want = 0o700
		default:
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || files != 4 {
		t.Errorf("%d files, %v", files, err)
	}
}
