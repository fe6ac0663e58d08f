package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/internal/profiles"
	"ceiling/server/prefork"
)

// Profiles have their own address (Config.Pprof), as in production: the framework's routes, and
// their cost, are unaffected. A prefork server has one address for all processes: the parent
// fetches a profile from every child concurrently and returns them merged, with each sample
// labelled with its process; /debug/pprof/process/ lists the processes, and
// /debug/pprof/process/PID/ serves one. A child serves its parent on an abstract unix socket
// (unix(7)), whose listener it inherits.
const (
	pprofRoot    = "/debug/pprof/"
	processRoot  = pprofRoot + "process/"
	childPprofFD = prefork.FirstFD

	// preforkPprofEnv is set in the environment of a child that has childPprofFD.
	preforkPprofEnv = "CEILING_PREFORK_PPROF"

	// mutexFraction and blockRateNs: one in so many contended locks, and in waits shorter than
	// this one in so many, is recorded. Without them the runtime records neither.
	mutexFraction = 10
	blockRateNs   = 10_000

	// profileMax limits the profile of one child.
	profileMax = 64 << 20
)

// profileServer serves profiles until stop.
type profileServer struct {
	server http.Server
	ended  chan struct{}
	addr   string
}

// serveProfiles answers ln with h.
func serveProfiles(ln net.Listener, h http.Handler) *profileServer {
	p := &profileServer{server: http.Server{Handler: h}, ended: make(chan struct{}), addr: ln.Addr().String()}
	go func() {
		defer close(p.ended)
		_ = p.server.Serve(ln) // ends by Close
	}()
	return p
}

// stop stops it, including requests in progress.
func (p *profileServer) stop() {
	if p == nil {
		return
	}
	_ = p.server.Close() // closes sockets; errors do not matter
	<-p.ended
}

// recordWaits makes the runtime record lock contention and other waits until the returned
// function is called.
func recordWaits() (stop func()) {
	before := runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(blockRateNs)
	return func() {
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
	}
}

// ownProfiles serves the profiles of this process.
func ownProfiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pprofRoot, pprof.Index)
	mux.HandleFunc(pprofRoot+"profile", pprof.Profile)
	mux.HandleFunc(pprofRoot+"trace", pprof.Trace)
	mux.HandleFunc(pprofRoot+"cmdline", pprof.Cmdline)
	mux.HandleFunc(pprofRoot+"symbol", pprof.Symbol)
	return mux
}

// profilesAlone serves this process's profiles if configured.
func profilesAlone(ctx context.Context, cfg *Config) (stop func(), err error) {
	if cfg.Pprof == "" {
		return func() {}, nil
	}
	ln, err := listenPprof(ctx, cfg.Pprof)
	if err != nil {
		return nil, err
	}
	record := recordWaits()
	p := serveProfiles(ln, ownProfiles())
	cfg.pprofReady(p.addr)
	return func() { p.stop(); record() }, nil
}

func listenPprof(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for profiles: %w", err)
	}
	return ln, nil
}

func (cfg *Config) pprofReady(addr string) {
	if cfg.PprofReady != nil {
		cfg.PprofReady(addr)
	}
}

// profilesOfChild serves a child's profiles to its parent.
func profilesOfChild() (stop func(), err error) {
	if os.Getenv(preforkPprofEnv) == "" {
		return func() {}, nil
	}
	file := os.NewFile(childPprofFD, "profiles")
	ln, err := net.FileListener(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("prefork child: profiles: %w", err)
	}
	record := recordWaits()
	p := serveProfiles(ln, ownProfiles())
	return func() { p.stop(); record() }, nil
}

// preforkProfiles is the shared address for the profiles of all children.
type preforkProfiles struct {
	server *profileServer

	mu       sync.Mutex
	children []profiledChild
}

type profiledChild struct {
	pid    int
	client *http.Client
}

