package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/proxy/config"
)

// fileSite is a served directory. Apart from missing it is immutable.
type fileSite struct {
	path     string
	index    string
	suffix   string
	fallback string
	prefix   string
	charset  string
	cache    string // a Cache-Control line, or nothing
	level    packLevel
	report   func(string)
	missing  atomic.Bool // it was, when a loop looked last
}

func newFileSite(t config.Target, report func(string)) (*fileSite, error) {
	s := &fileSite{
		path: t.Address, report: report,
		suffix: t.Options.Get("suffix"), charset: firstOf(t.Options.Get("charset"), "utf-8"),
		index: firstOf(t.Options.Get("index"), "index.html"), prefix: strings.Trim(t.Options.Get("prefix"), "/"),
		fallback: strings.TrimPrefix(t.Options.Get("fallback"), "/"),
	}
	if s.fallback != "" {
		s.fallback = path.Join(s.prefix, s.fallback)
	}
	if age := t.Options.Get("maxAge"); age != "" {
		n, err := strconv.Atoi(age)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("files: maxAge=%s is no number of seconds", age)
		}
		s.cache = fmt.Sprintf("Cache-Control: public, max-age=%d\r\n", n)
	}
	s.note(s.problem())
	return s, nil
}

// problem returns why the directory cannot be served now.
func (s *fileSite) problem() error {
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return err
	}
	return root.Close()
}

// note reports when the directory goes, and when it is back.
func (s *fileSite) note(err error) {
	switch {
	case err != nil && s.missing.CompareAndSwap(false, true):
		s.report(fmt.Sprintf("files: %v; it is not served until it can be read", err))
	case err == nil && s.missing.CompareAndSwap(true, false):
		s.report(fmt.Sprintf("files: %s is served", s.path))
	}
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
	instead   bool  // the name is the fallback's
	checked   int64 // loop's clock
}

// find looks up a clean path.
func (d *directory) find(s *fileSite, clean string) found {
	name := path.Join(s.prefix, strings.TrimPrefix(clean, "/"))
	if name == "" {
		name = "."
	}
	if hidden(name) {
		return found{}
	}
	info, err := d.root.Stat(name)
	switch {
	case err == nil && info.IsDir() && !strings.HasSuffix(clean, "/"):
		if d.regular(path.Join(name, s.index)) {
			return found{name: name, directory: true}
		}
	case err == nil && info.IsDir():
		if index := path.Join(name, s.index); d.regular(index) {
			return found{name: index}
		}
	case err == nil && info.Mode().IsRegular() && !strings.HasSuffix(clean, "/"):
		return found{name: name}
	}
	if s.suffix != "" && name != "." && d.regular(name+s.suffix) {
		return found{name: name + s.suffix}
	}
	if s.fallback != "" && d.regular(s.fallback) {
		return found{name: s.fallback, instead: true}
	}
	return found{}
}

