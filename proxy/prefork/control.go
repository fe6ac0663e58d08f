package prefork

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"ceiling/proxy"
)

const (
	controlFD  = 3
	listenerFD = 4

	// childEnv is the environment variable with the number of children, challengesEnv the one with
	// Parent.Challenges.
	childEnv      = "CEILING_PROXY_CHILD"
	challengesEnv = "CEILING_PROXY_CHALLENGES"

	// answerWithin bounds the time of a child's reply.
	answerWithin = 10 * time.Second
)

// question and reply are what the control socket carries, in JSON.
type question struct {
	Ask          string             `json:"ask"` // snapshot, traces, reload, reopen or applications
	Applications proxy.Applications `json:"applications,omitempty"`
}

type reply struct {
	Snapshot *proxy.Snapshot `json:"snapshot,omitempty"`
	Traces   []proxy.Trace   `json:"traces,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// child is a slot for a process; the process may change.
type child struct {
	index     int
	listeners []*os.File
	cmd       *exec.Cmd

	mu      sync.Mutex // of what follows
	control net.Conn
	answers *json.Decoder
}

// start starts the process.
func (c *child) start(environment ...string) error {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	control, err := net.FileConn(ours) // duplicates
	if err != nil {
		return err
	}
	c.cmd = &exec.Cmd{
		Path: program, Args: os.Args, Stderr: os.Stderr, Stdout: os.Stdout, ExtraFiles: append([]*os.File{theirs}, c.listeners...),
		Env:         append(os.Environ(), environment...),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // the parent forwards the terminal's interrupt
	}
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, control.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control, c.answers = control, json.NewDecoder(control)
	return nil
}

// hangUp tells the child to drain.
func (c *child) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.control.Close() // closing twice does nothing
}

// ask sends the child a query.
func (c *child) ask(what string, r *reply) error { return c.send(question{Ask: what}, r) }

func (c *child) send(q question, r *reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control == nil {
		return errors.New("not started yet")
	}
	if err := c.control.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if err := json.NewEncoder(c.control).Encode(q); err != nil {
		return err
	}
	if err := c.answers.Decode(r); err != nil {
		return errors.Join(errors.New("it does not answer"), err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
