package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"ceiling/internal/sys"
)

// A work is a load on which tools are compared, with the target ratios, ours to theirs, of the
// CPU per request. A prototype of the engine reached 0.62, 0.55, 0.61 and 0.66 of wrk.
type work struct {
	name       string
	path       string
	pipelining int
	over       transport
	limits     map[string]float64
	// threads of the generator; 0: one.
	threads int
	// userNs is the target for the engine's user-space CPU per request; 0: none.
	userNs float64
}

func works() []work {
	return []work{
		{name: "/simple", path: "/simple", pipelining: 1, limits: map[string]float64{wrk: 0.58}, userNs: 100},
		{name: "/simple -p 16", path: "/simple", pipelining: 16, limits: map[string]float64{wrk: 0.50}, userNs: 50},
		{name: "/simple -p 64", path: "/simple", pipelining: 64},
		{name: "/simple -t 2", path: "/simple", pipelining: 1, threads: 2, limits: map[string]float64{wrk: 0.80}},
		{name: "/simple -t 4", path: "/simple", pipelining: 1, threads: 4, limits: map[string]float64{wrk: 0.80}},
		{name: "/simple -t 2, CPUs apart", path: "/simple", pipelining: 1, threads: 2, over: apart, limits: map[string]float64{wrk: 0.80}},
		{name: "/simple -t 4, CPUs apart", path: "/simple", pipelining: 1, threads: 4, over: apart, limits: map[string]float64{wrk: 0.80}},
		{name: "/simple -p 100", path: "/simple", pipelining: 100, limits: map[string]float64{wrk: 0.60, autocannon: 1.0 / 30}, userNs: 50},
		{name: "/read", path: "/read", pipelining: 1, limits: map[string]float64{wrk: 0.58}},
		{name: "/simple, CPUs apart", path: "/simple", pipelining: 1, over: apart},
		{name: "/simple -p 16, CPUs apart", path: "/simple", pipelining: 16, over: apart},
		{name: "/read, CPUs apart", path: "/read", pipelining: 1, over: apart},
		{name: "/simple TLS", path: "/simple", pipelining: 1, over: overTLS, limits: map[string]float64{wrk: 0.55}},
		{name: "/read TLS", path: "/read", pipelining: 1, over: overTLS, limits: map[string]float64{wrk: 0.55}},
		{name: "/simple h2", path: "/simple", pipelining: 1, over: overH2, limits: map[string]float64{h2load: 0.50}},
		{name: "/simple h2 -p 16", path: "/simple", pipelining: 16, over: overH2, limits: map[string]float64{h2load: 0.25}},
		{name: "/simple h2 -p 100", path: "/simple", pipelining: 100, over: overH2, limits: map[string]float64{h2load: 0.25}},
		{name: "/simple h2, nginx", path: "/simple", pipelining: 1, over: nginxH2, limits: map[string]float64{h2load: 0.50}},
		{name: "/simple h2 -p 16, nginx", path: "/simple", pipelining: 16, over: nginxH2, limits: map[string]float64{h2load: 0.25}},
		{name: "/simple h2 -p 100, nginx", path: "/simple", pipelining: 100, over: nginxH2, limits: map[string]float64{h2load: 0.25}},
	}
}

// A cell is one measurement: a tool on a work in a round.
type cell struct {
	work, tool  string
	round       int
	requests    float64 // by the tool's own count
	elapsedS    float64
	generatorNs int64   // CPU of the generator's process
	serverNs    int64   // CPU of the server's process
	hostNs      int64   // CPU of the whole host, by the tick
	seen        float64 // requests by the server's count; 0 unknown
	inFlight    float64 // maximum, when the tool stopped
	own         *ownFigures
}

// A figure is computed from a cell.
type figure func(*cell) float64

func (c *cell) generatorNsPerRequest() float64 { return float64(c.generatorNs) / c.requests }
func (c *cell) serverNsPerRequest() float64    { return float64(c.serverNs) / c.requests }
func (c *cell) hostNsPerRequest() float64      { return float64(c.hostNs) / c.requests }
func (c *cell) windowNsPerRequest() float64    { return float64(c.own.WindowNs) / c.requests }
func (c *cell) outsideMs() float64             { return float64(c.generatorNs-c.own.WindowNs) / 1e6 }
func (c *cell) ownUserNsPerRequest() float64   { return float64(c.own.UserNs) / c.requests }
func (c *cell) perS() float64                  { return c.requests / c.elapsedS }

