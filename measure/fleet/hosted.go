package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/measure/run"
)

// serversMost is how many servers an agent runs at a time; the largest experiment shipped has six.
const serversMost = 16

// starter starts one of ceiling's own servers on an address and some CPUs, and returns its own
// address.
type starter func(ctx context.Context, o *spec.Own, at netip.Addr, cpus []int) (run.Instance, string, error)

func startOwn(ctx context.Context, o *spec.Own, at netip.Addr, cpus []int) (run.Instance, string, error) {
	c, err := run.StartOwn(ctx, o, at, cpus)
	if err != nil {
		return nil, "", err
	}
	return c, c.Addr, nil
}

// instance is a server of a driver.
type instance struct {
	run.Instance // nil: it starts
	what         string
	heard        int64 // when its driver last named it, on the agent's clock
}

// hosted are the servers that an agent runs for a driver. It is safe for concurrent use.
type hosted struct {
	start starter
	at    netip.Addr    // invalid: it starts none
	grace time.Duration // without hearing from the driver
	log   func(string)

	mu      sync.Mutex
	servers map[string]*instance
	over    bool // it starts no more
}

// address returns where servers are started, for About.
func (h *hosted) address() string {
	if !h.at.IsValid() {
		return ""
	}
	return h.at.String()
}

// serve starts a server, and returns its address.
func (h *hosted) serve(body []byte, now func() int64) (string, error) {
	var o serveOrder
	if err := readMessage(body, &o); err != nil {
		return "", err
	}
	if err := h.admit(&o, now()); err != nil {
		return "", err
	}
	c, address, err := h.start(context.Background(), &o.Own, h.at, o.CPUs)
	h.mu.Lock()
	i := h.servers[o.ID]
	wanted := i != nil && !h.over && err == nil
	if wanted {
		i.Instance, i.heard = c, now()
	} else {
		delete(h.servers, o.ID)
	}
	h.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case !wanted:
		c.Stop()
		return "", errors.New("it was dismissed while it started")
	}
	h.log(fmt.Sprintf("serves %s on %s", i.what, address))
	return address, nil
}

// admit checks an order, and reserves a place for its server.
func (h *hosted) admit(o *serveOrder, now int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := checkDriver(o.Protocol); err != nil {
		return err
	}
	switch {
	case !h.at.IsValid():
		return errServesNone
	case h.over:
		return errors.New("the agent ends")
	case o.ID == "" || h.servers[o.ID] != nil:
		return fmt.Errorf("malformed: server %q", o.ID)
	case len(h.servers) == serversMost:
		return fmt.Errorf("it runs %d servers already", serversMost)
	}
	if err := o.Check(); err != nil {
		return err
	}
	h.servers[o.ID] = &instance{what: strings.Join(append(slices.Clone(o.Env), o.Args...), " "), heard: now}
	return nil
}

// obey keeps a server, or ends it.
func (h *hosted) obey(verb string, body []byte, now int64) error {
	var s server
	if err := readMessage(body, &s); err != nil {
		return err
	}
	h.mu.Lock()
	i := h.servers[s.ID]
	if i == nil {
		h.mu.Unlock()
		return errors.New("it has ended: its driver was not heard of, or dismissed it")
	}
	i.heard = now
	c := i.Instance
	if verb == verbDismiss {
		delete(h.servers, s.ID)
	}
	h.mu.Unlock()
	switch {
	case c == nil: // it starts, and ends then if it is dismissed
		return nil
	case verb == verbDismiss:
		c.Stop()
		h.log("ended " + i.what + ": its driver is done with it")
		return nil
	}
	return c.Died()
}

// expire ends the servers whose driver has gone.
func (h *hosted) expire(now int64) {
	h.end("no word of its driver for "+h.grace.String(), func(i *instance) bool { return now-i.heard > int64(h.grace) })
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
		h.log(fmt.Sprintf("ended %s: %s", i.what, why))
	}
}
