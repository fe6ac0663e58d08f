//go:build !linux

package record

import (
	"os"
	"runtime"
)

// ReadEnvironment returns what Go alone knows about this host; ceiling is this program's version.
// "" or 0 means unknown here.
func ReadEnvironment(ceiling string) Environment {
	host, _ := os.Hostname() // "" if unknown
	return Environment{
		Host: host, Version: ceiling, Go: runtime.Version(), Arch: runtime.GOARCH,
		CoresAllowed: runtime.NumCPU(),
		Sysctls:      map[string]string{}, Limits: map[string]string{},
	}
}
