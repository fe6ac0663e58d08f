// Package lua runs the scripts of wrk: each worker of the load has a Lua of its own, beside its loop,
// and another one has setup and done.
package lua

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"

	"ceiling/measure/load"
)

// Options are what a script is given.
type Options struct {
	// URL to load; its parts are in the global wrk.
	URL string
	// Header has the fields of the command line, name and value.
	Header [][2]string
	// Args of init, after the URL.
	Args []string
	// Out gets what the script prints.
	Out io.Writer
}

// Script is one of wrk's scripts.
type Script struct {
	name, text string
	options    Options
	url        *url.URL

	mu    sync.Mutex // held while a thread is set up, one after the other
	main  *thread    // setup and done
	ready []*source  // made before the load asked for them

	// Requests are what every call of request returns, if that is known to be the same; they need
	// no Lua during the run. PerCall is how many a call returns.
	Requests [][]byte
	PerCall  int
	// Answers: the script wants the responses. Done: it has a function for the end.
	Answers, Done bool
	// SHA256 of its text, in hex.
	SHA256 string
}

// Load reads a script and runs it once, without a request, to see what it defines. A mistake in it is
// an error with its line.
func Load(file string, o Options) (*Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	s := &Script{name: file, text: string(text), options: o, url: u, SHA256: hex.EncodeToString(sum[:])}
	silent := o
	silent.Out = io.Discard
	if err := s.look(&Script{name: file, text: s.text, options: silent, url: u}); err != nil {
		return nil, err
	}
	s.main, err = s.newThread(context.Background())
	return s, err
}

// look fills in what the script defines, from a copy of it that is thrown away.
func (s *Script) look(probe *Script) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var err error
	if probe.main, err = probe.newThread(ctx); err != nil {
		return err
	}
	t, err := probe.begin(ctx)
	if err != nil {
		return err
	}
	s.Answers, s.Done = t.function("response") != nil, probe.main.function("done") != nil
	text, err := t.request()
	if err != nil {
		return err
	}
	list, err := split(text)
	if err != nil {
		return fmt.Errorf("%s: request(): %w", s.name, err)
	}
	s.PerCall = len(list)
	if !s.Answers && t.function("delay") == nil && t.isConstant("request") && !strings.Contains(s.text, "setmetatable") {
		for _, r := range list {
			s.Requests = append(s.Requests, r.Bytes)
		}
	}
	return nil
}

// begin makes a thread's Lua: setup in the main one, then init.
func (s *Script) begin(ctx context.Context) (*thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.newThread(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.main.call("setup", s.main.object(t)); err != nil {
		return nil, err
	}
	if t.addr != "" && t.addr != s.address() {
		return nil, fmt.Errorf("%s: thread.addr is %s, and a run loads one address, %s; give that one as the URL", s.name, t.addr, s.address())
	}
	wrk := t.wrk()
	wrk.RawSetString("thread", t.object(t))
	if headers, ok := wrk.RawGetString("headers").(*lua.LTable); ok && headers.RawGetString("Host") == lua.LNil {
		headers.RawSetString("Host", lua.LString(hostOf(wrk)))
	}
	args := t.vm.NewTable()
	for i, arg := range append([]string{s.options.URL}, s.options.Args...) {
		args.RawSetInt(i, lua.LString(arg))
	}
	if err := t.call("init", args); err != nil {
		return nil, err
	}
	constant := lua.LString(t.format(wrk, lua.LNil, lua.LNil, lua.LNil, lua.LNil))
	wrk.RawSetString("request", t.vm.NewFunction(func(l *lua.LState) int {
		l.Push(constant)
		return 1
	}))
	return t, nil
}

// Composing makes the load's requests from the script.
func (s *Script) Composing() *load.Composing {
	c := &load.Composing{What: "script", New: s.source, Answers: s.Answers}
	if !s.Answers {
		c.Ahead = ahead * s.PerCall
	}
	return c
}

// ahead is how many calls of request are made before they are needed: a few milliseconds' worth.
const ahead = 256

// Prepare makes n threads before the run, as wrk does; others are made when a worker starts.
func (s *Script) Prepare(n int) error {
	for range n {
		one, err := s.newSource()
		if err != nil {
			return err
		}
		s.ready = append(s.ready, one)
	}
	return nil
}

func (s *Script) source(int) (load.Source, error) {
	s.mu.Lock()
	if len(s.ready) > 0 {
		defer s.mu.Unlock()
		one := s.ready[0]
		s.ready = s.ready[1:]
		return one, nil
	}
	s.mu.Unlock()
	one, err := s.newSource()
	if err != nil {
		return nil, err // a nil *source in the interface would not be nil
	}
	return one, nil
}

func (s *Script) newSource() (*source, error) {
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(probeTime, cancel) // setup and init are calls that nobody interrupts
	defer late.Stop()
	t, err := s.begin(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &source{thread: t, answers: s.Answers, delays: t.function("delay") != nil, cancel: cancel}, nil
}

// source is one thread's.
type source struct {
	thread          *thread
	answers, delays bool
	cancel          context.CancelFunc
}

// Interrupt ends a call that is under way.
func (s *source) Interrupt() { s.cancel() }

// Close leaves the thread as it is: done may ask for its values.
func (s *source) Close() error {
	s.cancel()
	return nil
}

// Next hands the responses to the script, and asks it for requests.
func (s *source) Next(answers []load.Answer, n int) (list []load.Composed, err error) {
	for _, a := range answers {
		if err := s.thread.respond(a); err != nil {
			return nil, err
		}
	}
	if s.thread.stopped {
		return nil, load.ErrStopped
	}
	for len(list) < n {
		made, err := s.thread.compose(s.delays)
		if err != nil {
			return list, err
		}
		list = append(list, made...)
	}
	return list, nil
}

// address is that of the URL, as lookup returns addresses of it.
func (s *Script) address() string {
	list, err := lookup(s.url.Hostname(), portOf(s.url))
	if err != nil || len(list) == 0 {
		return s.url.Host
	}
	for _, a := range list {
		if accepts(a) {
			return a
		}
	}
	return list[0]
}

func portOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// failed words an error of Lua's: the first line, which has the script's own line.
func (s *Script) failed(err error) error {
	var api *lua.ApiError
	if errors.As(err, &api) {
		text := api.Object.String()
		if api.Type == lua.ApiErrorSyntax || text == "" || text == "nil" {
			text = err.Error()
		}
		text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
		text = strings.Join(strings.Fields(text), " ")
		if strings.Contains(text, context.DeadlineExceeded.Error()) {
			text = fmt.Sprintf("it did not end within %v", probeTime)
		}
		if !strings.Contains(text, s.name) {
			text = s.name + ": " + text
		}
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", s.name, err)
}
