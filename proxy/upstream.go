package proxy

import (
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/compress"
	"ceiling/proxy/config"
	"ceiling/proxy/files"
	"ceiling/proxy/route"
)

// location says what is done with a rule's requests.
type location struct {
	id           string
	destinations []*destination
	fallback     *destination
	files        *files.Site // the only destination, without a fallback
	redirect     *config.Redirect
	fixed        *fixed
	entrance     *entrance
	pages        errorPages
	tryFiles     bool // the first destination is files, before the others
	sticky       bool // balanceKey is a cookie that the proxy sets
	unlogged     bool // but for errors
	balance      route.Balance
	balanceKey   requestKey
	rate         *limiter
	rateKey      requestKey
	retries      int
	bodyBytes    int64
	turns        []turnOf // by loop
	request      edits
	response     responseEdits // while no destination is chosen
	open         bool          // never redirected to https
	compress     bool

	within timings
}

// timings are the times of a location, in nanoseconds; 0 is none.
type timings struct{ connect, respond, idle, total, queue, tunnel int64 }

// destination is one target for a location's requests.
type destination struct {
	id       string
	name     string    // for the log: the id, else the URI
	upstream *upstream // nil for files
	files    *files.Site
	weight   int
	seed     uint64
	host     string // to send; "" keeps the client's
	collects bool   // it cannot take chunks
	base     string
	replace  []replacement
	response responseEdits
	level    compress.Level // of compression
	loopMark *loopMark      // set if it may be this proxy
	looped   atomic.Bool
}

// replacement edits the path of a request.
type replacement struct {
	old, new string
	re       *regexp.Regexp // instead of old
}

// requestKey is what distinguishes requests.
type requestKey struct {
	kind keyKind
	name string
}

type keyKind uint8

const (
	keyNone keyKind = iota
	keyClient
	keyPath
	keyHeader
	keyCookie
	keyDestination // a sticky cookie
)

// fixed is an answer that is always the same.
type fixed struct {
	status      int
	lines, body []byte
}

// upstream is one address that requests go to, under one set of rules. It survives reloads that
// do not change it. All loops share its fields, which are rarely written.
type upstream struct {
	id     uint32 // dense: loops index their pools by it
	key    string
	target config.Target
	http2  bool // the loops speak HTTP/2 to it
	tls    outerTLS

	naming  naming
	limit   atomic.Int64 // connections per loop; 0 is no limit
	queue   atomic.Int64 // requests that may wait, per loop
	maxIdle atomic.Int64
	idle    atomic.Int64 // ns a connection may be idle
	gone    atomic.Bool  // removed from the configuration

	supervised

	ill      atomic.Bool   // according to the health checks
	answers  atomic.Bool   // the last health check succeeded
	failures atomic.Int32  // in a row
	failedAt atomic.Int64  // proxy's clock: time of the last one
	failedOn atomic.Uint64 // evidence.path of the last one
	until    atomic.Int64  // proxy's clock: ejected until then; 0 if not ejected
	times    atomic.Int32  // ejections in a row
	trial    atomic.Bool   // a request is testing it
	ejects   atomic.Uint64
	checked  atomic.Uint64 // health checks
	unwell   atomic.Uint64 // of these, failed ones

	eject struct {
		failures int32
		first    time.Duration
		most     time.Duration
	}
}

// naming is what is known about its name.
type naming struct {
	addresses atomic.Pointer[[]ring.Sockaddr] // nil until the name resolves
	problem   trouble                         // with resolving it
	again     chan struct{}                   // see resolveSoon
}

// supervised is what is known about an application.
type supervised struct {
	managed  atomic.Bool // it is started here
	starting atomic.Bool // it is not ready
	suspect  atomic.Bool // it may have exited, see Proxy.suspect
}

// choose asks the location's balance for one of the eligible destinations; nil if none is left.
func (x *exchange) choose(key uint64, may func(*destination, *loop) bool) *destination {
	l, loc := x.client.conn.loop, x.location
	turn := loc.turn(l)
	for {
		if len(turn.choices) != len(loc.destinations) {
			turn.choices = make([]route.Choice, len(loc.destinations))
		}
		for i, d := range loc.destinations {
			busy := 0
			if d.upstream != nil {
				busy = l.pool(d.upstream).busy
			}
			turn.choices[i] = route.Choice{
				Weight: d.weight, Busy: busy, Seed: d.seed,
				Usable: x.tried&(1<<(i&63)) == 0 && may(d, l),
			}
		}
		i := turn.chooser.Choose(turn.choices, key)
		if i < 0 {
			return nil
		}
		d := loc.destinations[i]
		switch u := d.upstream; {
		case u == nil || !u.ejected():
			return d
		case u.try(l.now): // one request tests whether it works again
			x.trial = true
			return d
		case !d.usable(l): // its ejection is disregarded
			return d
		}
		x.tried |= 1 << (i & 63)
	}
}

// usable, healthy and lastResort: see upstream. Files are usable while their directory is there; as
// a last resort, they are 404.
func (d *destination) usable(l *loop) bool {
	if d.files != nil {
		return l.files.Has(d.files, l.now)
	}
	return d.upstream.usable(l.now)
}

func (d *destination) healthy(l *loop) bool {
	if d.files != nil {
		return d.usable(l)
	}
	return !d.upstream.ill.Load()
}

func (d *destination) lastResort(*loop) bool { return d.files != nil || d.upstream.lastResort() }

