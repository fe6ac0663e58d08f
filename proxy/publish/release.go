package publish

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ceiling/proxy/config"
)

// Release is a site's next release. Until it is complete, it is in a hidden directory of the
// store, and nothing serves it.
type Release struct {
	site site
	name string // "" until it is complete
	dir  string // where it is until it is served

	left, most int64 // bytes that it may still be given, and from the beginning
	files      int
}

// Stage begins a release of at most so many bytes.
func Stage(s config.Site, most int64) (*Release, error) {
	r := &Release{site: site{s}, left: most, most: most}
	if err := r.site.adopt(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.site.store(), ".staging-*")
	if err != nil {
		return nil, err
	}
	r.dir = dir
	return r, os.Chmod(dir, 0o755)
}

// Dir is where the release's files are until it is served.
func (r *Release) Dir() string { return r.dir }

// Discard removes a release that is not served.
func (r *Release) Discard() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// complete makes it one of the site's releases.
func (r *Release) complete() error {
	r.name = time.Now().UTC().Format("20060102T150405.000000000Z")
	to := r.site.path(r.name)
	if err := os.Rename(r.dir, to); err != nil {
		return err
	}
	r.dir = to
	return nil
}

// within runs f with the release's directory, which no name escapes.
func (r *Release) within(f func(*os.Root) error) error {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

// Unzip adds the files of a zip.
func (r *Release) Unzip(from io.Reader) (err error) {
	upload, err := os.CreateTemp(r.site.store(), ".upload-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upload.Close(), os.Remove(upload.Name())) }()
	size, err := io.Copy(upload, from)
	if err != nil {
		return err
	}
	z, err := zip.NewReader(upload, size)
	if err != nil {
		return Refuse(http.StatusUnprocessableEntity, "the upload is not a zip file: %w", err)
	}
	return r.within(func(root *os.Root) error { return r.unpack(z, root) })
}

func (r *Release) unpack(z *zip.Reader, root *os.Root) error {
	if len(z.File) == 0 || len(z.File) > maxEntries {
		return Refuse(http.StatusUnprocessableEntity, "the zip has %d entries; 1 to %d are possible", len(z.File), maxEntries)
	}
	for _, f := range z.File {
		if err := r.entry(f, root); err != nil {
			return err
		}
	}
	return nil
}

// entry adds one entry of a zip.
func (r *Release) entry(f *zip.File, root *os.Root) (err error) {
	name, mode := strings.TrimSuffix(f.Name, "/"), f.Mode()
	if mode.IsDir() && filepath.Clean(name) == "." {
		return nil // the zip's own root
	}
	if err := local(name); err != nil {
		return err
	}
	if !mode.IsDir() && !mode.IsRegular() {
		return Refuse(http.StatusUnprocessableEntity, "the entry %q is neither a file nor a directory", f.Name)
	}
	if mode.IsDir() {
		err = root.MkdirAll(name, 0o755)
	} else {
		var in io.ReadCloser
		if in, err = f.Open(); err == nil {
			err = errors.Join(r.file(root, name, mode, in), in.Close())
		}
	}
	if known := (refusal{}); err != nil && !errors.As(err, &known) {
		return Refuse(http.StatusUnprocessableEntity, "the entry %q: %w", f.Name, err)
	}
	return err
}

// local refuses names that lead out of the release.
func local(name string) error {
	if !filepath.IsLocal(name) || strings.ContainsAny(name, "\\\x00") || filepath.Clean(name) == "." {
		return Refuse(http.StatusUnprocessableEntity, "the entry %q leads out of the site", name)
	}
	return nil
}

// file writes one file, which may not exist yet.
func (r *Release) file(root *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	if r.files++; r.files > maxEntries {
		return Refuse(http.StatusUnprocessableEntity, "the upload has more than %d files", maxEntries)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	n, err := create(root, name, 0o644|mode&0o100|mode&0o100>>3|mode&0o100>>6, io.LimitReader(from, r.left+1))
	if r.left -= n; err == nil && r.left < 0 {
		return Refuse(http.StatusRequestEntityTooLarge, "the upload unpacks to more than %d bytes; [publish] unpacked_bytes is the limit", r.most)
	}
	return err
}

func create(root *os.Root, name string, mode fs.FileMode, from io.Reader) (n int64, err error) {
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, from)
	return n, errors.Join(err, out.Close())
}

// Add adds one file.
func (r *Release) Add(name string, from io.Reader) error {
	if err := local(name); err != nil {
		return err
	}
	err := r.within(func(root *os.Root) error { return r.file(root, name, 0, from) })
	if errors.Is(err, fs.ErrExist) {
		return Refuse(http.StatusUnprocessableEntity, "the upload has two files %q", name)
	}
	return err
}

// Carry copies what the served release has and this one lacks; with directories, only what is in
// directories.
func (r *Release) Carry(directories bool) error {
	from, err := filepath.EvalSymlinks(r.site.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	err = r.within(func(root *os.Root) error {
		return fs.WalkDir(source.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == "." || directories && !d.IsDir() && !strings.Contains(name, "/") {
				return err
			}
			return carry(source, root, name, d)
		})
	})
	return errors.Join(err, source.Close())
}

// carry copies one file, directory or link. Sockets and the like are of a process, and stay.
func carry(from, to *os.Root, name string, d fs.DirEntry) error {
	if is, err := to.Lstat(name); err == nil {
		if d.IsDir() && !is.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case d.IsDir():
		return to.Mkdir(name, info.Mode().Perm()|0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(target, name)
	case info.Mode().IsRegular():
		return carryFile(from, to, name, info)
	}
	return nil
}

// carryFile keeps the time too: clients revalidate by it.
func carryFile(from, to *os.Root, name string, info fs.FileInfo) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	_, err = create(to, name, info.Mode().Perm(), in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	return errors.Join(to.Chmod(name, info.Mode().Perm()), to.Chtimes(name, info.ModTime(), info.ModTime()))
}
