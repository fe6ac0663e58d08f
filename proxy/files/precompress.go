package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"ceiling/proxy/compress"
)

// Precompressed is what Precompress has done.
type Precompressed struct {
	Files         int   // written
	Before, After int64 // bytes of the originals and of what was written
}

// Precompress writes the .br, .zst and .gz siblings of a directory's files that compress well, as small
// as the codings can; a sibling that is not older than its file stays, and one that would save nothing
// is not written. Each is written beside its place and renamed, so that a proxy that serves the
// directory sees whole files.
func Precompress(dir string) (done Precompressed, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	s := &Site{charset: "utf-8"}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && hidden(path.Base(name)):
			return fs.SkipDir
		case !e.Type().IsRegular() || hidden(name) || !compress.Packable([]byte(s.kind(name))):
			return nil
		}
		return done.siblings(root, name)
	})
	return done, err
}

// siblings writes those of one file.
func (p *Precompressed) siblings(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err != nil || info.Size() < compress.Least || info.Size() > mapMost {
		return err
	}
	content, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	for coding := 1; coding < len(compress.Codings); coding++ {
		sibling := name + suffixOf(compress.Codings[coding])
		if old, err := root.Stat(sibling); err == nil && !old.ModTime().Before(info.ModTime()) {
			continue
		}
		var packed strings.Builder
		e := compress.NewEncoder(uint8(coding), compress.Smallest, &packed)
		if _, err := e.Write(content); err != nil {
			return err
		}
		if err := e.Close(); err != nil {
			return err
		}
		if packed.Len() >= len(content) {
			continue
		}
		if err := replace(root, sibling, packed.String(), info); err != nil {
			return err
		}
		p.Files, p.Before, p.After = p.Files+1, p.Before+int64(len(content)), p.After+int64(packed.Len())
	}
	return nil
}

func suffixOf(coding string) string {
	for _, e := range encodings {
		if e.name == coding {
			return e.suffix
		}
	}
	return ""
}

// replace writes a file of the same mode as another one, whole or not at all.
func replace(root *os.Root, name, content string, like fs.FileInfo) error {
	temporary := path.Join(path.Dir(name), "."+filepath.Base(name)+".new")
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, like.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}
