package proxy

import (
	"fmt"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/proxy/config"
)

// fileSite is a served directory. It is immutable.
type fileSite struct {
	root     *os.Root // nothing outside it is reachable, not even by a link
	index    string
	suffix   string
	fallback string
	prefix   string
	charset  string
	cache    string // a Cache-Control line, or nothing
	lines    []byte
	hsts     []byte // for clients with TLS
	level    packLevel
}

func newFileSite(t config.Target, lines []byte) (*fileSite, error) {
	root, err := os.OpenRoot(t.Address)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	s := &fileSite{
		root: root, lines: lines, suffix: t.Options.Get("suffix"), charset: firstOf(t.Options.Get("charset"), "utf-8"),
		index: firstOf(t.Options.Get("index"), "index.html"), prefix: strings.Trim(t.Options.Get("prefix"), "/"),
		fallback: strings.TrimPrefix(t.Options.Get("fallback"), "/"),
	}
	if age := t.Options.Get("maxAge"); age != "" {
		n, err := strconv.Atoi(age)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("files: maxAge=%s is no number of seconds", age)
		}
		s.cache = fmt.Sprintf("Cache-Control: public, max-age=%d\r\n", n)
	}
	return s, nil
}

// encodings of a file's precompressed siblings, the smallest first.
var encodings = [...]struct{ name, suffix string }{{"", ""}, {"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}} // read-only

// found is what a path refers to: a file with its siblings, a directory requested without its
// slash, or nothing.
type found struct {
	variants  [len(encodings)]*file
	looked    [len(encodings)]bool
	name      string
	directory bool
	checked   int64 // loop's clock
}

// find looks up a clean path.
func (s *fileSite) find(clean string) found {
	name := path.Join(s.prefix, strings.TrimPrefix(clean, "/"))
	if name == "" {
		name = "."
	}
	if hidden(name) {
		return s.instead()
	}
	info, err := s.root.Stat(name)
	switch {
	case err == nil && info.IsDir() && !strings.HasSuffix(clean, "/"):
		if s.regular(path.Join(name, s.index)) {
			return found{directory: true}
		}
	case err == nil && info.IsDir():
		if index := path.Join(name, s.index); s.regular(index) {
			return found{name: index}
		}
	case err == nil && info.Mode().IsRegular() && !strings.HasSuffix(clean, "/"):
		return found{name: name}
	}
	if s.suffix != "" && name != "." && s.regular(name+s.suffix) {
		return found{name: name + s.suffix}
	}
	return s.instead()
}

// instead returns the fallback, if there is one.
func (s *fileSite) instead() found {
	if s.fallback != "" && s.regular(path.Join(s.prefix, s.fallback)) {
		return found{name: path.Join(s.prefix, s.fallback)}
	}
	return found{}
}

func (s *fileSite) regular(name string) bool {
	info, err := s.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// hidden reports whether a name has a segment that begins with a dot, except .well-known (RFC
// 8615).
func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 1 && part[0] == '.' && part != ".well-known" {
			return true
		}
	}
	return false
}

const (
	// smallFile is the largest file that is read into memory and copied; larger ones are mapped,
	// and sent from the page cache without a copy here.
	smallFile = 16 << 10
	// mapMost bounds the mapping of one file.
	mapMost = 1 << 40
)

// file is a file's content as of its opening, and the lines of its head. It belongs to one loop.
type file struct {
	info     os.FileInfo
	data     []byte
	mapped   bool
	refs     int // the cache, and current senders
	cache    *fileCache
	etag     string
	modified string
	lines    []byte // of the head, except Date, Content-Length and Connection

	packed      [len(codings)][]byte // compressed here
	packedBytes int
	negotiated  bool // has siblings
	packs       bool // its type compresses well

	page   []byte // a complete response with this second's date, if the file is small
	second int64
}

// open reads or maps a file, and builds its head lines.
func (s *fileSite) open(name, encoding string, negotiated bool) (*file, error) {
	plain := name
	for _, e := range encodings {
		if e.name == encoding {
			name += e.suffix
		}
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mapMost {
		return nil, os.ErrNotExist
	}
	one := &file{info: info}
	if info.Size() <= smallFile {
		one.data = make([]byte, info.Size())
		if _, err := f.ReadAt(one.data, 0); err != nil && info.Size() > 0 {
			return nil, err
		}
	} else {
		if one.data, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		one.mapped = true
	}
	one.describe(s, plain, encoding, negotiated)
	return one, nil
}

// describe builds the lines of the head.
func (f *file) describe(s *fileSite, name, encoding string, negotiated bool) {
	f.etag = fmt.Sprintf(`"%x-%x"`, f.info.ModTime().UnixNano(), f.info.Size())
	f.modified = f.info.ModTime().UTC().Format(http.TimeFormat)
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	if strings.HasPrefix(kind, "text/") && !strings.Contains(kind, "charset") {
		kind += "; charset=" + s.charset
	}
	f.packs = s.level != packNothing && encoding == "" && packable([]byte(kind))
	b := fmt.Appendf(nil, "Content-Type: %s\r\nLast-Modified: %s\r\nETag: %s\r\nAccept-Ranges: bytes\r\n", kind, f.modified, f.etag)
	if encoding != "" {
		b = fmt.Appendf(b, "Content-Encoding: %s\r\n", encoding)
	}
	f.negotiated = negotiated
	if negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	b = append(b, s.cache...)
	f.lines = append(b, s.lines...)
}

// same reports whether the file at a name is unchanged.
func (f *file) same(info os.FileInfo) bool {
	return os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size()
}

// unref releases the file.
func (f *file) unref() {
	if f.refs--; f.refs > 0 {
		return
	}
	f.cache.packed -= f.packedBytes
	if f.mapped {
		f.cache.dying = append(f.cache.dying, f)
	}
}

// fileCache holds a loop's open files.
type fileCache struct {
	sites  map[*fileSite]map[string]*found
	size   int
	packed int     // bytes of files compressed here
	dying  []*file // to be unmapped once the ring no longer uses them
	old    []*file
}

const (
	// maxFiles bounds the cached paths.
	maxFiles = 4096
	// fileFresh is how long a file is assumed to be unchanged.
	fileFresh = int64(time.Second)
)

// get finds a path's files, checking the disk at most once a second.
func (k *fileCache) get(s *fileSite, clean []byte, now int64) *found {
	paths := k.sites[s]
	if paths == nil {
		if k.sites == nil {
			k.sites = map[*fileSite]map[string]*found{}
		}
		paths = map[string]*found{}
		k.sites[s] = paths
	}
	f := paths[string(clean)]
	if f != nil && now-f.checked < fileFresh {
		return f
	}
	if f == nil {
		if k.size >= maxFiles {
			k.forget()
			return k.get(s, clean, now)
		}
		f = new(found)
		paths[string(clean)] = f
		k.size++
	}
	if now2 := s.find(string(clean)); now2.name != f.name || now2.directory != f.directory {
		f.drop()
		f.name, f.directory = now2.name, now2.directory
	}
	for i, v := range f.variants {
		f.looked[i] = f.looked[i] && v != nil
		if v == nil {
			continue
		}
		if info, err := s.root.Stat(f.name + encodings[i].suffix); err != nil || !v.same(info) {
			v.unref()
			f.variants[i], f.looked[i] = nil, false
		}
	}
	f.checked = now
	return f
}

// variant returns the file in an encoding, nil if there is none.
func (k *fileCache) variant(s *fileSite, f *found, i int, negotiated bool) *file {
	if !f.looked[i] {
		f.looked[i] = true
		one, err := s.open(f.name, encodings[i].name, negotiated)
		if err == nil {
			one.refs, one.cache = 1, k
			f.variants[i] = one
		}
	}
	return f.variants[i]
}

func (f *found) drop() {
	for i, v := range f.variants {
		if v != nil {
			v.unref()
		}
		f.variants[i], f.looked[i] = nil, false
	}
}

// forget empties the cache.
func (k *fileCache) forget() {
	for _, paths := range k.sites {
		for _, f := range paths {
			f.drop()
		}
	}
	k.sites, k.size = nil, 0
}

// sweep unmaps what was released before the last call. It runs once a second: a cancelled send is
// over after two turns.
func (k *fileCache) sweep() {
	for _, f := range k.old {
		_ = syscall.Munmap(f.data) // f.data is exactly the mapping
		f.data = nil
	}
	k.old, k.dying = k.dying, k.old[:0]
}

func (k *fileCache) close() {
	k.forget()
	k.sweep()
	k.sweep()
}
