package run

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/load"
	"ceiling/measure/observe"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// shortages finds out what this host ran out of, or refused, when an error says that it did. It
// looks while the load runs: a limit that was full then may not be afterwards.
type shortages struct {
	to      target
	sources []netip.Addr // that connections are bound to; nil: the kernel's choice
	host    string       // of the agent, "" without agents
	list    []record.Shortage
	again   time.Time // when the sockets in TIME_WAIT may be counted again
}

// countEvery is how often they are counted: it takes some milliseconds for tens of thousands.
const countEvery = time.Second

// look examines the faults of one interval.
func (h *shortages) look(faults map[load.Fault]uint64) {
	for f := range faults {
		h.see(f.Phase, f.Cause)
	}
}

func (h *shortages) see(phase, cause string) {
	for i := range h.list {
		s := &h.list[i]
		if s.Phase != phase || s.Cause != cause {
			continue
		}
		if s.Of == record.ShortPorts && time.Now().After(h.again) {
			s.TimeWait = max(s.TimeWait, h.timeWait())
		}
		return
	}
	if s := h.examine(phase, cause); s != nil {
		h.list = append(h.list, *s)
	}
}

// examine returns what this host is short of, by an error's name; nil if the error came from
// elsewhere.
func (h *shortages) examine(phase, cause string) *record.Shortage {
	s := &record.Shortage{Host: h.host, Phase: phase, Cause: cause, To: h.to.name()}
	switch record.OriginOf(h.to.unix != "", phase, cause) {
	case record.OfPeer:
		return nil
	case record.OfPath:
		if !h.noRoute(s) && !(cause == load.CauseTimeout && h.conntrackFull(s)) {
			return nil
		}
		return s
	}
	switch cause {
	case "EADDRNOTAVAIL", "EADDRINUSE", "EAGAIN":
		if !h.noRoute(s) && !h.lostSource(s) {
			h.ports(s)
		}
	case "EMFILE":
		s.Of, s.Setting = record.ShortFiles, "RLIMIT_NOFILE"
		if soft, _, err := sys.RaiseOpenFiles(0); err == nil {
			s.Limit = clamped(soft)
		}
	case "ENFILE":
		s.Of, s.Setting = record.ShortHostFiles, "fs.file-max"
		if f := sysctl("fs/file-nr"); len(f) == 3 { // open, unused, most
			s.Used, s.Limit = f[0], f[2]
		}
	case "ENOMEM":
		s.Of = record.ShortMemory
		memoryOf(s)
	case "ENOBUFS":
		s.Of = record.ShortBuffers
	case "ENETDOWN":
		s.Of = record.ShortInterface
	case "EAFNOSUPPORT":
		s.Of = record.ShortFamily
	case "EPERM", "EACCES", "EINVAL":
		switch {
		case h.to.unix != "":
			s.Of = record.ShortSocketFile
		case h.noRoute(s), h.conntrackFull(s):
		default:
			s.Of = record.ShortPermission
		}
	default:
		s.Of = record.ShortOther
	}
	return s
}

// noRoute reports whether the error is the answer of this host's own routing. Connecting a datagram
// socket chooses a route and sends nothing: an error that a router sent does not come back. A policy
// that forbids to connect forbids it to any address.
func (h *shortages) noRoute(s *record.Shortage) bool {
	if !h.to.addr.IsValid() || routed(h.to.addr) != s.Cause || routed(netip.MustParseAddrPort("127.0.0.1:9")) == s.Cause {
		return false
	}
	s.Of = record.ShortRoute
	return true
}

// routed returns the name of the error that the choice of a route meets; "" for none.
func routed(to netip.AddrPort) string {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return sys.ErrnoName(err)
	}
	_ = c.Close() // it has sent nothing
	return ""
}

// lostSource looks for a source address that is no longer this host's.
func (h *shortages) lostSource(s *record.Shortage) bool {
	for _, ip := range h.sources {
		if errors.Is(ownAddress(ip), syscall.EADDRNOTAVAIL) {
			s.Of, s.To = record.ShortSource, ip.String()
			return true
		}
	}
	return false
}

