package files

import "testing"

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
