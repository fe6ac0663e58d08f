package load

import (
	"net/netip"
	"time"

	"ceiling/internal/condition"
	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
	"ceiling/internal/unit"
)

// DefaultInterval is the width of the rows of a run.
const DefaultInterval = 100 * time.Millisecond

// Config configures one run of the engine. Every field is required unless its zero value is
// documented.
type Config struct {
	// To is where the connections go.
	To Destination
	// Mix has the requests to send, with their weights; or one that is composed during the run.
	Mix []Request
	// Connections over all Threads. Each keeps Pipelining requests in flight in a closed loop, and
	// at most that many in an open loop.
	Connections int
	Threads     int
	Pipelining  int
	// Rate makes it an open loop, with a ramp if From and To differ. The zero value is a closed
	// loop.
	Rate unit.Rate
	// Poisson arrivals instead of constant gaps.
	Poisson bool
	Seed    uint64
	// Unloaded is how long the run sends requests one at a time, a single one in flight in the whole
	// run, before a closed loop begins; 0: not at all. The last worker of the first share does it
	// once its connections are established, and reports ready afterwards. See Lone.
	Unloaded time.Duration
	// Warmup precedes the window, which lasts Duration (0: until Requests).
	Warmup, Duration time.Duration
	// Requests ends the run after that many; 0: Duration ends it.
	Requests uint64
	// Drain bounds the wait for the last responses. Those of an open loop are counted.
	Drain time.Duration
	// ConnectRamp spreads the connects over this time.
	ConnectRamp time.Duration
	// Timeout of a connect, and of a request.
	Timeout time.Duration
	// NewConnections opens another connection after so many requests on one; 0: it does not.
	NewConnections int
	// Expect is what a response must be like.
	Expect Expect
	// Engine of the ring; see ring.Config.
	Engine string
	// CPUs that the workers may run on; nil: any.
	CPUs []int
	// Interval between two samples; 0: DefaultInterval.
	Interval time.Duration

	// Share of the run that this engine does; zero value: all of it. Connections, Rate, Requests
	// and ConnectRamp are those of the whole run.
	Share Share
	// Ready, if set, is called when the first connect attempts have ended, before the load begins,
	// with the number of the share's own connections that are established. It runs on the
	// coordinator's goroutine and must return quickly. If none is established, the run ends by
	// itself.
	Ready func(established, asked int)
	// Start, if set, delivers once the time at which the load begins (warm-up first). Until then
	// the connections are idle, and one that the server closes is reopened. If the time has passed,
	// the load begins at once on the schedule of an on-time start: Result.StartLateNs has the
	// delay. Closing the channel without a time ends the run. nil: the load begins once the
	// connections are established.
	Start <-chan time.Time
	Sockets

	// gatherFor is a fixed wait for further completions, for tests; 0: derived from response times.
	gatherFor time.Duration
}

// Expect is what a response must be like; others count as Bad.
type Expect struct {
	// Unexpected has the status codes that are not; nil: 400 and up.
	Unexpected *[1000]bool
	// Checks are conditions for responses of the other codes.
	Checks []condition.Condition
}

// Sockets is how the engine makes connections.
type Sockets struct {
	// SourceIPs to spread the connections over, round robin; same family as the address. The kernel
	// chooses the port at connect, per address pair (ip(7), IP_BIND_ADDRESS_NO_PORT). Empty: the
	// kernel chooses the address too.
	SourceIPs []netip.Addr
	// TLS of the connections; nil: none.
	TLS *tlsconn.Config
	// Protocol of the connections, unless ALPN selects another.
	Protocol Protocol
	// Opening makes the connections WebSockets; nil: they carry requests.
	Opening *Opening
}

// Destination of connections.
type Destination struct {
	// Addresses, of one family, get one connection each in turn.
	Addresses []ring.Sockaddr
	// Tunnel is the CONNECT that opens a tunnel to the server through a proxy at the addresses; empty:
	// they are the server's.
	Tunnel []byte
}

// To makes an address the destination of all connections.
func To(a ring.Sockaddr) Destination { return Destination{Addresses: []ring.Sockaddr{a}} }

// turn returns where connection number i goes.
func (d *Destination) turn(i int) *ring.Sockaddr { return &d.Addresses[i%len(d.Addresses)] }

// Observer receives events during the run, from one goroutine. Its methods must return quickly: a
// slow one makes intervals late, and they are marked late.
type Observer interface {
	// Connected: the first connect attempts have ended. The load begins, and the window will open
	// at the given time; zero if no connection was established and the run is over.
	Connected(established, asked int, window time.Time)
	// Window: the window opens (true) or closed (false).
	Window(open bool, at time.Time)
	// Interval has what all workers did; t is valid during the call only. late marks one wider than
	// 1.5 times the configured interval; the drain of an open loop is one interval. Times are on
	// the run's clock, zero at the opening of the window.
	Interval(t *Tally, late bool)
}
