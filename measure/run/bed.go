package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/sys"
	"ceiling/measure/netns"
	"ceiling/measure/tune"
	"ceiling/record"
)

// bed is where the servers of an experiment run, and the tuning of the host for them.
type bed struct {
	in      *netns.Namespace // nil: this process's
	on      Host             // that starts the servers; nil: this one
	at      netip.Addr       // that on starts them on
	host    tune.Host
	options tune.Options
	who     string
	here    bool // the generator is on this machine
}

// bedNumber distinguishes the namespace from others of this process.
const bedNumber = 3

// makeBed creates the namespace that an experiment needs, and checks that all its tunings are
// possible, and can act on its load, before anything starts.
func makeBed(ctx context.Context, e *spec.Experiment, o *Options) (*bed, error) {
	b := &bed{options: tune.Options{Interface: e.Factorial.Interface}, who: strings.Join(o.Command, " "), here: o.here()}
	if err := b.place(ctx, e, o); err != nil {
		return nil, err
	}
	if b.here && e.Linked() {
		if os.Geteuid() != 0 {
			return nil, fmt.Errorf("%w: link: the servers start in a network namespace, which takes root; run it with sudo", exit.ErrRefused)
		}
		if _, err := netns.Sweep(); err != nil {
			return nil, fmt.Errorf("remove what a killed process left: %w", err)
		}
		in, err := netns.New(ctx, bedNumber, max(e.Link.Queues, 1))
		if err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		b.in, b.host.Namespace, b.options.Interface = in, in.Name, netns.Interface
	}
	err := b.shapes(ctx, e)
	if err == nil {
		err = b.check(ctx, e)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", exit.ErrRefused, err), b.remove())
	}
	return b, nil
}

