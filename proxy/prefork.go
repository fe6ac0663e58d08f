package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// Prefork runs one process per core instead of one loop, so that the two can be compared. The
// parent creates all listeners, so that a port is chosen once and a dead child's queue waits for
// its successor; only the parent has the admin address. A child inherits the control socket as
// descriptor 3, followed by its listeners. The parent sends queries over the control socket, line
// by line; end of file, which also follows when the parent is killed, tells the child to drain.
const (
	childControlFD  = 3
	childListenerFD = 4

	// childEnv is the environment variable with the number of children.
	childEnv      = "CEILING_PROXY_CHILD"
	challengesEnv = "CEILING_PROXY_CHALLENGES"
	// applicationsEnv has the Applications at a child's start, in JSON.
	applicationsEnv = "CEILING_PROXY_APPLICATIONS"

	// restartAfter is the delay before a child that exited by itself is restarted.
	restartAfter = time.Second
	// answerWithin bounds the time of a child's reply.
	answerWithin = 10 * time.Second
)

// IsPreforkChild reports whether Prefork started this process, which then calls RunChild instead.
func IsPreforkChild() bool { return os.Getenv(childEnv) != "" }

// question and reply are lines of the control socket.
type question struct {
	Ask          string       `json:"ask"` // snapshot, traces, reload, reopen or applications
	Applications Applications `json:"applications,omitempty"`
}

