package proxy

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes files with these texts below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// must stops a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asked gets a path with further lines of the head.
func (l *link) asked(path string, lines ...string) (*http.Response, string) {
	l.t.Helper()
	l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(append(lines, "\r\n"), "\r\n"))
	return l.answer("GET")
}

// TestDeployments: whatever gives the site's path another directory, the next request is
// answered from that one, and without one with 404; a response in progress stays whole.
func TestDeployments(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		base := t.TempDir()
		at := func(name string) string { return filepath.Join(base, name) }
		release := func(dir, text string) {
			write(t, at(dir), map[string]string{"index.html": text, "big": strings.Repeat(text, 1<<20), text: text})
		}
		release("releases/1", "one")
		must(t, os.Symlink("releases/1", at("current")))
		r := run(t, engine, to("files://"+at("current")))
		l := dial(t, r.addr)
		is := func(text string, others ...string) {
			t.Helper()
			for range 2 {
				if got := l.status("/", 200); got != text {
					t.Fatalf("%s, want %s", got, text)
				}
				l.status("/"+text, 200)
				for _, o := range others {
					l.status("/"+o, 404)
				}
			}
		}
		is("one")
		slow := dial(t, r.addr)
		slow.say("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
		is("one")

		release("releases/2", "two")
		must(t, os.Symlink("releases/2", at("next")))
		must(t, os.Rename(at("next"), at("current"))) // a link swapped
		is("two", "one")
		must(t, os.RemoveAll(at("releases/1")))
		if _, body := slow.answer("GET"); body != strings.Repeat("one", 1<<20) {
			t.Error("an answer of two releases")
		}
		must(t, os.RemoveAll(at("releases/2"))) // the link leads nowhere
		l.status("/", 404)
		release("releases/2", "three") // made again
		is("three", "two")
		must(t, os.Remove(at("current")))
		l.status("/", 404)
		release("new", "four")
		must(t, os.Rename(at("new"), at("current"))) // moved there
		is("four", "three")
		for i := range 3 {
			must(t, os.RemoveAll(at("current")))
			release("current", fmt.Sprint("made", i)) // perhaps with the old inode number
			is(fmt.Sprint("made", i), "four")
		}
	})
}

// TestMissingDirectory: a site without its directory is 404, the others are served, and it
// is reported and shown; it is served when the directory appears.
func TestMissingDirectory(t *testing.T) {
	together(t)
	base := t.TempDir()
	away := filepath.Join(base, "away")
	text := to("files://"+siteDir(t)) + fmt.Sprintf("[[locations]]\nhosts = [\"b\"]\n[[locations.destinations]]\nuri = \"files://%s\"\n", away)
	r := run(t, "auto", text)
	l := dial(t, r.addr)
	other := func(want int) {
		t.Helper()
		l.say("GET / HTTP/1.1\r\nHost: b\r\n\r\n")
		if res, body := l.answer("GET"); res.StatusCode != want {
			t.Fatal(res.Status, body)
		}
	}
	state := func() string {
		s := r.snapshot()
		i := slices.IndexFunc(s.Sites, func(o SiteStatus) bool { return o.Directory == away })
		return s.Sites[i].State + s.Sites[i].Problem
	}
	l.status("/", 200)
	other(404)
	if got := state(); !strings.HasPrefix(got, "missing") || !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	must(t, r.Reload(parse(t, text)))
	write(t, away, map[string]string{"index.html": "back"})
	other(200)
	if got := state(); got != "ok" {
		t.Error(got)
	}
	must(t, os.RemoveAll(away))
	other(404)
	must(t, os.WriteFile(away, nil, 0o644)) // no directory
	other(404)
	l.status("/", 200)
	said := strings.Join(r.said(), "\n")
	if strings.Count(said, away) != 4 || !strings.Contains(said, "it is not served until") || !strings.Contains(said, away+" is served") {
		t.Error(said)
	}
}

