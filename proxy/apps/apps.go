// Package apps keeps the applications of a proxy's file running: each is one process in its own
// process group, started once however many loops or processes the proxy has, restarted when it
// exits, and stopped with the proxy.
package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/proxy/config"
)

// States of an application.
const (
	Starting = "starting" // not ready yet
	Running  = "running"
	Waiting  = "waiting" // it has exited, and is restarted after a delay
	Stopped  = "stopped" // by request
)

// Status is an application's state.
type Status struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	PID      int    `json:"pid,omitempty"`
	Starts   int    `json:"starts"`
	LastExit string `json:"last_exit,omitempty"`
}

// Supervisor runs applications.
type Supervisor struct {
	// Changed gets, whenever that changes, the addresses at which applications become ready, and
	// whether they are starting: not ready yet, or about to be restarted. It may be nil.
	Changed func(starting map[string]bool)

	now    <-chan struct{}
	report func(string)
	stderr io.Writer
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	apps map[string]*app

	told     sync.Mutex // orders the calls of Changed
	starting map[string]bool
}

// app is one application. Its goroutine ends with its context.
type app struct {
	config config.Application
	s      *Supervisor
	cancel context.CancelFunc
	done   chan struct{}
	recent recent // printed lately, if it has no file

	mu       sync.Mutex
	status   Status
	replaced bool // another one with its address follows
}

// New returns a supervisor without applications. Once now is closed, those that are asked to end are killed.
// Their output goes to stderr, each line prefixed with the application's name, unless they have a file.
func New(now <-chan struct{}, report func(string), stderr io.Writer) *Supervisor {
	s := &Supervisor{now: now, report: report, stderr: &shared{to: stderr}, apps: map[string]*app{}, starting: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Replace switches to these applications: unchanged ones keep running, removed or changed ones
// are stopped before changed ones are restarted. It returns when all are started, not when they
// are ready.
func (s *Supervisor) Replace(c *config.Config) {
	wanted := map[string]config.Application{}
	for _, r := range c.Regions {
		for _, a := range r.Applications {
			wanted[a.ID] = a
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*app
	for id, a := range s.apps {
		next, ok := wanted[id]
		if ok && reflect.DeepEqual(next, a.config) {
			continue
		}
		if ok && next.ReadyAt() == a.config.ReadyAt() {
			a.replace()
		}
		gone = append(gone, a)
		delete(s.apps, id)
	}
	for id, a := range wanted { // stopping the old ones takes its time
		if s.apps[id] == nil {
			s.tell(a.ReadyAt(), Starting)
		}
	}
	stop(gone)
	for id, a := range wanted {
		if s.apps[id] == nil {
			s.apps[id] = s.start(a)
		}
	}
}

// stop ends applications, all at the same time.
func stop(list []*app) {
	for _, a := range list {
		a.cancel()
	}
	for _, a := range list {
		<-a.done
	}
}

// replace keeps requests waiting while another one takes the application's place.
func (a *app) replace() {
	a.mu.Lock()
	a.replaced = true
	a.mu.Unlock()
	a.s.tell(a.config.ReadyAt(), Starting)
}

// tell passes on a state of the application at an address.
func (s *Supervisor) tell(address, state string) {
	if address == "" || s.Changed == nil {
		return
	}
	s.told.Lock()
	defer s.told.Unlock()
	was, known := s.starting[address]
	is := state == Starting || state == Waiting
	if known == (state != Stopped) && was == is {
		return
	}
	s.starting[address] = is
	if state == Stopped {
		delete(s.starting, address)
	}
	s.Changed(maps.Clone(s.starting))
}

func (s *Supervisor) start(c config.Application) *app {
	s.tell(c.ReadyAt(), Starting)
	ctx, cancel := context.WithCancel(s.ctx)
	a := &app{config: c, s: s, cancel: cancel, done: make(chan struct{}), status: Status{ID: c.ID, State: Starting}}
	go a.keep(ctx)
	return a
}

// Restart stops an application, if it runs, and starts it.
func (s *Supervisor) Restart(id string) error {
	return s.change(id, (*app).replace, func(a *app) { s.apps[id] = s.start(a.config) })
}

// Stop stops an application until it is restarted, or changes in the file.
func (s *Supervisor) Stop(id string) error { return s.change(id, func(*app) {}, func(*app) {}) }

func (s *Supervisor) change(id string, before, then func(*app)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[id]
	if a == nil {
		return fmt.Errorf("unknown application %q", id)
	}
	before(a)
	stop([]*app{a})
	then(a)
	return nil
}

// Status returns the status of all, by name.
func (s *Supervisor) Status() (list []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		a.mu.Lock()
		list = append(list, a.status)
		a.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Close stops all and waits until they have exited.
func (s *Supervisor) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	for _, a := range s.apps {
		<-a.done
	}
	clear(s.apps)
}

// The restart delay doubles, and starts over for an application that has run long enough.
const (
	firstWait = 100 * time.Millisecond
	mostWait  = 30 * time.Second
	lasted    = 10 * time.Second
)

// keep runs the application and restarts it.
func (a *app) keep(ctx context.Context) {
	defer close(a.done)
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		began := time.Now()
		exit := a.once(ctx)
		if ctx.Err() != nil {
			a.set(func(s *Status) { s.State, s.PID, s.LastExit = Stopped, 0, exit })
			return
		}
		if time.Since(began) >= lasted {
			wait = firstWait
		}
		a.set(func(s *Status) { s.State, s.PID, s.LastExit = Waiting, 0, exit })
		a.s.report(fmt.Sprintf("application %s: %s; started again in %v", a.config.ID, exit, wait))
		select {
		case <-ctx.Done():
			a.set(func(s *Status) { s.State = Stopped })
			return
		case <-time.After(wait):
		}
	}
}

func (a *app) set(f func(*Status)) {
	a.mu.Lock()
	f(&a.status)
	state, replaced := a.status.State, a.replaced
	a.mu.Unlock()
	if !replaced {
		a.s.tell(a.config.ReadyAt(), state)
	}
}

// Handle adds to the admin address: GET /applications, and, behind guard, POST
// /applications/{id}/restart and /stop.
func (s *Supervisor) Handle(mux *http.ServeMux, guard func(http.HandlerFunc) http.Handler) {
	status := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Status()) // it fails if the client has left
	}
	mux.HandleFunc("GET /applications", func(w http.ResponseWriter, _ *http.Request) { status(w) })
	change := func(f func(id string) error) http.Handler {
		return guard(func(w http.ResponseWriter, r *http.Request) {
			if err := f(r.PathValue("id")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			status(w)
		})
	}
	mux.Handle("POST /applications/{id}/restart", change(s.Restart))
	mux.Handle("POST /applications/{id}/stop", change(s.Stop))
}
