package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"ceiling/proxy/compress"
)

// unpack reads a body in a coding.
func unpack(t *testing.T, coding string, r io.Reader) io.Reader {
	t.Helper()
	switch coding {
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(z.Close)
		return z
	case "br":
		return brrr.NewReader(r)
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	return r
}

// TestCompression: what comes out is what went in, in each coding; and what must
// not be compressed is not.
func TestCompression(t *testing.T) {
	together(t)
	big := pattern(300_000)
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("ETag", `"one"`)
		h.Set("Content-Type", "text/html; charset=utf-8")
		switch q.URL.Path {
		case "/small":
			h.Set("Content-Length", "3")
			_, _ = w.Write([]byte("abc"))
			return
		case "/image":
			h.Set("Content-Type", "image/png")
		case "/encoded":
			h.Set("Content-Encoding", "x")
		case "/private":
			h.Set("Cache-Control", "private, no-transform")
		case "/range":
			h.Set("Content-Range", "bytes 0-299999/400000")
			w.WriteHeader(206)
		case "/length":
			h.Set("Content-Length", fmt.Sprint(len(big)))
			h.Set("Accept-Ranges", "bytes")
		}
		_, _ = w.Write(big)
	})
	engines(t, func(t *testing.T, engine string) {
		r := run(t, engine, to("http://"+o.addr, "compress = true"))
		l := dial(t, r.addr)
		for _, accepts := range []string{"", "zstd", "br", "gzip"} {
			for path, packs := range map[string]bool{"/": true, "/length": true, "/small": false, "/image": false, "/encoded": false,
				"/private": false, "/range": false} {
				for _, method := range []string{"GET", "HEAD"} {
					l.say(method + " " + path + " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + accepts + "\r\n\r\n")
					res, body := l.answer(method)
					want, coding := "", res.Header.Get("Content-Encoding")
					if path == "/encoded" {
						want = "x"
					} else if packs {
						want = accepts
					}
					if coding != want || (res.Header.Get("Vary") != "") != packs || (res.Header.Get("Etag") == `W/"one"`) != (packs && accepts != "") {
						t.Fatalf("%s %s %q: %v", method, path, accepts, res.Header)
					}
					if packs && accepts != "" && (res.ContentLength >= 0 || res.Header.Get("Accept-Ranges") != "") && method == "GET" {
						t.Fatalf("%s %q: %d %v", path, accepts, res.ContentLength, res.Header)
					}
					if method == "HEAD" || path == "/small" {
						continue
					}
					if !packs {
						coding = ""
					} else if coding != "" && len(body) > len(big)/2 {
						t.Errorf("%s: %d bytes of %d", coding, len(body), len(big))
					}
					got, err := io.ReadAll(unpack(t, coding, strings.NewReader(body)))
					if err != nil {
						t.Fatal(err)
					}
					same(t, path+" "+accepts, got, big)
				}
			}
		}
	})
}

// TestCompressedStream: a piece is with the client before the next is made, by
// either version of HTTP/1.
func TestCompressedStream(t *testing.T) {
	for _, coding := range compress.Codings[1:] {
		for minor := range 2 {
			step := make(chan struct{})
			o := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 5 {
					fmt.Fprintf(w, "data: %d\n", i)
					_ = http.NewResponseController(w).Flush()
					<-step
				}
			})
			r := run(t, "auto", to("http://"+o.addr, "compress = true"))
			l := dial(t, r.addr)
			l.say(fmt.Sprintf("GET / HTTP/1.%d\r\nHost: a\r\nAccept-Encoding: %s\r\n\r\n", minor, coding))
			res, err := http.ReadResponse(l.r, nil)
			if err != nil || res.Header.Get("Content-Encoding") != coding {
				t.Fatalf("%v %v", res, err)
			}
			body := unpack(t, coding, res.Body)
			for i := range 5 {
				b := make([]byte, 8)
				if _, err := io.ReadFull(body, b); err != nil || string(b) != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%s: %q %v", coding, b, err)
				}
				step <- struct{}{}
			}
			if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
				t.Fatalf("%s: %q %v", coding, rest, err)
			}
		}
	}
}

