package race

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Setup is what a contestant is configured for.
type Setup struct {
	// Listen and Backend are host:port; no backend where files are served.
	Listen, Backend string
	// Dir takes its configuration, its log and whatever else it writes; Dir/site
	// is what it serves as files.
	Dir     string
	Workers int
	// Forward asks for the three forwarding fields and for an access log.
	Forward bool
	Files   bool
	// TLS: it answers over TLS 1.3 alone, by HTTP/2 or HTTP/1.1 as a client likes; its
	// certificate and key stand in Dir.
	TLS bool
}

// canonical is where a configuration is rendered for to be shown and hashed: its
// ports and its directory differ from run to run.
func (s Setup) canonical() Setup {
	s.Listen, s.Dir = "127.0.0.1:8080", "/tmp/race"
	if !s.Files {
		s.Backend = "127.0.0.1:9090"
	}
	return s
}

// Configuration is how a contestant is run.
type Configuration struct {
	// File and its Text; none where the command line says everything.
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
	// Command of a shell; {program} stands for the contestant's own.
	Command string `json:"command"`
}

// A Contestant is a proxy that can be raced.
type Contestant struct {
	Name string
	// Program is looked for in PATH; "" is this program, with a verb.
	Program string
	// Install says how to come by it.
	Install string
	// Lacks are fields that it cannot add; Differs says what else is not as it is
	// with the others.
	Lacks   []string
	Differs string
	// version is the argument that prints it, found by the pattern; "" where none does, and a Go
	// program's stamp is read.
	version string
	pattern *regexp.Regexp
	// builtWith names the module whose version is the contestant's; "" this one.
	builtWith string
	// render answers how it is run, or false where it cannot do what is asked.
	render func(s *Setup) (Configuration, bool)
}

// Names of the contestants that others are compared with, and of ours.
const (
	Nginx   = "nginx"
	Ours    = "ceiling"
	Prefork = "ceiling --prefork"
)

// Contestants are all that there are, in the order of the table.
func Contestants() []Contestant {
	return []Contestant{
		nginx(), haproxy(), h2o(), envoy(), caddy(), roadSign(roadSignName), roadSign(roadSignPrefork), fastHTTP(), httpUtil(),
		ours(Ours), ours(Prefork),
	}
}

// Entrant is a contestant as it was found here.
type Entrant struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Missing says why it does not take part, and what would help.
	Missing string `json:"missing,omitempty"`
	Differs string `json:"differs,omitempty"`
	// Binary is a hash of the program's file: a version alone does not tell how it
	// was built.
	Binary string `json:"binary,omitempty"`

	contestant Contestant
	path       string
}

// find looks for the contestants of these names, all where there are none.
func find(ctx context.Context, c *Config) ([]*Entrant, error) {
	var list []*Entrant
	var known []string
	for _, k := range Contestants() {
		known = append(known, k.Name)
		if len(c.Only) > 0 && !slices.Contains(c.Only, k.Name) {
			continue
		}
		e := &Entrant{Name: k.Name, contestant: k, Differs: k.Differs, path: c.Program, Version: c.Version}
		list = append(list, e)
		switch {
		case k.builtWith != "":
			e.Version = builtWith(k.builtWith)
		case k.Program != "":
			if e.path = look(k.Program); e.path == "" {
				e.Version, e.Missing = "", "not installed: "+k.Install
				continue
			}
			e.Version = k.ask(ctx, e.path)
		}
		var err error
		if e.Binary, err = hashFile(e.path); err != nil {
			return nil, err
		}
	}
	for _, name := range c.Only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: no contestant %q; there are %s", ErrUnknown, name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// look finds a program in PATH, and where a directory of that is called bin, in the
// sbin beside it: that is where Debian has servers, and not in everybody's PATH.
func look(program string) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, dir := range []string{dir, filepath.Join(filepath.Dir(dir), "sbin")} {
			if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
	}
	return ""
}

// ask answers the version that a program prints. What it exits with says nothing:
// some exit with 1 after printing it.
func (k *Contestant) ask(ctx context.Context, path string) string {
	if k.version == "" {
		return stamped(path)
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(limited, path, k.version).CombinedOutput()
	if m := k.pattern.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return "unknown"
}

// stamped is the version that Go's linker left in a program: its module's, or the
// commit it was built from.
func stamped(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) > hashDigits {
			return s.Value[:hashDigits]
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
}

// builtWith is the version of a module in this program; that of "std" is Go's.
func builtWith(module string) string {
	if module == "std" {
		return runtime.Version()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				return d.Version
			}
		}
	}
	return "unknown"
}

// hashDigits of a hash are shown and kept: it tells configurations apart, and is no
// proof against anybody.
const hashDigits = 7

func digits(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:])[:hashDigits] }

func hashFile(path string) (_ string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return digits([sha256.Size]byte(h.Sum(nil))), nil
}

// Canonical is the configuration of a setup, independent of ports and directories,
// and the hash of it together with the contestant's name, version and program.
func (e *Entrant) Canonical(s Setup) (c Configuration, hash string, ok bool) {
	s = s.canonical()
	if c, ok = e.contestant.render(&s); !ok {
		return c, "", false
	}
	return c, digits(sha256.Sum256([]byte(strings.Join([]string{e.Name, e.Version, e.Binary, c.Command, c.File, c.Text}, "\x00")))), true
}

// when is the text where the condition holds.
func when(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}
