// Package baseline has two minimal reverse proxies to race against: one on fasthttp,
// one on httputil.ReverseProxy. They do what the race asks for and no more, with
// the settings that make them fast.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Config says what a baseline does. Backend or Files is given.
type Config struct {
	// Addr to listen at; port 0 is a free one.
	Addr string
	// Backend is host:port of the server that gets every request.
	Backend string
	// Files is a directory that is served instead.
	Files string
	// Forward adds X-Forwarded-For, -Proto and -Host.
	Forward bool
	// Log is a file for access lines of what the backend answered, in the combined format; "" none.
	Log string
	// Ready, if not nil, is told the real address once connections are accepted.
	Ready func(addr string)
}

// ErrUnknown marks a name that is none of the baselines.
var ErrUnknown = errors.New("unknown baseline")

// Kinds are the names of the baselines.
func Kinds() []string { return []string{"fasthttp", "httputil"} }

// Serve runs a baseline until ctx ends. Requests in progress then are cut off: a race ends it when it
// has all of its answers.
func Serve(ctx context.Context, kind string, c Config) (err error) {
	if !slices.Contains(Kinds(), kind) {
		return fmt.Errorf("%w %q: there are %s", ErrUnknown, kind, strings.Join(Kinds(), ", "))
	}
	if (c.Backend == "") == (c.Files == "") {
		return errors.New("baseline: give either a backend or a directory of files")
	}
	log, err := openLog(c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	var server interface{ Serve(ln net.Listener) error } = newHTTPUtil(&c, log)
	if kind == "fasthttp" {
		server = newFastHTTP(&c, log)
	}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })() // Serve ends with it, and says so
	if c.Ready != nil {
		c.Ready(ln.Addr().String())
	}
	if err = server.Serve(ln); ctx.Err() != nil {
		return nil
	}
	return err
}
