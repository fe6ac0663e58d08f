package fleet

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/record"
)

// WayTo returns this host's address on the way to another (a URL, or host:port), its interface, and
// the interface's speed in bits per second; the zero values if unknown.
func WayTo(address string) (from netip.Addr, name string, bitsPerSecond float64) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	from, err := sys.SourceTo(address)
	if err == nil {
		name, err = nic.With(from.WithZone(""))
	}
	if err != nil {
		return from, "", 0
	}
	return from, name, float64(nic.Mbits(name)) * 1e6
}

// Capacity is what the user's calibration predicts for all cores of this host: requests per second,
// responses of 1 kB, no pipelining. The error says why there is none.
func Capacity(getenv func(string) string, env *record.Environment) (float64, error) {
	path, err := record.CalibrationFile(getenv)
	if err != nil {
		return 0, err
	}
	all, err := record.ReadCalibrations(path)
	if err != nil {
		return 0, err
	}
	c, why := record.FitCalibration(all, env, spec.EngineUring)
	if c == nil {
		if c, _ = record.FitCalibration(all, env, spec.EngineEpoll); c == nil {
			return 0, fmt.Errorf("no calibration: %s", why)
		}
	}
	ns, err := c.CoreNsPerRequest(1, 1000)
	if err != nil {
		return 0, err
	}
	return cores(env) * 1e9 / ns, nil
}

// cores returns how many cores this process may use.
func cores(env *record.Environment) float64 {
	n := float64(env.CoresAllowed)
	if env.CgroupCPUs > 0 {
		n = min(n, env.CgroupCPUs)
	}
	return n
}

// NameOf turns a host's name into a valid agent name.
func NameOf(host string) string {
	host, _, _ = strings.Cut(host, ".")
	name := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '-'
	}, host)
	return strings.TrimLeft(name[:min(len(name), 64)], "-_")
}
