package record

import (
	"slices"
	"strings"
)

// Origin is where an Error arose: whose fault it is.
type Origin string

// The origins. A timeout or an unreachable host is of the path: neither end is known to be at
// fault. What is not one of these errnos is of the peer, which sent or did not send it.
const (
	OfLocal Origin = "local" // the generator's host ran out of something, or refuses
	OfPath  Origin = "path"  // nothing answered, or the network between reports it
	OfPeer  Origin = "peer"  // the server
)

// OriginOf derives the origin from the name of a cause alone. Only a few errnos can come from
// another host: those of a TCP segment or an ICMP message (net/ipv4/icmp.c, icmp_err_convert), and
// those of a unix socket's other end; the kernel of the generator makes all others itself. An
// ENETUNREACH or EHOSTUNREACH may come from either: of the path, unless a Shortage says otherwise.
func OriginOf(unix bool, phase, cause string) Origin {
	from := func(list ...string) bool { return slices.Contains(list, cause) }
	switch {
	case cause == "timeout" && phase == PhaseConnect,
		from("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENONET", "EMSGSIZE"):
		return OfPath
	case phase == PhaseStatus, phase == PhaseCheck, !Errno(cause), from("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "EPROTO", "ENOPROTOOPT", "ENOTCONN"),
		unix && from("ENOENT", "ENOTDIR", "ELOOP", "EAGAIN", "EPROTOTYPE", "ENOTSOCK"):
		return OfPeer
	}
	return OfLocal
}

// Errno reports whether a cause is the name of a system error, such as ECONNRESET.
func Errno(cause string) bool {
	return strings.HasPrefix(cause, "E") && strings.ToUpper(cause) == cause
}

// Shortage is what a host of the generator ran out of, or refused to its own program, and met as an
// error: no server can cause it. Figures that could not be read are 0.
type Shortage struct {
	// Host is the agent's name, "" without agents.
	Host string `json:"host,omitempty"`
	// Phase and Cause of the errors.
	Phase string `json:"phase"`
	Cause string `json:"cause"`
	// Of names the resource: one of the constants below.
	Of string `json:"of"`
	// To is the address that the connections go to, or the path of a unix socket.
	To string `json:"to,omitempty"`
	// Limit of the resource and what was Used of it; Setting says where the limit is set.
	Used    int64  `json:"used,omitempty"`
	Limit   int64  `json:"limit,omitempty"`
	Setting string `json:"setting,omitempty"`
	// Low to High is the range of local ports, each usable once per source address and target;
	// TimeWait of them were in TIME_WAIT. Reuse: the kernel reuses those already.
	Low      int   `json:"low,omitempty"`
	High     int   `json:"high,omitempty"`
	Sources  int   `json:"sources,omitempty"` // addresses of this host that each have the ports
	TimeWait int64 `json:"time_wait,omitempty"`
	Reuse    bool  `json:"reuse,omitempty"`
}

// What a Shortage is of. Each has its sentence and its remedy in package prose.
const (
	ShortPorts      = "ports"
	ShortSource     = "source"      // a source address is not, or no longer, the host's
	ShortFiles      = "files"       // of the process
	ShortHostFiles  = "host-files"  // of the host
	ShortMemory     = "memory"      // of the host, or of the cgroup
	ShortBuffers    = "buffers"     // of sockets, or the send queue of an interface
	ShortConntrack  = "conntrack"   // entries of connection tracking
	ShortRoute      = "route"       // to the target
	ShortInterface  = "interface"   // is down
	ShortFamily     = "family"      // IPv4 or IPv6 is off
	ShortPermission = "permission"  // a firewall, a security module, seccomp
	ShortSocketFile = "socket-file" // the permissions of a unix socket
	ShortOther      = "other"
)

// Says describes the shortage.
func (s *Shortage) Says() Statement { return State("shortage."+s.Of, s.values()) }

// Next says how to end it.
func (s *Shortage) Next() Statement { return State("shortage."+s.Of+".next", s.values()) }

func (s *Shortage) values() Values {
	return Values{
		"host": s.Host, "cause": s.Cause, "to": s.To, "used": s.Used, "limit": s.Limit, "setting": s.Setting,
		"low": s.Low, "high": s.High, "sources": s.Sources, "time_wait": s.TimeWait, "reuse": s.Reuse,
	}
}

// Blame sets the origin of every error, given the shortages of the same run or agent.
func Blame(list []Error, unix bool, short []Shortage) {
	for i := range list {
		e := &list[i]
		e.Origin = OriginOf(unix, e.Phase, e.Cause)
		if slices.ContainsFunc(short, func(s Shortage) bool { return s.Phase == e.Phase && s.Cause == e.Cause }) {
			e.Origin = OfLocal
		}
	}
}
