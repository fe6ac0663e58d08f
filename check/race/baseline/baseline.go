// Package baseline has two minimal reverse proxies to race against: one on fasthttp,
// one on httputil.ReverseProxy. They do what the race asks for and no more, with
// the settings that make them fast.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"
)

// Config says what a baseline does. Backend or Files is given.
type Config struct {
	// Addr to listen at; port 0 is a free one.
	Addr string
	// Backend is host:port of the server that gets every request.
	Backend string
	// Files is a directory that is served instead.
	Files string
	// Workers is GOMAXPROCS; 0 leaves it.
	Workers int
	// Forward adds X-Forwarded-For, -Proto and -Host.
	Forward bool
	// Log is a file for access lines in the combined format; "" none.
	Log string
	// Ready, if not nil, is told the real address once connections are accepted.
	Ready func(addr string)
}

// server is one of the two.
type server interface {
	serve(ln net.Listener) error
	shut(ctx context.Context) error
}

// Kinds are the names of the baselines.
func Kinds() []string { return []string{"fasthttp", "httputil"} }

// drain is how long requests that are being answered have at the end.
const drain = 500 * time.Millisecond

// Serve runs a baseline until ctx ends.
func Serve(ctx context.Context, kind string, c Config) (err error) {
	if (c.Backend == "") == (c.Files == "") {
		return errors.New("baseline: give either a backend or a directory of files")
	}
	log, err := openLog(c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	var s server
	switch kind {
	case "fasthttp":
		s = newFastHTTP(&c, log)
	case "httputil":
		s = newHTTPUtil(&c, log)
	default:
		return fmt.Errorf("unknown baseline %q: there are %s", kind, strings.Join(Kinds(), ", "))
	}
	if c.Workers > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.Workers))
	}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ln) }()
	if c.Ready != nil {
		c.Ready(ln.Addr().String())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.shut(limited); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return <-ended
}