// newPreforkProfiles listens; nil if no profiles are configured.
func newPreforkProfiles(ctx context.Context, cfg *Config) (*preforkProfiles, error) {
	if cfg.Pprof == "" {
		return nil, nil
	}
	ln, err := listenPprof(ctx, cfg.Pprof)
	if err != nil {
		return nil, err
	}
	p := &preforkProfiles{}
	p.server = serveProfiles(ln, p)
	return p, nil
}

func (p *preforkProfiles) stop() {
	if p != nil {
		p.server.stop()
	}
}

// socket creates the listener that a child inherits, and its name for dialling.
func (p *preforkProfiles) socket(n int) (file *os.File, name string, err error) {
	name = fmt.Sprintf("@ceiling-pprof-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), n)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	file, err = ln.File() // duplicates
	return file, name, errors.Join(err, ln.Close())
}

// add adds a child's profiles.
func (p *preforkProfiles) add(pid int, socket string) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children = append(p.children, profiledChild{pid, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}})
}

func (p *preforkProfiles) all() []profiledChild {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.children)
}

// ServeHTTP implements http.Handler.
func (p *preforkProfiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	children := p.all()
	name, below := strings.CutPrefix(r.URL.Path, pprofRoot)
	switch {
	case !below:
		http.NotFound(w, r)
	case name == "":
		fmt.Fprintf(w, "profiles of %d processes, merged: allocs block goroutine heap mutex profile threadcreate\n"+
			"of one process: %sPID/NAME, where PID is of %s\n", len(children), processRoot, processRoot)
	case r.URL.Path == processRoot:
		for _, c := range children {
			fmt.Fprintln(w, c.pid)
		}
	case strings.HasPrefix(r.URL.Path, processRoot):
		ofOne(w, r, children)
	case name == "trace" || name == "cmdline" || name == "symbol" || r.URL.Query().Get("debug") > "0":
		http.Error(w, fmt.Sprintf("that is of one process: ask %sPID/%s", processRoot, name), http.StatusBadRequest)
	default:
		ofAll(w, r, name, children)
	}
}

// ofOne forwards a request to the child that the path names.
func ofOne(w http.ResponseWriter, r *http.Request, children []profiledChild) {
	pid, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, processRoot), "/")
	for _, c := range children {
		if fmt.Sprint(c.pid) == pid {
			proxy := httputil.ReverseProxy{Transport: c.client.Transport, Rewrite: func(pr *httputil.ProxyRequest) {
				pr.Out.URL = &url.URL{Scheme: "http", Host: "child", Path: pprofRoot + rest, RawQuery: r.URL.RawQuery}
			}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, fmt.Sprintf("process %s: %v", pid, err), http.StatusBadGateway)
			}}
			proxy.ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no process "+pid, http.StatusNotFound)
}

// ofAll returns a profile of all children, taken at the same time and merged.
func ofAll(w http.ResponseWriter, r *http.Request, name string, children []profiledChild) {
	parts, failed := make([]profiles.Part, len(children)), make([]error, len(children))
	var asking sync.WaitGroup
	for i, c := range children {
		asking.Go(func() {
			parts[i] = profiles.Part{Process: fmt.Sprint(c.pid), Block: -1}
			b, err := c.get(r.Context(), pprofRoot+name+"?"+r.URL.RawQuery)
			if err == nil {
				parts[i].Profile, err = profiles.Parse(b)
			}
			if err != nil {
				failed[i] = fmt.Errorf("process %d: %w", c.pid, err)
			}
		})
	}
	asking.Wait()
	var packed []byte
	err := errors.Join(failed...)
	if err == nil {
		merged, mergeErr := profiles.Merge(parts)
		if err = mergeErr; err == nil {
			packed, err = profiles.Bytes(merged)
		}
	}
	if err != nil {
		http.Error(w, strings.ReplaceAll(err.Error(), "\n", "; "), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.pb.gz"`)
	_, _ = w.Write(packed) // fails if the client has disconnected
}

func (c *profiledChild) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://child"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, profileMax+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(b[:min(len(b), 200)])))
	case len(b) > profileMax:
		return nil, fmt.Errorf("the profile has more than %d MB", profileMax>>20)
	}
	return b, nil
}
