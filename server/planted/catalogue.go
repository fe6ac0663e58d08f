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
	"os"
	"runtime"
	"strings"
	"syscall"

	"ceiling/internal/sys"
)

// A Kind is a planted server that can be started by name.
type Kind struct {
	Name  string
	About string
	// Needs and Takes are the names of its required and optional numbers.
	Needs, Takes []string

	serve func(context.Context, *Params, func(addr string)) error
}

func kinds() []Kind {
	return []Kind{
		{"cpu", "every request costs --cpu, on whatever core is free", nil, []string{"cpu", "pprof"}, serveCPU},
		{"thread", "every request costs --cpu on the same thread, which takes them from a queue", []string{"cpu"}, []string{"pprof"},
			serveThread},
		{"loop", "event loops, --n threads of them, answer --bytes in --chunks and pay --cpu", nil, []string{"n", "cpu", "bytes", "chunks"},
			serveLoops},
		{"mutex", "one lock for all requests, held for --sleep or for --cpu of work", nil, []string{"sleep", "cpu", "pprof"}, serveMutex},
		{"random", "a product at random, from --n sources of numbers with a lock each, which take --sleep for one", []string{"sleep"},
			[]string{"n", "cpu", "pprof"}, serveRandom},
		{"pool", "--n places, each request keeps one for --sleep", []string{"n", "sleep"}, []string{"pprof"}, servePool},
		{"sleep", "every request waits --sleep, as many at once as come", []string{"sleep"}, []string{"pprof"}, serveSleep},
		{"sync", "every request writes 4 KiB to a disk whose sync takes --sleep, one at a time (root)", []string{"sleep"}, []string{"pprof"},
			serveSync},
		{"flush", "every request writes 4 KiB to a block device whose flush takes --sleep, --n at a time, or one (root)", []string{"sleep"},
			[]string{"n", "pprof"}, serveFlush},
		{"forward", "every request asks the server --to first, over --n connections (0: as many as it takes)", []string{"to"},
			[]string{"n", "pprof"}, serveForward},
		{"prefork", "--n processes share the port, and the first one gets every connection", []string{"n"}, []string{"cpu"}, servePrefork},
		{"backlog", "a queue of --n for connections, one of which is accepted every --sleep", []string{"n", "sleep"}, nil, serveBacklog},
		{"faulty", "every --every-th request meets --fault, the others cost --cpu", []string{"every", "fault"}, []string{"cpu"}, serveFaulty},
		{"tail", "every --every-th request waits --sleep first, and all cost --cpu", []string{"every", "sleep"}, []string{"cpu", "pprof"},
			serveTail},
		{"pause", "all work stands still for --sleep once in --period, else a request costs --cpu", []string{"sleep", "period"}, []string{"cpu"},
			servePause},
		{"grows", "a request costs --cpu, and as much again for every --n before it", []string{"cpu", "n"}, []string{"pprof"}, serveGrows},
		{"halves", "writes the head and the body apart, without TCP_NODELAY", nil, nil, serveHalves},
		{"database", "--n connections to a PostgreSQL of its own; --fault query, row (for --sleep), commit or work (of --every)",
			[]string{"n", "fault"}, []string{"sleep", "every"}, serveDatabase},
		{"far", "takes uploads over HTTP/2, at most --bytes on their way, and each way takes --sleep", []string{"bytes", "sleep"}, nil, serveFar},
		{"neighbour", "serves nothing: --n threads that never sleep", []string{"n"}, nil, serveNeighbour},
	}
}

// Catalogue returns all kinds.
func Catalogue() []Kind { return kinds() }

// Lookup returns the kind of that name, or an error that lists the valid names.
func Lookup(name string) (Kind, error) {
	var names []string
	for _, k := range kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("unknown planted server %q: there are %s", name, strings.Join(names, ", "))
}

// Serve runs a planted server until ctx ends, then returns nil. It calls ready once with its
// address when it accepts connections. It sets GOMAXPROCS and the CPUs of the whole process, so a
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
	if len(p.CPUs) > 0 {
		if err := bind(p.CPUs); err != nil {
			return fmt.Errorf("planted %s: %w", name, err)
		}
	}
	if err := k.serve(ctx, &p, ready); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("planted %s: %w", name, err)
	}
	return nil
}

// bind pins every thread of the process to the CPUs. New threads inherit the affinity, so it
// rescans until it finds no new ones.
func bind(cpus []int) error {
	bound := map[int]bool{}
	for {
		tids, err := sys.Threads(os.Getpid())
		if err != nil {
			return err
		}
		found := false
		for _, tid := range tids {
			if bound[tid] {
				continue
			}
			if err := sys.Pin(tid, cpus); err != nil {
				return err
			}
			bound[tid], found = true, true
		}
		if !found {
			return nil
		}
	}
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
