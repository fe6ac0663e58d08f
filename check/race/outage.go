package race

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ceiling/internal/pause"
)

const (
	// outageRounds happen one after the other; with redeployed, each in another way.
	outageRounds = 3
	// probers make requests, each on a connection of its own.
	probers    = 4
	probeEvery = 20 * time.Millisecond
	// before and after an outage, requests go on for as long.
	beforeOutage, afterOutage = 300 * time.Millisecond, 1500 * time.Millisecond
	// probePatience is when a request that has no answer has failed.
	probePatience = 2 * time.Second
	// crashesPerS requests of the page that crashes; others come every so often, so that many crashes
	// follow each other.
	crashesPerS, amongCrashes = 50, 500 * time.Millisecond
)

// awayFor is how long the backend is away in an outage.
func awayFor(outage string) time.Duration {
	return map[string]time.Duration{outageKilled: 2 * time.Second, outageRestarted: 200 * time.Millisecond}[outage]
}

// scene is one contestant at a case, and what is behind it.
type scene struct {
	*Case
	every   time.Duration // each prober makes a request
	backend *mortal
	dir     string // of the contestant, with the site
	addr    string
	release byte // that stands, 'a' onwards
}

// endure lets the contestants go through the outages of a case, side by side: the load is light, and
// what is counted does not depend on the CPU that each gets.
func (r *race) endure(ctx context.Context, k *Case, runners []*runner) error {
	r.say("%s: %d times", k.Name, outageRounds)
	var wait sync.WaitGroup
	for _, n := range runners {
		wait.Go(func() {
			out, err := r.endureOne(ctx, k, n)
			n.row.Outage = out
			if err != nil {
				n.row.NotRaced = err.Error()
			}
		})
	}
	wait.Wait()
	return ctx.Err()
}

// endureOne starts the contestant again, before a backend that can be taken away.
func (r *race) endureOne(ctx context.Context, k *Case, n *runner) (_ *Outage, err error) {
	n.child.Stop()
	back, err := newMortal(answer)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	again, err := r.start(ctx, n.Contestant, Setup{Case: *k, Workers: r.Workers, Backend: back.addr}, "-outage")
	if err != nil {
		return nil, err
	}
	n.child, n.addr, n.dir = again.child, again.addr, again.dir // stopped with the others
	at := &scene{Case: k, every: probeEvery, backend: back, dir: n.dir, addr: n.addr, release: 'a'}
	out := &Outage{Rounds: outageRounds, AwayS: awayFor(k.Outage).Seconds()}
	switch k.Outage {
	case outageCrash:
		at.every = amongCrashes
	case outageRedeployed:
		err = at.firstRelease()
	}
	for round := 0; round < outageRounds && err == nil; round++ {
		err = at.round(ctx, round, out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// round has requests go on before, during and after an outage, and counts those after it.
func (s *scene) round(ctx context.Context, round int, out *Outage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	seen := make([][]probe, probers)
	for i := range probers {
		wait.Go(func() { seen[i] = s.probes(ctx, time.Duration(i)*s.every/probers) })
	}
	pause.For(ctx, beforeOutage)
	over, err := s.happens(ctx, round)
	pause.For(ctx, afterOutage)
	cancel()
	wait.Wait()
	for _, p := range slices.Concat(seen...) {
		if p.began.Before(over) {
			continue
		}
		out.Requests++
		switch {
		case !p.ok:
			out.Failed++
		case s.Files && !s.stands(p.body):
			out.Wrong++
		default:
			continue
		}
		out.LongestNs = max(out.LongestNs, p.began.Sub(over).Nanoseconds())
	}
	return err
}

// A probe is one request; ok: it was answered with 200.
type probe struct {
	began time.Time
	ok    bool
	body  []byte
}

// probes makes requests until ctx ends, each at its time.
func (s *scene) probes(ctx context.Context, first time.Duration) (list []probe) {
	request := requestBytes(question{"GET", s.Path, ""}, s.addr)
	c := client{addr: s.addr}
	defer c.close()
	for due := time.Now().Add(first); ; due = due.Add(s.every) {
		pause.For(ctx, time.Until(due))
		if ctx.Err() != nil {
			return list
		}
		p := probe{began: time.Now()}
		p.body, p.ok = c.ask(request)
		list = append(list, p)
	}
}

// A client has a connection that is kept as long as it can be.
type client struct {
	addr string
	conn net.Conn
}

func (c *client) ask(request []byte) (body []byte, ok bool) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, probePatience)
		if err != nil {
			return nil, false
		}
		c.conn = conn
	}
	res, body, err := exchange(c.conn, request, probePatience)
	if err != nil || res.Close {
		c.close()
	}
	return body, err == nil && res.StatusCode == http.StatusOK
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing more is expected of it
		c.conn = nil
	}
}

// happens makes an outage happen, and returns from when on nothing of it is left that a request could
// meet: the backend accepts again, the new release is in place.
func (s *scene) happens(ctx context.Context, round int) (over time.Time, err error) {
	switch s.Outage {
	case outageCrash:
		return s.crashes(ctx), nil
	case outageRedeployed:
		return s.redeployed(round)
	case outageKilled: // the backend's process ends as by SIGKILL, and is started again later
		err = s.backend.kill()
	case outageRestarted: // it finishes what it has begun, closes its connections, and is back later
		err = s.backend.end()
	}
	if err != nil {
		return over, err
	}
	pause.For(ctx, awayFor(s.Outage))
	return s.backend.start()
}

// crashes: for a second somebody asks, fifty times a second, for a page on which the backend closes
// the connection; all other requests are good ones, from the beginning.
func (s *scene) crashes(ctx context.Context) time.Time {
	from := time.Now()
	request := requestBytes(question{"GET", crashPath, ""}, s.addr)
	for range crashesPerS {
		c := client{addr: s.addr}
		_, _ = c.ask(request) // it fails: that is what it is for
		c.close()
		pause.For(ctx, time.Second/crashesPerS)
	}
	return from
}

// releaseBytes is the size of the page of a release: one letter, so that a mix of two shows.
const releaseBytes = 64 << 10

func (s *scene) page() []byte { return slices.Repeat([]byte{s.release}, releaseBytes) }

// stands reports whether a body is the release in place, whole.
func (s *scene) stands(body []byte) bool { return string(body) == string(s.page()) }

func (s *scene) write(dir string) error {
	dir = filepath.Join(s.dir, dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "page.html"), s.page(), 0o644)
}

// firstRelease makes the site a link to a release.
func (s *scene) firstRelease() error {
	return errors.Join(s.write("releases/a"), os.RemoveAll(filepath.Join(s.dir, "site")), os.Symlink("releases/a", filepath.Join(s.dir, "site")))
}

// redeployed puts another release in place: by swapping the link, by moving a directory to the
// site's name, and by removing the directory and making it again.
func (s *scene) redeployed(round int) (time.Time, error) {
	s.release++
	name := "releases/" + string(s.release)
	site, fresh := filepath.Join(s.dir, "site"), filepath.Join(s.dir, name)
	var err error
	switch round {
	case 0:
		err = errors.Join(s.write(name), os.Symlink(name, site+".new"), os.Rename(site+".new", site))
	case 1:
		err = errors.Join(s.write(name), os.Rename(site, site+".old"), os.Rename(fresh, site))
	default:
		err = errors.Join(os.RemoveAll(site), s.write("site"))
	}
	return time.Now(), err
}
