package publish

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ceiling/proxy/config"
)

// site is a directory that links to the served release. The releases are in DIRECTORY.releases,
// next to it, named by their time.
type site struct{ config.Site }

// maxEntries bounds the entries of a zip.
const maxEntries = 100_000

func (s *site) store() string              { return s.Directory + ".releases" }
func (s *site) path(release string) string { return filepath.Join(s.store(), release) }

// served returns the served release; "" if none.
func (s *site) served() string {
	to, err := os.Readlink(s.Directory)
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// releases returns all releases, oldest first.
func (s *site) releases() (list []string, err error) {
	entries, err := os.ReadDir(s.store()) // sorted
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '.' {
			list = append(list, e.Name())
		}
	}
	return list, err
}

// adopt turns a directory that is not a link yet into the first release.
func (s *site) adopt() error {
	if err := os.MkdirAll(s.store(), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(s.Directory)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return nil
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", s.Directory)
	}
	const first = "00000000T000000.000000000Z"
	if err := os.Rename(s.Directory, s.path(first)); err != nil {
		return err
	}
	return s.point(first)
}

// point makes the directory a link to a release, with one rename.
func (s *site) point(release string) error {
	link := filepath.Join(s.store(), ".next")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	to := filepath.Join(filepath.Base(s.store()), release) // relative: both may be moved together
	if err := os.Symlink(to, link); err != nil {
		return err
	}
	return os.Rename(link, s.Directory)
}

// stage reads a zip from r and unpacks it into a release that is not served yet.
func (s *site) stage(r io.Reader, most int64) (release string, err error) {
	upload, err := os.CreateTemp(s.store(), ".upload-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, upload.Close(), os.Remove(upload.Name())) }()
	size, err := io.Copy(upload, r)
	if err != nil {
		return "", err
	}
	z, err := zip.NewReader(upload, size)
	if err != nil {
		return "", refuse(http.StatusUnprocessableEntity, "the upload is no zip: %w", err)
	}
	staging, err := os.MkdirTemp(s.store(), ".staging-*")
	if err != nil {
		return "", err
	}
	if err := unpack(z, staging, most); err != nil {
		return "", errors.Join(err, os.RemoveAll(staging))
	}
	release = time.Now().UTC().Format("20060102T150405.000000000Z")
	err = errors.Join(os.Chmod(staging, 0o755), os.Rename(staging, s.path(release)))
	return release, err
}

// unpack writes a zip's files below dir, which none of them can escape.
func unpack(z *zip.Reader, dir string, most int64) (err error) {
	if len(z.File) == 0 || len(z.File) > maxEntries {
		return refuse(http.StatusUnprocessableEntity, "the zip has %d entries; 1 to %d are possible", len(z.File), maxEntries)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	left := most
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, "/")
		mode := f.Mode()
		switch {
		case !filepath.IsLocal(name) || strings.ContainsAny(name, "\\\x00"):
			return refuse(http.StatusUnprocessableEntity, "the zip's entry %q leads out of the site", f.Name)
		case mode.IsDir():
			if err := root.MkdirAll(name, 0o755); err != nil {
				return refuse(http.StatusUnprocessableEntity, "the zip's entry %q: %w", f.Name, err)
			}
			continue
		case !mode.IsRegular():
			return refuse(http.StatusUnprocessableEntity, "the zip's entry %q is neither a file nor a directory", f.Name)
		}
		n, err := unpackFile(root, f, name, left)
		if err != nil {
			return err
		}
		if left -= n; left < 0 {
			return refuse(http.StatusRequestEntityTooLarge, "the zip unpacks to more than %d bytes", most)
		}
	}
	return nil
}

// unpackFile writes one file, of at most most+1 bytes.
func unpackFile(root *os.Root, f *zip.File, name string, most int64) (n int64, err error) {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, refuse(http.StatusUnprocessableEntity, "the zip's entry %q: %w", f.Name, err)
	}
	mode := os.FileMode(0o644)
	if f.Mode()&0o100 != 0 {
		mode = 0o755
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, refuse(http.StatusUnprocessableEntity, "the zip's entry %q: %w", f.Name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := f.Open()
	if err != nil {
		return 0, refuse(http.StatusUnprocessableEntity, "the zip's entry %q: %w", f.Name, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	n, err = io.Copy(out, io.LimitReader(in, most+1))
	if err != nil {
		return n, refuse(http.StatusUnprocessableEntity, "the zip's entry %q: %w", f.Name, err)
	}
	return n, nil
}

// prune keeps the newest releases and the served one.
func (s *site) prune() (err error) {
	list, err := s.releases()
	served := s.served()
	for i := 0; i < len(list)-max(s.Keep, 1); i++ {
		if list[i] != served {
			err = errors.Join(err, os.RemoveAll(s.path(list[i])))
		}
	}
	return err
}
