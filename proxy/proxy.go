// Package proxy is a reverse proxy and site host on event loops: one loop per core, each with its
// own ring, listener, connections and counters. A request takes no lock, is not decoded, and
// allocates nothing.
//
// Clients with TLS and HTTP/2 are served by the same loops; what would block one runs elsewhere.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
	"ceiling/proxy/config"
	"ceiling/proxy/listen"
	"ceiling/proxy/secure"
)

// Options configure how a proxy runs, apart from its configuration.
type Options struct {
	// Engine of the rings: ring.Auto, ring.Uring or ring.Epoll; "" is Auto.
	Engine string
	// Report receives one line about each problem while the proxy runs; nil discards them.
	Report func(line string)
	// Share divides the total limits among prefork processes: this one is 1 of Share. 0 means 1.
	Share int
	// Roots are the CAs that verify destinations with TLS; nil means the system's.
	Roots *x509.CertPool

	// LookUp returns the addresses of a name; nil asks the system.
	LookUp func(host string) ([]string, error)

	// Challenges is the socket of the secure.Keeper that answers ACME's challenges, "" for none.
	Challenges string

	// Listeners, one per address, are used instead of new ones: a process with one loop inherited them.
	Listeners []int
}

// Proxy serves one configuration after another.
type Proxy struct {
	options    Options
	began      time.Time
	id         string // this process's ID, see loopdetect.go
	loops      []*loop
	addresses  []listen.Address
	secured    []listen.Address // with TLS
	hosts      hosts
	maxClients int // per loop
	log        *accessLog
	ids        atomic.Uint32
	reported   atomic.Int64 // when crowded last reported, ns since began

	mu           sync.Mutex // serialises reloads
	site         *site
	applications Applications // what the supervisor knows
	runs         bool         // the loops do
	departed     []*upstream  // starting ones that a reload has removed
	wakes        []int        // our ends of the loops' wake sockets
	ended        atomic.Bool
	certificates atomic.Pointer[secure.Certificates] // of site; nil without TLS

	slow  context.CancelFunc // ends the health checks and look-ups of site
	tasks sync.WaitGroup
	over  context.Context // ends when the loops have ended
	end   context.CancelFunc
}

// New returns a listening proxy. It serves requests once Run is called.
func New(c *config.Config, o Options) (*Proxy, error) {
	p := &Proxy{options: o, began: time.Now(), id: newID(), slow: func() {}}
	p.over, p.end = context.WithCancel(context.Background())
	if p.options.Report == nil {
		p.options.Report = func(string) {}
	}
	workers := c.Workers
	if workers == 0 {
		workers = runtime.NumCPU()
	}
	for range workers {
		p.loops = append(p.loops, newLoop(p, len(p.loops)))
	}
	err := p.open(c)
	if err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	return p, nil
}

func newLoop(p *Proxy, index int) *loop {
	return &loop{proxy: p, index: index, wake: -1, clients: map[*client]struct{}{}, calls: make(chan func(*loop), 64),
		memory: memory{clean: make([]byte, 0, 256)}}
}

// open does everything that can fail.
func (p *Proxy) open(c *config.Config) error {
	_, hard, err := sys.RaiseOpenFiles(1 << 20)
	if err != nil {
		return err
	}
	most := c.Limits.Connections
	if most == 0 {
		most = int(min(hard, 1<<20)) * 15 / 16
	}
	p.maxClients = max(most/len(p.loops), 1)
	if p.site, err = p.build(c, nil); err != nil {
		return err
	}
	p.certificates.Store(p.site.certificates)
	if p.log, err = openLog(c.Log.Access, c.Log.Sample, p.options.Report); err != nil {
		return err
	}
	if err := p.listenAll(c); err != nil {
		return err
	}
	p.markLoops(p.site)
	for _, l := range p.loops {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socketpair", err)
		}
		l.wake = pair[0]
		p.wakes = append(p.wakes, pair[1])
		l.admission.room = p.maxClients
		l.log = &logBuffer{to: p.log, lots: uint64(pair[0]) * 0x9e3779b97f4a7c15}
		l.install(p.site)
		l.tell(time.Now())
	}
	return nil
}

