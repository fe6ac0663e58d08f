// Package porttest gives tests addresses that no other program takes. A listener opened on port 0
// and closed again does not: the kernel assigns its port to the next caller, possibly in a
// concurrent test.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
)

// Refused returns a loopback address that refuses every connection until the test ends.
func Refused(t testing.TB) string {
	t.Helper()
	address, release, err := Refuse()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address
}

// Refuse is Refused outside tests: the port is bound without a listener until release.
func Refuse() (address string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("socket: %w", err)
	}
	release = func() { syscall.Close(fd) }
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return "", nil, fmt.Errorf("bind: %w", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return "", nil, fmt.Errorf("getsockname: %w", err)
	}
	at := bound.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String(), release, nil
}

// Free returns an address of host to listen on, for a program that needs it before it starts. The
// kernel never assigns its port: it is below net.ipv4.ip_local_port_range (32768 and up, unless
// configured otherwise).
func Free(t testing.TB, host string) string {
	t.Helper()
	var last error
	for range 100 {
		address := net.JoinHostPort(host, strconv.Itoa(20000+rand.IntN(12000)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			l.Close()
			return address
		}
		last = err
	}
	t.Fatal(fmt.Errorf("no port from 20000 to 31999 is free: %w", last))
	return ""
}
