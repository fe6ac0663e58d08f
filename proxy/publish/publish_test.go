package publish

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/proxy/config"
)

// bench is a publisher with a site, whose reload can be made to fail.
type bench struct {
	t       *testing.T
	dir     string
	config  config.Config
	reload  func() error
	reloads int
	mux     *http.ServeMux
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), mux: http.NewServeMux(), reload: func() error { return nil }}
	b.config.Security.Credential = "secret"
	b.config.Publish = config.Publish{
		UploadBytes: 1 << 20, UnpackedBytes: 2 << 20, Regions: b.dir,
		Sites: []config.Site{{ID: "www", Directory: filepath.Join(b.dir, "www"), Keep: 2}},
	}
	p := &Publisher{Config: func() *config.Config { return &b.config }, Reload: func() error { b.reloads++; return b.reload() }}
	p.Handle(b.mux, func(f http.HandlerFunc) http.Handler { return f })
	return b
}

func (b *bench) ask(method, path string, body []byte) (int, string) {
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
	return w.Code, w.Body.String()
}

// want asks and wants a status.
func (b *bench) want(status int, method, path string, body []byte) string {
	b.t.Helper()
	got, text := b.ask(method, path, body)
	if got != status {
		b.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// page is what is served.
func (b *bench) page() string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "www", "index.html"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// left are the names in the store.
func (b *bench) left() (n int) {
	b.t.Helper()
	list, err := os.ReadDir(filepath.Join(b.dir, "www.releases"))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(list)
}

type entry struct {
	name, text string
	mode       os.FileMode
}

func zipped(t *testing.T, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode == 0 {
			e.mode = 0o644
		}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func release(t *testing.T, text string) []byte {
	return zipped(t, entry{name: "assets/"}, entry{name: "assets/run", text: "x", mode: 0o755}, entry{name: "index.html", text: text})
}

// TestReleases: each upload is served, a rollback goes back, and old ones go.
func TestReleases(t *testing.T) {
	b := newBench(t)
	if err := os.MkdirAll(filepath.Join(b.dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "www", "index.html"), []byte("zero"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.want(200, "PUT", "/sites/www", release(t, "one"))
	if b.page() != "one" {
		t.Error(b.page())
	}
	b.want(200, "POST", "/sites/www/rollback", nil)
	if b.page() != "zero" { // what lay there before anything was published
		t.Error(b.page())
	}
	b.want(409, "POST", "/sites/www/rollback", nil)
	b.want(200, "PUT", "/sites/www", release(t, "two"))
	b.want(200, "PUT", "/sites/www", release(t, "three"))
	var p published
	if err := json.Unmarshal([]byte(b.want(200, "GET", "/sites/www", nil)), &p); err != nil || len(p.Releases) != 2 ||
		p.Release != p.Releases[1] {
		t.Errorf("%v %+v", err, p)
	}
	b.want(200, "POST", "/sites/www/rollback", nil)
	if b.page() != "two" || b.reloads != 5 {
		t.Errorf("%s after %d reloads", b.page(), b.reloads)
	}
	info, err := os.Stat(filepath.Join(b.dir, "www", "assets", "run"))
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("%v %v", info, err)
	}
}

// TestBadUploads: none of these is served, and nothing of them stays.
func TestBadUploads(t *testing.T) {
	b := newBench(t)
	b.want(200, "PUT", "/sites/www", release(t, "good"))
	for name, k := range map[string]struct {
		status int
		body   []byte
	}{
		"not a zip file": {422, []byte("hello")},
		"empty":          {422, nil},
		"no entries":     {422, zipped(t)},
		"above":          {422, zipped(t, entry{name: "../evil", text: "x"})},
		"above later":    {422, zipped(t, entry{name: "a/../../evil", text: "x"})},
		"absolute":       {422, zipped(t, entry{name: "/etc/evil", text: "x"})},
		"backslash":      {422, zipped(t, entry{name: `..\evil`, text: "x"})},
		"link":           {422, zipped(t, entry{name: "out", text: "/etc", mode: os.ModeSymlink | 0o777}, entry{name: "out/evil", text: "x"})},
		"device":         {422, zipped(t, entry{name: "dev", mode: os.ModeDevice | 0o666})},
		"twice":          {422, zipped(t, entry{name: "a", text: "x"}, entry{name: "a", text: "y"})},
		"file and below": {422, zipped(t, entry{name: "a", text: "x"}, entry{name: "a/b", text: "y"})},
		"bomb":           {413, zipped(t, entry{name: "a", text: strings.Repeat("\x00", 3<<20)})},
		"many bombs": {413, zipped(t, entry{name: "a", text: strings.Repeat("\x00", 3<<19)},
			entry{name: "b", text: strings.Repeat("\x00", 3<<19)})},
		"large": {413, make([]byte, 2<<20)},
		"cut":   {422, release(t, "cut")[:200]},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.want(k.status, "PUT", "/sites/www", k.body)
			if b.page() != "good" || b.left() != 1 || b.reloads != 1 {
				t.Errorf("%q is served, %d names in the store, %d reloads", b.page(), b.left(), b.reloads)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(b.dir), "evil")); err == nil {
		t.Error("it got out")
	}
}

// TestUndone: a reload or a command that fails leaves the former release.
func TestUndone(t *testing.T) {
	b := newBench(t)
	site := &b.config.Publish.Sites[0]
	site.Command = []string{"/bin/sh", "-c", "echo built $(cat index.html); test \"$(cat index.html)\" != bad"}
	b.reload = func() error { return errors.New("no") }
	b.want(422, "PUT", "/sites/www", release(t, "first"))
	if b.page() != "" || b.left() != 0 {
		t.Errorf("%q, %d", b.page(), b.left())
	}
	b.reload = func() error { return nil }
	if got := b.want(200, "PUT", "/sites/www", release(t, "good")); !strings.Contains(got, "built good") {
		t.Error(got)
	}
	if got := b.want(422, "PUT", "/sites/www", release(t, "bad")); !strings.Contains(got, "built bad") ||
		!strings.Contains(got, "the former release stays") {
		t.Error(got)
	}
	if b.page() != "good" || b.left() != 1 {
		t.Errorf("%q, %d", b.page(), b.left())
	}
}

// TestForeignLink: a directory that another tool has linked to its own release goes back to it.
func TestForeignLink(t *testing.T) {
	b := newBench(t)
	www := filepath.Join(b.dir, "www")
	if err := os.MkdirAll(filepath.Join(b.dir, "mine", "5"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("mine/5", www); err != nil {
		t.Fatal(err)
	}
	b.reload = func() error { return errors.New("no") }
	b.want(422, "PUT", "/sites/www", release(t, "bad"))
	if to, err := os.Readlink(www); err != nil || to != "mine/5" || b.left() != 0 {
		t.Errorf("%q %v, %d names in the store", to, err, b.left())
	}
	if text := b.want(200, "GET", "/sites/www", nil); strings.Contains(text, `"release"`) {
		t.Errorf("a release that is not in the store: %s", text)
	}
}

// TestLimits: what is refused because of its size names the setting.
func TestLimits(t *testing.T) {
	b := newBench(t)
	if text := b.want(413, "PUT", "/sites/www", make([]byte, 2<<20)); !strings.Contains(text, "1048576 bytes; [publish] upload_bytes") {
		t.Error(text)
	}
	zeros := entry{name: "a", text: strings.Repeat("\x00", 3<<20)}
	if text := b.want(413, "PUT", "/sites/www", zipped(t, zeros)); !strings.Contains(text, "2097152 bytes; [publish] unpacked_bytes") {
		t.Error(text)
	}
}

// TestRegion: a region that is wrong, by itself or in the whole, leaves the file
// that was there.
func TestRegion(t *testing.T) {
	b := newBench(t)
	text := func(id string) []byte {
		return fmt.Appendf(nil, "[[locations]]\nid = %q\n[[locations.destinations]]\nuri = 'http://a'\n", id)
	}
	file := filepath.Join(b.dir, "a.toml")
	is := func(want []byte) {
		t.Helper()
		if got, err := os.ReadFile(file); string(got) != string(want) || want != nil && err != nil {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
	b.reload = func() error { return errors.New("in the whole") }
	b.want(422, "PUT", "/regions/a.toml", text("one"))
	is(nil)
	b.reload = func() error { is(text("one")); return nil }
	b.want(200, "PUT", "/regions/a.toml", text("one"))
	is(text("one"))
	b.reload = func() error { return errors.New("in the whole") }
	b.want(422, "PUT", "/regions/a.toml", text("two"))
	is(text("one"))
	if got := b.want(422, "PUT", "/regions/a.toml", []byte("[[locations]]\nid = 5\n")); !strings.Contains(got, "a.toml:2") {
		t.Error(got)
	}
	is(text("one"))
	for _, name := range []string{"x", ".toml", "..%2fx.toml", "a*.toml"} {
		b.want(400, "PUT", "/regions/"+name, text("x"))
	}
	list, err := filepath.Glob(filepath.Join(b.dir, ".publish-*"))
	if len(list) > 0 || err != nil {
		t.Errorf("%v %v", list, err)
	}
}

// TestNeedsCredential: without a credential nothing can be published by anybody.
func TestNeedsCredential(t *testing.T) {
	b := newBench(t)
	b.config.Security.Credential = ""
	b.want(403, "PUT", "/sites/www", release(t, "x"))
	b.want(403, "PUT", "/regions/a.toml", []byte("[[locations]]"))
	b.config.Security.Credential = "x"
	b.want(404, "PUT", "/sites/other", release(t, "x"))
}

// FuzzUnpack: whatever a zip says, nothing is written outside.
func FuzzUnpack(f *testing.F) {
	f.Add("a/b", "../c", byte(0))
	f.Add("a", "a/b", byte(1))
	f.Add("", "..", byte(2))
	f.Fuzz(func(t *testing.T, one, two string, mode byte) {
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		for _, name := range []string{one, two} {
			h := &zip.FileHeader{Name: name}
			h.SetMode([]os.FileMode{0o644, os.ModeDir | 0o755, os.ModeSymlink | 0o777}[mode%3])
			w, err := z.CreateHeader(h)
			if err != nil {
				t.Skip()
			}
			_, _ = w.Write([]byte(".."))
		}
		if z.Close() != nil {
			t.Skip()
		}
		r, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Skip()
		}
		outer := t.TempDir()
		if err := os.MkdirAll(filepath.Join(outer, "in", "site"), 0o755); err != nil {
			t.Fatal(err)
		}
		release := Release{dir: filepath.Join(outer, "in", "site"), left: 1 << 20}
		_ = release.within(func(root *os.Root) error { return release.unpack(r, root) }) // an error or not: only where it wrote counts
		for dir, want := range map[string]int{outer: 1, filepath.Join(outer, "in"): 1} {
			if list, err := os.ReadDir(dir); err != nil || len(list) != want {
				t.Fatalf("%q %q: %v %v", one, two, list, err)
			}
		}
	})
}