type reply struct {
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Traces   []Trace   `json:"traces,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Prefork is the parent of several processes.
type Prefork struct {
	children  []*child
	listeners [][]int // by child, by address: the plain ones, then those for TLS
	Addresses []string
	// Secure are the addresses for clients with TLS.
	Secure []string
	// Challenges is the children's Options.Challenges: only the parent talks to an authority.
	Challenges string
	report     func(string)
	mu         sync.Mutex // of listeners, once it runs, and applications

	applications Applications
}

// child is a slot for a process; the process may change.
type child struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	control *net.UnixConn
	lines   *bufio.Scanner
}

// NewPrefork creates the listeners of c.Workers children, or one per CPU.
func NewPrefork(c *config.Config, report func(string)) (*Prefork, error) {
	n := c.Workers
	if n == 0 {
		n = runtime.NumCPU()
	}
	f := &Prefork{report: report, listeners: make([][]int, n)}
	for range n {
		f.children = append(f.children, new(child))
	}
	for _, a := range slices.Concat(c.Listen, c.TLS.Listen) {
		at, err := listenAddress(a)
		if err == nil {
			var probe int
			if probe, _, err = ring.ListenTCP(at, 1, false); err == nil { // as in Proxy.listen
				closeNow(probe)
			}
		}
		for i := 0; i < n && err == nil; i++ {
			var fd int
			if fd, at, err = ring.ListenTCP(at, backlog, true); err == nil {
				f.listeners[i] = append(f.listeners[i], fd)
			}
		}
		if err != nil {
			f.closeListeners()
			return nil, err
		}
		f.Addresses = append(f.Addresses, at.String())
	}
	f.Addresses, f.Secure = f.Addresses[:len(c.Listen)], f.Addresses[len(c.Listen):]
	return f, nil
}

func (f *Prefork) closeListeners() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range f.listeners {
		for _, fd := range list {
			closeNow(fd)
		}
	}
	f.listeners = nil
}

// Run starts the children and keeps them running until ctx ends; then they drain. It calls ready
// when all serve.
func (f *Prefork) Run(ctx context.Context, ready func()) error {
	defer f.closeListeners()
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Clients queued for a child would wait until all have drained; and if the children are
	// draining something that depends on such a client, they would wait as well.
	defer context.AfterFunc(ctx, f.closeListeners)()
	failed := make(chan error, len(f.children))
	serving := make(chan struct{}, len(f.children))
	for i := range f.children {
		running.Go(func() {
			if err := f.keep(ctx, i, func() { serving <- struct{}{} }); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	for range f.children {
		select {
		case <-serving:
			continue
		case <-ctx.Done():
		}
		break
	}
	if ctx.Err() == nil {
		ready()
	}
	running.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// keep runs child i and restarts it. A child that never served is an error.
func (f *Prefork) keep(ctx context.Context, i int, serves func()) error {
	for first := true; ctx.Err() == nil; first = false {
		c := f.children[i]
		if err := f.start(i); ctx.Err() != nil && errors.Is(err, errEnding) {
			return nil
		} else if err != nil {
			return err
		}
		var r reply
		err := c.ask("snapshot", &r) // answered when it serves
		if err != nil && first {
			return errors.Join(fmt.Errorf("proxy child %d: %w", i, err), c.end())
		}
		if first {
			serves()
		}
		f.mu.Lock()
		known := f.applications
		f.mu.Unlock()
		_ = c.send(question{Ask: "applications", Applications: known}, new(reply)) // it may have ended
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { c.hangUp() })
		go func() { _ = c.cmd.Wait(); close(ended) }() // ProcessState has the result
		<-ended
		stop()
		c.hangUp()
		if ctx.Err() == nil {
			f.report(fmt.Sprintf("proxy child %d has ended: %v; another one follows", i, c.cmd.ProcessState))
			select {
			case <-ctx.Done():
			case <-time.After(restartAfter):
			}
		}
	}
	return nil
}

// start starts the process of child i.
func (f *Prefork) start(i int) error {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	f.mu.Lock()
	applications, err := json.Marshal(f.applications)
	f.mu.Unlock()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	files, err := f.duplicates(i)
	defer closeAll(files)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	files = append([]*os.File{theirs}, files...)
	cmd := &exec.Cmd{
		Path: program, Args: os.Args, Stderr: os.Stderr, Stdout: os.Stdout, ExtraFiles: files,
		Env: append(os.Environ(), childEnv+"="+strconv.Itoa(len(f.children)), challengesEnv+"="+f.Challenges,
			applicationsEnv+"="+string(applications)),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // the parent forwards the terminal's interrupt
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, conn.Close())
	}
	c := f.children[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd, c.control = cmd, conn.(*net.UnixConn)
	c.lines = bufio.NewScanner(c.control)
	c.lines.Buffer(nil, 16<<20)
	return nil
}

var errEnding = errors.New("the proxy is ending")

// duplicates returns a child's listeners, to be closed once it has them.
func (f *Prefork) duplicates(i int) (files []*os.File, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listeners == nil {
		return nil, errEnding
	}
	for _, fd := range f.listeners[i] {
		// Another child started at the same time must not inherit it.
		dup, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
		if e != 0 {
			return files, os.NewSyscallError("dup", e)
		}
		files = append(files, os.NewFile(dup, "listener"))
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // it is open
	}
}

// hangUp tells the child to drain.
func (c *child) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.control.Close() // closing twice does nothing
}

// end kills a child that does not serve.
func (c *child) end() error {
	c.hangUp()
	_ = c.cmd.Process.Kill() // it fails if it has exited
	return c.cmd.Wait()
}

// ask sends the child a query.
func (c *child) ask(what string, r *reply) error { return c.send(question{Ask: what}, r) }

func (c *child) send(q question, r *reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control == nil {
		return errors.New("not started yet")
	}
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if err := c.control.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if _, err := c.control.Write(append(line, '\n')); err != nil {
		return err
	}
	if !c.lines.Scan() {
		return errors.Join(errors.New("it does not answer"), c.lines.Err())
	}
	if err := json.Unmarshal(c.lines.Bytes(), r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// Snapshot sums the children's snapshots.
func (f *Prefork) Snapshot() (*Snapshot, error) {
	var all *Snapshot
	for i, c := range f.children {
		var r reply
		if err := c.ask("snapshot", &r); err != nil {
			return nil, fmt.Errorf("proxy child %d: %w", i, err)
		}
		if all == nil {
			all = r.Snapshot
		} else {
			all.Add(r.Snapshot)
		}
	}
	return all, nil
}

// Traces returns those of all children, newest first.
func (f *Prefork) Traces() ([]Trace, error) {
	var all []Trace
	for i, c := range f.children {
		var r reply
		if err := c.ask("traces", &r); err != nil {
			return nil, fmt.Errorf("proxy child %d: %w", i, err)
		}
		all = append(all, r.Traces...)
	}
	newestFirst(all)
	return all, nil
}

// SetApplications tells every child, see Proxy.SetApplications. One that does not answer has ended,
// and its successor is told when it starts.
func (f *Prefork) SetApplications(a Applications) {
	f.mu.Lock()
	f.applications = maps.Clone(a)
	f.mu.Unlock()
	for _, c := range f.children {
		_ = c.send(question{Ask: "applications", Applications: a}, new(reply))
	}
}

// Reload makes every child reread its configuration.
func (f *Prefork) Reload() error { return f.all("reload") }

// ReopenLog makes every child switch to a new file, see Proxy.ReopenLog.
func (f *Prefork) ReopenLog() error { return f.all("reopen") }

// all sends every child the same query.
func (f *Prefork) all(what string) error {
	var err error
	for i, c := range f.children {
		var r reply
		if e := c.ask(what, &r); e != nil {
			err = errors.Join(err, fmt.Errorf("proxy child %d: %w", i, e))
		}
	}
	return err
}

// RunChild serves as a child of a Prefork on the inherited listeners. load reads the
// configuration.
func RunChild(ctx context.Context, load func() (*config.Config, error), o Options) error {
	n, err := strconv.Atoi(os.Getenv(childEnv))
	if err != nil || n < 1 {
		return fmt.Errorf("%s=%q is no number of children", childEnv, os.Getenv(childEnv))
	}
	wanted := -1
	part := func() (*config.Config, error) { // this child's part of the whole
		c, err := load()
		if err != nil {
			return nil, err
		}
		if wanted >= 0 && c.Workers != wanted {
			return nil, errors.New("reload: workers change, which needs a new start")
		}
		wanted, c.Workers = c.Workers, 1
		if c.Limits.Connections > 0 {
			c.Limits.Connections = max(c.Limits.Connections/n, 1)
		}
		return c, nil
	}
	c, err := part()
	if err != nil {
		return err
	}
	o.Share, o.Challenges = n, os.Getenv(challengesEnv)
	for i := range slices.Concat(c.Listen, c.TLS.Listen) {
		o.inherited = append(o.inherited, childListenerFD+i)
	}
	p, err := New(c, o)
	if err != nil {
		return err
	}
	var applications Applications
	if err := json.Unmarshal([]byte(os.Getenv(applicationsEnv)), &applications); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", applicationsEnv, err), p.abandon())
	}
	p.SetApplications(applications)
	control, err := inheritedControl()
	if err != nil {
		return errors.Join(err, p.abandon())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer onRotate(p)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		answerParent(control, p, func() error {
			c, err := part()
			if err != nil {
				return err
			}
			return p.Reload(c)
		})
	}()
	err = errors.Join(p.Run(ctx), control.Close())
	<-done
	return err
}

// onRotate reopens the log at each SIGUSR1 until stop: log rotation may signal the whole process
// group, and the signal would kill a child.
func onRotate(p *Proxy) (stop func()) {
	rotate, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(rotate, syscall.SIGUSR1)
	go func() {
		defer close(done)
		for range rotate {
			if err := p.ReopenLog(); err != nil {
				p.fail(err.Error() + "; the old file stays")
			}
		}
	}()
	return func() {
		signal.Stop(rotate)
		close(rotate)
		<-done
	}
}

func inheritedControl() (net.Conn, error) {
	file := os.NewFile(childControlFD, "control")
	conn, err := net.FileConn(file) // duplicates
	return conn, errors.Join(err, file.Close())
}

// answerParent answers queries until the control socket ends.
func answerParent(control net.Conn, p *Proxy, reload func() error) {
	lines := bufio.NewScanner(control)
	for lines.Scan() {
		var q question
		var r reply
		err := json.Unmarshal(lines.Bytes(), &q)
		switch {
		case err != nil:
		case q.Ask == "snapshot":
			r.Snapshot, err = p.Snapshot()
		case q.Ask == "traces":
			r.Traces, err = p.Traces()
		case q.Ask == "reload":
			err = reload()
		case q.Ask == "applications":
			p.SetApplications(q.Applications)
		case q.Ask == "reopen":
			err = p.ReopenLog()
		default:
			err = fmt.Errorf("%q is not known", q.Ask)
		}
		if err != nil {
			r.Error = err.Error()
		}
		line, err := json.Marshal(r)
		if err != nil {
			return
		}
		if _, err := control.Write(append(line, '\n')); err != nil {
			return
		}
	}
}
