package record

import "fmt"

// Observing is what observing costs a server that is kept busy. What the observers may use is a share
// of a core, so it depends little on what a request costs the server.
type Observing struct {
	// Blocks of four stretches of one run, two observed and two not; DurationS of each, in seconds.
	Blocks    int     `json:"blocks"`
	DurationS float64 `json:"duration_s"`
	// Throughput, the server's CPU time a request and the 99th percentile of the response times: each
	// observed over not observed.
	Throughput Growth `json:"throughput"`
	ServerCPU  Growth `json:"server_cpu"`
	P99        Growth `json:"p99"`
}

// costMost is what observing may cost a server, as a share of its CPU time a request.
const costMost = 0.02

// effortLeast: with less, a run of some seconds has too few samples for a verdict.
const effortLeast = 0.25

// Effort is the part of the usual observation, above 0 to 1, with which the part of the cost that is
// certain, the lower end of its interval, stays below costMost. nil has 1.
func (o *Observing) Effort() float64 {
	if o == nil || !(o.ServerCPU.Low > costMost) {
		return 1
	}
	return max(costMost/o.ServerCPU.Low, effortLeast)
}

// String states the cost and how certain it is.
func (o *Observing) String() string {
	one := func(what string, c *Growth) string {
		return fmt.Sprintf("%s %+.1f%% (%.0f%% CI %+.1f to %+.1f)", what, 100*c.By, 100*c.Confidence, 100*c.Low, 100*c.High)
	}
	text := fmt.Sprintf("changes a busy server's %s, %s, %s · by calibration, %d blocks of 4 × %g s",
		one("CPU/request", &o.ServerCPU), one("throughput", &o.Throughput), one("p99", &o.P99), o.Blocks, o.DurationS)
	if e := o.Effort(); e < 1 {
		text += fmt.Sprintf(" · so this host is observed %.0f%% as often as usual", 100*e)
	}
	return text
}

// Brief is its effect in a few words.
func (o *Observing) Brief() string {
	one := func(c *Growth) string {
		return fmt.Sprintf("%+.1f%% (%+.1f to %+.1f)", 100*c.By, 100*c.Low, 100*c.High)
	}
	return fmt.Sprintf("costs the server %s CPU/request and %s throughput, by calibration", one(&o.ServerCPU), one(&o.Throughput))
}

// Growth is a relative change, By 0.02 for 2 % more, with its interval.
type Growth struct {
	By   float64 `json:"by"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence of the interval, 0 to 1.
	Confidence float64 `json:"confidence"`
}
