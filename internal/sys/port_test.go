//go:build linux

package sys

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestHoldPort: nobody connects to a port that is held; if it is shared, one listener after
// another has it.
func TestHoldPort(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		for _, shared := range []bool{false, true} {
			at, release, err := HoldPort(netip.MustParseAddr(ip), shared)
			if err != nil {
				if ip == "::1" && errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
					continue // a host without IPv6
				}
				t.Fatal(err)
			}
			if c, err := net.Dial("tcp", at.String()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: connected to %v, %v", at, c, err)
			}
			for range 2 {
				l, err := net.Listen("tcp", at.String())
				switch {
				case shared && err == nil:
					if _, err := net.Listen("tcp", at.String()); !errors.Is(err, syscall.EADDRINUSE) {
						t.Errorf("%s: a second listener: %v", at, err)
					}
					l.Close()
				case shared || !errors.Is(err, syscall.EADDRINUSE):
					t.Errorf("%s, shared %t: %v", at, shared, err)
				}
			}
			release()
		}
	}
}

// TestAlarm: no wait ends early, whatever was waited for before.
func TestAlarm(t *testing.T) {
	t.Parallel()
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, d := range []time.Duration{-time.Second, 0, 1, 700 * time.Microsecond, 3 * time.Millisecond, 50 * time.Microsecond} {
		begun := time.Now()
		if err := a.Wait(d); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < d {
			t.Errorf("waited %v of %v", took, d)
		}
	}
}
