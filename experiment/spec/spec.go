// Package spec holds what a person asks of one run: a Spec, checked once, plain
// data that survives a round trip through JSON. It knows nothing of how a run
// is done.
package spec

import (
	"time"

	"ceiling/internal/unit"
)

// Arrivals of an open loop.
const (
	Constant = "constant"
	Poisson  = "poisson"
)

// Versions of HTTP to speak.
const (
	HTTP11 = "1.1"
	HTTP2  = "2"
	HTTP3  = "3"
)

// Engines of the load generator.
const (
	EngineAuto  = "auto"
	EngineUring = "uring"
	EngineEpoll = "epoll"
)

// Spec is one run as asked. Times are nanoseconds in JSON, as time.Duration is.
type Spec struct {
	// Targets are the requests to send, with their weights. At least one; all
	// on one scheme, host and port.
	Targets []Target `json:"targets"`

	Wire

	// Connections asked for, over all threads. 1 or more.
	Connections int `json:"connections"`
	// Threads of the load engine; 0 lets the engine choose.
	Threads int `json:"threads"`
	// Pipelining is the number of requests in flight per connection. 1 or more.
	Pipelining int `json:"pipelining"`
	// Rate makes the loop open: requests leave when the schedule says so. The
	// zero value is a closed loop.
	Rate unit.Rate `json:"rate,omitzero"`
	// Arrivals of the open loop: Constant or Poisson. Empty in a closed loop.
	Arrivals string `json:"arrivals,omitempty"`
	// Seed of every random choice: Poisson gaps, the order of a mix.
	Seed uint64 `json:"seed"`

	// Duration is the measured time. 0 where Requests is set and no time was
	// asked for.
	Duration time.Duration `json:"duration_ns"`
	// Requests ends the run after this many; 0 means the time ends it.
	Requests uint64 `json:"requests,omitempty"`
	// Warmup is left out of every figure.
	Warmup time.Duration `json:"warmup_ns"`
	// ConnectRamp spreads the opening of the connections over this time.
	ConnectRamp time.Duration `json:"connect_ramp_ns,omitempty"`
	// Timeout of one request, of one connection attempt, and of the drain.
	Timeout time.Duration `json:"timeout_ns"`
	// NewConnections opens a connection for every request.
	NewConnections bool `json:"new_connections,omitempty"`

	// TLS of https:// URLs; nil: as TLS{}.
	TLS *TLS `json:"tls,omitempty"`

	// NoLone leaves out the requests that are sent one at a time before a closed
	// loop with a warm-up begins.
	NoLone bool `json:"no_lone,omitempty"`

	// Engine: EngineAuto, EngineUring or EngineEpoll.
	Engine string `json:"engine"`
	// Expect is the status codes that count as the response that was asked for;
	// nil: all below 400.
	Expect Expect `json:"expect,omitempty"`
	// SLO the run has to hold. Empty asks nothing.
	SLO SLO `json:"slo,omitempty"`

	// PinGenerator and PinServer are CPU lists as in "0-3,8"; empty leaves the
	// scheduler free.
	PinGenerator string `json:"pin_generator,omitempty"`
	PinServer    string `json:"pin_server,omitempty"`
	// Apart gives generator and server CPUs of their own, chosen when the run
	// begins, which the two lists above then hold. One that is given stays.
	Apart bool `json:"apart,omitempty"`
	// LinkBitsPerSecond is the link's speed where the kernel does not know it;
	// 0 means not given.
	LinkBitsPerSecond float64 `json:"link_bits_per_second,omitempty"`
	// Pprof is the subject's pprof endpoint, "" to look for one at
	// /debug/pprof/, "off" not to. Several have commas between them: a server of
	// several processes. PprofURLs parts them.
	Pprof string `json:"pprof,omitempty"`
	// Profile takes profiles of all of the subject's processes, in every other
	// stretch of the window.
	Profile bool `json:"profile,omitempty"`
}

// Wire is what the connections carry, where they go and where they come from.
type Wire struct {
	// Kind is Requests, Messages or Events.
	Kind LoadKind `json:"kind,omitempty"`
	// Fragment of Messages: at most so many bytes in a frame; 0: one frame each.
	Fragment int `json:"fragment,omitempty"`
	// GRPC makes the requests calls; nil: they are HTTP's.
	GRPC *GRPC `json:"grpc,omitempty"`
	Dial
}

// Target is one request of the mix.
type Target struct {
	Method string  `json:"method"`
	URL    string  `json:"url"`
	Header []Field `json:"header,omitempty"`
	// Body is sent with every request of this target.
	Body []byte `json:"body,omitempty"`
	// BodyHidden stands in the place of Body where it is not shown.
	BodyHidden *HiddenBody `json:"body_hidden,omitempty"`
	// Weight is this target's share of the mix, over the sum of all weights.
	// 1 or more.
	Weight int `json:"weight"`
}

// Field is one header field, in the order given.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Open tells whether the run is an open loop.
func (s *Spec) Open() bool { return !s.Rate.IsZero() }

// Lone is how long requests are sent one at a time before the load begins: a
// quarter of the warm-up and at most LoneMost in a closed loop, else 0.
func (s *Spec) Lone() time.Duration {
	if s.NoLone || s.Open() || s.Kind == Events {
		return 0
	}
	return min(s.Warmup/4, LoneMost)
}

// LoneMost bounds that time: 250 requests of 1 ms, five of 50 ms.
const LoneMost = 250 * time.Millisecond

// Slots is the number of requests a closed loop keeps in flight.
func (s *Spec) Slots() int { return s.Connections * s.Pipelining }