// listenAll listens on the configured addresses, or uses the inherited listeners, one per
// address: the plain ones, then those for TLS.
func (p *Proxy) listenAll(c *config.Config) (err error) {
	if len(c.TLS.Listen) > 0 {
		shared, err := secure.Config(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificates.Load().Get(hello) },
			&c.TLS)
		if err != nil {
			return err
		}
		for _, l := range p.loops {
			l.admission.tls = tlsconn.NewServer(shared)
		}
	}
	for i, a := range slices.Concat(c.Listen, c.TLS.Listen) {
		secure, to := i >= len(c.Listen), &p.addresses
		if secure {
			to = &p.secured
		}
		var fds []int
		if p.options.Listeners != nil {
			fds = p.options.Listeners[i : i+1]
		} else {
			var at listen.Address
			if fds, at, err = listen.Listen(a, len(p.loops)); err != nil {
				return err
			}
			*to = append(*to, at)
		}
		for j, fd := range fds {
			p.loops[j].listeners = append(p.loops[j].listeners, &listener{socket: fd, tls: secure, unix: isUnix(fd)})
		}
	}
	return nil
}

// abandon frees a proxy that will not run.
func (p *Proxy) abandon() error {
	p.end()
	err := p.log.close()
	for _, l := range p.loops {
		for _, ln := range l.listeners {
			err = errors.Join(err, syscall.Close(ln.socket))
		}
		if l.wake >= 0 {
			err = errors.Join(err, syscall.Close(l.wake))
		}
	}
	for _, fd := range p.wakes {
		err = errors.Join(err, syscall.Close(fd))
	}
	return err
}

// Addresses returns the addresses it listens on, with their actual ports.
func (p *Proxy) Addresses() []listen.Address { return p.addresses }

// SecureAddresses returns the addresses for clients with TLS.
func (p *Proxy) SecureAddresses() []listen.Address { return p.secured }

// ballastBytes is a live heap that is never touched, and so takes no memory: the next garbage collection
// comes that many bytes later. A TLS handshake leaves 40 KB, so that the few live megabytes of a proxy were
// collected every hundred handshakes, for a sixth of their CPU time.
const ballastBytes = 32 << 20

// Run serves until ctx ends, then finishes requests in progress for up to the drain time, or until now is
// closed, and frees everything. It returns an error when a loop fails.
//
// A loop blocks in the kernel without telling the runtime, which saves a few percent, so the
// runtime gets that many extra threads for everything else.
func (p *Proxy) Run(ctx context.Context, now <-chan struct{}) (err error) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(before, len(p.loops)) + max(2, len(p.loops)))
	defer runtime.GOMAXPROCS(before)
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	ended := make(chan error, len(p.loops))
	for _, l := range p.loops {
		go func() { ended <- l.run() }()
	}
	p.mu.Lock()
	p.runs = true
	p.watch(p.site)
	p.mu.Unlock()
	left := len(p.loops)
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
		if err == nil {
			err = errors.New("proxy: a loop ended without being told to")
		}
	}
	p.mu.Lock()
	p.ended.Store(true)
	p.slow()
	within := p.site.config.Timeouts.Drain.Or(30 * time.Second)
	p.mu.Unlock()
	if err != nil {
		within = 0
	}
	p.tell(func(l *loop) { l.stop(within) })
	for left > 0 {
		select {
		case one := <-ended:
			err = errors.Join(err, one)
			left--
		case <-now:
			now = nil
			p.tell(func(l *loop) { l.stop(0) })
		}
	}
	p.end()
	p.tasks.Wait()
	for _, fd := range p.wakes {
		err = errors.Join(err, syscall.Close(fd))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log
	p.log = nil
	return errors.Join(err, log.close())
}

