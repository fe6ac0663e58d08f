//go:build !linux

package ring

import (
	"fmt"
	"runtime"
)

// OnlyPortable: this system has no other engine than Portable.
const OnlyPortable = true

// kernelEngine is what only Linux has.
type kernelEngine any

func openKernel(c Config) (*Ring, error) {
	if c.Engine != Auto && c.Engine != "" {
		return nil, fmt.Errorf("ring: engine %q needs Linux; on %s there is %q", c.Engine, runtime.GOOS, Portable)
	}
	return overNet(c, "this system is not Linux"), nil
}
