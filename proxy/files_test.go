package proxy

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// site makes a directory of files, and beside it one that is not to be seen.
func siteDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "www")
	files := map[string]string{
		"index.html": "<h1>home</h1>", "about.html": "about", "docs/index.html": "docs", "empty.txt": "",
		"app.js": strings.Repeat("js", 500), "app.js.gz": "gz", "app.js.br": "br", ".secret": "secret", ".well-known/x": "known",
		"../outside": "outside",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), pattern(3_000_000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFiles(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		dir := siteDir(t)
		r := run(t, engine, to("files://"+dir+"?suffix=.html&maxAge=60"))
		l := dial(t, r.addr)
		for range 2 { // the second time from the cache
			for path, want := range map[string]string{
				"/": "200 <h1>home</h1>", "/index.html": "200 <h1>home</h1>", "/about": "200 about", "/about.html": "200 about", "/docs/": "200 docs",
				"/docs": "301 ", "/empty.txt": "200 ", "/nothing": "404", "/.secret": "404", "/.well-known/x": "200 known", "/link": "404",
				"/%2e%2e/outside": "400", "/a/../about": "200 about", "/about/": "200 about", "/big": "200 " + string(pattern(3_000_000)),
				"/index.html%00": "400",
			} {
				res, body := l.get(path)
				if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != want && !(len(want) == 3 && strings.HasPrefix(got, want)) {
					t.Errorf("%s: %.100s, want %.100s", path, got, want)
				}
			}
		}
		l.say("HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n")
		res, _ := l.answer("HEAD")
		if res.ContentLength != 3_000_000 || res.Header.Get("Cache-Control") != "public, max-age=60" || res.Header.Get("ETag") == "" {
			t.Errorf("%v", res.Header)
		}
		l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		if res, _ := l.answer("POST"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
			t.Error(res.Status)
		}
	})
}

// TestFilesBelowPrefix: a directory is served below a prefix, and its index at the prefix with its
// slash.
func TestFilesBelowPrefix(t *testing.T) {
	dir := siteDir(t)
	r := run(t, "", to("files://"+dir, `paths = ["/docs"]`)+
		"transformers = [{ type = \"replacePath\", options = { pattern = \"/docs\", value = \"\" } }]\n")
	l := dial(t, r.addr)
	for path, want := range map[string]string{
		"/docs/": "200 <h1>home</h1>", "/docs": "301 ", "/docs/index.html": "200 <h1>home</h1>", "/docs/docs/": "200 docs", "/docs/docs": "301 ",
		"/%64ocs/about.html": "200 about", "/docs/empty.txt": "200 ", "/docs/.secret": "404", "/docs/%2e%2e/%2e%2e/outside": "400", "/about.html": "404",
	} {
		res, body := l.get(path)
		if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != want && !(len(want) == 3 && strings.HasPrefix(got, want)) {
			t.Errorf("%s: %.100s, want %.100s", path, got, want)
		}
		if place := res.Header.Get("Location"); res.StatusCode == 301 && place != path+"/" {
			t.Errorf("%s leads to %s", path, place)
		}
	}
}

