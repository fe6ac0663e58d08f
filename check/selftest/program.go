package selftest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/measure/run"
)

// plantFiles are the sources and configurations of the plants in real software.
//
//go:embed real/plants
var plantFiles embed.FS

const plantsDir = "real/plants"

// program is a server built from third-party software. Each start uses a copy of its directory,
// with {names} replaced in its configurations (*.conf, *.cfg) and in the command: addr, host,
// port, dir, helper (the first helper's address), user, group, the paths of the software, and
// values.
type program struct {
	dir     string // below plantsDir
	command string // for a shell, run in the copy
	values  map[string]string
	env     []string
	text    int // bytes of words to write into text.txt
}

// startProgram renders a program into its own directory and starts it on a free port. It is ready
// when it accepts connections.
func (st *fixture) startProgram(ctx context.Context, p *program, helper string) (*run.Child, error) {
	dir, err := os.MkdirTemp("", "ceiling-plant-")
	if err != nil {
		return nil, err
	}
	st.later(func() error { return os.RemoveAll(dir) })
	addr, err := run.FreeAddress()
	if err != nil {
		return nil, err
	}
	names, err := p.names(dir, addr, helper, st.paths)
	if err == nil {
		err = p.render(dir, names)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", p.dir, err)
	}
	s := spec.Server{Name: p.dir, Serve: "cd '" + dir + "' && " + names.Replace(p.command)}
	for _, e := range p.env {
		s.Env = append(s.Env, names.Replace(e))
	}
	c, _, err := run.StartServerAt(ctx, &s, addr)
	return c, err
}

// names returns the replacements in configurations and commands.
func (p *program) names(dir, addr, helper string, paths map[string]string) (*strings.Replacer, error) {
	account, group, err := serviceUser()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	pairs := []string{"{addr}", addr, "{host}", host, "{port}", port, "{dir}", dir, "{helper}", helper, "{user}", account, "{group}", group}
	for name, value := range paths {
		pairs = append(pairs, "{"+name+"}", value)
	}
	for name, value := range p.values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...), nil
}

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

// render copies the plant's files, readable for the servant.
func (p *program) render(dir string, names *strings.Replacer) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if p.text > 0 {
		if err := os.WriteFile(filepath.Join(dir, "text.txt"), words(p.text), 0o644); err != nil {
			return err
		}
	}
	from := path.Join(plantsDir, p.dir)
	entries, err := plantFiles.ReadDir(from)
	for _, e := range entries {
		b, failed := fs.ReadFile(plantFiles, path.Join(from, e.Name()))
		if ext := path.Ext(e.Name()); ext == ".conf" || ext == ".cfg" {
			b = []byte(names.Replace(string(b)))
		}
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644))
	}
	return err
}

// words returns n bytes of text that a compressor must work on: words in random order, a number
// at the end of each line.
func words(n int) []byte {
	const some = "the of and to in is that for it was on are as with his they at be this have from or one had by word but not what all were we when"
	list := strings.Fields(some)
	var b []byte
	state := uint32(1)
	for len(b) < n {
		for range 12 {
			state = state*1103515245 + 12345 // an old linear congruential generator: any will do
			b = append(append(b, list[int(state>>16)%len(list)]...), ' ')
		}
		b = fmt.Appendf(b, "%d\n", state>>8)
	}
	return b[:n]
}
