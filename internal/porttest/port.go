// Package porttest gives tests addresses that no other program takes. A listener opened on port 0
// and closed again does not: the kernel assigns its port to the next caller, possibly in a
// concurrent test.
package porttest

import (
	"net/netip"
	"testing"

	"ceiling/internal/sys"
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

// Refuse is Refused outside tests, until release.
func Refuse() (address string, release func(), err error) {
	at, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), false)
	return at.String(), release, err
}

// Free returns an address of host to listen on, for a program that needs it before it starts. Until
// the test ends the kernel assigns its port to no one else; a listener has to set SO_REUSEADDR, as
// Go's and most programs' do.
func Free(t testing.TB, host string) string {
	t.Helper()
	at, release, err := sys.HoldPort(netip.MustParseAddr(host), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return at.String()
}
