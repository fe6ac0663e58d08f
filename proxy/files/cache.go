package files

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"time"

	"ceiling/proxy/compress"
)

// Cache holds a loop's open directories and files.
type Cache struct {
	sites  map[*Site]*directory
	size   int
	packed int     // bytes of files compressed here
	dying  []*File // to be unmapped once the ring no longer uses them
	old    []*File
}

// directory is a site's directory as a loop has it open. Another directory may get its path at any
// time: a deployment swaps a link, or renames.
type directory struct {
	root    *os.Root // nothing outside it is reachable, not even by a link; nil: the directory is missing
	is      identity
	checked int64 // loop's clock
	paths   map[string]*Found
}

const (
	// maxFiles bounds the cached paths.
	maxFiles = 4096
	// fileFresh is how long a file is assumed to be unchanged. A young one is looked at for each request,
	// and read again after youngFresh even if it looks the same.
	fileFresh  = int64(time.Second)
	youngFresh = int64(20 * time.Millisecond)
	// youngFile is the age up to which a file is young. It exceeds the resolution of file systems'
	// times.
	youngFile = time.Second
)

// Has reports whether a site's directory is there.
func (k *Cache) Has(s *Site, now int64) bool { return k.directory(s, now) != nil }

// directory returns the directory that has the site's path now, nil if there is none.
func (k *Cache) directory(s *Site, now int64) *directory {
	d := k.sites[s]
	if d == nil {
		if k.sites == nil {
			k.sites = map[*Site]*directory{}
		}
		d = &directory{checked: -1, paths: map[string]*Found{}}
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
func (k *Cache) follow(s *Site, d *directory) error {
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
func (k *Cache) leave(d *directory) {
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
func (k *Cache) get(s *Site, d *directory, clean []byte, now int64) *Found {
	f := d.paths[string(clean)]
	if f == nil {
		if k.size >= maxFiles {
			k.empty()
		}
		f = new(Found)
		d.paths[string(clean)] = f
		k.size++
	}
	fresh, young := f.fresh()
	recent := now-f.checked < fresh
	if recent && !young {
		return f
	}
	if !recent {
		f.checked = now
		if now2 := d.find(s, string(clean)); now2.name != f.name || now2.Directory != f.Directory || now2.instead != f.instead {
			f.drop()
			f.name, f.Directory, f.instead = now2.name, now2.Directory, now2.instead
		}
	}
	for i, v := range f.variants {
		if v == nil {
			f.looked[i] = f.looked[i] && recent
			continue
		}
		if info, err := d.root.Stat(f.name + encodings[i].suffix); err != nil || v.young && !recent || !unchanged(v.info, info) {
			v.Release()
			f.variants[i], f.looked[i] = nil, false
		}
	}
	return f
}

// fresh returns for how long what was found is assumed to stand, and whether a file is young. What is missing is
// looked for each time: a deployment may be about to write it.
func (f *Found) fresh() (ns int64, young bool) {
	some := false
	for _, v := range f.variants {
		some, young = some || v != nil, young || v != nil && v.young
	}
	switch {
	case young || f.instead && !f.Directory:
		return youngFresh, young
	case some || f.Directory:
		return fileFresh, false
	}
	return 0, false
}

// variant returns the file in an encoding, nil if there is none.
func (k *Cache) variant(s *Site, d *directory, f *Found, i int, negotiated bool) *File {
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

func (f *Found) drop() {
	for i, v := range f.variants {
		if v != nil {
			v.Release()
		}
		f.variants[i], f.looked[i] = nil, false
	}
}

// empty closes the cached files.
func (k *Cache) empty() {
	for _, d := range k.sites {
		for _, f := range d.paths {
			f.drop()
		}
		clear(d.paths)
	}
	k.size = 0
}

// Forget closes the files and directories.
func (k *Cache) Forget() {
	for _, d := range k.sites {
		k.leave(d)
	}
	k.sites = nil
}

// Sweep unmaps what was released before the last call. It runs once a second: a cancelled send is
// over after two turns.
func (k *Cache) Sweep() {
	for _, f := range k.old {
		_ = syscall.Munmap(f.Data) // f.Data is exactly the mapping
		f.Data = nil
	}
	k.old, k.dying = k.dying, k.old[:0]
}

// Close frees everything.
func (k *Cache) Close() {
	k.Forget()
	k.Sweep()
	k.Sweep()
}

// LookUp returns what a request is for, and the file to send, nil if there is none.
func (k *Cache) LookUp(s *Site, clean []byte, w *Wants, now int64) (Found, *File) {
	d := k.directory(s, now)
	if d == nil {
		return Found{}, nil
	}
	f := k.get(s, d, clean, now)
	if f.name == "" || f.Directory || f.instead && !navigates(clean, w.types) {
		return *f, nil
	}
	return *f, k.choose(s, d, f, w.Accepts)
}

// choose returns the smallest variant that the client accepts.
func (k *Cache) choose(s *Site, d *directory, f *Found, accepts []byte) *File {
	siblings := false
	for i := 1; i < len(encodings); i++ {
		siblings = k.variant(s, d, f, i, true) != nil || siblings
	}
	if siblings && accepts != nil {
		for i := 1; i < len(encodings); i++ {
			if f.variants[i] != nil && compress.Weight(accepts, encodings[i].name) > 0 {
				return f.variants[i]
			}
		}
	}
	return k.variant(s, d, f, 0, siblings)
}

const (
	// mostPackedFile is the largest file that is compressed as a whole and cached.
	mostPackedFile = 256 << 10
	// mostPacked bounds a loop's cache of such files, in bytes.
	mostPacked = 32 << 20
)

// Pack returns a file in a coding, compressed once; nil if that does not pay.
func (k *Cache) Pack(s *Site, f *File, coding uint8) []byte {
	n := len(f.Data)
	if coding == 0 || n < compress.Least || n > mostPackedFile {
		return nil
	}
	if f.packed[coding] == nil && k.packed+n <= mostPacked {
		var b bytes.Buffer
		e := compress.NewEncoder(coding, s.level, &b)
		if _, err := e.Write(f.Data); err != nil || e.Close() != nil || b.Len() >= n {
			return nil
		}
		f.packed[coding] = b.Bytes()
		f.packedBytes += b.Len()
		k.packed += b.Len()
	}
	return f.packed[coding]
}
