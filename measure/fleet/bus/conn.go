package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ceiling/internal/pause"
	"ceiling/internal/text"
)

// Watch is told what happens to a connection while no caller waits for it. It must not wait for the
// connection itself.
type Watch struct {
	// Say, unless nil, takes one line each: the connection broke, the controller has been unreachable
	// for long, it is back, something was refused or lost.
	Say func(line string)
	// LostAfter is how long is long; said again each time that doubles. 0: 30 s.
	LostAfter time.Duration
}

// Conn is an agent's or a driver's connection. It reconnects indefinitely, after 0.1 s at first and
// up to 5 s, with random jitter. While it is down it buffers nothing: a stale command is worse than
// none.
type Conn struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	bed   string
	name  string // the agent's, or driverName
	id    string // the agent's, or driverName
	token *Token // nil: not with one
	// storage of the buckets that a driver makes: memory at our own controller, which makes them at
	// each start, or a file.
	storage jetstream.StorageType
	watch   Watch
	address string
	over    context.Context // ends when it is closed, or will not be let in again; the cause says why
	end     context.CancelCauseFunc

	// Of the attempts to connect, one after another.
	away    time.Time     // since when it is down; zero: it is up
	next    time.Duration // when that is said again
	refused bool          // that was said since it was up
}

// Access says how to reach a test bed, and as whom: an agent with the token of a controller, a driver
// by the state of the controller on this host, or either with the credentials of an organisation's own
// NATS, which decide who may do what.
type Access struct {
	Bed   string // with a token or a state: theirs
	URL   string // with a state: what it says
	Creds string // credentials file; empty: none, or in URL
	CA    string // file of the CA that signed the servers' certificates; empty: the system's

	Token *Token `json:"-"`
	State string `json:"-"` // directory of a controller that has run
}

// Join connects an agent, and waits for the server until ctx ends. Errors that waiting cannot fix are
// returned at once: ErrTokenOver, a name that another agent has.
func Join(ctx context.Context, a Access, name string, w Watch) (*Conn, error) {
	if err := CheckName("agent", name); err != nil {
		return nil, err
	}
	c, err := connect(ctx, a, name, w)
	if err != nil {
		return nil, err
	}
	if err := c.claim(ctx); err != nil {
		c.Close()
		return nil, gone(err)
	}
	return c, nil
}

// Drive connects a driver, which has all rights in the test bed. In an organisation's own NATS call
// Furnish once.
func Drive(ctx context.Context, a Access, w Watch) (*Conn, error) {
	return connect(ctx, a, driverName, w)
}

func connect(ctx context.Context, a Access, name string, w Watch) (*Conn, error) {
	c := &Conn{bed: a.Bed, name: name, id: name, token: a.Token, storage: jetstream.FileStorage, watch: w}
	address, options, err := c.login(a)
	if err == nil {
		err = c.dial(ctx, address, options)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// login returns where the server is and how to log in there, and takes what the access says of the test bed.
func (c *Conn) login(a Access) (address string, options []nats.Option, err error) {
	switch {
	case a.Token != nil:
		c.bed, c.id = a.Token.Bed, a.Token.User+"."+c.name
		return embedded(a.URL, nats.UserJWTAndSeed(a.Token.JWT, a.Token.Seed), a.Token.Certificate)
	case a.State != "":
		s, err := readState(a.State)
		if err == nil && s.Address == "" {
			err = fmt.Errorf("the controller of %s has never run: start `ceiling fleet controller` there", a.State)
		}
		if err != nil {
			return "", nil, err
		}
		c.bed, c.storage = s.Bed, jetstream.MemoryStorage
		login, err := s.driver()
		if err != nil {
			return "", nil, err
		}
		return embedded(s.Address, login, fingerprint(s.Certificate))
	}
	if a.Creds != "" {
		options = append(options, nats.UserCredentials(a.Creds))
	}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	// Without TLS anyone on the path could read results, and an agent's password.
	return a.URL, append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12})), CheckBed(a.Bed)
}