// mostlyEjected reports whether more than half of several destinations are ejected. Then ejection
// says less about them than about the requests or the network, and the rest could not carry the load:
// all are used (Envoy's panic threshold, also half).
func (loc *location) mostlyEjected(now int64) bool {
	if len(loc.destinations) < 2 {
		return false
	}
	out := 0
	for _, d := range loc.destinations {
		if d.upstream != nil && d.upstream.until.Load() > now {
			out++
		}
	}
	return 2*out > len(loc.destinations)
}

// bit returns the destination's bit in exchange.tried.
func (loc *location) bit(d *destination) uint64 {
	for i, other := range loc.destinations {
		if other == d {
			return 1 << (i & 63)
		}
	}
	return triedFallback
}

func (loc *location) turn(l *loop) *turnOf { return &loc.turns[l.index] }

// turnOf is the per-loop state of a location that its requests change.
type turnOf struct {
	choices []route.Choice
	chooser route.Chooser
	tokens  float64
	budget  float64
	_       [64]byte // keep another loop's on another cache line
}

// maxTokens bounds the saved retries.
const maxTokens = 10

// mayRetry takes a retry from the budget.
func (t *turnOf) mayRetry() bool {
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

// earn adds to the retry budget with each request.
func (t *turnOf) earn() { t.tokens = min(t.tokens+t.budget, maxTokens) }

// usable reports whether a request may be sent there now, possibly as a test.
func (u *upstream) usable(now int64) bool {
	return !u.ill.Load() && u.until.Load() <= now && u.naming.addresses.Load() != nil && !u.held()
}

// lastResort reports whether a request may be sent there if no destination is usable: an ejected one
// may work again, and so may one that passed its last health check, but not yet enough of them. Of one
// that is starting, or has no address, more is known than of its checks.
func (u *upstream) lastResort() bool {
	return !u.ill.Load() || u.answers.Load() || u.held() || u.naming.addresses.Load() == nil
}

func (u *upstream) ejected() bool { return u.until.Load() != 0 }

// try claims the right to test whether an ejected upstream works.
func (u *upstream) try(now int64) bool {
	return u.until.Load() <= now && u.trial.CompareAndSwap(false, true)
}

// worked records a response.
func (u *upstream) worked() {
	if u.failures.Load() != 0 {
		u.failures.Store(0)
	}
	if u.times.Load() != 0 {
		u.until.Store(0)
		u.times.Store(0)
		u.trial.Store(false)
	}
}

// connected records that a destination accepts connections: it has been started again, or only some
// of its requests fail.
func (u *upstream) connected() {
	if u.until.Load() != 0 {
		u.until.Store(0)
		u.failures.Store(0)
		u.trial.Store(false)
	}
}

// evidence is what an attempt without a response says about its destination.
type evidence struct {
	opened int64  // proxy's clock: when the connection that ended was opened
	path   uint64 // hash of the request's path if the destination may have seen it; 0: it has not
}

// failed records an attempt without a response; trial means that it was a test. A restarting
// destination closes all its connections: that is one failure. So is a page that crashes its
// process, however often it is requested.
func (u *upstream) failed(now int64, e evidence, trial bool) {
	if last := u.failedAt.Swap(now); last != 0 && e.opened < last && !trial {
		return
	}
	if before := u.failedOn.Swap(e.path); e.path != 0 && e.path == before {
		if trial {
			u.trial.Store(false)
		}
		return
	}
	n := u.failures.Add(1)
	if u.eject.failures <= 0 || !trial && n < u.eject.failures {
		return
	}
	if u.until.Load() > now {
		return // others failed as well and have ejected it
	}
	pause := u.eject.first << min(u.times.Add(1)-1, 20)
	if pause > u.eject.most || pause <= 0 {
		pause = u.eject.most
	}
	u.ejects.Add(1)
	u.until.Store(now + int64(pause))
	u.trial.Store(false)
}

// state returns the state in one word.
func (u *upstream) state(now int64) string {
	switch until := u.until.Load(); {
	case u.naming.addresses.Load() == nil:
		return "unresolved"
	case u.starting.Load():
		return "starting"
	case u.ill.Load():
		return "ill"
	case until > now:
		return "ejected"
	case until != 0:
		return "on trial"
	}
	return "ok"
}

// resolve looks the name up. Literal addresses and sockets are resolved once. moved means that an
// address has gone.
func (u *upstream) resolve(look func(host string) ([]string, error)) (moved bool, err error) {
	list, err := socketAddresses(u.target, look)
	if err != nil {
		return false, fmt.Errorf("destination %s: %w", u.key, err)
	}
	before := u.naming.addresses.Swap(&list)
	if before == nil {
		return false, nil
	}
	gone := func(a ring.Sockaddr) bool { return !slices.Contains(list, a) }
	return slices.ContainsFunc(*before, gone), nil
}

// note reports when the name ceases to resolve, and when it does again.
func (u *upstream) note(err error, report func(string)) {
	if err == nil {
		if u.naming.problem.ends() {
			report(fmt.Sprintf("destination %s: its name resolves", u.key))
		}
		return
	}
	text := err.Error()
	if !u.naming.problem.begins(text) {
		return
	}
	until := "its requests get 502 until the name resolves"
	if u.naming.addresses.Load() != nil {
		until = "the old addresses stay"
	}
	report(text + "; " + until)
}

// resolveSoon has the name looked up again: an address may be that of a destination that has moved.
func (u *upstream) resolveSoon() {
	select {
	case u.naming.again <- struct{}{}:
	default: // it will be
	}
}

func (u *upstream) secure() bool { return u.tls.config != nil }

// held reports whether requests wait for the application to be ready.
func (u *upstream) held() bool { return u.starting.Load() || u.suspect.Load() }
