package selftest

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// software is a third-party program that a plant uses.
type software struct {
	name string // as a plant's command refers to it: {name} is its path
	pkg  string // the Debian package
	find func(context.Context) string
}

// knownSoftware is all that the plants use. Debian installs some of it outside a user's PATH.
func knownSoftware() []software {
	return []software{
		{"python", "python3", python("http.server")},
		{"python-sqlite", "python3", python("sqlite3")},
		{"python-waitress", "python3-waitress", python("waitress")},
		{"python-gunicorn", "gunicorn", python("gunicorn")},
		{"python-psycopg2", "python3-psycopg2", python("psycopg2")},
		{"node", "nodejs", command("node")},
		{"java", "openjdk-17-jdk-headless", command("java")},
		{"javac", "openjdk-17-jdk-headless", command("javac")},
		{"php", "php-cli", command("php")},
		{"php-fpm", "php-fpm", command("php-fpm", "/usr/sbin/php-fpm*")},
		{"puma", "puma", command("puma")},
		{"apache2", "apache2-bin", command("apache2", "/usr/sbin/apache2")},
		{"nginx", "nginx", command("nginx", "/usr/sbin/nginx")},
		{"haproxy", "haproxy", command("haproxy", "/usr/sbin/haproxy")},
		{"initdb", "postgresql", command("initdb", "/usr/lib/postgresql/*/bin/initdb")},
		{"redis-server", "redis-server", command("redis-server")},
	}
}

// command finds a program in the PATH, or at one of the patterns.
func command(name string, patterns ...string) func(context.Context) string {
	return func(context.Context) string {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, p := range patterns {
			if found, err := filepath.Glob(p); err == nil && len(found) > 0 {
				return found[len(found)-1] // the newest version sorts last
			}
		}
		return ""
	}
}

// python finds an interpreter that has a module: the first in the PATH, or Debian's, which alone
// has Debian's modules.
func python(module string) func(context.Context) string {
	return func(ctx context.Context) string {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for _, name := range []string{"python3", "/usr/bin/python3"} {
			if exec.CommandContext(limited, name, "-c", "import "+module).Run() == nil {
				return name
			}
		}
		return ""
	}
}

// findSoftware returns the paths by name, and by name the packages of what is missing.
func findSoftware(ctx context.Context, names []string) (paths, missing map[string]string) {
	paths, missing = map[string]string{}, map[string]string{}
	for _, s := range knownSoftware() {
		if !slices.Contains(names, s.name) {
			continue
		}
		if path := s.find(ctx); path != "" {
			paths[s.name] = path
		} else {
			missing[s.name] = s.pkg
		}
	}
	return paths, missing
}

// notInstalled and install are the beginnings of the messages about missing software.
const (
	notInstalled = "not installed: "
	install      = "apt-get install "
)

// lacksSoftware returns what to install; "" for nothing.
func (g *prereqs) lacksSoftware(names []string) string {
	var packages []string
	for _, name := range names {
		if pkg := g.missing[name]; pkg != "" && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return ""
	}
	return notInstalled + install + strings.Join(packages, " ")
}
