//go:build linux

package observe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Generator and server on one host can be in separate network namespaces: a container, or a link
// made for a test. Then each end of a connection, each end of the link and each namespace's
// counters are visible in only one of the two.

// side is a network namespace that holds ends of the run's connections.
type side struct {
	name   string // record.SideGenerator or SideServer; "": has both, or all that is on this host
	only   end    // which ends to look for in it
	pid    int    // a process in it, 0 for this process's own
	netDir string // its /proc/net
	iface  string // the interface to the other end, "": unknown
}

// in runs f in the namespace.
func (s *side) in(f func() error) error {
	if s.pid == 0 {
		return f()
	}
	return sys.InNetworkNamespaceOf(s.pid, f)
}

// source names a source of this side. The server's has the plain name, because a run cannot do
// without it.
func (s *side) source(name string) string {
	if s.name == record.SideGenerator {
		return name + " of the generator's network namespace"
	}
	return name
}

// findSides decides which namespaces to observe.
func (o *Observer) findSides() {
	own := o.cfg.proc + "/net"
	o.server = side{netDir: own}
	if o.cfg.NetNSPID == 0 || sameNamespace(o.cfg.proc, o.cfg.NetNSPID) {
		return
	}
	o.server.pid, o.server.netDir = o.cfg.NetNSPID, fmt.Sprintf("%s/%d/net", o.cfg.proc, o.cfg.NetNSPID)
	if o.cfg.GeneratorPID == 0 {
		return
	}
	o.server.name, o.server.only = record.SideServer, endServer
	o.generator = &side{name: record.SideGenerator, only: endClient, netDir: own}
}

// sameNamespace reports whether a process is in this process's network namespace. One that cannot
// be checked counts as elsewhere: then joining it reports the reason.
func sameNamespace(proc string, pid int) bool {
	own, err := os.Readlink(proc + "/self/ns/net")
	if err != nil {
		return false
	}
	its, err := os.Readlink(fmt.Sprintf("%s/%d/ns/net", proc, pid))
	return err == nil && its == own
}

// sides lists them, the server's first.
func (o *Observer) sides() []*side {
	if o.generator == nil {
		return []*side{&o.server}
	}
	return []*side{&o.server, o.generator}
}

// addNetwork adds the packet counters.
func (o *Observer) addNetwork() {
	t := o.t
	online := func() []sys.CPUTicks { return nil }
	if o.stat != nil {
		online = func() []sys.CPUTicks { return o.stat.cur.CPUs }
	}
	softnet, err := newSoftnetSampler(&t.r, o.server.netDir, online)
	o.add(&o.timetable.counters, "softnet", true, softnet, err)
	o.findInterfaces()
	for _, s := range o.sides() {
		netstat, err := newNetstatSampler(&t.r, s)
		o.add(&o.timetable.counters, s.source("tcp"), true, netstat, err)
		o.addNetDev(s)
		o.addNIC(s)
	}
	o.addIRQ()
}

// addNetDev adds the interfaces of a side, with their queueing disciplines.
func (o *Observer) addNetDev(s *side) {
	t := o.t
	speed := func(name string) int64 { return linkSpeed(&t.r, t.sysfs, name) }
	if s.pid != 0 {
		// /sys shows the interfaces of the namespace it was mounted in.
		speed = func(string) int64 { return -1 }
	}
	var l *links
	err := s.in(func() (err error) {
		l, err = newLinks(t.names)
		return err
	})
	if err != nil {
		l = nil
		o.miss(record.NotMeasured{What: s.source("netdev qdisc"), Why: err.Error(), Part: true})
	}
	n, err := newNetDevSampler(&t.r, t.names, s, speed, l)
	if err == nil {
		n.lost = func(err error) {
			o.miss(record.NotMeasured{What: s.source("netdev qdisc"), Why: err.Error(), TNs: o.nowNs, Part: true})
		}
	}
	o.add(&o.timetable.counters, s.source("netdev"), true, n, err)
	if s.iface == "" || s.iface == "lo" || speed(s.iface) >= 0 {
		return
	}
	if l != nil && l.of(s.iface, 0).software() {
		return // has none
	}
	o.miss(record.NotMeasured{
		What: s.source("netdev speed"), Why: fmt.Sprintf("interface %s reports no link speed", s.iface), Part: true,
	})
}

// addNIC adds the driver's counters for a side's interface; a driver without counters is not
// reported missing.
func (o *Observer) addNIC(s *side) {
	if s.iface == "" || s.iface == "lo" {
		return
	}
	nic, err := newNICSampler(s)
	if errors.Is(err, errNoNICCounters) {
		return
	}
	o.add(&o.timetable.slow, s.source("nic"), true, nic, err)
}