// embedded is login for the server of a controller.
func embedded(address string, login nats.Option, certificate string) (string, []nats.Option, error) {
	host := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		return "", nil, fmt.Errorf("cannot join %q: want nats://host:port, as `ceiling fleet controller` printed it", address)
	}
	return "tls://" + host, []nats.Option{login, nats.Secure(pinned(certificate)), nats.TLSHandshakeFirst()}, nil
}

// claim takes an agent's name, unless another agent has it: that one answers.
func (c *Conn) claim(ctx context.Context) error {
	subject := nameSubject(c.bed, c.name)
	ctx, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	_, err := c.nc.RequestWithContext(ctx, subject, nil)
	switch {
	case err == nil:
		err = fmt.Errorf("the controller at %s has another agent named %s; start this one with another --name", c.host(), c.name)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		_, err = c.nc.Subscribe(subject, func(m *nats.Msg) { c.say(m.Respond(nil)) })
	}
	if c.token != nil && !time.Now().Before(c.token.Expires) { // it was let in for the rest of a second, or by another clock
		select {
		case <-c.over.Done():
			err = c.Err()
		case <-time.After(nameWithin):
		}
	}
	return err
}

// nameWithin is how long another agent of the same name may take to answer. A connection that is dead,
// and that the server believes to be alive, does not.
const nameWithin = time.Second

// dial retries until it is connected, ctx ends, or retrying cannot help.
func (c *Conn) dial(ctx context.Context, address string, options []nats.Option) error {
	c.address = WithoutLogin(address)
	c.over, c.end = context.WithCancelCause(context.Background())
	options = append(c.options(), options...)
	began := time.Now()
	for attempt := 0; ; attempt++ {
		nc, err := nats.Connect(address, options...)
		if err == nil {
			c.nc = nc
			c.js, err = jetstream.New(nc)
			return err
		}
		if errors.Is(err, errStranger) {
			return say(ErrTokenOver, "%s: %v: use the token of the controller there; if it is, something intercepts the connection", c.address, errStranger)
		}
		if refusesLogin(err) {
			return c.refuses(err)
		}
		if hopeless(err) {
			return err
		}
		c.fails(err)
		if !pause.For(ctx, backoff(attempt)) {
			return say(context.Cause(ctx), "%s; check the address, and %s", c.absent(time.Since(began), err), startIt)
		}
	}
}

// WithoutLogin removes user and password from NATS addresses.
func WithoutLogin(address string) string {
	list := strings.Split(address, ",")
	for i, a := range list {
		if u, err := url.Parse(a); err == nil && u.User != nil {
			u.User = nil
			list[i] = u.String()
		}
	}
	return strings.Join(list, ",")
}

// hopeless reports whether retrying cannot help.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var address *url.Error
	return errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.As(err, &certificate) || errors.As(err, &plain) || errors.As(err, &address)
}

// backoff before attempt n (from 0): 0.1 s doubling up to 5 s, ±50 %, so that a thousand agents do
// not reconnect at the same time.
func backoff(n int) time.Duration {
	most := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
	return most/2 + rand.N(most)
}

func (c *Conn) options() []nats.Option {
	return []nats.Option{
		nats.Name("ceiling " + c.name),
		nats.CustomInboxPrefix(inbox(c.bed, c.id)),
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // fails decides
		nats.CustomReconnectDelay(backoff),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreDiscoveredServers(), // only the given address is known to be reachable
		nats.NoCallbacksAfterClientClose(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.fails(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.fails(err) }),
		nats.ConnectHandler(func(*nats.Conn) { c.back() }),
		nats.ReconnectHandler(func(*nats.Conn) { c.back() }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			switch {
			case s != nil:
				c.say(fmt.Errorf("%s: %w", s.Subject, err))
			case refusesLogin(err): // of an attempt to reconnect
				c.fails(err)
			default:
				c.say(err)
			}
		}),
	}
}

// Bed returns the test bed's name.
func (c *Conn) Bed() string { return c.bed }

// Name returns the agent's name.
func (c *Conn) Name() string { return c.name }

// Connected reports whether the connection is up.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Close closes the connection at once and stops reconnecting.
func (c *Conn) Close() {
	c.end(ErrGone)
	c.nc.Close()
}

