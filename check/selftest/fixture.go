package selftest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/measure/netns"
	"ceiling/measure/run"
)

// fixture is what one scenario has set up. teardown removes it.
type fixture struct {
	program string // has the verb planted
	subject *run.Child
	addr    string
	helper  string         // the helper's address
	values  values         // of the plan, and the paths of third-party software
	groups  map[int]bool   // process groups of the children
	undo    []func() error // last first
}

// setUp starts the servers of a plan, the subject last. The caller must tear the result down even
// after an error.
func setUp(ctx context.Context, program string, g *prereqs, number int, p *plan) (*fixture, error) {
	st := &fixture{program: program, groups: map[int]bool{}, values: values{}}
	for _, known := range []values{p.values, g.paths} {
		maps.Copy(st.values, known)
	}
	if p.Helper.Serve != "" {
		c, err := st.start(ctx, p.Helper, "", nil)
		if err != nil {
			return st, err
		}
		st.helper = c.Addr
		st.values["helper"] = c.Addr
	}
	if p.Subject.Serve == "" {
		closed, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), false)
		if err == nil {
			st.addr = closed.String()
			st.later(func() error { release(); return nil })
		}
		return st, err
	}
	var addr string
	if p.inet6 {
		addr = "[::1]:0"
	}
	var n *netns.Namespace
	if p.Bits+p.Packets > 0 {
		var err error
		if n, err = newNamespace(ctx, number, p.Bits, p.Packets); err != nil {
			return st, err
		}
		st.later(n.Remove)
		addr = net.JoinHostPort(n.Addr.String(), "0")
	}
	var err error
	var inside *cgroup
	if p.Quota > 0 {
		if inside, err = g.hierarchy.newCgroup(number, p.Quota); err != nil {
			return st, err
		}
		st.later(inside.remove)
	}
	if st.subject, err = st.start(ctx, p.Subject, addr, n); err != nil {
		return st, err
	}
	st.addr = st.subject.Addr
	if inside != nil {
		if err := inside.moveGroup(st.subject.PID); err != nil {
			return st, err
		}
	}
	if p.GeneratorQuota > 0 {
		return st, st.confine(g.hierarchy, number, p.GeneratorQuota)
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

// teardown stops what was started and removes what was created. Its error names the rest.
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
func (st *fixture) start(ctx context.Context, h host, addr string, n *netns.Namespace) (*run.Child, error) {
	var c *run.Child
	var err error
	if h.In != "" {
		c, err = st.startProgram(ctx, h)
	} else {
		name, args := st.program, strings.Fields(st.values.expand(h.Serve))
		if addr != "" {
			args = append(args, "--addr", addr)
		}
		if n != nil {
			name, args = n.Within(name, args...)
		}
		c, err = run.StartChildOn(ctx, h.CPUs, name, args...)
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

// startProgram starts third-party software on a free port, in a copy of its folder, with the {names} of the plan's
// values replaced in its configurations (*.conf, *.cfg) and in the command, and these: addr, host, port, dir, helper,
// user, group and the paths of the software. It is ready when it accepts connections.
func (st *fixture) startProgram(ctx context.Context, h host) (*run.Child, error) {
	dir, err := os.MkdirTemp("", "ceiling-plant-")
	if err != nil {
		return nil, err
	}
	st.later(func() error { return os.RemoveAll(dir) })
	addr, err := run.FreeAddress()
	if err != nil {
		return nil, err
	}
	account, group, err := serviceUser()
	if err != nil {
		return nil, err
	}
	v := maps.Clone(st.values)
	v["addr"], v["dir"], v["user"], v["group"] = addr, dir, account, group
	v["host"], v["port"], _ = strings.Cut(addr, ":")
	if err = h.render(dir, v); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", h.In, err)
	}
	s := spec.Server{Name: h.In, Serve: v.expand(h.Serve), Env: h.Env, Dir: dir}
	c, _, err := run.StartServerAt(ctx, &s, addr)
	return c, err
}

// act does something to the subject during the run: it signals its whole process group, or makes the service
// behind it freeze for a while.
func (st *fixture) act(what string) error {
	sig, known := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "continue": syscall.SIGCONT}[what]
	if known {
		return os.NewSyscallError(what+" the subject", syscall.Kill(-st.subject.PID, sig))
	}
	client := http.Client{Timeout: time.Second}
	answer, err := client.Post("http://"+st.addr+"/call/"+what, "", http.NoBody)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(what + ": " + answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
