package selftest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"
)

// plantFiles are the sources and configurations of the plants in real software.
//
//go:embed plants
var plantFiles embed.FS

// serviceUser returns the account that serves if this process is root: Debian's; otherwise the
// current user.
func serviceUser() (account, group string, err error) {
	u, err := user.Current()
	if os.Geteuid() == 0 {
		u, err = user.Lookup("www-data")
	}
	if err != nil {
		return "", "", err
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return "", "", err
	}
	return u.Username, g.Name, nil
}

// render copies the plant's files, readable for the account that serves.
func (h *host) render(dir string, v values) error {
	err := os.Chmod(dir, 0o755)
	if h.Words > 0 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "text.txt"), words(h.Words), 0o644))
	}
	for folder := range strings.FieldsSeq(h.In) {
		entries, failed := plantFiles.ReadDir(path.Join("plants", folder))
		err = errors.Join(err, failed)
		for _, e := range entries {
			b, failed := fs.ReadFile(plantFiles, path.Join("plants", folder, e.Name()))
			if ext := path.Ext(e.Name()); ext == ".conf" || ext == ".cfg" {
				b = []byte(v.expand(string(b)))
			}
			err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644))
		}
	}
	return err
}

// words returns n bytes of text that a compressor must work on: words in random order, a number
// at the end of each line.
func words(n int) []byte {
	const some = "the of and to in is that for it was on are as with his they at be this have from or one had by word but not what all were we when"
	list, chance := strings.Fields(some), rand.New(rand.NewPCG(1, 1))
	var b []byte
	for len(b) < n {
		for range 12 {
			b = append(append(b, list[chance.IntN(len(list))]...), ' ')
		}
		b = fmt.Appendf(b, "%d\n", chance.Uint32N(1<<24))
	}
	return b[:n]
}
