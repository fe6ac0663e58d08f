package prefork

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
)

// Kind is the kind that a Parent started this process as, which then calls Join; "": none did.
func Kind() string { return os.Getenv(kindEnv) }

// Child is this process in its parent's eyes.
type Child struct {
	Listener net.Listener
	// Life has what the parent sends first.
	Life *os.File
}

// Join makes this process the child of a kind that it was started as, with GOMAXPROCS(1).
func Join(kind string) (*Child, error) {
	if asked := Kind(); asked != kind {
		return nil, fmt.Errorf("prefork child: the parent wants %s, the command line %s", asked, kind)
	}
	runtime.GOMAXPROCS(1)
	// Nonblocking before it becomes a File, so that Close interrupts the Read.
	if err := syscall.SetNonblock(lifeFD, true); err != nil {
		return nil, fmt.Errorf("prefork child: descriptor %d: %w", lifeFD, err)
	}
	c := &Child{Life: os.NewFile(lifeFD, "life")}
	file := os.NewFile(listenerFD, "listener")
	var err error
	c.Listener, err = net.FileListener(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("prefork child: %w", errors.Join(err, c.Life.Close()))
	}
	return c, nil
}

// Until returns a context that ends with the parent, or when the parent says so. Its end, by
// cancel, is the end of Life.
func (c *Child) Until(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = c.Life.Read(make([]byte, 1)) // its end means stop
		end()
	}()
	return ctx, func() { _ = c.Life.Close(); end() }
}

// Ready tells the parent that this child serves.
func (c *Child) Ready() error {
	ready := os.NewFile(readyFD, "ready")
	_, err := ready.Write([]byte{1})
	return errors.Join(err, ready.Close())
}
