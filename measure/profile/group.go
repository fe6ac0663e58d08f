package profile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ceiling/internal/profiles"
	"ceiling/record"
)

// processesMax bounds the processes behind one address.
const processesMax = 256

// Group has the pprof endpoints of all of a server's processes. It queries all of them
// concurrently.
type Group struct {
	processes []process
	front     []*Endpoint
}

type process struct {
	name string
	at   *Endpoint
}

// FindAll finds the endpoints of some URLs, as FindWithin does; one that lists its processes (as
// ceiling serve --prefork --pprof does) is asked for each of them.
func FindAll(ctx context.Context, urls []string, permit func(netip.AddrPort) error) (*Group, error) {
	g := &Group{}
	for _, at := range urls {
		e, err := FindWithin(ctx, at, permit)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.front = append(g.front, e)
		behind := e.processes(ctx)
		for _, pid := range behind {
			g.processes = append(g.processes, process{pid, &Endpoint{url: e.url + "process/" + pid + "/", client: e.client}})
		}
		if len(behind) == 0 {
			g.processes = append(g.processes, process{hostOf(e.url), e})
		}
	}
	return g, nil
}

// hostOf names an endpoint without secrets in its URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "unknown"
	}
	return u.Host
}

// processes returns those that an endpoint lists; none for a single process.
func (e *Endpoint) processes(ctx context.Context) []string {
	b, err := e.get(ctx, "process/", answerTimeout)
	if err != nil {
		return nil
	}
	list := strings.Fields(string(b[:min(len(b), 1<<16)]))
	for _, pid := range list {
		if n, err := strconv.Atoi(pid); err != nil || n <= 0 {
			return nil
		}
	}
	return list[:min(len(list), processesMax)]
}

// Close closes the connections.
func (g *Group) Close() {
	for _, e := range g.front {
		e.Close()
	}
}

// Front returns the first endpoint.
func (g *Group) Front() *Endpoint { return g.front[0] }

// Processes returns their number.
func (g *Group) Processes() int { return len(g.processes) }

// each queries all concurrently. Failures are joined into one error, which says how many failed.
func (g *Group) each(ctx context.Context, path string, timeout time.Duration, use func(n int, name string, b []byte) error) error {
	failed := make([]error, len(g.processes))
	var asking sync.WaitGroup
	for i, p := range g.processes {
		asking.Go(func() {
			b, err := p.at.get(ctx, path, timeout)
			if err == nil {
				err = use(i, p.name, b)
			}
			failed[i] = err
		})
	}
	asking.Wait()
	n, first := 0, error(nil)
	for i, err := range failed {
		if err == nil {
			continue
		}
		if n++; first == nil {
			first = err
			if len(g.processes) > 1 {
				first = fmt.Errorf("process %s: %w", g.processes[i].name, err)
			}
		}
	}
	if n > 1 {
		return fmt.Errorf("%w; %d of %d processes failed", first, n, len(g.processes))
	}
	return first
}

// take takes a profile of all, and keeps those that succeed if others fail.
func (g *Group) take(ctx context.Context, path string, timeout time.Duration, block int) ([]profiles.Part, error) {
	got := make([]profiles.Part, len(g.processes))
	err := g.each(ctx, path, timeout, func(n int, name string, b []byte) error {
		p, err := profiles.Parse(b)
		if err == nil && len(p.SampleType) == 0 {
			err = errors.New("the profile has no values")
		}
		got[n] = profiles.Part{Process: name, Block: block, Profile: p}
		return err
	})
	var list []profiles.Part
	for _, part := range got {
		if part.Profile != nil {
			list = append(list, part)
		}
	}
	return list, err
}

// CPU takes CPU profiles of equal length, in whole seconds.
func (g *Group) CPU(ctx context.Context, seconds, block int) ([]profiles.Part, error) {
	parts, err := g.take(ctx, fmt.Sprintf("profile?seconds=%d", seconds), time.Duration(seconds)*time.Second+answerTimeout+5*time.Second, block)
	return keepTyped(parts, "cpu", err)
}

// Goroutines takes goroutine profiles.
func (g *Group) Goroutines(ctx context.Context) ([]profiles.Part, error) {
	return g.take(ctx, "goroutine", answerTimeout, -1)
}

// keepTyped drops profiles without a value of that name.
func keepTyped(parts []profiles.Part, name string, err error) ([]profiles.Part, error) {
	list := parts[:0]
	for _, part := range parts {
		if _, typed := profiles.ValueNamed(part.Profile, name); typed != nil {
			err = errors.Join(err, typed)
			continue
		}
		list = append(list, part)
	}
	return list, err
}

// Moment has the cumulative profiles of all processes at one moment.
type Moment map[string][]profiles.Part

// grows returns the profiles that grow during a program's life, by pprof's names, with the value in
// use.
func grows() map[string]string {
	return map[string]string{record.ProfileMutex: "delay", record.ProfileBlock: "delay", "heap": "alloc_space"}
}

// Moment takes them.
func (g *Group) Moment(ctx context.Context) (Moment, error) {
	m := Moment{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	var failed error
	for kind, value := range grows() {
		asking.Go(func() {
			parts, err := g.take(ctx, kind, answerTimeout, -1)
			parts, err = keepTyped(parts, value, err)
			mu.Lock()
			defer mu.Unlock()
			m[kind] = parts
			if err != nil && failed == nil {
				failed = fmt.Errorf("%s profile: %w", kind, err)
			}
		})
	}
	asking.Wait()
	return m, failed
}

// Since returns how much a kind grew between two moments, by process.
func (m Moment) Since(before Moment, kind string, block int) ([]profiles.Part, error) {
	var list []profiles.Part
	for _, b := range m[kind] {
		for _, a := range before[kind] {
			if a.Process != b.Process {
				continue
			}
			p, err := profiles.Since(a.Profile, b.Profile)
			if err != nil {
				return list, fmt.Errorf("%s profile: %w", kind, err)
			}
			list = append(list, profiles.Part{Process: b.Process, Block: block, Profile: p})
		}
	}
	return list, nil
}
