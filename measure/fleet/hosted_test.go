//go:build linux

package fleet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/run"
)

// pretended is a server that tests start.
type pretended struct {
	running *atomic.Int32
	died    atomic.Pointer[error]
}

func (p *pretended) Died() error {
	if e := p.died.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *pretended) Stop() { p.running.Add(-1) }

// host joins an agent that starts pretended servers.
func (b *bed) hosting(name string) (last *atomic.Pointer[pretended], running *atomic.Int32) {
	last, running = &atomic.Pointer[pretended]{}, &atomic.Int32{}
	b.agent(name, func(o *AgentOptions) {
		o.About.Loads, o.Serves, o.Grace = false, netip.MustParseAddr("127.0.0.1"), 3*time.Second
		o.serve = func(_ context.Context, own *spec.Own, at netip.Addr, cpus []int) (run.Instance, string, error) {
			if own.Args[1] == "broken" {
				return nil, "", errors.New("it ended: it said: no")
			}
			p := &pretended{running: running}
			last.Store(p)
			running.Add(1)
			return p, strings.Join(own.Args, "+") + "@" + at.String(), nil
		}
	})
	return last, running
}

// TestServersOfAnAgent: it starts them where it is allowed to, says when one ends, and ends them
// when their driver is done or gone.
func TestServersOfAnAgent(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	last, running := b.hosting("web1")
	w, _ := b.work(WorkOptions{Agents: 1, Observe: []string{"web1"}})
	if at, err := w.Hosting(t.Context()); err != nil || at.String() != "127.0.0.1" {
		t.Fatal(at, err)
	}
	first, addr, err := w.Start(t.Context(), &spec.Own{Args: []string{"serve", "fiber", "--prefork"}}, nil)
	if err != nil || addr != "serve+fiber+--prefork@127.0.0.1" {
		t.Fatal(addr, err)
	}
	second, _, err := w.Start(t.Context(), &spec.Own{Args: []string{"serve", "nethttp"}}, []int{0})
	if err != nil || running.Load() != 2 {
		t.Fatal(running.Load(), err)
	}
	time.Sleep(4 * time.Second) // longer than the grace: its driver is there
	if err := errors.Join(first.Died(), second.Died()); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("it ended: exit status 3")
	last.Load().died.Store(&gone)
	if err := second.Died(); err == nil || !strings.Contains(err.Error(), "web1: it ended: exit status 3") {
		t.Errorf("%v", err)
	}
	second.Stop()
	if running.Load() != 1 {
		t.Errorf("%d run", running.Load())
	}
	if _, _, err := w.Start(t.Context(), &spec.Own{Args: []string{"serve", "broken"}}, nil); err == nil || !strings.HasSuffix(err.Error(), "it said: no") {
		t.Errorf("%v", err)
	}
	if _, _, err := w.Start(t.Context(), &spec.Own{Args: []string{"serve", "fiber", "--ca", "/etc/passwd"}}, nil); err == nil {
		t.Error("it takes a file's name")
	}
	w.quit() // as if the driver were killed
	natstest.Await(t, "the server has ended", func() bool { return running.Load() == 0 })
	if err := first.Died(); err == nil {
		t.Error("it still runs")
	}
}

// TestAgentsThatServeNothing: who is asked, and who is not, before anything starts.
func TestAgentsThatServeNothing(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agent("a1", nil)
	for _, c := range []struct {
		observe []string
		want    string
	}{
		{nil, "--observe NAME"},
		{[]string{"a1", "a2"}, "--observe NAME"},
		{[]string{"a2"}, "no agent of that name is here, but a1"},
		{[]string{"a1"}, "agent a1: it starts no servers; start that agent with --serve"},
	} {
		w, _ := b.work(WorkOptions{Agents: 1, Observe: c.observe})
		if _, err := w.Hosting(t.Context()); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.observe, err)
		}
		w.Close()
	}
	h := hosted{o: &AgentOptions{}, servers: map[string]*instance{}}
	order := command{Server: "1", Own: &spec.Own{Args: []string{"serve", "fiber"}}}
	if _, err := h.serve(&order); !errors.Is(err, errServesNone) {
		t.Errorf("%v", err)
	}
}