// addIRQ adds the interrupts of the interface to the other end.
func (o *Observer) addIRQ() {
	s := &o.server
	if o.generator != nil {
		s = o.generator // this process's own, whose interfaces sysfs shows
	}
	switch {
	case s.iface == "":
	case s.pid != 0:
		err := errors.New("the interface is in another network namespace: which interrupts are its own cannot be seen")
		o.miss(record.NotMeasured{What: "irq", Why: err.Error()})
	default:
		irq, err := newIRQSampler(&o.t.r, o.t.names, o.t.proc, o.t.sysfs, s.iface)
		o.add(&o.timetable.slow, "irq", true, irq, err)
	}
}

// findInterfaces finds each side's interface to the other end.
func (o *Observer) findInterfaces() {
	if !o.cfg.TargetAddr.IsValid() {
		return
	}
	target, peer, here := o.cfg.TargetAddr.Addr(), o.cfg.PeerAddr, o.cfg.GeneratorPID != 0
	if o.generator != nil {
		var err error
		if o.generator.iface, peer, err = routeTo(target); err != nil {
			o.miss(record.NotMeasured{What: o.generator.source("netdev target"), Why: err.Error(), Part: true})
		}
		here = false
	}
	err := o.server.in(func() (err error) {
		o.server.iface, err = InterfaceTo(target, peer, here)
		return err
	})
	if err != nil {
		o.miss(record.NotMeasured{What: "netdev target", Why: err.Error(), Part: true})
	}
}

// routeTo returns the interface by which packets leave for an address, in the calling thread's
// namespace, and their source address.
func routeTo(target netip.Addr) (iface string, from netip.Addr, err error) {
	r, err := lookUpRoute(target)
	if err != nil {
		return "", netip.Addr{}, err
	}
	iface, err = r.iface()
	return iface, r.from, err
}

// addTCP adds what inet_diag provides. A side that cannot be entered only loses its own ends.
func (o *Observer) addTCP() {
	if e := o.openEnds(); len(e.lists) > 0 {
		o.addLooks(e)
	}
	target := o.cfg.TargetAddr
	var l *inetListeners
	var c *connections
	err := o.server.in(func() (err error) {
		if l, err = newInetListeners(target); err != nil {
			return err
		}
		if c, err = newConnections(target); err != nil {
			l.close()
		}
		return err
	})
	if err == nil {
		o.addListeners(l.list, c, l.close)
		return
	}
	for _, what := range []string{"connections per process", "listener queues"} {
		o.miss(record.NotMeasured{What: what, Why: err.Error()})
	}
	list := func([]listener) ([]listener, error) { return procListeners(&o.t.r, o.server.netDir, target) }
	o.addListeners(list, nil, func() {})
}

// addLooks adds the samplers of single connections.
func (o *Observer) addLooks(e ends) {
	sides := slices.DeleteFunc(o.sides(), func(s *side) bool {
		return !slices.ContainsFunc(e.lists, func(c *connections) bool { return c.only == s.only })
	})
	looker, err := newLooker(sides, 1, o.cfg.CPUs, o.cfg.Effort)
	if err != nil {
		e.close()
		o.miss(record.NotMeasured{What: "sockets", Why: err.Error()})
		return
	}
	sockets := newSocketSampler(e, looker)
	if doors, err := newLooker(sides, 2, nil, 1); err == nil {
		sockets.info = &tcpInfoSampler{doors: doors}
	} else {
		o.miss(record.NotMeasured{What: "tcp_info", Why: err.Error()})
	}
	o.add(&o.timetable.queues, "sockets", true, sockets, nil)
	if sockets.info != nil {
		o.add(&o.timetable.tcpInfo, "tcp_info", true, sockets.info, nil)
	}
	if len(o.timetable.queues.sources) > 0 {
		o.looker = looker
	}
}

// openEnds opens the socket lists that are available, and notes the others.
func (o *Observer) openEnds() ends {
	var e ends
	var gaps []record.NotMeasured
	for _, s := range o.sides() {
		err := s.in(func() error { return e.open(o.cfg.TargetAddr, s.only) })
		if err == nil {
			continue
		}
		why := err.Error()
		if s.name != "" {
			why = fmt.Sprintf("the %s's ends: %s", s.name, why)
		}
		for _, what := range []string{"sockets", "tcp_info"} {
			gaps = append(gaps, record.NotMeasured{What: what, Why: why})
		}
	}
	for _, gap := range gaps {
		gap.Part = len(e.lists) > 0
		o.miss(gap)
	}
	return e
}
