package planted

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Params are the numbers of a planted server. Each kind declares which it takes; other non-zero
// numbers are rejected.
type Params struct {
	// Addr to listen on, "host:port"; "" for a free loopback port.
	Addr string
	// Threads that run Go code concurrently (GOMAXPROCS); 0 for the default.
	Threads int

	// CPU time per request.
	CPU time.Duration
	// Sleep is how long the kind waits, or holds its resource.
	Sleep time.Duration
	// N is the size of the kind's resource.
	N int
	// Every n-th request meets the fault.
	Every int
	// Fault of the kinds faulty and database.
	Fault string
	// Period between two pauses.
	Period time.Duration
	// Bytes of the body, or of a window; Chunks that the body is split into.
	Bytes  int
	Chunks int
	// To is the address of the downstream server.
	To string
	// Pprof makes the server record its waits and serve /debug/pprof/.
	Pprof bool
}

// Limits of the numbers: values outside are typing mistakes.
const (
	timeMax  = time.Minute
	countMax = 10_000
	bytesMax = 16 << 20
)

// check rejects numbers that the kind does not take, and missing ones.
func (k *Kind) check(p *Params) error {
	needs, all, faults := strings.Fields(k.Needs), strings.Fields(k.Needs+" "+k.Takes), strings.Fields(k.Faults)
	for _, f := range p.fields() {
		switch {
		case f.set && !slices.Contains(all, f.name):
			return fmt.Errorf("%s does not take %s; it takes %s", k.Name, f.name, strings.Join(all, ", "))
		case !f.set && slices.Contains(needs, f.name):
			return fmt.Errorf("%s needs %s: %s", k.Name, f.name, k.About)
		case !f.sane:
			return fmt.Errorf("%s: %s is out of bounds", k.Name, f.name)
		}
	}
	if len(faults) > 0 && !slices.Contains(faults, p.Fault) {
		return fmt.Errorf("%s: unknown fault %q: there are %s", k.Name, p.Fault, strings.Join(faults, ", "))
	}
	return nil
}

// field is one number of Params: its flag name, whether it is set, and whether it is valid.
type field struct {
	name      string
	set, sane bool
}

func (p *Params) fields() []field {
	span := func(name string, d time.Duration) field { return field{name, d != 0, d >= 0 && d <= timeMax} }
	count := func(name string, n, most int) field { return field{name, n != 0, n >= 0 && n <= most} }
	return []field{
		span("cpu", p.CPU), span("sleep", p.Sleep), span("period", p.Period),
		count("n", p.N, countMax), count("every", p.Every, countMax),
		count("bytes", p.Bytes, bytesMax), count("chunks", p.Chunks, countMax),
		{"fault", p.Fault != "", true}, {"to", p.To != "", true},
		{"pprof", p.Pprof, true},
	}
}
