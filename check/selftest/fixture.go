package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/measure/netns"
	"ceiling/measure/run"
	"ceiling/server/planted"
)

// fixture is what one scenario has set up. strike removes it.
type fixture struct {
	program string // has the verb planted
	subject *run.Child
	addr    string
	helper  string // address of the first helper
	path    string // of the requests
	header  []spec.Field
	paths   map[string]string // of third-party software
	groups  map[int]bool      // process groups of the children
	undo    []func() error    // last first
}

// setUp starts the servers of a plan, the subject last. The caller must strike the result even
// after an error.
func setUp(ctx context.Context, program string, g *prereqs, number int, p *plan) (*fixture, error) {
	st := &fixture{program: program, groups: map[int]bool{}, path: cmp.Or(p.path, "/"), header: p.header, paths: g.paths}
	for i, h := range p.helpers {
		c, err := st.start(ctx, h, nil)
		if err != nil {
			return st, err
		}
		if i == 0 {
			st.helper = c.Addr
		}
	}
	if p.subject.kind == "" && p.subject.program == nil && p.subject.serve == nil {
		closed, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), false)
		if err == nil {
			st.addr = closed.String()
			st.later(func() error { release(); return nil })
		}
		return st, err
	}
	if p.subject.toHelper {
		p.subject.params.To = st.helper
	}
	if p.inet6 {
		p.subject.params.Addr = "[::1]:0"
	}
	var n *netns.Namespace
	if p.link != nil {
		var err error
		if n, err = newNamespace(ctx, number, *p.link); err != nil {
			return st, err
		}
		st.later(n.Remove)
		p.subject.params.Addr = net.JoinHostPort(n.Addr.String(), "0")
	}
	var err error
	var inside *cgroup
	if p.quota > 0 {
		if inside, err = g.hierarchy.newCgroup(number, p.quota); err != nil {
			return st, err
		}
		st.later(inside.remove)
	}
	if st.subject, err = st.start(ctx, p.subject, n); err != nil {
		return st, err
	}
	st.addr = st.subject.Addr
	if inside != nil {
		if err := inside.moveGroup(st.subject.PID); err != nil {
			return st, err
		}
	}
	if p.generatorQuota > 0 {
		return st, st.confine(g.hierarchy, number, p.generatorQuota)
	}
	return st, nil
}

// confine moves this process into a group, and back at the end.
func (st *fixture) confine(h hierarchy, number int, cores float64) error {
	home, err := h.ownGroup()
	if err != nil {
		return err
	}
	c, err := h.newCgroup(number, cores)
	if err != nil {
		return err
	}
	st.later(c.remove)
	if err := c.move(os.Getpid()); err != nil {
		return err
	}
	st.later(func() error { return home.move(os.Getpid()) })
	return nil
}

func (st *fixture) later(f func() error) { st.undo = append(st.undo, f) }

// teardown stops what was started and removes what was created. Its error names what is left
// behind.
func (st *fixture) teardown() error {
	var err error
	for i := len(st.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, st.undo[i]())
	}
	st.undo = nil
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// start runs a server as a child, in a namespace or in this one; third-party programs run in this
// one.
func (st *fixture) start(ctx context.Context, h host, n *netns.Namespace) (*run.Child, error) {
	var c *run.Child
	var err error
	switch {
	case h.program != nil:
		c, err = st.startProgram(ctx, h.program, st.helper)
	case h.serve != nil:
		c, err = run.StartChild(ctx, st.program, append([]string{"serve", "--addr", "127.0.0.1:0"}, h.serve...)...)
	default:
		name, args := st.program, arguments(h.kind, &h.params)
		if n != nil {
			name, args = n.Within(name, args...)
		}
		c, err = run.StartChild(ctx, name, args...)
	}
	if err != nil {
		return nil, err
	}
	st.groups[c.PID] = true
	st.later(func() error {
		// A frozen process receives no other signal.
		_ = syscall.Kill(-c.PID, syscall.SIGCONT)
		c.Stop()
		return nil
	})
	return c, nil
}

// arguments returns the command line of the verb planted, with the flags of cmd/ceiling.
func arguments(kind string, p *planted.Params) []string {
	args := []string{"planted", kind}
	add := func(name, value string, given bool) {
		if given {
			args = append(args, "--"+name, value)
		}
	}
	add("addr", p.Addr, p.Addr != "")
	add("threads", strconv.Itoa(p.Threads), p.Threads != 0)
	add("cpus", join(p.CPUs), len(p.CPUs) > 0)
	add("cpu", p.CPU.String(), p.CPU != 0)
	add("sleep", p.Sleep.String(), p.Sleep != 0)
	add("n", strconv.Itoa(p.N), p.N != 0)
	add("every", strconv.Itoa(p.Every), p.Every != 0)
	add("fault", p.Fault, p.Fault != "")
	add("period", p.Period.String(), p.Period != 0)
	add("bytes", strconv.Itoa(p.Bytes), p.Bytes != 0)
	add("chunks", strconv.Itoa(p.Chunks), p.Chunks != 0)
	add("to", p.To, p.To != "")
	return args
}

func join(numbers []int) string {
	var text []string
	for _, n := range numbers {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ",")
}

// kill kills the subject without warning.
func (st *fixture) kill() error { return signal(syscall.SIGKILL)(st) }

// signal is a deed that signals the subject's whole process group.
func signal(sig syscall.Signal) func(*fixture) error {
	return func(st *fixture) error {
		if err := syscall.Kill(-st.subject.PID, sig); err != nil {
			return fmt.Errorf("send %s to the subject: %w", sig, err)
		}
		return nil
	}
}
