package bus

import (
	"context"
	"crypto/ed25519"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Watch has callbacks for the state of a connection. Each may be nil; they are called one after
// another, and must not wait for the connection.
type Watch struct {
	// Gone: the connection broke, or the first attempt failed; it is retried indefinitely.
	Gone func(why error)
	// Lost: the controller has been unreachable for LostAfter; called again each time that doubles.
	// Retries continue.
	Lost func(*Absent)
	// LostAfter, 0: the constant LostAfter.
	LostAfter time.Duration
	// Back: it is connected again.
	Back func()
	// Trouble: something was rejected or lost, with no caller to return the error to.
	Trouble func(error)
}

// Conn is an agent's or a driver's connection. It reconnects indefinitely, after 0.1 s at first and
// up to 5 s, with random jitter. While it is down it only buffers a Publisher's samples: a stale
// command is worse than none.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bed    string
	name   string // the agent's, or DriverName
	key    ed25519.PublicKey
	signer Signer // only a driver's
	watch  Watch
	closed atomic.Bool

	address string
	asker   *asker        // only an agent's at our own controller; nil: a refusal has no reason
	asking  atomic.Bool   // one at a time
	over    chan struct{} // see Over

	mu     sync.Mutex
	err    error       // why it is over
	failed error       // the last reconnect attempt
	taken  bool        // the refusal has been reported since the last connection
	lost   *time.Timer // running while the connection is down
}

// Join connects an agent to a controller's embedded server and waits for it until ctx ends. Errors
// that waiting cannot fix are returned at once: an invalid token, ErrStranger, ErrRefused.
func Join(ctx context.Context, address, token, name string, w Watch) (*Conn, error) {
	t, err := ParseToken(token)
	if err != nil {
		return nil, err
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if t.Own() {
		return nil, errors.New("the token is for an organisation's own NATS: give its credentials too")
	}
	var own Nonce
	cryptorand.Read(own[:])
	c := &Conn{bed: t.Bed, name: name, key: t.Key, watch: w, asker: &asker{name: name, token: t, password: t.password(own)}}
	return c.opened(c.connect(ctx, address, nats.UserInfo(name, t.password(own)), pinned(t.Authority)))
}

// Drive connects the controller's own processes, which read its state: they have all rights in the
// test bed and seal commands.
func Drive(ctx context.Context, dir string, w Watch) (*Conn, error) {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no controller's state: start `ceiling fleet controller` there first", dir)
	}
	if err != nil {
		return nil, err
	}
	if s.Address == "" {
		return nil, fmt.Errorf("the controller of %s has never run: start `ceiling fleet controller` there", dir)
	}
	t := s.token()
	c := &Conn{bed: s.Bed, name: DriverName, key: t.Key, signer: s.signer(), watch: w}
	return c.opened(c.connect(ctx, s.Address, nats.UserInfo(DriverName, hex.EncodeToString(s.Driver[:])), pinned(t.Authority)))
}

// Own says how to reach an organisation's own NATS.
type Own struct {
	URL   string // credentials file; empty: none, or in URL
	Creds string // credentials file; empty: none, or in URL
	CA    string // file of the CA that signed the servers' certificates; empty: the system's
}

// JoinOwn connects an agent to an organisation's own NATS. The token is from Key.Token: it names
// the test bed and the key that seals commands.
func JoinOwn(ctx context.Context, o Own, token, name string, w Watch) (*Conn, error) {
	t, err := ParseToken(token)
	if err != nil {
		return nil, err
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	c := &Conn{bed: t.Bed, name: name, key: t.Key, watch: w}
	return c.opened(c.connectOwn(ctx, o))
}

// DriveOwn connects a driver to an organisation's own NATS. Call Furnish once.
func DriveOwn(ctx context.Context, o Own, k *Key, w Watch) (*Conn, error) {
	c := &Conn{bed: k.Bed, name: DriverName, key: k.signer().Public(), signer: k.signer(), watch: w}
	return c.opened(c.connectOwn(ctx, o))
}

// opened returns the Conn only if err is nil.
func (c *Conn) opened(err error) (*Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) connectOwn(ctx context.Context, o Own) error {
	var options []nats.Option
	if o.Creds != "" {
		options = append(options, nats.UserCredentials(o.Creds))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	// Without TLS anyone on the path could read results, and an agent's password.
	options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	return c.dial(ctx, o.URL, options)
}

func (c *Conn) connect(ctx context.Context, address string, login nats.Option, trust *tls.Config) error {
	host := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		return fmt.Errorf("cannot join %q: want nats://host:port, as `ceiling fleet controller` printed it", address)
	}
	if c.asker != nil {
		c.asker.address = "tls://" + host
	}
	return c.dial(ctx, "tls://"+host, []nats.Option{login, nats.Secure(trust), nats.TLSHandshakeFirst()})
}

// dial retries until it is connected, ctx ends, or retrying cannot help.
func (c *Conn) dial(ctx context.Context, address string, options []nats.Option) error {
	dial := &dialer{}
	c.address, c.over = withoutPassword(address), make(chan struct{})
	began := time.Now()
	options = append(append(options, c.options()...), nats.SetCustomDialer(dial))
	for attempt := 0; ; attempt++ {
		nc, err := nats.Connect(address, options...)
		if errors.Is(err, nats.ErrNoServers) && dial.last() != nil {
			err = dial.last() // NATS does not report it
		}
		if err == nil {
			c.nc = nc
			if c.js, err = jetstream.New(nc); attempt > 0 && c.watch.Back != nil {
				c.watch.Back()
			}
			return err
		}
		if err = c.explain(err); hopeless(err) {
			return err
		}
		absent := &Absent{Address: c.address, Why: reason(err)}
		if attempt == 0 && c.watch.Gone != nil {
			c.watch.Gone(errors.New(absent.Why))
		}
		select {
		case <-ctx.Done():
			absent.For = time.Since(began).Round(100 * time.Millisecond)
			return &unreached{absent, context.Cause(ctx)}
		case <-time.After(pause(attempt)):
		}
	}
}

// dialer remembers its last connect error.
type dialer struct {
	mu  sync.Mutex
	err error
}

// Dial is NATS' custom dialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial(network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return c, err
}

