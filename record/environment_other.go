//go:build !linux

package record

import (
	"os"
	"runtime"
)

// ReadEnvironment is what Go alone knows of this host; ceiling is the version
// of this program. What is "" or 0 is not known here.
func ReadEnvironment(ceiling string) Environment {
	host, _ := os.Hostname() // "" where the host does not tell
	return Environment{
		Host: host, Ceiling: ceiling, Go: runtime.Version(), Arch: runtime.GOARCH,
		CoresAllowed: runtime.NumCPU(),
		Sysctls:      map[string]string{}, Limits: map[string]string{},
	}
}
