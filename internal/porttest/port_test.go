package porttest

import (
	"errors"
	"net"
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

// A free address can be listened at, again and again, and is nobody else's in between.
func TestFree(t *testing.T) {
	at := Free(t, "127.0.0.1")
	for range 2 {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
