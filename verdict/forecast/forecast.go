// Package forecast says what a measured request would allow on other hardware: from what it costs, the
// rate at which each resource of a machine is used up.
//
// It is arithmetic, not a model of the server: a rate is a resource divided by what a request takes
// of it.
package forecast

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Machine is what a forecast knows of one.
type Machine struct {
	VCPUs float64 `json:"vcpus"`
	Gbps  float64 `json:"gbps,omitempty"` // of its link; 0 unknown
	// PacketsPerS in each direction; 0 unknown.
	PacketsPerS float64 `json:"packets_per_s,omitempty"`
}

// ParseMachine reads "64cores,50Gbps" with an optional limit of packets: "64cores,50Gbps,2Mpps".
func ParseMachine(text string) (*Machine, error) {
	m := &Machine{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		var err error
		switch {
		case strings.HasSuffix(part, "cores") || strings.HasSuffix(part, "core"):
			m.VCPUs, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(part, "s"), "core"), 64)
		case strings.HasSuffix(part, "pps"):
			var n int64
			n, err = unit.ParseCount(strings.TrimSuffix(part, "pps"))
			m.PacketsPerS = float64(n)
		default:
			var bits unit.BitsPerSecond
			bits, err = unit.ParseBits(part)
			m.Gbps = float64(bits) / 1e9
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; describe a machine as in 64cores,50Gbps", part, err)
		}
	}
	if !(m.VCPUs > 0) || m.VCPUs > 1e6 {
		return nil, errors.New("the number of cores must be 1 to 1,000,000; describe a machine as in 64cores,50Gbps")
	}
	return m, nil
}

// Costs is what one request took in a measurement. 0 is unknown.
type Costs struct {
	Of   string  `json:"of"`    // the measurement
	PerS float64 `json:"per_s"` // its rate
	// CPU time of the server's processes and of the generator, nanoseconds.
	ServerCPUNs    float64 `json:"server_cpu_ns,omitempty"`
	GeneratorCPUNs float64 `json:"generator_cpu_ns,omitempty"`
	// Bytes above TCP.
	ResponseBytes float64 `json:"response_bytes,omitempty"`
	RequestBytes  float64 `json:"request_bytes,omitempty"`
	// Packets on the server's link, in the fuller direction; unknown on the loopback.
	Packets float64 `json:"packets,omitempty"`
	// Flushes of the disk that is flushed most, and how long one takes, nanoseconds.
	Flushes float64 `json:"flushes,omitempty"`
	FlushNs float64 `json:"flush_ns,omitempty"`
	// ResponseNs is the response time of an unloaded request.
	ResponseNs float64 `json:"response_ns,omitempty"`
	// Pipelined: several responses may share a segment.
	Pipelined bool `json:"pipelined,omitempty"`
	// OneThread: the server's work is on one thread, which more cores do not speed up.
	OneThread bool `json:"one_thread,omitempty"`
}

// Resources, as ceilings name them.
const (
	ServerCPU    = "server CPU"
	GeneratorCPU = "generator CPU"
	Link         = "link"
	Packets      = "packets"
	DiskFlushes  = "disk flushes"
)