func (d *directory) regular(name string) bool {
	info, err := d.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// navigates reports whether a request without a file is one for a page of a single-page application,
// which the fallback answers, and not for a script, an image or other data: those are missing.
func navigates(clean, accepts []byte) bool {
	if bytes.HasPrefix(clean, []byte("/.well-known/")) {
		return false
	}
	switch ext := path.Ext(string(clean)); {
	case ext == "" || mediaType(ext) == "text/html":
		return accepts == nil || acceptsType(accepts, "text/html", "text/*", "*/*")
	case mediaType(ext) == "": // perhaps none of a file: /users/jane.doe
		return acceptsType(accepts, "text/html")
	}
	return false
}

// acceptsType reports whether an Accept field names one of the types.
func acceptsType(field []byte, types ...string) bool {
	for part := range bytes.SplitSeq(field, []byte{','}) {
		name, _, _ := bytes.Cut(part, []byte{';'})
		if slices.Contains(types, strings.ToLower(string(bytes.TrimSpace(name)))) {
			return true
		}
	}
	return false
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
	young    bool // it changed so recently that its next change could have the same time
	dated    bool // its modification time is when its content changed
	refs     int  // the cache, and current senders
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
func (d *directory) open(s *fileSite, name, encoding string, negotiated bool) (*file, error) {
	plain := name
	for _, e := range encodings {
		if e.name == encoding {
			name += e.suffix
		}
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kind := s.kind(plain)
	one := &file{packs: s.level != packNothing && encoding == "" && packable([]byte(kind))}
	for range 3 { // it may be being written
		if err = one.load(f); err == nil && one.settled(f) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	one.describe(s, plain, kind, encoding, negotiated)
	return one, nil
}

// load reads or maps the content.
func (f *file) load(from *os.File) (err error) {
	if f.info, err = from.Stat(); err != nil {
		return err
	}
	size := f.info.Size()
	if !f.info.Mode().IsRegular() || size > mapMost {
		return os.ErrNotExist
	}
	if size > smallFile && !(f.packs && size <= mostPackedFile) { // a mapping that is read here could end earlier than it did
		if f.data, err = syscall.Mmap(int(from.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
			return os.NewSyscallError("mmap", err)
		}
		f.mapped = true
		return nil
	}
	f.data = make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(from, 0, size), f.data)
	return err
}

// settled reports whether the file has not changed while it was loaded; a mapping always shows its
// present content.
func (f *file) settled(from *os.File) bool {
	if f.mapped {
		return true
	}
	info, err := from.Stat()
	return err == nil && unchanged(f.info, info)
}

// kind returns the Content-Type of a file.
func (s *fileSite) kind(name string) string {
	kind := firstOf(mediaType(name), "application/octet-stream")
	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=" + s.charset
	}
	return kind
}

// dateSet is by how much a file's last change may be later than its modification time, which
// otherwise was set, by tar, rsync or a reproducible build, and says nothing about the content.
const dateSet = 2 * time.Second

// describe builds the lines of the head.
func (f *file) describe(s *fileSite, name, kind, encoding string, negotiated bool) {
	changed := changeTime(f.info)
	age := time.Since(changed)
	f.young = age < youngFile && age > -youngFile
	f.dated = changed.Sub(f.info.ModTime()).Abs() < dateSet
	f.etag = f.tag(encoding)
	f.modified = f.info.ModTime().UTC().Format(http.TimeFormat)
	b := fmt.Appendf(nil, "Content-Type: %s\r\nLast-Modified: %s\r\nETag: %s\r\nAccept-Ranges: bytes\r\n", kind, f.modified, f.etag)
	if encoding != "" {
		b = fmt.Appendf(b, "Content-Encoding: %s\r\n", encoding)
	}
	f.negotiated = negotiated
	if negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	if name == s.fallback { // it names the assets of its release, which a newer one may lack
		b = append(b, "Cache-Control: no-cache\r\n"...)
	} else {
		b = append(b, s.cache...)
	}
	f.lines = b
}

// tag returns the entity tag: a hash of the content or, if that is mapped, of everything that
// differs between two files and two versions of one.
func (f *file) tag(encoding string) string {
	h := sha256.New()
	h.Write([]byte(encoding + "\n")) // never fails
	if f.mapped {
		id := identityOf(f.info)
		fmt.Fprintln(h, id, f.info.Size(), f.info.ModTime().UnixNano(), changeTime(f.info).UnixNano())
	} else {
		h.Write(f.data)
	}
	return fmt.Sprintf(`"%x"`, h.Sum(nil)[:12])
}

// identity of a file or directory, as long as it is open.
type identity struct{ device, inode uint64 }

func identityOf(info os.FileInfo) identity {
	st := info.Sys().(*syscall.Stat_t)
	return identity{st.Dev, st.Ino}
}

// changeTime is when the content or the attributes changed last. Unlike the modification time, no
// program can set it.
func changeTime(info os.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}

// unchanged reports whether both describe the same version of a file.
func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && changeTime(a).Equal(changeTime(b))
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

// fileCache holds a loop's open directories and files.
type fileCache struct {
	sites  map[*fileSite]*directory
	size   int
	packed int     // bytes of files compressed here
	dying  []*file // to be unmapped once the ring no longer uses them
	old    []*file
}

// directory is a site's directory as a loop has it open. Another directory may get its path at any
// time: a deployment swaps a link, or renames.
type directory struct {
	root    *os.Root // nothing outside it is reachable, not even by a link; nil: the directory is missing
	is      identity
	checked int64 // loop's clock
	paths   map[string]*found
}

const (
	// maxFiles bounds the cached paths.
	maxFiles = 4096
	// fileFresh is how long a file is assumed to be unchanged, youngFresh a young one.
	fileFresh  = int64(time.Second)
	youngFresh = int64(20 * time.Millisecond)
	// youngFile is the age up to which a file is young. It exceeds the resolution of file systems'
	// times.
	youngFile = time.Second
)

// directory returns the directory that has the site's path now, nil if there is none.
func (k *fileCache) directory(s *fileSite, now int64) *directory {
	d := k.sites[s]
	if d == nil {
		if k.sites == nil {
			k.sites = map[*fileSite]*directory{}
		}
		d = &directory{checked: -1, paths: map[string]*found{}}
		k.sites[s] = d
	}
	if d.checked != now {
		d.checked = now
		s.note(k.follow(s, d))
	}
	if d.root == nil {
		return nil
	}
	return d
}

// follow opens the directory if the site's path has another one than before. The old one stays open
// until then, so that the new one cannot have its inode number.
func (k *fileCache) follow(s *fileSite, d *directory) error {
	var st syscall.Stat_t
	err := syscall.Stat(s.path, &st)
	if err == nil && d.root != nil && d.is == (identity{st.Dev, st.Ino}) {
		return nil
	}
	k.leave(d)
	if err != nil {
		return &os.PathError{Op: "open", Path: s.path, Err: err}
	}
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return err
	}
	info, err := root.Stat(".")
	if err != nil {
		return errors.Join(err, root.Close())
	}
	d.root, d.is = root, identityOf(info)
	return nil
}

// leave closes a directory and its files. Those being sent stay.
func (k *fileCache) leave(d *directory) {
	for _, f := range d.paths {
		f.drop()
	}
	k.size -= len(d.paths)
	clear(d.paths)
	if d.root != nil {
		_ = d.root.Close() // it was only read
		d.root = nil
	}
}

// get finds a path's files.
func (k *fileCache) get(s *fileSite, d *directory, clean []byte, now int64) *found {
	f := d.paths[string(clean)]
	if f != nil && now-f.checked < f.fresh() {
		return f
	}
	if f == nil {
		if k.size >= maxFiles {
			k.empty()
		}
		f = new(found)
		d.paths[string(clean)] = f
		k.size++
	}
	if now2 := d.find(s, string(clean)); now2.name != f.name || now2.directory != f.directory || now2.instead != f.instead {
		f.drop()
		f.name, f.directory, f.instead = now2.name, now2.directory, now2.instead
	}
	for i, v := range f.variants {
		f.looked[i] = f.looked[i] && v != nil
		if v == nil {
			continue
		}
		if info, err := d.root.Stat(f.name + encodings[i].suffix); err != nil || v.young || !unchanged(v.info, info) {
			v.unref()
			f.variants[i], f.looked[i] = nil, false
		}
	}
	f.checked = now
	return f
}

// fresh returns for how long the files are assumed to be unchanged.
func (f *found) fresh() int64 {
	for _, v := range f.variants {
		if v != nil && v.young {
			return youngFresh
		}
	}
	return fileFresh
}

// variant returns the file in an encoding, nil if there is none.
func (k *fileCache) variant(s *fileSite, d *directory, f *found, i int, negotiated bool) *file {
	if !f.looked[i] {
		f.looked[i] = true
		one, err := d.open(s, f.name, encodings[i].name, negotiated)
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

// empty closes the cached files.
func (k *fileCache) empty() {
	for _, d := range k.sites {
		for _, f := range d.paths {
			f.drop()
		}
		clear(d.paths)
	}
	k.size = 0
}

// forget closes the files and directories.
func (k *fileCache) forget() {
	for _, d := range k.sites {
		k.leave(d)
	}
	k.sites = nil
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
