package race

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/measure/load"
)

// A Sample is one contestant in one round of a case. Round 0 goes before the
// others and is thrown away: connections to the backend are opened in it.
type Sample struct {
	Case  string `json:"case"`
	Name  string `json:"name"`
	Round int    `json:"round"`
	// Requests that the generator completed, Seen those that the backend answered
	// in that time; what was in flight at the end makes it a few more.
	Requests uint64  `json:"requests"`
	Seen     uint64  `json:"seen,omitempty"`
	WindowS  float64 `json:"window_s"`
	// CPU time of the contestant's processes, the backend's, this one's, and of
	// the whole host, nanoseconds.
	CPUNs       int64 `json:"cpu_ns"`
	BackendNs   int64 `json:"backend_ns"`
	GeneratorNs int64 `json:"generator_ns"`
	HostNs      int64 `json:"host_ns"`
	// Of the open loop; Late are requests that had not left when it ended.
	OpenP99Ns int64  `json:"open_p99_ns,omitempty"`
	Late      uint64 `json:"late,omitempty"`
	// Errors: failed requests and answers of 400 and more, in both loops.
	Errors uint64 `json:"errors"`
	// Memory is the processes' proportional set size at the end, bytes.
	Memory uint64 `json:"memory_bytes"`
}

func (s *Sample) nsPerRequest() float64 { return float64(s.CPUNs) / float64(s.Requests) }
func (s *Sample) perS() float64         { return float64(s.Requests) / s.WindowS }

// others is the share of the CPU time used by processes outside the race; NaN of none.
func (s *Sample) others() float64 {
	return max(0, float64(s.HostNs-s.CPUNs-s.BackendNs-s.GeneratorNs)/float64(s.HostNs))
}

// rounds measures every contestant once in each round, in an order of its own.
func (r *race) rounds(ctx context.Context, k *Case, runners []*runner) error {
	for round := range r.Rounds + 1 {
		r.say("%s: round %d of %d", k.Name, round, r.Rounds)
		order := rand.New(rand.NewPCG(r.Seed, uint64(round))).Perm(len(runners))
		for _, i := range order {
			n := runners[i]
			if n.row.NotRaced != "" {
				continue
			}
			s, err := r.measure(ctx, k, n)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				n.row.NotRaced = fmt.Sprintf("round %d: %v", round, err)
				continue
			}
			s.Case, s.Name, s.Round = k.Name, n.Name, round
			if round == 0 {
				n.row.Errors += s.Errors // they are no less wrong
				continue
			}
			r.samples = append(r.samples, *s)
		}
	}
	return nil
}

// measure is one contestant's turn: a closed loop for what a request costs, an
// open one at a rate that is the same for all for how long it takes. At full load
// each contestant has another rate, and times of different loads say nothing about
// each other.
func (r *race) measure(ctx context.Context, k *Case, n *runner) (*Sample, error) {
	s := &Sample{}
	before, err := r.read(n)
	if err != nil {
		return nil, err
	}
	if err := r.closed(ctx, k, n, s); err != nil {
		return nil, err
	}
	after, err := r.read(n)
	if err != nil {
		return nil, err
	}
	if s.CPUNs, err = after.proxy.since(before.proxy); err != nil {
		return nil, err
	}
	s.BackendNs, s.GeneratorNs, s.HostNs = after.backend-before.backend, after.own-before.own, after.host-before.host
	if !k.Files {
		s.Seen = after.answered - before.answered - 1 // this question is one of them
	}
	if s.Requests == 0 {
		return nil, errors.New("nothing was completed")
	}
	if err := r.open(ctx, k, n, s); err != nil {
		return nil, err
	}
	s.Memory, err = proportional(n.child.PID)
	return s, err
}

// reading is what is read before and after a closed loop.
type reading struct {
	proxy        clock
	backend, own int64
	host         int64
	answered     uint64
}

func (r *race) read(n *runner) (v reading, err error) {
	if v.answered, err = r.answered(); err != nil {
		return v, fmt.Errorf("ask the backend: %w", err)
	}
	if v.proxy, err = readClock(n.child.PID); err != nil {
		return v, err
	}
	if v.backend, err = sys.ProcessClockNs(r.backend.PID); err != nil {
		return v, err
	}
	user, system := sys.ProcessCPUNs()
	v.own = user + system
	v.host, err = sys.HostBusyNs()
	return v, err
}

// timeout of a connect and of a request.
const timeout = 10 * time.Second

func (r *race) config(k *Case, n *runner) load.Config {
	c := load.Config{
		To:          load.To(ring.TCPAddr(netip.MustParseAddrPort(n.addr))),
		Mix:         []load.Request{{Bytes: requestBytes(question{"GET", k.Path, ""}, n.addr), Weight: 1}},
		Connections: r.Connections, Threads: 1, Pipelining: 1, Seed: r.Seed, Duration: r.Duration, Timeout: timeout, Engine: "auto",
	}
	r.secure(k, &c)
	return c
}

// load makes a load, and counts what went wrong.
func (r *race) load(ctx context.Context, c load.Config) (res *load.Result, errors uint64, err error) {
	if res, err = load.Run(ctx, c, quiet{}); err != nil {
		return nil, 0, err
	}
	if res.Interrupted {
		return nil, 0, context.Canceled
	}
	return res, res.Total.Failed + res.Total.Bad + uint64(c.Connections-res.Established), nil
}

// closed has no warm-up: what the whole loop costs is divided by all of its
// requests, the opening of its connections among them, the same for all.
func (r *race) closed(ctx context.Context, k *Case, n *runner, s *Sample) error {
	res, failed, err := r.load(ctx, r.config(k, n))
	if err != nil {
		return err
	}
	s.Requests, s.WindowS, s.Errors = res.Total.Completed, float64(res.WindowNs)/1e9, failed
	n.row.Cipher, err = k.agreed(res)
	return err
}

// open measures response times at the rate of all.
func (r *race) open(ctx context.Context, k *Case, n *runner, s *Sample) error {
	c := r.config(k, n)
	f := unit.Frequency{Count: uint64(cmp.Or(k.PerS, r.PerS)), PerNs: uint64(time.Second)}
	c.Rate, c.Warmup = unit.Rate{From: f, To: f}, r.Duration/5
	res, failed, err := r.load(ctx, c)
	if err != nil {
		return err
	}
	s.Errors += failed
	s.Late, s.OpenP99Ns = res.LateAtEnd, res.Total.Response.Quantile(.99)
	return nil
}
