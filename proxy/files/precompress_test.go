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

// TestMediaTypes: the types are the program's, whatever the machine knows.
func TestMediaTypes(t *testing.T) {
	for name, want := range map[string]string{
		"a.html": "text/html; charset=utf-8", "A.HTM": "text/html; charset=utf-8", "a.css": "text/css; charset=utf-8",
		"a.js": "text/javascript; charset=utf-8", "a.mjs": "text/javascript; charset=utf-8", "a.json": "application/json",
		"a.js.map": "application/json", "a.webmanifest": "application/manifest+json", "a.wasm": "application/wasm",
		"a.svg": "image/svg+xml", "a.png": "image/png", "a.jpg": "image/jpeg", "a.jpeg": "image/jpeg", "a.gif": "image/gif",
		"a.webp": "image/webp", "a.avif": "image/avif", "favicon.ico": "image/vnd.microsoft.icon", "a.woff": "font/woff",
		"a.woff2": "font/woff2", "a.ttf": "font/ttf", "a.otf": "font/otf", "a.eot": "application/vnd.ms-fontobject",
		"a.mp4": "video/mp4", "a.webm": "video/webm", "a.mp3": "audio/mpeg", "a.ogg": "audio/ogg", "a.pdf": "application/pdf",
		"a.txt": "text/plain; charset=utf-8", "a.md": "text/markdown; charset=utf-8", "a.xml": "application/xml",
		"a.atom": "application/atom+xml", "a.rss": "application/rss+xml", "a.csv": "text/csv; charset=utf-8", "a.zip": "application/zip",
		"a.gz": "application/gzip", "a.br": "application/x-brotli", "a.tar": "application/x-tar", "a.7z": "application/x-7z-compressed",
		"a.vtt": "text/vtt; charset=utf-8", "a.m3u8": "application/vnd.apple.mpegurl", "LICENSE": "application/octet-stream",
		"a.unknown": "application/octet-stream",
	} {
		if got := (&Site{charset: "utf-8"}).kind(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
