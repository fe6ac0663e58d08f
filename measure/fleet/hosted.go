package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"ceiling/experiment/spec"
	"ceiling/measure/run"
)

// serversMost is how many servers an agent runs at a time; the largest experiment shipped has six.
const serversMost = 16

// starter is run.StartOwn, or a test's.
type starter func(ctx context.Context, o *spec.Own, at netip.Addr, cpus []int) (run.Instance, string, error)

// instance is a server of a driver.
type instance struct {
	run.Instance // nil: it starts
	what         string
	heard        int64 // when its driver last named it, on the agent's clock
}

// hosted are the servers that an agent runs for a driver. It is safe for concurrent use.
type hosted struct {
	o *AgentOptions

	mu      sync.Mutex
	servers map[string]*instance
	over    bool // it starts no more
}

// serve starts a server, and returns its address.
func (h *hosted) serve(o *command) (string, error) {
	if err := h.admit(o); err != nil {
		return "", err
	}
	c, address, err := h.o.serve(context.Background(), o.Own, h.o.Serves, o.CPUs)
	h.mu.Lock()
	i := h.servers[o.Server]
	wanted := i != nil && !h.over && err == nil
	if wanted {
		i.Instance, i.heard = c, h.o.now()
	} else {
		delete(h.servers, o.Server)
	}
	h.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case !wanted:
		c.Stop()
		return "", errors.New("it was dismissed while it started")
	}
	h.o.Log(fmt.Sprintf("serves %s on %s", i.what, address))
	return address, nil
}

// admit checks an order, and reserves a place for its server.
func (h *hosted) admit(o *command) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.o.Serves.IsValid():
		return errServesNone
	case h.over:
		return errors.New("the agent ends")
	case o.Server == "" || o.Own == nil || h.servers[o.Server] != nil:
		return fmt.Errorf("malformed: server %q", o.Server)
	case len(h.servers) == serversMost:
		return fmt.Errorf("it runs %d servers already", serversMost)
	}
	if err := o.Own.Check(); err != nil {
		return err
	}
	h.servers[o.Server] = &instance{what: strings.Join(append(slices.Clone(o.Own.Env), o.Own.Args...), " "), heard: h.o.now()}
	return nil
}

// obey keeps a server, or ends it.
func (h *hosted) obey(o *command) error {
	h.mu.Lock()
	i := h.servers[o.Server]
	if i == nil {
		h.mu.Unlock()
		return errors.New("it has ended: its driver was not heard of, or dismissed it")
	}
	i.heard = h.o.now()
	c := i.Instance
	if o.Verb == verbDismiss {
		delete(h.servers, o.Server)
	}
	h.mu.Unlock()
	switch {
	case c == nil: // it starts, and ends then if it is dismissed
		return nil
	case o.Verb == verbDismiss:
		c.Stop()
		h.o.Log("ended " + i.what + ": its driver is done with it")
		return nil
	}
	return c.Died()
}

// expire ends the servers whose driver has gone.
func (h *hosted) expire(now int64) {
	h.end("no word of its driver for "+h.o.Grace.String(), func(i *instance) bool { return now-i.heard > int64(h.o.Grace) })
}

// stop ends all, and starts no more.
func (h *hosted) stop(why string) {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.end(why, func(*instance) bool { return true })
}

// end ends some of the servers that have started.
func (h *hosted) end(why string, of func(*instance) bool) {
	h.mu.Lock()
	var ending []*instance
	for id, i := range h.servers {
		if i.Instance != nil && of(i) {
			ending = append(ending, i)
			delete(h.servers, id)
		}
	}
	h.mu.Unlock()
	for _, i := range ending {
		i.Stop()
		h.o.Log(fmt.Sprintf("ended %s: %s", i.what, why))
	}
}
