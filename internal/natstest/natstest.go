// Package natstest starts servers for tests: a controller with what joins it, or an external NATS with
// TLS, JetStream and accounts, and nothing of a test bed.
package natstest

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// Patience is for what is done at once on an idle machine.
const Patience = time.Minute

// Within is a context that ends after Patience.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Await waits until something holds.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after %s: %s", Patience, what)
		}
	}
}

// Log has what somebody writes, and a test may read it before the end.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Add adds a line.
func (l *Log) Add(line string) { fmt.Fprintln(l, line) }

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has reports whether a line has all of these.
func (l *Log) Has(parts ...string) bool {
lines:
	for line := range strings.Lines(l.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		return true
	}
	return false
}

// Controller is one with its state, and what it says.
type Controller struct {
	*controller.Server
	State string
	Log   Log

	t testing.TB
	o controller.Options
}

// Serve starts a controller, with a state and a port of the test's own, on 127.0.0.1 if o advertises no
// other address.
func Serve(t testing.TB, o controller.Options) *Controller {
	t.Helper()
	o.State = cmp.Or(o.State, filepath.Join(t.TempDir(), "state"))
	o.Advertise = cmp.Or(o.Advertise, "127.0.0.1")
	o.Listen = porttest.Free(t, o.Advertise)
	b := &Controller{State: o.State, t: t, o: o}
	b.o.Log = &b.Log
	b.Start()
	t.Cleanup(func() { b.Server.Close() })
	return b
}

// Start starts the controller; again, if it was closed: it remembers its port.
func (b *Controller) Start() {
	b.t.Helper()
	var err error
	if b.Server, err = controller.Serve(b.o); err != nil {
		b.t.Fatal(err)
	}
	b.o.Listen = b.o.Advertise
}

// Logged waits for a line of the controller's log that has all of these.
func (b *Controller) Logged(parts ...string) {
	b.t.Helper()
	Await(b.t, fmt.Sprintf("a line with %q is in the log", parts), func() bool { return b.Log.Has(parts...) })
}

// NewToken makes another token.
func (b *Controller) NewToken(life time.Duration) bus.Token {
	b.t.Helper()
	token, err := bus.CreateToken(b.State, life)
	if err != nil {
		b.t.Fatal(err)
	}
	return token
}

// TryJoin joins an agent with a token.
func (b *Controller) TryJoin(token bus.Token, name string, w bus.Watch) (*bus.Conn, error) {
	c, err := bus.Join(Within(b.t), bus.Access{URL: b.URL(), Token: &token}, name, w)
	if err == nil {
		b.t.Cleanup(c.Close)
	}
	return c, err
}

// Join joins an agent with the controller's token.
func (b *Controller) Join(name string) *bus.Conn {
	b.t.Helper()
	c, err := b.TryJoin(b.Token(), name, bus.Watch{})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// Drive connects a driver.
func (b *Controller) Drive() *bus.Conn {
	b.t.Helper()
	c, err := bus.Drive(Within(b.t), bus.Access{State: b.State}, bus.Watch{Say: func(line string) { b.t.Log("driver:", line) }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// Start runs a server on 127.0.0.1 until the test ends, with the accounts given in NATS'
// configuration language, where $CEILING_DRIVER is "d-secret" and $CEILING_AGENT "a-secret". It
// returns the address for a user and password, and the file of its certificate's authority.
func Start(t testing.TB, accounts string) (at func(user string) string, ca string) {
	t.Helper()
	dir := t.TempDir()
	certified := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer certified.Close()
	ca, conf := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\nCEILING_DRIVER: d-secret\nCEILING_AGENT: a-secret\njetstream { store_dir: %q }\n", dir) +
		accounts
	for name, b := range map[string][]byte{
		ca:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}),
		conf: []byte(text),
	} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog, o.TLSTimeout = true, true, 30
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready")
	}
	return func(user string) string { return fmt.Sprintf("tls://%s@127.0.0.1:%d", user, o.Port) }, ca
}
