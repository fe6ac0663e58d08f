package files

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPrecompress(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("a line of text, and another one; ", 200)
	for name, text := range map[string]string{"a.html": long, "sub/b.js": long, "small.txt": "x", "c.png": long, ".hidden/d.html": long} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Precompress(dir)
	if err != nil || done.Files != 6 || done.Before != 6*int64(len(long)) || done.After*10 > done.Before {
		t.Fatalf("%+v %v", done, err)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if more, _ := filepath.Glob(filepath.Join(dir, "sub", "*")); err != nil || len(list)+len(more) != 5+3+4 {
		t.Errorf("%v %v %v", list, more, err)
	}
	packed, err := os.ReadFile(filepath.Join(dir, "a.html.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(r); err != nil || string(plain) != long {
		t.Errorf("%v, %d bytes", err, len(plain))
	}
	if info, err := os.Stat(filepath.Join(dir, "a.html.br")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if done, err := Precompress(dir); err != nil || done.Files != 0 {
		t.Errorf("again: %+v %v", done, err)
	}
	soon := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "a.html"), soon, soon); err != nil {
		t.Fatal(err)
	}
	if done, err := Precompress(dir); err != nil || done.Files != 3 {
		t.Errorf("after a change: %+v %v", done, err)
	}
	if _, err := Precompress(filepath.Join(dir, "none")); err == nil {
		t.Error("no directory")
	}
}