func TestFileConditions(t *testing.T) {
	needs.Time(t)
	together(t)
	dir := siteDir(t)
	r := run(t, "auto", to("files://"+dir))
	l := dial(t, r.addr)
	res, _ := l.get("/big")
	etag, modified := res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	old := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	whole := pattern(3_000_000)
	for _, k := range []struct {
		fields string
		status int
		from   int
		to     int
	}{
		{"If-None-Match: " + etag, 304, 0, 0},
		{"If-None-Match: \"x\", W/" + etag, 304, 0, 0},
		{"If-None-Match: *", 304, 0, 0},
		{"If-None-Match: \"x\"\r\nIf-Modified-Since: " + modified, 200, 0, len(whole)},
		{"If-Modified-Since: " + modified, 304, 0, 0},
		{"If-Modified-Since: " + old, 200, 0, len(whole)},
		{"If-Match: \"x\"", 412, 0, 0},
		{"If-Match: " + etag, 200, 0, len(whole)},
		{"If-Unmodified-Since: " + old, 412, 0, 0},
		{"Range: bytes=0-0", 206, 0, 1},
		{"Range: bytes=100-199", 206, 100, 200},
		{"Range: bytes=2999990-", 206, 2999990, 3000000},
		{"Range: bytes=-10", 206, 2999990, 3000000},
		{"Range: bytes=2999990-9999999", 206, 2999990, 3000000},
		{"Range: bytes=-9999999", 206, 0, 3000000},
		{"Range: bytes=3000000-", 416, 0, 0},
		{"Range: bytes=-0", 416, 0, 0},
		{"Range: bytes=5-4", 200, 0, len(whole)},
		{"Range: bytes=0-1,3-4,4-5", 200, 0, len(whole)},
		{"Range: bytes=0-1,2-3", 200, 0, len(whole)},
		{"Range: bytes=0-1,x", 200, 0, len(whole)},
		{"Range: bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20", 200, 0, len(whole)},
		{"Range: bytes=0-1,4-5\r\nIf-Range: \"x\"", 200, 0, len(whole)},
		{"Range: bytes=0-1,3000000-", 206, 0, 2},
		{"Range: bytes=3000000-,-0", 416, 0, 0},
		{"Range: lines=0-1", 200, 0, len(whole)},
		{"Range: bytes=+1-2", 200, 0, len(whole)},
		{"Range: bytes=0-9\r\nIf-Range: " + etag, 206, 0, 10},
		{"Range: bytes=0-9\r\nIf-Range: \"x\"", 200, 0, len(whole)},
		{"Range: bytes=0-9\r\nIf-Range: " + modified, 206, 0, 10},
	} {
		l.say("GET /big HTTP/1.1\r\nHost: a\r\n" + k.fields + "\r\n\r\n")
		res, body := l.answer("GET")
		if res.StatusCode != k.status {
			t.Errorf("%s: %d, want %d", k.fields, res.StatusCode, k.status)
			continue
		}
		if k.status < 300 && !bytes.Equal([]byte(body), whole[k.from:k.to]) {
			t.Errorf("%s: wrong bytes", k.fields)
		}
	}
}

// TestSeveralRanges: each part is what it says, small files and mapped ones, and the
// length is exact: the connection goes on.
func TestSeveralRanges(t *testing.T) {
	together(t)
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, to("files://"+siteDir(t)))
		l := dial(t, r.addr)
		for path, whole := range map[string][]byte{"/big": pattern(3_000_000), "/app.js": []byte(strings.Repeat("js", 500))} {
			size := len(whole)
			l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1, 500-899,5-6,-7\r\n\r\n")
			res, body := l.answer("GET")
			kind, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
			if res.StatusCode != 206 || err != nil || kind != "multipart/byteranges" || len(res.Header["Content-Type"]) != 1 ||
				res.Header.Get("Content-Range") != "" {
				t.Fatal(res.Status, res.Header, err)
			}
			parts := multipart.NewReader(strings.NewReader(body), params["boundary"])
			for _, p := range [][2]int{{0, 2}, {500, 900}, {5, 7}, {size - 7, size}} {
				one, err := parts.NextPart()
				if err != nil {
					t.Fatal(err)
				}
				data, err := io.ReadAll(one)
				want := fmt.Sprintf("bytes %d-%d/%d", p[0], p[1]-1, size)
				if err != nil || !bytes.Equal(data, whole[p[0]:p[1]]) || one.Header.Get("Content-Range") != want ||
					one.Header.Get("Content-Type") == "" {
					t.Errorf("%s %v: %q %v %v", path, p, data, one.Header, err)
				}
			}
			if _, err := parts.NextPart(); err != io.EOF {
				t.Error(err)
			}
			l.say("HEAD " + path + " HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1, 500-899,5-6,-7\r\n\r\n")
			if head, _ := l.answer("HEAD"); head.StatusCode != 206 || head.ContentLength != int64(len(body)) {
				t.Errorf("HEAD: %s, %d bytes of %d", head.Status, head.ContentLength, len(body))
			}
		}
		l.say("GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1499999,1600000-2999999\r\n\r\n")
		if res, body := l.answer("GET"); res.StatusCode != 206 || len(body) < 2_900_000 || int64(len(body)) != res.ContentLength {
			t.Error(res.Status, len(body))
		}
		l.status("/about.html", 200)
	})
}

