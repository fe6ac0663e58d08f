package fleet

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// WayTo returns this host's address on the way to another (a URL, or host:port), its interface, and
// the interface's speed from /sys/class/net in bits per second; the zero values if unknown. It sends
// nothing.
func WayTo(address string) (from netip.Addr, nic string, bitsPerSecond float64) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	c, err := net.Dial("udp", address) // connect(2) of a datagram socket chooses a route and sends nothing
	if err != nil {
		return from, "", 0
	}
	defer c.Close()
	own, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return from, "", 0
	}
	from = own.Addr().Unmap()
	all, err := net.Interfaces()
	if err != nil {
		return from, "", 0
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == from.WithZone("") {
				return from, i.Name, speedOf("/sys/class/net", i.Name)
			}
		}
	}
	return from, "", 0
}

// speedOf reads an interface's speed: Mbit/s, -1 or an error if it has none
// (Documentation/ABI/testing/sysfs-class-net).
func speedOf(dir, name string) float64 {
	b, err := os.ReadFile(filepath.Join(dir, name, "speed"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n * 1e6
}

const (
	// capacityBytes is the response size that a capacity refers to.
	capacityBytes = 1000
)

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
	ns, err := c.CoreNsPerRequest(1, capacityBytes)
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
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, host)
	return strings.TrimLeft(name[:min(len(name), 64)], "-_")
}
