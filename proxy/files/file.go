package files

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"ceiling/proxy/compress"
)

const (
	// smallFile is the largest file that is read into memory and copied; larger ones are mapped,
	// and sent from the page cache without a copy here.
	smallFile = 16 << 10
	// mapMost bounds the mapping of one file.
	mapMost = 1 << 40
)

// File is a file's content as of its opening, and the lines of its head. It belongs to one loop.
type File struct {
	info     os.FileInfo
	Data     []byte
	Mapped   bool // and not a copy
	young    bool // it changed so recently that its next change could have the same time
	dated    bool // its modification time is when its content changed
	refs     int  // the cache, and current senders
	cache    *Cache
	ETag     string
	modified string
	Lines    []byte // of the head, except Date, Content-Length and Connection

	packed      [len(compress.Codings)][]byte // compressed here
	packedBytes int
	Negotiated  bool // has siblings
	Packs       bool // its type compresses well

	// Page is a complete response with the date of PageSecond, if the file is small: its sender's.
	Page       []byte
	PageSecond int64
}

// open reads or maps a file, and builds its head lines.
func (d *directory) open(s *Site, name, encoding string, negotiated bool) (*File, error) {
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
	one := &File{Packs: s.level != compress.None && encoding == "" && compress.Packable([]byte(kind))}
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
func (f *File) load(from *os.File) (err error) {
	if f.info, err = from.Stat(); err != nil {
		return err
	}
	size := f.info.Size()
	if !f.info.Mode().IsRegular() || size > mapMost {
		return os.ErrNotExist
	}
	if size > smallFile && !(f.Packs && size <= mostPackedFile) { // a mapping that is read here could end earlier than it did
		if f.Data, err = syscall.Mmap(int(from.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
			return os.NewSyscallError("mmap", err)
		}
		f.Mapped = true
		return nil
	}
	f.Data = make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(from, 0, size), f.Data)
	return err
}

// settled reports whether the file has not changed while it was loaded; a mapping always shows its
// present content.
func (f *File) settled(from *os.File) bool {
	if f.Mapped {
		return true
	}
	info, err := from.Stat()
	return err == nil && unchanged(f.info, info)
}

// kind returns the Content-Type of a file.
func (s *Site) kind(name string) string {
	kind := cmp.Or(mediaType(name), "application/octet-stream")
	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=" + s.charset
	}
	return kind
}

// dateSet is by how much a file's last change may be later than its modification time, which
// otherwise was set, by tar, rsync or a reproducible build, and says nothing about the content.
const dateSet = 2 * time.Second

// describe builds the lines of the head.
func (f *File) describe(s *Site, name, kind, encoding string, negotiated bool) {
	changed := changeTime(f.info)
	age := time.Since(changed)
	f.young = age < youngFile && age > -youngFile
	f.dated = changed.Sub(f.info.ModTime()).Abs() < dateSet
	f.ETag = f.tag(encoding)
	f.modified = f.info.ModTime().UTC().Format(http.TimeFormat)
	b := fmt.Appendf(nil, "Content-Type: %s\r\nLast-Modified: %s\r\nETag: %s\r\nAccept-Ranges: bytes\r\n", kind, f.modified, f.ETag)
	if encoding != "" {
		b = fmt.Appendf(b, "Content-Encoding: %s\r\n", encoding)
	}
	f.Negotiated = negotiated
	if negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	if name == s.fallback { // it names the assets of its release, which a newer one may lack
		b = append(b, "Cache-Control: no-cache\r\n"...)
	} else {
		b = append(b, s.cache...)
	}
	f.Lines = b
}

// tag returns the entity tag: a hash of the content or, if that is mapped, of everything that
// differs between two files and two versions of one.
func (f *File) tag(encoding string) string {
	h := sha256.New()
	h.Write([]byte(encoding + "\n")) // never fails
	if f.Mapped {
		id := identityOf(f.info)
		fmt.Fprintln(h, id, f.info.Size(), f.info.ModTime().UnixNano(), changeTime(f.info).UnixNano())
	} else {
		h.Write(f.Data)
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

// Hold keeps the file while it is sent.
func (f *File) Hold() { f.refs++ }

// Release lets go of it.
func (f *File) Release() {
	if f.refs--; f.refs > 0 {
		return
	}
	f.cache.packed -= f.packedBytes
	if f.Mapped {
		f.cache.dying = append(f.cache.dying, f)
	}
}