func TestPrecompressed(t *testing.T) {
	together(t)
	r := run(t, "auto", to("files://"+siteDir(t)))
	l := dial(t, r.addr)
	for accepts, want := range map[string]string{
		"gzip": "gz", "gzip, deflate, br": "br", "br;q=0, gzip": "gz", "br;q=0.5": "br", "identity": strings.Repeat("js", 500),
		"x-br": strings.Repeat("js", 500), "*": "br", "br;q=0, *": "gz", "*;q=0": strings.Repeat("js", 500),
	} {
		l.say("GET /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + accepts + "\r\n\r\n")
		res, body := l.answer("GET")
		if body != want || res.Header.Get("Vary") != "Accept-Encoding" || !strings.Contains(res.Header.Get("Content-Type"), "javascript") {
			t.Errorf("%s: %.20q %v", accepts, body, res.Header)
		}
	}
}

// TestFilesChange: a file that is replaced is seen within the second that it is
// believed; so is one that appears, and one that goes.
func TestFilesChange(t *testing.T) {
	together(t)
	dir := siteDir(t)
	r := run(t, "auto", to("files://"+dir+"?fallback=index.html"))
	l := dial(t, r.addr)
	if body := l.status("/deep/link", 200); body != "<h1>home</h1>" {
		t.Error(body)
	}
	replace := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "new"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	l.status("/big", 200)
	replace("big", pattern(2_000_000))
	until(t, "the new file", func() bool { return len(l.status("/big", 200)) == 2_000_000 })
	replace("index.html", []byte("new home"))
	until(t, "the new page", func() bool { return l.status("/deep/link", 200) == "new home" })
	if err := os.Remove(filepath.Join(dir, "about.html")); err != nil {
		t.Fatal(err)
	}
	until(t, "it is gone", func() bool { return l.status("/about.html", 200) == "new home" })
}

// TestFileSlowReader: a client that stops reading a large file is given up, and
// one that reads slowly is not.
func TestFileSlowReader(t *testing.T) {
	needs.Time(t)
	together(t)
	dir := siteDir(t)
	if err := os.WriteFile(filepath.Join(dir, "huge"), bytes.Repeat(pattern(1<<20), 32), 0o644); err != nil {
		t.Fatal(err)
	}
	r := run(t, "auto", strings.Replace(to("files://"+dir), "[timeouts]", "[timeouts]\nidle = \"300ms\"", 1))
	l := dial(t, r.addr)
	l.say("GET /huge HTTP/1.1\r\nHost: a\r\n\r\n")
	until(t, "it is given up", func() bool { return r.count("client_timeouts_total") == 1 })
	if sent := r.count("sent_body_bytes_total"); sent == 0 || sent >= 32<<20 {
		t.Errorf("%d bytes are counted as sent, of 32 MiB that nobody read", sent)
	}
}

// TestFileBeyond32Bits: a file of more bytes than 32 bits count is sent whole, and a range behind
// them is that of the file. That each engine can send as much at once has ring's TestLongSend.
func TestFileBeyond32Bits(t *testing.T) {
	needs.Time(t) // 4 GiB
	needs.Unraced(t)
	const size, at = 4<<30 + 100, 4<<30 + 90
	dir := siteDir(t)
	name := filepath.Join(dir, "image.iso")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil { // a hole takes no room
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("0123456789"), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := run(t, "epoll", to("files://"+dir))
	for ranges, want := range map[string]int64{"": size, "bytes=4294967388-": 8, "bytes=-5": 5} {
		q, err := http.NewRequest(http.MethodGet, "http://"+r.addr+"/image.iso", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = "a"
		if ranges != "" {
			q.Header.Set("Range", ranges)
		}
		res, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || n != want || res.ContentLength != want {
			t.Errorf("%q: %s, length %d, %d bytes came, want %d: %v", ranges, res.Status, res.ContentLength, n, want, err)
		}
		res.Body.Close()
	}
}

// TestMissingFileAppears: a file that was asked for before it was there is served once it is, and so
// is, soon, one that takes the place of the fallback.
func TestMissingFileAppears(t *testing.T) {
	for _, options := range []string{"", "?fallback=index.html"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("index"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, "epoll", to("files://"+dir+options))
		l := dial(t, r.addr)
		if options == "" {
			l.status("/page.html", 404)
		}
		for range 3 { // within the same second
			l.status("/late.css", 404)
		}
		for _, name := range []string{"page.html", "late.css"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
			if options != "" { // in whose place the fallback may stand for 20 ms
				until(t, name+" is served", func() bool { _, body := l.get("/" + name); return body == name })
				continue
			}
			if body := l.status("/"+name, 200); body != name {
				t.Errorf("%s%s: %q", name, options, body)
			}
		}
	}
}

// TestHalfWrittenFile: a file that was asked for while it was written is whole as soon as it is.
func TestHalfWrittenFile(t *testing.T) {
	dir := t.TempDir()
	l := dial(t, run(t, "uring", to("files://"+dir)).addr)
	for i := range 20 {
		text, name := pattern(64<<10), fmt.Sprint(i)
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{text[:1000], text[1000:]} {
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			if stat, err := f.Stat(); err != nil || int64(len(l.status("/"+name, 200))) != stat.Size() {
				t.Errorf("not the %d bytes that are there, %v", stat.Size(), err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
