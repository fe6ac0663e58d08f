//go:build linux

package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// overWith waits until a connection is over, and checks why.
func overWith(t *testing.T, c *bus.Conn, want error, text string) {
	t.Helper()
	select {
	case <-c.Over():
	case <-time.After(patience):
		t.Fatalf("%s goes on", c.Name())
	}
	if err := c.Err(); !errors.Is(err, want) || !bus.IsTokenOver(err) || !strings.Contains(err.Error(), text) ||
		strings.ContainsAny(err.Error(), "\n") {
		t.Errorf("%s: %v, want %v and %q", c.Name(), err, want, text)
	}
}

func (b *bed) joinWith(t *testing.T, token bus.Token, name string) (*bus.Conn, error) {
	t.Helper()
	c, err := bus.Join(within(t), b.URL(), token.String(), name, bus.Watch{})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// TestRevokedToken: its agents are disconnected and told why, others are not,
// and it stays revoked when the controller is started again.
func TestRevokedToken(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	second, pass, err := bus.CreateToken(b.dir, time.Hour)
	if err != nil || pass.ID() != second.ID() || second.Secret == b.Token().Secret {
		t.Fatalf("%s, %s: %v", pass.ID(), second.ID(), err)
	}
	stays, err := b.joinWith(t, b.Token(), "stays")
	if err != nil {
		t.Fatal(err)
	}
	var gone []*bus.Conn
	for _, name := range []string{"web1", "web2"} {
		c, err := b.joinWith(t, second, name)
		if err != nil {
			t.Fatal(err)
		}
		gone = append(gone, c)
	}
	if _, err := bus.RevokeToken(b.dir, "00000000"); err == nil || !strings.Contains(err.Error(), second.ID()) {
		t.Errorf("revoke a token that is none: %v", err)
	}
	if _, err := bus.RevokeToken(b.dir, second.ID()); err != nil {
		t.Fatal(err)
	}
	for _, c := range gone {
		overWith(t, c, bus.ErrTokenRevoked, "token "+second.ID()+" was revoked")
	}
	b.logged(t, "token "+second.ID()+" was revoked: disconnected 2 agents")
	check := func() {
		t.Helper()
		if _, err := b.joinWith(t, second, "web1"); !errors.Is(err, bus.ErrTokenRevoked) || !errors.Is(err, bus.ErrRefused) {
			t.Errorf("a revoked token: %v", err)
		}
	}
	check()
	if !stays.Connected() {
		t.Error("an agent with another token is gone")
	}
	own := b.Token()
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	b = serve(t, controller.Options{State: b.dir})
	check()
	if b.Token().String() != own.String() {
		t.Error("the controller's own token is another after a restart")
	}
}

// TestExpiredToken: an agent ends when its token does, and cannot come back.
func TestExpiredToken(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	short, pass, err := bus.CreateToken(b.dir, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.joinWith(t, short, "web1")
	if err != nil {
		t.Fatal(err)
	}
	b.logged(t, "token "+short.ID()+" expires at", "(1 now)")
	overWith(t, c, bus.ErrTokenExpired, "token "+short.ID()+" has expired")
	if time.Now().Before(pass.Expires) {
		t.Errorf("before it expired, at %s", pass.Expires)
	}
	if _, err := b.joinWith(t, short, "web1"); !errors.Is(err, bus.ErrTokenExpired) {
		t.Errorf("an expired token: %v", err)
	}
	if strings.Count(b.log.String(), "expires at") != 1 {
		t.Errorf("it is said more than once:\n%s", b.log)
	}
	for _, life := range []time.Duration{0, -time.Second, bus.TokenLifeMost + time.Second} {
		if _, _, err := bus.CreateToken(b.dir, life); err == nil {
			t.Errorf("a token for %s was made", life)
		}
	}
}

// TestRefusalsNameTheirCause: what the agent with a token may know, and what
// others may not.
func TestRefusalsNameTheirCause(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	b.join(t, "web1")
	if _, err := b.joinWith(t, b.Token(), "web1"); !errors.Is(err, bus.ErrNameTaken) || bus.IsTokenOver(err) ||
		!strings.Contains(err.Error(), "--name") {
		t.Errorf("a second web1: %v", err)
	}
	unknown := b.Token()
	unknown.Secret[3] ^= 1
	if _, err := b.joinWith(t, unknown, "web2"); !errors.Is(err, bus.ErrTokenUnknown) || !bus.IsTokenOver(err) {
		t.Errorf("another secret: %v", err)
	}
	if _, err := bus.Join(within(t), b.URL(), b.Token().String()[:90], "web2", bus.Watch{}); !errors.Is(err, bus.ErrTokenMalformed) ||
		!bus.IsTokenOver(err) {
		t.Errorf("half a token: %v", err)
	}
	// A stranger learns nothing by asking, and who asks may do nothing.
	for _, user := range []string{"_why-valid", "_why-revoked", "_why-", "_why-expired"} {
		if _, err := b.raw(t, user, strings.Repeat("0", 64)+"."+ownSecret); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s without a token: %v", user, err)
		}
	}
	refused := make(chan error, 10)
	asks, err := b.raw(t, "_why-valid", b.password(ownSecret),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asks.Subscribe("bed.lab.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := asks.Publish("bed.lab.sample.r.web1", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("who asks may publish or subscribe")
		}
	}
}

// TestTokenList: dates and use, without a secret in any file but the token's.
func TestTokenList(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	second, _, err := bus.CreateToken(b.dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	use := func(id string) bus.Listed {
		t.Helper()
		list, err := bus.ListTokens(b.dir)
		if err != nil || len(list) != 2 || list[0].ID() != second.ID() {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, l := range list {
			if l.ID() == id {
				return l
			}
		}
		t.Fatalf("no %s in %+v", id, list)
		panic("")
	}
	agents := func(id string, n int) bus.Listed {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if l := use(id); l.Agents == n {
				return l
			}
			if time.Now().After(end) {
				t.Fatalf("%+v, not %d agents", use(id), n)
			}
		}
	}
	if l := use(second.ID()); !l.Last.IsZero() || l.Agents != 0 || l.State(time.Now()) != bus.TokenValid {
		t.Errorf("never used: %+v", l)
	}
	if l := use(b.Token().ID()); l.Expires.Sub(l.Made) != bus.TokenLife {
		t.Errorf("the controller's own: %+v", l)
	}
	one, err := b.joinWith(t, second, "web1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.joinWith(t, second, "web2"); err != nil {
		t.Fatal(err)
	}
	if l := agents(second.ID(), 2); time.Since(l.Last) > patience {
		t.Errorf("used now: %+v", l)
	}
	one.Close()
	agents(second.ID(), 1)
	if l := use(b.Token().ID()); l.Agents != 0 || !l.Last.IsZero() {
		t.Errorf("used by nobody: %+v", l)
	}
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	if l := use(second.ID()); l.Agents != 0 || l.Last.IsZero() {
		t.Errorf("no controller runs: %+v", l)
	}
	files, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(b.dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", f.Name(), info.Mode().Perm())
		}
		for _, secret := range []string{second.String(), strings.TrimSuffix(b.password(""), "."), b.Token().String()} {
			if strings.Contains(string(raw), secret) && f.Name() != bus.TokenFile {
				t.Errorf("%s has a token's secret", f.Name())
			}
		}
	}
}

// TestDamagedTokenList: a controller that runs goes on with the tokens it knows
// and says so; one that starts does not guess.
func TestDamagedTokenList(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	stays := b.join(t, "stays")
	name := filepath.Join(b.dir, "tokens.json")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "[{", `[{"hash":"00"}]`, strings.Replace(string(whole), "{", `{"x":1,`, 1)} {
		if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		b.join(t, "web1").Close()
		if _, err := bus.ListTokens(b.dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is listed: %v", damaged, err)
		}
		if _, _, err := bus.CreateToken(b.dir, time.Hour); err == nil {
			t.Errorf("%q was overwritten", damaged)
		}
	}
	b.logged(t, name, "once it can be read")
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := controller.Serve(controller.Options{State: b.dir, Listen: "127.0.0.1"}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("started with a damaged list: %v, %v", s, err)
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, controller.Options{State: b.dir})
	for end := time.Now().Add(patience); !stays.Connected(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent did not come back")
		}
	}
}

