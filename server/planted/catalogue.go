// Package planted holds servers with a known bottleneck, planted on purpose: a lock with a given
// hold time, a pool of a given size, CPU work per request. Verdicts are tested against them.
//
// Each kind is one small file and one line of the catalogue (catalogue.go). A kind takes a few
// numbers (params.go) and rejects those it does not use, so that nothing seems planted that is
// not. CPU cost is CPU time of the thread that spends it, not wall-clock time (cpu.go); waits are
// accurate to tens of microseconds (sys.Alarm). No kind reads the request's path: every URL gets
// the same response, except /debug/pprof/ if enabled (profiles.go).
//
// The package runs on Linux and does not depend on the rest of the project.
package planted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
)

// A Kind is a planted server that can be started by name.
type Kind struct {
	Name  string
	About string
	// Needs and Takes are the names of its required and optional numbers, and Faults those that --fault may name,
	// with blanks between them.
	Needs, Takes, Faults string

	serve func(context.Context, *Params, func(addr string)) error
}

// Catalogue returns all kinds.
func Catalogue() []Kind {
	return []Kind{
		{"cpu", "every request costs --cpu, on whatever core is free", "", "cpu pprof", "", serveCPU},
		{"thread", "every request costs --cpu on the same thread, which takes them from a queue", "cpu", "pprof", "", serveThread},
		{"loop", "one thread with an event loop answers --bytes in --chunks and pays --cpu", "", "cpu bytes chunks", "", serveLoop},
		{"mutex", "one lock for all requests, held for --sleep or for --cpu of work", "", "sleep cpu pprof", "", serveMutex},
		{"random", "a product at random, from --n sources of numbers with a lock each, which take --sleep for one", "sleep", "n cpu pprof", "",
			serveRandom},
		{"random-prefork", "a product at random, from --n processes with a source of numbers and a lock each", "n sleep", "cpu", "", serveRandomPrefork},
		{"pool", "--n places, each request keeps one for --sleep", "n sleep", "pprof", "", servePool},
		{"sleep", "every request waits --sleep, as many at once as come", "sleep", "pprof", "", serveSleep},
		{"sync", "every request writes 4 KiB to a disk; a sync takes --sleep, one at a time (root)", "sleep", "pprof", "", serveSync},
		{"flush", "every request writes 4 KiB to a block device; a flush takes --sleep, --n at a time, or one (root)", "sleep", "n pprof", "",
			serveFlush},
		{"forward", "every request asks the server --to first, over --n connections (0: as many as it takes)", "to", "n pprof", "", serveForward},
		{"prefork", "--n processes share the port, and the first one gets every connection", "n", "cpu", "", servePrefork},
		{"backlog", "a queue of --n for connections; one is accepted every --sleep", "n sleep", "", "", serveBacklog},
		{"faulty", "every --every-th request meets --fault, the others cost --cpu", "every fault", "cpu", "503 reset silence", serveFaulty},
		{"tail", "every --every-th request waits --sleep first, and all cost --cpu", "every sleep", "cpu pprof", "", serveTail},
		{"pause", "all work stops for --sleep once in --period, else a request costs --cpu", "sleep period", "cpu", "", servePause},
		{"grows", "a request costs --cpu, and as much again for every --n before it", "cpu n", "pprof", "", serveGrows},
		{"halves", "writes the head and the body apart, without TCP_NODELAY", "", "", "", serveHalves},
		{"database", "--n connections to its own PostgreSQL; --fault query, row (for --sleep), commit or work (of --every)", "n fault", "sleep every",
			"query row commit work", serveDatabase},
		{"far", "takes uploads over HTTP/2, at most --bytes on their way, and each way takes --sleep", "bytes sleep", "", "", serveFar},
		{"neighbour", "serves nothing: --n threads that never sleep", "n", "", "", serveNeighbour},
	}
}

// Lookup returns the kind of that name, or an error that lists the valid names.
func Lookup(name string) (Kind, error) {
	var names []string
	for _, k := range Catalogue() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("unknown planted server %q: there are %s", name, strings.Join(names, ", "))
}

// Serve runs a planted server until ctx ends, then returns nil. It calls ready once with its
// address when it accepts connections. It sets GOMAXPROCS, so a
// process runs one at a time.
func Serve(ctx context.Context, name string, p Params, ready func(addr string)) error {
	k, err := Lookup(name)
	if err != nil {
		return err
	}
	if err := k.check(&p); err != nil {
		return err
	}
	if p.Addr == "" {
		p.Addr = "127.0.0.1:0"
	}
	if p.Threads > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(p.Threads))
	}
	if err := k.serve(ctx, &p, ready); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("planted %s: %w", name, err)
	}
	return nil
}

// listen opens a plain TCP socket. Go defaults to MPTCP, which does not support reuseport
// programs (net/mptcp/sockopt.c) and treats the backlog differently.
func listen(ctx context.Context, addr string, control func(fd int) error) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	if control != nil {
		config.Control = func(_, _ string, c syscall.RawConn) error { return onSocket(c, control) }
	}
	return config.Listen(ctx, "tcp", addr)
}

func onSocket(c syscall.RawConn, f func(fd int) error) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
