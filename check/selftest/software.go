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
	// also is where Debian installs it outside a user's PATH, or what Python has to import.
	also string
}

// knownSoftware is all that the plants use.
func knownSoftware() []software {
	return []software{
		{"python", "python3", "import http.server"},
		{"python-sqlite", "python3", "import sqlite3"},
		{"python-waitress", "python3-waitress", "import waitress"},
		{"python-gunicorn", "gunicorn", "import gunicorn"},
		{"python-psycopg2", "python3-psycopg2", "import psycopg2"},
		{"node", "nodejs", ""},
		{"java", "openjdk-17-jdk-headless", ""},
		{"javac", "openjdk-17-jdk-headless", ""},
		{"php", "php-cli", ""},
		{"php-fpm", "php-fpm", "/usr/sbin/php-fpm*"},
		{"puma", "puma", ""},
		{"apache2", "apache2-bin", "/usr/sbin/apache2"},
		{"nginx", "nginx", "/usr/sbin/nginx"},
		{"haproxy", "haproxy", "/usr/sbin/haproxy"},
		{"initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb"},
		{"redis-server", "redis-server", ""},
	}
}

// find returns its path; "" if it is not installed. The interpreter for a module is the first in the PATH, or
// Debian's, which alone has Debian's modules.
func (s *software) find(ctx context.Context) string {
	if strings.HasPrefix(s.also, "import ") {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for _, name := range []string{"python3", "/usr/bin/python3"} {
			if exec.CommandContext(limited, name, "-c", s.also).Run() == nil {
				return name
			}
		}
		return ""
	}
	if path, err := exec.LookPath(s.name); err == nil {
		return path
	}
	if found, err := filepath.Glob(s.also); err == nil && len(found) > 0 {
		return found[len(found)-1] // the newest version sorts last
	}
	return ""
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

// toInstall says which packages of what is missing have these names; "" for none.
func toInstall(missing map[string]string, names []string) string {
	var packages []string
	for _, name := range names {
		if pkg := missing[name]; pkg != "" && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return ""
	}
	return notInstalled + install + strings.Join(packages, " ")
}