// gone maps NATS's errors for an absent peer to ErrGone.
func gone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders):
		return say(ErrGone, "no agent of that name answers")
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return say(ErrGone, "not connected to the controller")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return say(err, "no answer in time")
	}
	return err
}

// host is the address without its scheme.
func (c *Conn) host() string { return c.address[strings.LastIndexByte(c.address, '/')+1:] }

// refusesLogin reports whether a server rejects these credentials.
func refusesLogin(err error) bool {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
		return true
	}
	said := strings.ToLower(err.Error()) // rejections during the connect have no error value
	return strings.Contains(said, nats.AUTHENTICATION_EXPIRED_ERR) || strings.Contains(said, nats.AUTHENTICATION_REVOKED_ERR)
}

// refuses words a refused login, with the fix. NATS gives a reason only to those that it disconnects.
func (c *Conn) refuses(err error) error {
	if c.token == nil {
		return fmt.Errorf("%s refuses the login: check the credentials, and whether they have expired", c.address)
	}
	why := "was revoked, or has expired by the clock there,"
	switch {
	case errors.Is(err, nats.ErrAuthRevoked):
		why = "was revoked"
	case errors.Is(err, nats.ErrAuthExpired), !time.Now().Before(c.token.Expires):
		why = "has expired"
	}
	return say(ErrTokenOver, "token %s %s and the controller at %s refuses it; make another token on its host: ceiling fleet tokens create",
		c.token.ID(), why, c.host())
}

// reason words a kernel or NATS connection error.
func reason(err error) string {
	var timeout net.Error
	var name *net.DNSError
	var alert tls.AlertError
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, nats.ErrConnectionClosed):
		return "it closed the connection"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, nats.ErrNoServers): // NATS' word for it
		return "connection refused: nothing listens there"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it reset the connection"
	case refusesLogin(err):
		return "it refuses the login"
	case errors.As(err, &name):
		return fmt.Sprintf("the name %s cannot be resolved", name.Name)
	case errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it"
	case errors.As(err, &alert):
		return "it refused the TLS handshake"
	}
	return strings.TrimPrefix(err.Error(), "nats: ")
}

// startIt is the fix for a missing controller.
const startIt = "start it on its host: ceiling fleet controller"

func (c *Conn) absent(since time.Duration, why error) string {
	return fmt.Sprintf("no controller at %s for %s (%s)", c.host(), since.Round(100*time.Millisecond), reason(why))
}

// say tells the Watch an error that has no caller to be returned to.
func (c *Conn) say(err error) {
	if err != nil && c.watch.Say != nil && c.over.Err() == nil {
		c.watch.Say(text.Line(err.Error()))
	}
}

// fails handles the end of a connection, and each attempt that fails until there is one again.
func (c *Conn) fails(err error) {
	first := c.away.IsZero()
	if first {
		c.away, c.next = time.Now(), cmp.Or(c.watch.LostAfter, 30*time.Second)
	}
	past := time.Since(c.away)
	switch {
	case refusesLogin(err) && c.token != nil:
		c.end(c.refuses(err))
	case refusesLogin(err) && !c.refused: // an organisation's NATS may accept it again later
		c.refused = true
		c.say(c.refuses(err))
	case first:
		c.say(fmt.Errorf("no connection to the controller (%s); trying again", reason(err)))
	case past >= c.next:
		c.next = 2 * past
		line := c.absent(past, err) + "; " + startIt
		if c.name != driverName {
			line += ", or end this agent (Ctrl-C)"
		}
		c.say(errors.New(line))
	}
}

// back notes that it is connected.
func (c *Conn) back() {
	if !c.away.IsZero() {
		c.away, c.refused = time.Time{}, false
		c.say(errors.New("controller is back"))
	}
}

// Over is closed when the controller will not admit this agent again, since its token has expired or
// was revoked, or when the connection was closed. Err says which.
func (c *Conn) Over() <-chan struct{} { return c.over.Done() }

// Err returns why the connection is over.
func (c *Conn) Err() error { return context.Cause(c.over) }