// TestCompressedFile: a file is compressed where it has no sibling, not in parts,
// and anew when it has changed.
func TestCompressedFile(t *testing.T) {
	together(t)
	dir := t.TempDir()
	big := pattern(100_000)
	for name, data := range map[string][]byte{"a.css": big, "b.css": big, "b.css.br": []byte("sibling"), "s.css": []byte("small"),
		"p.png": big} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, "auto", strings.Replace(to("files://"+dir), "\n[[locations.dest", "\ncompress = true\n[[locations.dest", 1))
	l := dial(t, r.addr)
	ask := func(method, path, fields string) (*http.Response, string) {
		t.Helper()
		l.say(method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n")
		return l.answer(method)
	}
	for range 2 {
		for _, coding := range compress.Codings[1:] {
			res, body := ask("GET", "/a.css", "Accept-Encoding: "+coding+"\r\n")
			got, err := io.ReadAll(unpack(t, res.Header.Get("Content-Encoding"), strings.NewReader(body)))
			if err != nil || res.Header.Get("Content-Encoding") != coding || !strings.HasPrefix(res.Header.Get("Etag"), "W/") ||
				len(res.Header["Vary"]) != 1 {
				t.Fatalf("%v %v", err, res.Header)
			}
			same(t, coding, got, big)
			head, _ := ask("HEAD", "/a.css", "Accept-Encoding: "+coding+"\r\n")
			if head.ContentLength != int64(len(body)) {
				t.Errorf("HEAD says %d, GET %d", head.ContentLength, len(body))
			}
			if again, _ := ask("GET", "/a.css", "Accept-Encoding: "+coding+"\r\nIf-None-Match: "+res.Header.Get(
				"Etag")+"\r\n"); again.StatusCode != 304 {
				t.Errorf("%s", again.Status)
			}
			if part, body := ask("GET", "/a.css", "Accept-Encoding: "+coding+"\r\nRange: bytes=0-9\r\n"); part.StatusCode != 206 ||
				part.Header.Get("Content-Encoding") != "" || body != string(big[:10]) {
				t.Errorf("%s %v %q", part.Status, part.Header, body)
			}
		}
		if res, body := ask("GET", "/a.css", ""); res.Header.Get("Content-Encoding") != "" || body != string(big) ||
			res.Header.Get("Vary") == "" {
			t.Errorf("%v", res.Header)
		}
		big = bytes.ToUpper(append(big, "changed"...))
		if err := os.WriteFile(filepath.Join(dir, "a.css"), big, 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, "the change is seen", func() bool { _, body := ask("GET", "/a.css", ""); return body == string(big) })
	}
	if _, body := ask("GET", "/b.css", "Accept-Encoding: br\r\n"); body != "sibling" {
		t.Errorf("%.20q", body)
	}
	for _, path := range []string{"/s.css", "/p.png"} {
		if res, _ := ask("GET", path, "Accept-Encoding: gzip\r\n"); res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s %v", path, res.Header)
		}
	}
}

// TestCompressedValidators: no digest of other bytes stays, and a 304 has the fields that the compressed
// response had (RFC 9110, section 15.4.5): the tag by which the client knows it, and Vary.
func TestCompressedValidators(t *testing.T) {
	page := pattern(2000)
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("ETag", `"one"`)
		h.Set("Content-Type", "text/html")
		h.Set("Repr-Digest", "sha-256=:AAAA:")
		h.Set("Content-Digest", "sha-256=:AAAA:")
		h.Set("Unencoded-Digest", "sha-256=:AAAA:")
		if strings.Contains(q.Header.Get("If-None-Match"), `"one"`) {
			w.WriteHeader(304)
			return
		}
		_, _ = w.Write(page)
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.html"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"http://" + o.addr, "files://" + dir} {
		l := dial(t, run(t, "auto", to(uri, "compress = true")).addr)
		res, _ := l.ask("GET", "/page.html", "")
		plain := res.Header.Get("ETag")
		res, _ = l.ask("GET", "/page.html", "Accept-Encoding: gzip\r\n")
		tag := res.Header.Get("ETag")
		if res.Header.Get("Content-Encoding") != "gzip" || tag != "W/"+plain || res.Header.Get("Repr-Digest")+res.Header.Get("Content-Digest") != "" ||
			strings.HasPrefix(uri, "http") && res.Header.Get("Unencoded-Digest") == "" {
			t.Errorf("%s: %v", uri, res.Header)
		}
		for _, same := range []string{tag, plain, `"other", ` + tag} {
			want := tag
			if same == plain {
				want = plain
			}
			res, _ := l.ask("GET", "/page.html", "Accept-Encoding: gzip\r\nIf-None-Match: "+same+"\r\n")
			if h := res.Header; res.StatusCode != 304 || h.Get("ETag") != want || !strings.Contains(h.Get("Vary"), "Accept-Encoding") ||
				h.Get("Content-Encoding") != "" || want == tag && h.Get("Repr-Digest") != "" {
				t.Errorf("%s: If-None-Match: %s: %s %v", uri, same, res.Status, h)
			}
		}
	}
}