// ports fills in the local ports that connections to the target can have.
func (h *shortages) ports(s *record.Shortage) {
	s.Of, s.Setting, s.Sources = record.ShortPorts, "net.ipv4.ip_local_port_range", max(len(h.sources), 1)
	if low, high, err := localPorts(); err == nil {
		s.Low, s.High, s.Limit = low, high, int64(high-low+1)*int64(s.Sources)
	}
	if reuse := sysctl("net/ipv4/tcp_tw_reuse"); len(reuse) == 1 { // 2: on loopback alone
		s.Reuse = reuse[0] == 1 || reuse[0] == 2 && h.to.addr.Addr().IsLoopback()
	}
	s.TimeWait = h.timeWait()
}

// timeWait counts the ports in TIME_WAIT; 0 if the kernel does not list them.
func (h *shortages) timeWait() int64 {
	h.again = time.Now().Add(countEvery)
	if !h.to.addr.IsValid() {
		return 0
	}
	n, err := observe.TimeWait(h.to.addr)
	if err != nil {
		return 0
	}
	return n
}

// conntrackFull reports whether connection tracking drops what is new: the kernel does not tell the
// socket (nf_conntrack_core.c, __nf_conntrack_alloc), or says EPERM to a datagram's.
func (h *shortages) conntrackFull(s *record.Shortage) bool {
	used, most := sysctl("net/netfilter/nf_conntrack_count"), sysctl("net/netfilter/nf_conntrack_max")
	if len(used) != 1 || len(most) != 1 || used[0] < most[0] {
		return false
	}
	s.Of, s.Used, s.Limit, s.Setting = record.ShortConntrack, used[0], most[0], "net.netfilter.nf_conntrack_max"
	return true
}

// memoryOf fills in what is used of the memory of the cgroup, or of the host, if it is nearly full.
func memoryOf(s *record.Shortage) {
	for used, limit := range map[string]string{"memory.current": "memory.max", "memory.usage_in_bytes": "memory.limit_in_bytes"} {
		dir := sys.OwnCgroup("memory")
		a, b := numbers(dir+"/"+used), numbers(dir+"/"+limit)
		if len(a) == 1 && len(b) == 1 && float64(a[0]) > nearlyAll*float64(b[0]) {
			s.Used, s.Limit, s.Setting = a[0], b[0], dir+"/"+limit
			return
		}
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return
	}
	total, err1 := sys.FieldCount(text, "MemTotal")
	free, err2 := sys.FieldCount(text, "MemAvailable")
	if err1 == nil && err2 == nil && float64(free) < (1-nearlyAll)*float64(total) {
		s.Used, s.Limit, s.Setting = clamped(total-free)<<10, clamped(total)<<10, "/proc/meminfo"
	}
}

// nearlyAll is the share of memory in use that explains why there was none.
const nearlyAll = 0.9

// sysctl returns the numbers of a kernel setting; nil if it has none, or is not there.
func sysctl(name string) []int64 { return numbers("/proc/sys/" + name) }

// numbers returns those in a file; nil if it has anything else, or is not there.
func numbers(file string) []int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []int64
	for _, field := range strings.Fields(string(text)) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil
		}
		list = append(list, clamped(n))
	}
	return list
}

// clamped fits a limit into the record: without one the kernel says 2^63 or 2^64 - 1.
func clamped(n uint64) int64 { return int64(min(n, math.MaxInt64>>10)) }

// name is the address in messages; "" if unknown.
func (t target) name() string {
	if t.unix == "" && t.addr.IsValid() {
		return t.addr.String()
	}
	return t.unix
}

// local words an error that this host caused: what it ran out of, and the remedy. It returns any
// other error as it is. Only an error of a connection says why it could not be opened; any other
// may be short of files and memory.
func local(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	to, connects := targetOf(err)
	h := shortages{to: to}
	s := h.examine(load.PhaseConnect, sys.ErrnoName(errno))
	if s == nil || !connects && !slices.Contains([]string{record.ShortFiles, record.ShortHostFiles, record.ShortMemory}, s.Of) {
		return err
	}
	return &hostError{fmt.Sprintf("%s; %s", prose.Text(s.Says()), prose.Text(s.Next())), err}
}

// hostError is an error that this host caused.
type hostError struct {
	text string
	err  error
}

func (e *hostError) Error() string { return e.text }
func (e *hostError) Unwrap() error { return e.err }

// targetOf returns the address that a connection could not be opened to, if it is such an error.
func targetOf(err error) (to target, connects bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return to, false
	}
	switch at := op.Addr.(type) {
	case *net.TCPAddr:
		to.addr = netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), at.AddrPort().Port())
	case *net.UnixAddr:
		to.unix = at.Name
	}
	return to, true
}