// tell makes every loop call f soon.
func (p *Proxy) tell(f func(*loop)) {
	for i, l := range p.loops {
		l.calls <- f
		p.wakeUp(i)
	}
}

func (p *Proxy) wakeUp(i int) {
	// This fails if the loop has ended, or is already due to wake up.
	_, _ = syscall.SendmsgN(p.wakes[i], []byte{0}, nil, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
}

// ask makes every loop compute f, and calls take with each answer.
func ask[T any](p *Proxy, f func(*loop) T, take func(T)) error {
	answers := make(chan T, len(p.loops))
	p.tell(func(l *loop) { answers <- f(l) })
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	for range p.loops {
		select {
		case a := <-answers:
			take(a)
		case <-late.C:
			return errors.New("proxy: a loop does not answer")
		}
	}
	return nil
}

// Reload switches to another configuration. Requests in progress, tunnels, and connections to
// unchanged destinations stay. Changing the addresses, the number of workers or the log file is
// an error, and then nothing changes.
func (p *Proxy) Reload(c *config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Load() {
		return errors.New("reload: the proxy is ending")
	}
	old := p.site
	if err := unchangeable(old.config, c); err != nil {
		return err
	}
	s, err := p.build(c, old)
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	p.markLoops(s)
	p.site = s
	p.certificates.Store(s.certificates)
	for key, u := range old.upstreams {
		if s.upstreams[key] == nil {
			u.gone.Store(true)
			if u.starting.Load() { // requests wait for it
				p.departed = append(p.departed, u)
			}
		}
	}
	if err := ask(p, func(l *loop) struct{} { l.install(s); return struct{}{} }, func(struct{}) {}); err != nil {
		return err
	}
	p.watch(s)
	return nil
}

// ReopenLog switches to a new file after the access log was renamed. The old one has every request that was
// answered before; only while the proxy ends, its last lines may go to either.
func (p *Proxy) ReopenLog() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil && p.runs && !p.ended.Load() {
		if err := ask(p, func(l *loop) struct{} { l.log.flush(l); return struct{}{} }, func(struct{}) {}); err != nil {
			return err
		}
	}
	if err := p.log.reopen(); err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	return nil
}

// unchangeable compares the settings that only a new process can change.
func unchangeable(old, c *config.Config) error {
	same := func(what string, a, b any) error {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			return fmt.Errorf("reload: %s changes from %v to %v, which needs a new start", what, a, b)
		}
		return nil
	}
	return errors.Join(same("listen", old.Listen, c.Listen), same("workers", old.Workers, c.Workers),
		same("tls.listen", old.TLS.Listen, c.TLS.Listen), same("tls.acme", fixedACME(old), fixedACME(c)),
		same("tls.client_ca", old.TLS.ClientCA, c.TLS.ClientCA), same("tls.client_optional", old.TLS.ClientOptional, c.TLS.ClientOptional),
		same("admin", old.Admin, c.Admin), same("log", old.Log, c.Log), same("limits.connections", old.Limits.Connections, c.Limits.Connections))
}

// fixedACME is the part of the ACME configuration that only a new process can change.
func fixedACME(c *config.Config) string {
	if c.TLS.ACME == nil {
		return "none"
	}
	fixed := *c.TLS.ACME
	fixed.Hosts = nil
	return fmt.Sprintf("%+v", fixed)
}

// install switches the loop to a site.
func (l *loop) install(s *site) {
	l.site = s
	for i, pool := range l.pools {
		if pool != nil && pool.upstream.gone.Load() {
			pool.empty()
			if pool.open == 0 && pool.busy == 0 {
				l.pools[i] = nil
			}
		}
	}
	l.files.Forget()
}

func (p *Proxy) nextID() uint32 { return p.ids.Add(1) - 1 }

// processes is the divisor of a total limit: the number of loops in all processes.
func (p *Proxy) processes() int { return len(p.loops) * max(p.options.Share, 1) }

// fail reports a problem.
func (p *Proxy) fail(line string) { p.options.Report(line) }
