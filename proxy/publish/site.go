package publish

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"ceiling/proxy/config"
)

// site is a directory that links to the served release. The releases are in DIRECTORY.releases,
// next to it, named by their time.
type site struct{ config.Site }

// maxEntries bounds the entries of a zip.
const maxEntries = 100_000

func (s *site) store() string              { return s.Directory + ".releases" }
func (s *site) path(release string) string { return filepath.Join(s.store(), release) }

// target is what the directory links to when a release is served: relative, so that both may be
// moved together.
func (s *site) target(release string) string { return filepath.Join(filepath.Base(s.store()), release) }

// link returns what the directory links to, also if it is none of the releases; "" if nothing.
func (s *site) link() (string, error) {
	to, err := os.Readlink(s.Directory)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return to, err
}

// served returns the served release; "" if none.
func (s *site) served() string {
	to, err := s.link()
	if release := filepath.Base(to); err == nil && to == s.target(release) {
		return release
	}
	return ""
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
		return fmt.Errorf("%s is not a directory", s.Directory)
	}
	const first = "00000000T000000.000000000Z"
	if err := os.Rename(s.Directory, s.path(first)); err != nil {
		return Refuse(http.StatusUnprocessableEntity, "%w: the directory becomes a link to its release, so it must be no mount point, "+
			"and its parent directory must be writable", err)
	}
	return s.point(s.target(first))
}

// point makes the directory a link to another place, with one rename.
func (s *site) point(to string) error {
	link := filepath.Join(s.store(), ".next")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, link); err != nil {
		return err
	}
	return os.Rename(link, s.Directory)
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
