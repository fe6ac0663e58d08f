package observe

import (
	"net/netip"
	"time"
)

// Config says what to observe. The zero value observes only the host.
type Config struct {
	// Host is this host's name in the rows.
	Host string
	// TargetAddr is the address that the load connects to, TargetUnix its path if it is a unix
	// socket ("@name" for an abstract one). With neither no sockets are observed, and the subject
	// is only what SubjectPIDs names.
	TargetAddr netip.AddrPort
	TargetUnix string
	// PeerAddr is the address of the other end if the target is on this host and the load comes
	// from another: it selects the interface to mark.
	PeerAddr netip.Addr
	// GeneratorPID is the load generator's process, 0 if it is not on this host.
	GeneratorPID int
	// SubjectPIDs names processes of the server in addition to those found by their listening
	// sockets.
	SubjectPIDs []int
	// Pipelining is how many requests a connection of the generator may have in flight; 0: 1.
	Pipelining int
	// NetNSPID is a process in whose network namespace the target is, 0: this process's own.
	// Joining another one requires CAP_SYS_ADMIN. If the generator is on this host its ends are
	// observed as well, in this process's namespace.
	NetNSPID int
	// Interval between samples of the cheap sources; 0: 100 ms. It is also the shortest for any
	// source but the socket queues.
	Interval time.Duration
	// Window is the end of the measured window on the run's clock; 0: not known in advance.
	// Cumulative counters are read then, however seldom they are otherwise: a row that begins in
	// the window and ends after it describes neither.
	Window time.Duration
	// Effort is the part of the usual cost that observing may have, above 0 to 1; 0: 1. What is
	// sampled is sampled less often by that.
	Effort float64
	// CPUs that the thread that samples the sockets runs on; nil: any. Best are CPUs that neither
	// server nor generator uses.
	CPUs []int

	proc, sysfs string // roots for tests; "": /proc and /sys
}
