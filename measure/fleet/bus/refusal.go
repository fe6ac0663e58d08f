package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// Why a controller refuses an agent. It reveals the first three only to holders of the token's
// secret.
var (
	ErrTokenExpired = errors.New("the token has expired")
	ErrTokenRevoked = errors.New("the token was revoked")
	ErrNameTaken    = errors.New("another agent has this name")
	ErrTokenUnknown = errors.New("the controller does not know this token")
	// ErrTokenMalformed means that a token was truncated or altered.
	ErrTokenMalformed = errors.New("the token is malformed")
)

// AskWithin is how long a controller may take to say why it refused.
const AskWithin = 5 * time.Second

// asker asks a controller for the reason of a refusal.
type asker struct {
	address  string
	name     string // the agent's
	token    Token
	password string
}

// why asks, and words the reason with the fix. The error is not ErrRefused if the controller cannot
// be asked.
func (a *asker) why() error {
	at, id := withoutScheme(a.address), a.token.ID()
	const another = "make another token on its host: ceiling fleet tokens create"
	for _, r := range []struct {
		state TokenState
		err   error
		text  string
	}{
		{TokenValid, ErrNameTaken, fmt.Sprintf("the controller at %s has another agent named %s; start this one with another --name", at,
			a.name)},
		{TokenExpired, ErrTokenExpired, fmt.Sprintf("token %s has expired and the controller at %s refuses it; %s", id, at, another)},
		{TokenRevoked, ErrTokenRevoked, fmt.Sprintf("token %s was revoked and the controller at %s refuses it; %s", id, at, another)},
	} {
		is, err := a.ask(r.state)
		if err != nil {
			return err
		}
		if is {
			return &worded{r.text, []error{ErrRefused, r.err}}
		}
	}
	return &worded{fmt.Sprintf("the controller at %s does not know token %s; %s", at, id, another), []error{ErrRefused, ErrTokenUnknown}}
}

// worded replaces the texts of the errors it wraps with a sentence.
type worded struct {
	text string
	is   []error
}

func (w *worded) Error() string   { return w.text }
func (w *worded) Unwrap() []error { return w.is }

// ask logs in as a user that may only confirm that the token has a state.
func (a *asker) ask(s TokenState) (bool, error) {
	nc, err := nats.Connect(a.address, nats.UserInfo(WhyPrefix+string(s), a.password), nats.Secure(pinned(a.token.Authority)),
		nats.TLSHandshakeFirst(), nats.NoReconnect(), nats.Timeout(AskWithin), nats.IgnoreDiscoveredServers())
	switch {
	case err == nil:
		nc.Close()
		return true, nil
	case errors.Is(err, nats.ErrAuthorization):
		return false, nil
	}
	return false, err
}

// IsTokenOver reports whether this token will never admit an agent again: it is malformed, another
// controller's, unknown, expired or revoked.
func IsTokenOver(err error) bool {
	for _, e := range []error{ErrTokenMalformed, ErrStranger, ErrTokenUnknown, ErrTokenExpired, ErrTokenRevoked} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func withoutScheme(address string) string {
	_, host, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	return host
}

// refusesLogin reports whether a server rejects these credentials.
func refusesLogin(err error) bool {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
		return true
	}
	text := strings.ToLower(err.Error()) // rejections during the connect have no error value
	return strings.Contains(text, nats.AUTHENTICATION_EXPIRED_ERR) || strings.Contains(text, nats.AUTHENTICATION_REVOKED_ERR)
}

func (c *Conn) loginRefused() error {
	return &worded{fmt.Sprintf("%s refuses the login: check the credentials, and whether they have expired", c.address), []error{ErrRefused}}
}

// reason words a kernel or NATS connection error.
func reason(err error) string {
	var timeout net.Error
	var name *net.DNSError
	var alert tls.AlertError
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, nats.ErrConnectionClosed):
		return "it closed the connection"
	case errors.Is(err, syscall.ECONNREFUSED):
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
	case errors.Is(err, nats.ErrNoServers):
		return "nothing answers there"
	case errors.As(err, &alert):
		return "it refused the TLS handshake"
	}
	return strings.TrimPrefix(err.Error(), "nats: ")
}

// Absent means that a controller cannot be reached: the error of a first connection that timed out,
// and the argument of Watch.Lost.
type Absent struct {
	Address string // host:port, or an organisation's own NATS
	For     time.Duration
	Why     string // of the last attempt
}

func (a *Absent) Error() string {
	return fmt.Sprintf("no controller at %s for %s (%s)", withoutScheme(a.Address), a.For, a.Why)
}

// LostAfter is how long a controller must be unreachable to count as lost, unless the Watch has
// another time. It is reported again each time that doubles.
const LostAfter = 30 * time.Second

// away starts measuring the time without the controller.
func (c *Conn) away(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil || c.closed.Load() || c.watch.Lost == nil {
		return
	}
	after := c.watch.LostAfter
	if after == 0 {
		after = LostAfter
	}
	began := time.Now()
	c.failed = why
	c.lost = time.AfterFunc(after, func() { c.stillAway(began) })
}

func (c *Conn) stillAway(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil || c.closed.Load() {
		return
	}
	past := time.Since(began)
	why := reason(c.failed)
	c.lost.Reset(past)
	go c.watch.Lost(&Absent{Address: c.address, For: past.Round(100 * time.Millisecond), Why: why})
}

// again stops the measurement.
func (c *Conn) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		c.lost.Stop()
		c.lost = nil
	}
	c.failed, c.taken = nil, false
}

// fails handles a failed reconnect attempt.
func (c *Conn) fails(err error) {
	c.mu.Lock()
	c.failed = err
	first := !c.taken && c.asker == nil && refusesLogin(err)
	c.taken = c.taken || first
	c.mu.Unlock()
	if first { // an organisation's NATS may accept it again later
		c.trouble(c.loginRefused())
	}
	if c.asker == nil || !errors.Is(err, nats.ErrAuthorization) || !c.asking.CompareAndSwap(false, true) {
		return
	}
	go func() { // it takes up to three connections
		defer c.asking.Store(false)
		why := c.asker.why()
		switch {
		case c.closed.Load():
		case IsTokenOver(why):
			c.end(why)
		case errors.Is(why, ErrNameTaken):
			c.mu.Lock()
			first := !c.taken
			c.taken = true
			c.mu.Unlock()
			if first { // the cause may be its own dead connection, not yet detected
				c.trouble(why)
			}
		}
	}()
}

// end gives up the connection.
func (c *Conn) end(why error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = why
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.Close()
	close(c.over)
}

// Over is closed when the controller will not admit this agent again: its token has expired, was
// revoked, or is unknown. Err says which.
func (c *Conn) Over() <-chan struct{} { return c.over }

// Err returns why the connection is over.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// WhyPrefix begins the user names under which a refused agent asks for the reason, which NATS does
// not report. Such a login succeeds if the token has the state at the end of the name, and has no
// permissions. Only holders of the secret learn the state.
const WhyPrefix = "_why-"

// password is what an agent presents: the token's secret and its own.
func (t Token) password(own Nonce) string {
	return fmt.Sprintf("%x.%x", t.Secret, own)
}