// TestTokensAreBounded: those that are over make room, valid ones do not.
func TestTokensAreBounded(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	_, first, err := bus.CreateToken(b.dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 254 {
		if _, _, err := bus.CreateToken(b.dir, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := bus.CreateToken(b.dir, time.Hour); err == nil || !strings.Contains(err.Error(), "revoke some") {
		t.Fatalf("one more: %v", err)
	}
	if _, err := bus.RevokeToken(b.dir, first.ID()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bus.CreateToken(b.dir, time.Hour); err != nil {
		t.Error(err)
	}
	list, err := bus.ListTokens(b.dir)
	if err != nil || len(list) != 256 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

// TestTokenMadeByRoot: a controller under another user can read what root made.
func TestTokenMadeByRoot(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	if err := os.Chown(b.dir, 12345, 12346); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bus.CreateToken(b.dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(b.dir, "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 {
		t.Errorf("it belongs to %d:%d", s.Uid, s.Gid)
	}
}

// TestControllersOwnToken: a controller that starts has a token that is valid,
// and takes over the one of a state from before tokens expired.
func TestControllersOwnToken(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	first := b.Token()
	if _, err := bus.RevokeToken(b.dir, first.ID()); err != nil {
		t.Fatal(err)
	}
	b.Server.Close()
	b = serve(t, controller.Options{State: b.dir})
	if b.Token().ID() == first.ID() {
		t.Fatal("the controller hands out a token that was revoked")
	}
	text, err := os.ReadFile(filepath.Join(b.dir, bus.TokenFile))
	if err != nil || strings.TrimSpace(string(text)) != b.Token().String() {
		t.Errorf("the file has another token: %v", err)
	}
	b.join(t, "web1").Close()
	b.Server.Close()

	// As it was: the secret in the state, and no list.
	name := filepath.Join(b.dir, "controller.json")
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	old := b.Token()
	state["secret"] = old.Secret
	if raw, err = json.Marshal(state); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tokens.json", bus.TokenFile} {
		if err := os.Remove(filepath.Join(b.dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	b = serve(t, controller.Options{State: b.dir})
	if b.Token().ID() != old.ID() || b.Pass().Expires.Sub(b.Pass().Made) != bus.TokenLife {
		t.Errorf("the old token: %+v", b.Pass())
	}
	b.join(t, "web1")
	if raw, err = os.ReadFile(name); err != nil || strings.Contains(string(raw), `"secret"`) {
		t.Errorf("the state has the secret still: %v", err)
	}
}

// TestControllerGoneForGood is said once the time is up, and again, until the
// controller is back; and by the first connection that is waited for in vain.
func TestControllerGoneForGood(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	said := make(chan *bus.Absent, 10)
	back := make(chan struct{}, 1)
	c, err := bus.Join(within(t), b.URL(), b.Token().String(), "web1", bus.Watch{
		LostAfter: time.Second, Lost: func(a *bus.Absent) { said <- a }, Back: func() { back <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.Server.Close()
	at := strings.TrimPrefix(b.URL(), "nats://")
	for range 2 {
		select {
		case a := <-said:
			text := a.Error()
			if !strings.Contains(text, "no controller at "+at) || !strings.Contains(text, "connection refused") || strings.Contains(text, "nats") ||
				strings.Contains(text, "dial tcp") {
				t.Errorf("it is said as %q", text)
			}
		case <-time.After(patience):
			t.Fatal("nothing was said")
		}
	}
	serve(t, controller.Options{State: b.dir})
	select {
	case <-back:
	case <-time.After(patience):
		t.Fatal("the agent did not come back")
	}
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	absent := &bus.Absent{}
	_, err = bus.Join(soon, "nats://"+porttest.Refused(t), b.Token().String(), "web2", bus.Watch{})
	if !errors.As(err, &absent) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "dial") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}