// speed runs the rounds, summarises them, and returns their cells. Every round has its own order
// of works, and every work of tools, so that drift of the machine affects all.
func (b *bench) speed(ctx context.Context, e *Entry) []cell {
	lengths, names := map[string]int{}, []string{}
	for i := range b.tools {
		n, err := requestLength(ctx, &b.tools[i])
		b.failed(ctx, "length of a request of "+b.tools[i].Name, err)
		lengths[b.tools[i].Name], names = n, append(names, b.tools[i].Name)
	}
	var cells []cell
	for round := range b.rounds {
		b.progress("round %d of %d", round+1, b.rounds)
		for _, step := range b.order(round) {
			if ctx.Err() != nil {
				return cells
			}
			c, err := b.measure(ctx, step.work, step.tool, lengths[step.tool.Name])
			if err != nil {
				b.failed(ctx, fmt.Sprintf("round %d, %s", round+1, step.work.name), err)
				continue
			}
			c.round = round
			cells = append(cells, c)
		}
	}
	e.Speed, e.Targets = summarise(cells, names)
	b.caveats = append(b.caveats, caveatsOf(cells)...)
	return cells
}

type step struct {
	work work
	tool *tool
}

// order returns the order of one round, deterministic for the same seed and tools. The tools of
// one work are consecutive, so that the runs behind a ratio are close in time.
func (b *bench) order(round int) []step {
	r := rand.New(rand.NewPCG(b.seed, uint64(round)))
	var list []step
	all := works()
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, w := range all {
		if b.servers[w.over] == nil {
			continue
		}
		var able []step
		for i := range b.tools {
			t := &b.tools[i]
			if _, ok := t.arguments(b.job(w), ""); ok && (w.threads < 2 || t.Name == ours || t.Name == wrk) {
				able = append(able, step{w, t})
			}
		}
		r.Shuffle(len(able), func(i, k int) { able[i], able[k] = able[k], able[i] })
		list = append(list, able...)
	}
	return list
}

func (b *bench) job(w work) job {
	j := job{
		URL: b.servers[w.over].url(w.path), Connections: b.connections, Pipelining: w.pipelining, Threads: w.threads, Duration: b.duration,
		HTTP2: w.over == overH2 || w.over == nginxH2,
	}
	if w.over == apart {
		j.CPUs = b.split.Generator
	}
	return j
}

// measure measures one cell. length is that of the tool's requests for /simple.
func (b *bench) measure(ctx context.Context, w work, t *tool, length int) (cell, error) {
	on := b.servers[w.over]
	before, err := on.readings()
	if err != nil {
		return cell{}, err
	}
	o, err := t.run(ctx, b.job(w))
	if err != nil {
		return cell{}, err
	}
	after, err := on.readings()
	if err != nil {
		return cell{}, err
	}
	if o.Bad > 0 {
		return cell{}, fmt.Errorf("%s: %d requests failed", t.Name, o.Bad)
	}
	c := cell{
		work: w.name, tool: t.Name, requests: float64(o.Completed), elapsedS: o.ElapsedS,
		generatorNs: o.CPUNs,
		serverNs:    after.serverNs - before.serverNs, hostNs: after.hostNs - before.hostNs,
		inFlight: float64(b.connections * w.pipelining), own: o.Ours,
	}
	if length > 0 && after.read > before.read && w.over <= apart { // TLS records have other lengths
		length += len(w.path) - len("/simple")
		c.seen = float64(after.read-before.read) / float64(length)
	}
	return c, nil
}

// readings are the counters before and after a cell.
type readings struct {
	serverNs, hostNs int64
	read             uint64 // bytes by the server; 0 if the kernel does not count them
}

func (s *served) readings() (r readings, err error) {
	if r.serverNs, err = sys.ProcessClockNs(s.PID); err != nil {
		return r, err
	}
	if r.hostNs, err = sys.HostBusyNs(); err != nil {
		return r, err
	}
	if r.read, err = bytesRead(s.PID); err != nil {
		r.read = 0 // no such accounting: the tables state that the count is not cross-checked
	}
	return r, nil
}
