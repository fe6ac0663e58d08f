package clock

import (
	"math"
	"math/rand/v2"
	"testing"
)

// path is a simulated network and a clock at its other end.
type path struct {
	offset       int64   // at time 0
	drift        float64 // ns per ns
	there, back  int64   // least times of the two ways
	jitter       float64 // mean of an exponential addition to each
	wall, stepAt int64   // the wall clock's offset; it steps by an hour then
	rand         *rand.Rand
}

func (p *path) trueOffset(here int64) int64 {
	return p.offset + int64(math.Round(float64(here)*p.drift))
}

func (p *path) ping(at int64) Ping {
	read := at + p.there + int64(p.rand.ExpFloat64()*p.jitter)
	received := read + p.back + int64(p.rand.ExpFloat64()*p.jitter)
	wall := p.wall
	if p.stepAt > 0 && at >= p.stepAt {
		wall += 3600e9
	}
	return Ping{Sent: at, Received: received, There: read + p.trueOffset(read), WallHere: received, WallThere: read + wall}
}

const second = int64(1e9)

// exchange is what a run of a number of seconds makes: sixteen before, one a
// second, sixteen after.
func (p *path) exchange(seconds int64) *Clock {
	var c Clock
	at := second
	many := func() {
		for range 16 {
			g := p.ping(at)
			c.Add(g)
			at = g.Received + 1e6
		}
	}
	many()
	for range seconds {
		g := p.ping(at)
		c.Add(g)
		at = max(at+second, g.Received)
	}
	many()
	return &c
}

func TestOffsetIsWithinItsBound(t *testing.T) {
	for name, p := range map[string]path{
		"quick":               {there: 50e3, back: 50e3},
		"2 s ahead":           {offset: 2e9, there: 50e3, back: 50e3, jitter: 20e3},
		"2 s behind":          {offset: -2e9, there: 50e3, back: 50e3, jitter: 20e3},
		"100 ppm fast":        {drift: 100e-6, there: 50e3, back: 50e3, jitter: 20e3},
		"100 ppm slow, off":   {offset: 2e9, drift: -100e-6, there: 50e3, back: 50e3, jitter: 200e3},
		"all of it there":     {offset: 7, there: 5e6, back: 0, jitter: 10e3},
		"all of it back":      {offset: 7, there: 0, back: 5e6, jitter: 10e3},
		"asymmetric, drifts":  {offset: -2e9, drift: 100e-6, there: 9e6, back: 1e6, jitter: 3e6},
		"queues":              {there: 50e3, back: 50e3, jitter: 50e6},
		"as fast as they can": {drift: DriftMax * 0.99, there: 50e3, back: 50e3, jitter: 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				p.rand = rand.New(rand.NewPCG(seed, 1))
				c := p.exchange(10)
				for at := int64(0); at < 14*second; at += second / 7 {
					offset, bound := c.At(at)
					if wrong := abs(offset - p.trueOffset(at)); wrong > bound {
						t.Fatalf("seed %d, %d ms: offset %d is wrong by %d ns, the bound was %d", seed, at/1e6, offset, wrong, bound)
					}
					if at > 2*second && at < 10*second && bound > c.ErrorNs(2*second, 10*second)+3 { // rounded
						t.Fatalf("seed %d: the bound at %d ms is %d, that of the whole %d", seed, at/1e6, bound, c.ErrorNs(2*second, 10*second))
					}
				}
				// The bound is worth something: the quickest exchange, and what
				// may drift between two that are a second apart.
				if e := c.ErrorNs(2*second, 10*second); float64(e) > float64(c.RTTMinNs())+4*p.jitter+4*DriftMax*float64(second) {
					t.Fatalf("seed %d: a bound of %d ns, with exchanges of %d", seed, e, c.RTTMinNs())
				}
			}
		})
	}
}

// TestDriftIsSeen holds the estimate, not the bound, against the truth.
func TestDriftIsSeen(t *testing.T) {
	for _, want := range []float64{-100e-6, 0, 100e-6} {
		p := path{offset: 2e9, drift: want, there: 50e3, back: 60e3, jitter: 20e3, rand: rand.New(rand.NewPCG(1, 2))}
		c := p.exchange(60)
		if got := c.Drift(); math.Abs(got-want) > 2e-6 {
			t.Errorf("drift %g, want %g", got, want)
		}
		for at := 5 * second; at < 60*second; at += second / 3 {
			if offset, _ := c.At(at); abs(offset-p.trueOffset(at)) > 100e3 {
				t.Errorf("at %d ms the line is %d ns off", at/1e6, offset-p.trueOffset(at))
			}
		}
	}
}

func TestSteppedWallClockHasNoEffect(t *testing.T) {
	p := path{offset: 5, there: 50e3, back: 50e3, wall: 3e9, rand: rand.New(rand.NewPCG(1, 2))}
	calm := p.exchange(10)
	p.stepAt, p.rand = 5*second, rand.New(rand.NewPCG(1, 2))
	stepped := p.exchange(10)
	for at := int64(0); at < 12*second; at += second / 3 {
		o1, e1 := calm.At(at)
		o2, e2 := stepped.At(at)
		if o1 != o2 || e1 != e2 {
			t.Fatalf("at %d ms: %d ± %d with a stepped wall clock, %d ± %d without", at/1e6, o2, e2, o1, e1)
		}
	}
	if calm.WallOffsetNs() != 3e9 || stepped.WallOffsetNs() != 3603e9 {
		t.Errorf("wall clocks are off by %d and %d", calm.WallOffsetNs(), stepped.WallOffsetNs())
	}
}

// TestContradictionWidens: a machine that stood still for a second.
func TestContradictionWidens(t *testing.T) {
	p := path{there: 50e3, back: 50e3, rand: rand.New(rand.NewPCG(1, 2))}
	var c Clock
	c.Add(p.ping(second))
	p.offset = -second
	c.Add(p.ping(2 * second))
	for _, true := range []int64{0, -second} {
		if offset, e := c.At(3 * second / 2); abs(offset-true) > e {
			t.Errorf("offset %d ± %d leaves out %d", offset, e, true)
		}
	}
}

func TestAddRefusesAndBounds(t *testing.T) {
	var c Clock
	if _, e := c.At(0); e != math.MaxInt64 || c.RTTMinNs() != 0 || c.Drift() != 0 || c.WallOffsetNs() != 0 {
		t.Error("a clock that nobody asked is known")
	}
	if c.Add(Ping{Sent: 2, Received: 1}) {
		t.Error("an answer came before the question")
	}
	p := path{offset: 9, drift: 50e-6, there: 10e3, back: 10e3, jitter: 1e3, rand: rand.New(rand.NewPCG(3, 4))}
	for i := range int64(10_000) {
		if !c.Add(p.ping(i * second / 10)) {
			t.Fatal("refused")
		}
	}
	if len(c.pings) > pingsMost || c.Pings() != 10_000 {
		t.Errorf("%d kept of %d", len(c.pings), c.Pings())
	}
	for at := second; at < 1000*second; at += 13 * second {
		if offset, e := c.At(at); abs(offset-p.trueOffset(at)) > e {
			t.Fatalf("thinned: wrong at %d", at)
		}
	}
	if c.Add(Ping{Sent: 1, Received: 2}) {
		t.Error("an exchange older than the last was taken")
	}
}
