package porttest

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// A refused address refuses, and nobody else can listen at it.
func TestRefused(t *testing.T) {
	at := Refused(t)
	if c, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial %s: %v, %v", at, c, err)
	}
	if l, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen at %s: %v, %v", at, l, err)
	}
}

// A free address can be listened at, and its port is not one that the kernel gives out.
func TestFree(t *testing.T) {
	at := Free(t, "127.0.0.1")
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if port := netip.MustParseAddrPort(at).Port(); port >= 32768 {
		t.Errorf("port %d is one of the kernel's", port)
	}
}
