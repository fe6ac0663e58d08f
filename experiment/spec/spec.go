// Package spec holds the definition of one run: a Spec, validated once, plain data that survives
// a round trip through JSON. It does not know how a run is done.
package spec

import "time"

// Arrivals of an open loop. Logged are those of an access log, which only a single run has.
const (
	Constant = "constant"
	Poisson  = "poisson"
	Logged   = "log"
)

// Versions of HTTP.
const (
	HTTP11 = "1.1"
	HTTP2  = "2"
)

// Engines of the load generator.
const (
	EngineAuto     = "auto"
	EngineUring    = "uring"
	EngineEpoll    = "epoll"
	EnginePortable = "portable"
)

// Spec is the definition of one run. Times are nanoseconds in JSON, as time.Duration is.
type Spec struct {
	// Targets are the requests to send, with their weights. At least one; all
	// on one scheme, host and port.
	Targets []Target `json:"targets"`

	Common
	Settings
	Condition

	// Seed of every random choice: Poisson gaps, the order of a mix.
	Seed uint64 `json:"seed"`

	// Duration is the measured time. 0 if Requests is set without a time.
	Duration time.Duration `json:"duration_ns"`
	// Requests ends the run after this many; 0 means the time ends it.
	Requests uint64 `json:"requests,omitempty"`
	// Warmup is excluded from every figure.
	Warmup time.Duration `json:"warmup_ns"`
	// ConnectRamp spreads the opening of the connections over this time.
	ConnectRamp time.Duration `json:"connect_ramp_ns,omitempty"`
	// Timeout of one request, of one connection attempt, and of the drain.
	Timeout time.Duration `json:"timeout_ns"`
	// Expect is what a response must be like; the zero value: of a status below 400.
	Expect Expect `json:"expect,omitzero"`
	// SLO that the run must meet. Empty for none.
	SLO SLO `json:"slo,omitempty"`

	// Apart gives generator and server separate CPUs, chosen at the start of the run and stored
	// in PinGenerator and PinServer. A list that is set stays.
	Apart bool `json:"apart,omitempty"`
	// LinkBitsPerSecond is the link speed if the kernel does not know it; 0 if not given.
	LinkBitsPerSecond float64 `json:"link_bits_per_second,omitempty"`
}

// Settings of a load that a level of a factor may change.
type Settings struct {
	// Arrivals of the open loop: Constant, Poisson or Logged. Empty in a closed loop.
	Arrivals string `json:"arrivals,omitempty" yaml:"arrivals,omitempty" jsonschema:"of the open loop: constant or poisson"`
	// NewConnections opens another connection after so many requests on one.
	NewConnections PerConnection `json:"new_connections,omitempty" yaml:"new_connections,omitempty" jsonschema:"a new connection for each request, or after so many"`
	// NoLone omits the requests that are sent one at a time before a closed loop with a warm-up
	// starts.
	NoLone bool `json:"no_lone,omitempty" yaml:"no_lone,omitempty" jsonschema:"skip the unloaded requests before the warm-up, which tell queueing from slow service"`
	// Engine: EngineAuto, EngineUring, EngineEpoll or EnginePortable.
	Engine string `json:"engine,omitempty" yaml:"engine,omitempty" jsonschema:"auto, uring, epoll or portable"`
	// PinGenerator and PinServer are CPU lists such as "0-3,8"; empty leaves the scheduler free.
	PinGenerator string `json:"pin_generator,omitempty" yaml:"pin_generator,omitempty" jsonschema:"CPUs of the generator, as in 0-3,8"`
	PinServer    string `json:"pin_server,omitempty" yaml:"pin_server,omitempty" jsonschema:"CPUs of the server's processes, given back afterwards"`
}

// Common settings are the same in all runs of an experiment.
type Common struct {
	// Kind is Requests or Messages.
	Kind LoadKind `json:"kind,omitempty" yaml:"kind,omitempty" jsonschema:"messages over WebSockets; requests where none is given"`
	// TLS of https:// URLs; nil: as TLS{}.
	TLS  *TLS `json:"tls,omitempty" yaml:"tls,omitempty" jsonschema:"of servers with https:// URLs"`
	Dial `yaml:",inline"`
	// Pprof is the subject's pprof endpoint, "" to try /debug/pprof/, "off" to disable. Several,
	// comma-separated, are for a server of several processes. PprofURLs splits them.
	Pprof string `json:"pprof,omitempty" yaml:"pprof,omitempty" jsonschema:"the server's pprof endpoint, or several with commas between them; off"`
	// Profile profiles all of the subject's processes, in every other segment of the window.
	Profile bool `json:"profile,omitempty" yaml:"profile,omitempty" jsonschema:"take profiles of all of the server's processes, in every other stretch of each run"`
}

// Origin identifies a script or data. Its content is not kept: it may have secrets.
type Origin struct {
	// What it is: OriginScript, OriginData or OriginSession.
	What string `json:"what"`
	// Name of its file, and the SHA-256 of its content, in hex; "" for one too large to read twice.
	Name   string `json:"name,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// What may make requests during a run.
const (
	OriginScript = "script" // wrk's Lua
	OriginData   = "data"   // rows, numbers and the like in place of {{…}}
)

// Target is one request of the mix.
type Target struct {
	Method string  `json:"method"`
	URL    string  `json:"url"`
	Header []Field `json:"header,omitempty"`
	// Body is sent with every request of this target.
	Body []byte `json:"body,omitempty"`
	// BodyHidden replaces a redacted Body.
	BodyHidden *HiddenBody `json:"body_hidden,omitempty"`
	// Weight divided by the sum of all weights is this target's share of the mix. 1 or more.
	Weight int `json:"weight"`
	// From made or filled in its requests while the run lasted; nil: they are as above.
	From *Origin `json:"from,omitempty"`
}

// Field is one header field, in the given order.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Unloaded is how long requests are sent one at a time before the load starts: in a closed loop a
// quarter of the warm-up, at most LoneMost; otherwise 0.
func (s *Spec) Unloaded() time.Duration {
	if s.NoLone || s.Open() || len(s.Targets) > 0 && s.Targets[0].From != nil {
		return 0
	}
	return min(s.Warmup/4, LoneMost)
}

// LoneMost limits that time: 250 requests of 1 ms, five of 50 ms.
const LoneMost = 250 * time.Millisecond