// Ceiling is the rate at which one machine's resource is used up.
type Ceiling struct {
	Resource string  `json:"resource"`
	PerS     float64 `json:"per_s"`
	// Low and High are the range in which four of five published results lay around such forecasts
	// (docs/plan.md).
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Forecast is what a machine for each side allows.
type Forecast struct {
	Costs     Costs     `json:"costs"`
	Server    Machine   `json:"server"`
	Generator Machine   `json:"generator"`
	Ceilings  []Ceiling `json:"ceilings"` // ascending
	// Missing are resources whose ceiling is unknown, because the measurement lacks the cost or the
	// machine the capacity.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing says what a ceiling lacks.
type Missing struct {
	Resource string `json:"resource"`
	Lacks    string `json:"lacks"`
}

// flushing is the share of the time that a disk's flushes take from which they count as the
// requests': below it they are those of any process of the host.
const flushing = 0.01

// CostsOf returns the costs of a run.
func CostsOf(r *record.Run) Costs {
	c := Costs{Of: r.ID, PerS: r.Rate.CompletedPerS, GeneratorCPUNs: r.Generator.CPUNsPerRequest, Pipelined: r.Load.Pipelining > 1,
		OneThread: r.Verdict.Bottleneck == record.ServerThread}
	if r.Subject != nil {
		c.ServerCPUNs = r.Subject.CPUNsPerRequest
	}
	if n := float64(r.Requests.Completed); n > 0 {
		c.ResponseBytes, c.RequestBytes = float64(r.Bytes.Read)/n, float64(r.Bytes.Written)/n
	}
	for i := range r.Verdict.Hosts {
		if u := &r.Verdict.Hosts[i]; u.Link != "" && c.PerS > 0 {
			c.Packets = max(c.Packets, u.RxPacketsPerS/c.PerS, u.TxPacketsPerS/c.PerS)
		}
	}
	for i := range r.Verdict.Disks {
		d := &r.Verdict.Disks[i]
		if (d.Server || d.Behind) && c.PerS > 0 && d.FlushesPerS*d.FlushNs >= flushing*1e9 && d.FlushesPerS/c.PerS > c.Flushes {
			c.Flushes, c.FlushNs = d.FlushesPerS/c.PerS, d.FlushNs
		}
	}
	if u := r.Unloaded; u != nil && u.Service.Known() {
		c.ResponseNs = float64(u.Service.P50Ns)
	}
	return c
}

const (
	// jumbo is the largest MTU of cloud networks; with 1,500 bytes a response of 4.5 KB
	// takes 3 % more.
	jumbo = 9001
	// headers of IPv4 and TCP with timestamps, and the Ethernet frame without preamble and gap, which
	// clouds do not count.
	ipTCP, ethernet = 52, 14
)

// onWire returns the bytes that a message takes on the link.
func onWire(bytes float64, pipelined bool) float64 {
	segments := bytes / (jumbo - ipTCP)
	if !pipelined {
		segments = math.Ceil(segments)
	}
	return bytes + segments*(ipTCP+ethernet)
}

// Four of five published results lay in these ranges around their forecasts.
const (
	cpuLow, cpuHigh   = 0.80, 1.07
	linkLow, linkHigh = 0.62, 1.00
)

// Make returns the ceilings of costs on a machine for each side.
func Make(c Costs, server, generator *Machine) *Forecast {
	f := &Forecast{Costs: c, Server: *server, Generator: *generator}
	cores := server.VCPUs
	if c.OneThread {
		cores = min(cores, 1)
	}
	f.cpu(ServerCPU, c.ServerCPUNs, cores, "the server's CPU per request (run it where ceiling sees the server's processes, or with --observe)")
	f.cpu(GeneratorCPU, c.GeneratorCPUNs, generator.VCPUs, "the generator's CPU per request")
	// The fuller direction, on the narrower of the two links.
	bytes := max(onWire(c.ResponseBytes, c.Pipelined), onWire(c.RequestBytes, c.Pipelined))
	switch gbps := min(server.Gbps, generator.Gbps); {
	case c.ResponseBytes <= 0:
		f.Missing = append(f.Missing, Missing{Link, "the bytes of a response"})
	case gbps <= 0:
		f.Missing = append(f.Missing, Missing{Link, "the link's speed (--here 64cores,50Gbps)"})
	default:
		f.add(Link, gbps*1e9/8/bytes, linkLow, linkHigh)
	}
	if pps := min(server.PacketsPerS, generator.PacketsPerS); c.Packets > 0 && pps > 0 {
		f.add(Packets, pps/c.Packets, linkLow, linkHigh)
	} else if c.Packets > 0 {
		f.Missing = append(f.Missing, Missing{Packets, "the machine's packets per second, which clouds do not publish (--here 64cores,50Gbps,2Mpps)"})
	}
	if c.Flushes > 0 && c.FlushNs > 0 {
		f.add(DiskFlushes, 1e9/(c.Flushes*c.FlushNs), 1, 1)
	}
	slices.SortStableFunc(f.Ceilings, func(a, b Ceiling) int { return cmp.Compare(a.PerS, b.PerS) })
	return f
}

func (f *Forecast) cpu(resource string, ns, cores float64, lacks string) {
	if ns <= 0 || cores <= 0 {
		f.Missing = append(f.Missing, Missing{resource, lacks})
		return
	}
	f.add(resource, cores*1e9/ns, cpuLow, cpuHigh)
}

func (f *Forecast) add(resource string, perS, low, high float64) {
	f.Ceilings = append(f.Ceilings, Ceiling{resource, perS, perS * low, perS * high})
}

// Of returns a resource's ceiling; nil if it is unknown.
func (f *Forecast) Of(resource string) *Ceiling {
	if i := slices.IndexFunc(f.Ceilings, func(c Ceiling) bool { return c.Resource == resource }); i >= 0 {
		return &f.Ceilings[i]
	}
	return nil
}

// Need is what a rate takes.
type Need struct {
	PerS float64 `json:"per_s"`
	// Machines, and those at the low end of the ceilings' ranges; 0 if a ceiling of theirs is unknown.
	Servers        int `json:"servers"`
	ServersMost    int `json:"servers_most"`
	Generators     int `json:"generators"`
	GeneratorsMost int `json:"generators_most"`
	// InFlight requests at the unloaded response time (Little's law): connections and pools need as
	// many, and more as a resource fills up; 0 unknown.
	InFlight                    float64 `json:"in_flight,omitempty"`
	CoresServer, CoresGenerator float64 `json:"-"`
}

// For returns what a rate takes.
func (f *Forecast) For(perS float64) Need {
	n := Need{PerS: perS, InFlight: perS * f.Costs.ResponseNs / 1e9, CoresServer: perS * f.Costs.ServerCPUNs / 1e9,
		CoresGenerator: perS * f.Costs.GeneratorCPUNs / 1e9}
	n.Servers, n.ServersMost = machines(perS, f.Of(ServerCPU), f.Of(Link))
	n.Generators, n.GeneratorsMost = machines(perS, f.Of(GeneratorCPU), f.Of(Link))
	for _, resource := range []string{Packets, DiskFlushes} {
		if c := f.Of(resource); c != nil && n.Servers > 0 {
			more, most := machines(perS, c)
			n.Servers, n.ServersMost = max(n.Servers, more), max(n.ServersMost, most)
		}
	}
	return n
}

// machines returns how many a rate takes by the ceilings of one, and by their low ends.
func machines(perS float64, ceilings ...*Ceiling) (n, most int) {
	for _, c := range ceilings {
		if c == nil {
			return 0, 0
		}
		n, most = max(n, int(math.Ceil(perS/c.PerS))), max(most, int(math.Ceil(perS/c.Low)))
	}
	return n, most
}