// TestMissingDirectoryAmongSeveral: requests go to the directories that are there, then to the
// fallback, and get 404 if nothing is left.
func TestMissingDirectoryAmongSeveral(t *testing.T) {
	together(t)
	base := t.TempDir()
	one, two, last := filepath.Join(base, "one"), filepath.Join(base, "two"), filepath.Join(base, "last")
	for _, dir := range []string{one, two, last} {
		write(t, dir, map[string]string{"index.html": filepath.Base(dir)})
	}
	destination := func(kind, dir string) string { return kind + "uri = \"files://" + dir + "\"\n" }
	const normal, fallback = "[[locations.destinations]]\n", "[locations.fallback]\n"
	location := func(host string, parts ...string) string {
		return "[[locations]]\nhosts = [\"" + host + "\"]\n" + strings.Join(parts, "")
	}
	r := run(t, "auto", location("all", destination(normal, one), destination(normal, two), destination(fallback, last))+
		location("only", destination(normal, one), destination(normal, two))+
		location("single", destination(normal, one), destination(fallback, last)))
	l := dial(t, r.addr)
	answers := func(host, want string) {
		t.Helper()
		got := map[string]bool{}
		for range 6 {
			l.say("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			res, body := l.answer("GET")
			got[fmt.Sprint(res.StatusCode, " ", body[:min(len(body), 4)])] = true
		}
		if list := slices.Sorted(maps.Keys(got)); strings.Join(list, ", ") != want {
			t.Errorf("%s: %q, want %s", host, list, want)
		}
	}
	answers("all", "200 one, 200 two")
	must(t, os.RemoveAll(one))
	answers("all", "200 two")
	answers("single", "200 last")
	must(t, os.RemoveAll(two))
	answers("all", "200 last")
	answers("only", "404 <!do")
	write(t, one, map[string]string{"index.html": "one"})
	answers("all", "200 one")
}

func (r *running) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// TestValidators: content that changes under the same date and length is never answered with
// 304, nor joined to an old part; unchanged content is, by its tag.
func TestValidators(t *testing.T) {
	together(t)
	constant := time.Unix(1, 0)
	for _, size := range []int{10, 16<<10 + 1} {
		base := t.TempDir()
		at := func(name string) string { return filepath.Join(base, name) }
		put := func(dir, text string) {
			write(t, at(dir), map[string]string{"f.txt": strings.Repeat(text, size)})
			must(t, os.Chtimes(at(dir+"/f.txt"), constant, constant))
		}
		put("1", "a")
		put("2", "b")
		must(t, os.Symlink("1", at("current")))
		r := run(t, "auto", to("files://"+at("current")))
		l := dial(t, r.addr)
		conditions := func(old *http.Response) (status []int) {
			tag, date := old.Header.Get("ETag"), old.Header.Get("Last-Modified")
			for _, lines := range [][]string{
				{"If-None-Match: " + tag}, {"If-None-Match: " + tag, "If-Modified-Since: " + date}, {"If-Modified-Since: " + date},
				{"Range: bytes=1-", "If-Range: " + tag}, {"Range: bytes=1-", "If-Range: " + date},
				{"Range: bytes=1-", "If-Match: " + tag}, {"Range: bytes=1-", "If-Unmodified-Since: " + date},
			} {
				res, _ := l.asked("/f.txt", lines...)
				status = append(status, res.StatusCode)
			}
			return status
		}
		first, _ := l.asked("/f.txt")
		if got, want := conditions(first), []int{304, 304, 200, 206, 200, 206, 412}; !slices.Equal(got, want) {
			t.Errorf("size %d: %v, want %v", size, got, want)
		}
		must(t, os.Symlink("2", at("next")))
		must(t, os.Rename(at("next"), at("current")))
		changed := []int{200, 200, 200, 200, 200, 412, 412}
		if got := conditions(first); !slices.Equal(got, changed) {
			t.Errorf("size %d, another release: %v, want %v", size, got, changed)
		}
		second, _ := l.asked("/f.txt")
		put("2", "c") // in place
		until(t, "the new content", func() bool { _, body := l.asked("/f.txt"); return body == strings.Repeat("c", size) })
		until(t, "the new tag", func() bool { res, _ := l.asked("/f.txt"); return res.Header.Get("ETag") != second.Header.Get("ETag") })
		if got := conditions(second); !slices.Equal(got, changed) {
			t.Errorf("size %d, rewritten: %v, want %v", size, got, changed)
		}
	}
}

// TestSinglePage: the fallback is for pages, and is not cached beside the assets that are.
func TestSinglePage(t *testing.T) {
	together(t)
	dir := siteDir(t)
	r := run(t, "auto", to("files://"+dir+"?fallback=index.html&maxAge=60"))
	l := dial(t, r.addr)
	const browser = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
	for _, k := range []struct {
		path, accept string
		status       int
		cache        string
	}{
		{"/", "", 200, "no-cache"}, {"/index.html", "", 200, "no-cache"}, {"/about.html", "", 200, "public, max-age=60"},
		{"/app.js", browser, 200, "public, max-age=60"},
		{"/users/7", "", 200, "no-cache"}, {"/users/7", browser, 200, "no-cache"}, {"/users/7", "Accept: */*", 200, "no-cache"},
		{"/users/7/", browser, 200, "no-cache"}, {"/v1.2/", "", 200, "no-cache"}, {"/none.html", browser, 200, "no-cache"},
		{"/users/jane.doe", browser, 200, "no-cache"}, {"/users/jane.doe", "Accept: */*", 404, "no-store"},
		{"/users/7", "Accept: application/json", 404, "no-store"}, {"/users/7", "Accept: image/avif,image/webp", 404, "no-store"},
		{"/assets/none.js", "", 404, "no-store"}, {"/assets/none.js", browser, 404, "no-store"}, {"/none.CSS", "", 404, "no-store"},
		{"/none.js.map", browser, 404, "no-store"}, {"/none.png", "Accept: image/png,*/*", 404, "no-store"},
		{"/.env", "", 404, "no-store"}, {"/.env", browser, 404, "no-store"}, {"/.git/config", browser, 404, "no-store"},
		{"/a/.b/c", browser, 404, "no-store"}, {"/%2eenv", browser, 404, "no-store"}, {"/.secret", browser, 404, "no-store"},
		{"/.well-known/none", browser, 404, "no-store"}, {"/.well-known/x", "", 200, "public, max-age=60"},
	} {
		lines := []string{}
		if k.accept != "" {
			lines = append(lines, k.accept)
		}
		res, body := l.asked(k.path, lines...)
		if res.StatusCode != k.status || res.Header.Get("Cache-Control") != k.cache || len(res.Header["Cache-Control"]) != 1 {
			t.Errorf("%s %s: %s %v %.40s", k.path, k.accept, res.Status, res.Header["Cache-Control"], body)
		}
	}
}
