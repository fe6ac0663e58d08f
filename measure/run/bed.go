package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/measure/netns"
	"ceiling/measure/tune"
	"ceiling/record"
)

// bed is where the servers of an experiment run, and the tuning of the host for them.
type bed struct {
	in      *netns.Namespace // nil: this process's
	host    tune.Host
	options tune.Options
	who     string
}

// bedNumber distinguishes the namespace from others of this process.
const bedNumber = 3

// makeBed creates the namespace that an experiment needs, and checks that all its tunings are
// possible before anything starts.
func makeBed(ctx context.Context, e *spec.Experiment, command []string) (*bed, error) {
	f := &e.Factorial
	b := &bed{options: tune.Options{Interface: f.Interface}, who: strings.Join(command, " ")}
	if f.Veth > 0 {
		if os.Geteuid() != 0 {
			return nil, fmt.Errorf("%w: factorial.veth: a network namespace takes root; run it with sudo", ErrRefused)
		}
		if _, err := netns.Sweep(); err != nil {
			return nil, fmt.Errorf("remove what a killed process left: %w", err)
		}
		in, err := netns.New(ctx, bedNumber, f.Veth)
		if err != nil {
			return nil, fmt.Errorf("factorial.veth: %w", err)
		}
		b.in, b.host.Namespace, b.options.Interface = in, in.Name, netns.Interface
	}
	for _, c := range e.Cells() {
		if _, err := b.plan(c.Tune); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrRefused, e.CellLabel(c.Levels), err), b.remove())
		}
	}
	return b, nil
}

// remove removes the namespace. The servers in it have ended.
func (b *bed) remove() error {
	if b.in == nil {
		return nil
	}
	return b.in.Remove()
}

// plan resolves profiles and settings on this host; nil if there are none.
func (b *bed) plan(names []string) (*tune.Plan, error) {
	if len(names) == 0 {
		return nil, nil
	}
	p := tune.Profile{Name: strings.Join(names, " and ")}
	from := map[string]string{}
	for _, name := range names {
		settings, err := settingsOf(name)
		if err != nil {
			return nil, err
		}
		for _, s := range settings {
			if other, twice := from[s.Set]; twice {
				return nil, fmt.Errorf("tune: %s and %s both set %s; give settings of their own, as in %s=VALUE", other, name, s.Set, s.Set)
			}
			from[s.Set] = name
		}
		p.Settings = append(p.Settings, settings...)
	}
	return b.host.Plan(p, b.options)
}

// settingsOf parses a profile's name, a file, or KNOB=value.
func settingsOf(name string) ([]tune.Setting, error) {
	if knob, value, is := strings.Cut(name, "="); is {
		s := tune.Setting{Set: knob, To: value, Why: "a level of the experiment"}
		return []tune.Setting{s}, s.Check()
	}
	p, err := tune.Load(name)
	return p.Settings, err
}

// tune applies a cell's tuning; undo reverts it.
func (b *bed) tune(ctx context.Context, names []string) (tuned []record.Tuned, undo func() error, err error) {
	undo = func() error { return nil }
	p, err := b.plan(names)
	if err != nil || p == nil {
		return nil, undo, err
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		tuned = append(tuned, record.Tuned{What: c.String(), Before: c.Before, During: c.After})
	}
	if len(p.Changes) == 0 {
		return nil, undo, nil
	}
	undo, err = p.Apply(ctx, tune.Owner{Who: b.who})
	return tuned, undo, err
}

// mayTune refuses to tune this machine for a server on another one.
func mayTune(e *spec.Experiment) error {
	if !slices.ContainsFunc(e.Cells(), func(c spec.Cell) bool { return len(c.Tune) > 0 }) {
		return nil
	}
	for i := range e.Servers {
		if e.Servers[i].URL == "" {
			continue
		}
		if address, _, _, err := spec.ParseTarget(e.Servers[i].URL); err != nil || !hostIsHere(address.Host) {
			return fmt.Errorf("%w: tune: it changes this machine, and %s is not an address of it; run the experiment on the server's machine and load it by agents (--agents)",
				ErrRefused, e.Servers[i].URL)
		}
	}
	return nil
}

// hostIsHere reports whether host is an address of this machine.
func hostIsHere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && isLocal(ip)
}