func (d *dialer) last() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// unreached is an Absent, and the error that ended the wait.
type unreached struct {
	*Absent
	ended error
}

func (u *unreached) Unwrap() []error { return []error{u.Absent, u.ended} }

// explain turns a NATS error into a line that names the other end.
func (c *Conn) explain(err error) error {
	switch {
	case errors.Is(err, ErrStranger):
		return fmt.Errorf("%s: %w: use the token of the controller there; if it is, something intercepts the connection", c.address, ErrStranger)
	case errors.Is(err, nats.ErrAuthorization) && c.asker != nil:
		return c.asker.why()
	case refusesLogin(err):
		return c.loginRefused()
	}
	return err
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

func withoutPassword(address string) string {
	list := strings.Split(address, ",")
	for i, a := range list {
		if u, err := url.Parse(a); err == nil {
			list[i] = u.Redacted()
		}
	}
	return strings.Join(list, ",")
}

// hopeless reports whether retrying cannot help.
func hopeless(err error) bool {
	for _, e := range []error{ErrStranger, ErrRefused, nats.ErrSecureConnWanted, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	var parse *url.Error
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) || errors.As(err, &plain) || errors.As(err, &parse)
}

// pause before attempt n (from 0): 0.1 s doubling up to 5 s, ±50 %, so that a thousand agents do
// not reconnect at the same time.
func pause(n int) time.Duration {
	most := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
	return most/2 + rand.N(most)
}

func (c *Conn) options() []nats.Option {
	return []nats.Option{
		nats.Name("ceiling " + c.name),
		nats.CustomInboxPrefix(inbox(c.bed, c.name)),
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a controller that still has our old connection refuses the new one for a while
		nats.CustomReconnectDelay(pause),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreDiscoveredServers(), // only the given address is known to be reachable
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.closed.Load() {
				return
			}
			c.away(err)
			if c.watch.Gone != nil {
				c.watch.Gone(errors.New(reason(err)))
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.fails(err) }),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.again()
			if c.watch.Back != nil {
				c.watch.Back()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if s == nil && refusesLogin(err) { // from a reconnect attempt
				c.fails(err)
				return
			}
			if s != nil {
				err = fmt.Errorf("%s: %w", s.Subject, err)
			}
			c.trouble(err)
		}),
	}
}

func (c *Conn) trouble(err error) {
	if c.watch.Trouble != nil && !c.closed.Load() {
		c.watch.Trouble(err)
	}
}

// Bed returns the test bed's name.
func (c *Conn) Bed() string { return c.bed }

// Name returns the agent's name; a driver has none.
func (c *Conn) Name() string {
	if c.name == DriverName {
		return ""
	}
	return c.name
}

// Key returns the key that an agent's Opener verifies with.
func (c *Conn) Key() ed25519.PublicKey { return c.key }

// Connected reports whether the connection is up.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Close closes the connection at once and stops reconnecting.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.again()
	c.nc.Close()
}

// gone maps NATS's errors for an absent peer to ErrGone.
func gone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders):
		return &worded{"no agent of that name answers", []error{ErrGone, err}}
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return &worded{"not connected to the controller", []error{ErrGone, err}}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return &worded{"no answer in time", []error{err}}
	}
	return err
}