// place finds the machine that the servers are started on, and rejects what cannot be had there.
func (b *bed) place(ctx context.Context, e *spec.Experiment, o *Options) (err error) {
	starts := slices.ContainsFunc(e.Servers, func(s spec.Server) bool { return s.URL == "" })
	if !b.here && starts {
		host, is := o.Work.(Host)
		if !is {
			return fmt.Errorf("%w: serve: the servers would be started on this machine's loopback, where no other reaches them; give their URLs", exit.ErrRefused)
		}
		if err := startable(e); err != nil {
			return fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		if b.at, err = host.Hosting(ctx); err != nil {
			return err
		}
		b.on = host
	}
	return o.mayTune(ctx, e, b.at)
}

// startable rejects servers that no other machine starts, as they are and in every cell.
func startable(e *spec.Experiment) error {
	for i := range e.Servers {
		if s := &e.Servers[i]; s.URL == "" {
			if _, err := s.Own(); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
		}
	}
	for _, c := range e.Cells() {
		if s := c.With(e.Servers[c.Server]); s.URL == "" {
			if _, err := s.Own(); err != nil {
				return fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
			}
		}
	}
	return nil
}

// throttled returns the interface, and its namespace, whose rate a proof may lower; "" for none.
func (b *bed) throttled(p *spec.Prove) (iface, namespace string) {
	if b.in != nil {
		return netns.Interface, b.in.Name
	}
	return p.Interface, p.Namespace
}

// shapes tries the links of all cells, and leaves the experiment's own in place.
func (b *bed) shapes(ctx context.Context, e *spec.Experiment) error {
	var tried []spec.Link
	for _, c := range e.Cells() {
		if slices.Contains(tried, c.Link) {
			continue
		}
		if err := b.shape(ctx, &c.Link); err != nil {
			return fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
		}
		tried = append(tried, c.Link)
	}
	return b.shape(ctx, &e.Link)
}

// shape gives the link to the servers its rate and delay.
func (b *bed) shape(ctx context.Context, l *spec.Link) error {
	if b.in == nil {
		return nil
	}
	rate, err := l.BitsPerS()
	if err != nil {
		return err
	}
	shape := netns.Shape{BitsPerS: float64(rate), BurstBytes: int64(l.Burst), Delay: time.Duration(l.Delay)}
	if l.Packets > 0 {
		shape.LimitPackets(float64(l.Packets))
	}
	if err := b.in.Shape(ctx, shape); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return nil
}

// check rejects tunings that are not possible, that cannot act on the load of any cell that has
// them, or that set what is set without them.
func (b *bed) check(ctx context.Context, e *spec.Experiment) error {
	refused := map[string]error{} // by tuning: why it cannot act on the load of a cell; nil: it can on one
	var names []string
	for _, c := range e.Cells() {
		if len(c.Tune) == 0 {
			continue
		}
		target, err := b.target(ctx, e, c.Server)
		if err != nil {
			return err
		}
		if b.options.Interface == "" {
			if b.options.Interface, err = b.host.Interface(target); err != nil {
				return err
			}
		}
		if _, err := b.plan(c.Tune); err != nil {
			return fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
		}
		for _, name := range c.Tune {
			if why, known := refused[name]; known && why == nil {
				continue
			}
			p, err := b.plan([]string{name})
			if err == nil {
				err = p.Reaches(target)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
			}
			refused[name], names = err, append(names, name)
		}
	}
	for _, name := range names {
		if refused[name] != nil {
			return refused[name]
		}
	}
	return b.checkDiffers(e)
}

// checkDiffers rejects a level that only tunes, and leaves the host as its factor's first does.
func (b *bed) checkDiffers(e *spec.Experiment) error {
	for i := range e.Factorial.Factors {
		f := &e.Factorial.Factors[i]
		first, err := b.settings(f.Levels[0].Tune)
		if err != nil {
			return err
		}
		for l := 1; l < len(f.Levels); l++ {
			if !onlyTunes(&f.Levels[0]) || !onlyTunes(&f.Levels[l]) || len(f.Levels[0].Tune)+len(f.Levels[l].Tune) == 0 {
				continue
			}
			other, err := b.settings(f.Levels[l].Tune)
			if err != nil {
				return err
			}
			if same := sameSettings(first, other); same != "" {
				return fmt.Errorf("%s: levels %s and %s leave this host the same: %s; give values that differ", f.Name, f.Label(0), f.Label(l), same)
			}
		}
	}
	return nil
}

// onlyTunes reports whether a level sets nothing but the host.
func onlyTunes(l *spec.Level) bool {
	return reflect.DeepEqual(*l, spec.Level{Name: l.Name, Tune: l.Tune})
}

// settings returns what a host has before and after a tuning, by setting.
func (b *bed) settings(names []string) (map[string]tune.Change, error) {
	p, err := b.plan(names)
	all := map[string]tune.Change{}
	if err != nil || p == nil {
		return all, err
	}
	for _, c := range slices.Concat(p.Changes, p.Already) {
		all[c.String()] = c
	}
	return all, nil
}

// sameSettings returns one of the settings if two tunings leave the same values; "" if not.
func sameSettings(a, b map[string]tune.Change) (example string) {
	for _, pair := range [][2]map[string]tune.Change{{a, b}, {b, a}} {
		for name, c := range pair[0] {
			value := c.Before // as found
			if other, both := pair[1][name]; both {
				value = other.After
			}
			if !c.Leaves(value) {
				return ""
			}
			example = name + " is " + value
		}
	}
	return example
}

// target returns where the load of a server will go.
func (b *bed) target(ctx context.Context, e *spec.Experiment, server int) (*tune.Target, error) {
	t := &tune.Target{URL: e.Servers[server].URL, Here: b.in == nil && b.here}
	switch {
	case t.URL == "" && b.in != nil:
		t.URL = "http://" + b.in.Addr.String()
	case t.URL == "" && b.on != nil:
		t.URL = "http://" + netip.AddrPortFrom(b.at, 1).String() // it will have another port
	case t.URL == "":
		t.URL = "http://127.0.0.1"
	}
	address, _, _, err := spec.ParseTarget(t.URL)
	if err != nil || address.Network == spec.Unix {
		return t, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address.Host)
	if err != nil {
		return nil, err
	}
	port := address.Port
	if e.Servers[server].URL == "" {
		port = 0
	}
	t.Server = netip.AddrPortFrom(ips[0].Unmap(), port)
	return t, nil
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
				return nil, fmt.Errorf("tune: %s and %s both set %s; give separate settings, as in %s=VALUE", other, name, s.Set, s.Set)
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

// tune applies a cell's tuning. kept returns its settings as they are at the end of the run; undo
// reverts them.
func (b *bed) tune(ctx context.Context, names []string) (kept func() ([]record.Tuned, error), undo func() error, err error) {
	kept, undo = func() ([]record.Tuned, error) { return nil, nil }, func() error { return nil }
	p, err := b.plan(names)
	if err != nil || p == nil {
		return kept, undo, err
	}
	if len(p.Changes) > 0 {
		if undo, err = p.Apply(ctx, tune.Owner{Who: b.who}); err != nil {
			return nil, nil, err
		}
	}
	return func() (tuned []record.Tuned, err error) {
		found, err := p.Kept()
		for _, k := range found {
			s := record.Tuned{What: k.String(), Before: k.Before, During: k.After}
			if k.Instead != "" {
				s.Effect, s.Evidence = record.TuningSetBack, "it is "+k.Instead+" now: another program has changed it"
			}
			tuned = append(tuned, s)
		}
		return tuned, err
	}, undo, nil
}

// mayTune refuses to tune this machine for a server on another one. at is the address that servers
// are started on, if another machine starts them.
func (o *Options) mayTune(ctx context.Context, e *spec.Experiment, at netip.Addr) error {
	if !slices.ContainsFunc(e.Cells(), func(c spec.Cell) bool { return len(c.Tune) > 0 }) {
		return nil
	}
	for i := range e.Servers {
		url := e.Servers[i].URL
		switch {
		case url == "" && !at.IsValid():
			continue
		case url == "":
			url = "http://" + netip.AddrPortFrom(at, 1).String()
		}
		address, _, _, err := spec.ParseTarget(url)
		if err != nil {
			return fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		here, loopback := hostIsHere(ctx, address)
		switch {
		case loopback && !o.here():
			return fmt.Errorf("%w: tune: %s is each agent's own host, and not this machine, which is tuned; give this machine's address on the network",
				exit.ErrRefused, url)
		case !here:
			return fmt.Errorf("%w: tune: it changes this machine, and %s is not an address of it; run the experiment on the server's machine and load it by agents (--agents)",
				exit.ErrRefused, url)
		}
	}
	return nil
}

// hostIsHere reports whether an address is this machine's, and one that every machine has.
func hostIsHere(ctx context.Context, a spec.Address) (here, loopback bool) {
	if a.Network == spec.Unix {
		return true, true
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host)
	if err != nil || len(ips) == 0 {
		return false, false
	}
	ip := ips[0].Unmap()
	return sys.IsLocal(ip), ip.IsLoopback() || ip.IsUnspecified()
}
