//go:build linux

package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// overWith waits until a connection is over, and checks why.
func overWith(t *testing.T, c *bus.Conn, text string) {
	t.Helper()
	select {
	case <-c.Over():
	case <-time.After(patience):
		t.Fatalf("%s goes on", c.Name())
	}
	if err := c.Err(); !errors.Is(err, bus.ErrTokenOver) || !strings.Contains(err.Error(), text) || strings.ContainsAny(err.Error(), "\n") {
		t.Errorf("%s: %v, want %q", c.Name(), err, text)
	}
}

func (b *bed) joinWith(t *testing.T, token bus.Token, name string) (*bus.Conn, error) {
	t.Helper()
	c, err := bus.Join(within(t), access(b.URL(), token), name, bus.Watch{})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// TestRevokedToken: its agents are disconnected and told why, others are not,
// and it stays revoked when the controller is started again.
func TestRevokedToken(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	second, stays := b.token(t), b.join(t, "stays")
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
		overWith(t, c, "token "+second.ID()+" was revoked")
	}
	b.logged(t, "token "+second.ID()+" was revoked: NATS disconnects its agents")
	check := func() {
		t.Helper()
		if _, err := b.joinWith(t, second, "web1"); !errors.Is(err, bus.ErrTokenOver) || !strings.Contains(err.Error(), "was revoked, or has expired") {
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
	b := parallel(t)
	short, err := bus.CreateToken(b.dir, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.joinWith(t, short, "web1")
	if err != nil {
		t.Fatal(err)
	}
	overWith(t, c, "token "+short.ID()+" has expired")
	if time.Now().Before(short.Expires) {
		t.Errorf("before it expired, at %s", short.Expires)
	}
	if _, err := b.joinWith(t, short, "web1"); !errors.Is(err, bus.ErrTokenOver) || !strings.Contains(err.Error(), "has expired and") {
		t.Errorf("an expired token: %v", err)
	}
	for _, life := range []time.Duration{0, -time.Second, bus.TokenLifeMost + time.Second} {
		if _, err := bus.CreateToken(b.dir, life); err == nil {
			t.Errorf("a token for %s was made", life)
		}
	}
}

// TestTokenList: dates, and use while the controller runs; no secret in any file but the token's.
func TestTokenList(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	second := b.token(t)
	use := func(id string) bus.Listed {
		t.Helper()
		list, err := bus.ListTokens(within(t), b.dir)
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
	if l := use(b.Token().ID()); l.Expires.Sub(l.Made).Round(time.Minute) != bus.TokenLife {
		t.Errorf("the controller's own: %+v", l)
	}
	one, err := b.joinWith(t, second, "web1")
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.joinWith(t, second, "web2")
	if err != nil {
		t.Fatal(err)
	}
	if l := agents(second.ID(), 2); time.Since(l.Last) > patience {
		t.Errorf("used now: %+v", l)
	}
	one.Close()
	agents(second.ID(), 1)
	two.Close()
	if l := agents(second.ID(), 0); l.Last.IsZero() || time.Since(l.Last) > patience {
		t.Errorf("used until a moment ago: %+v", l)
	}
	if l := use(b.Token().ID()); l.Agents != 0 || !l.Last.IsZero() {
		t.Errorf("used by nobody: %+v", l)
	}
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	if l := use(second.ID()); l.Agents != 0 || !l.Last.IsZero() {
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
		for _, secret := range []string{second.Seed, second.JWT, b.Token().Seed, b.Token().JWT} {
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
	b := parallel(t)
	stays := b.join(t, "stays")
	name := filepath.Join(b.dir, "tokens.json")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "[{", `[{"user":"00"}]`} {
		if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		b.join(t, "web1").Close()
		if _, err := bus.ListTokens(within(t), b.dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is listed: %v", damaged, err)
		}
		if _, err := bus.CreateToken(b.dir, time.Hour); err == nil {
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

// TestTokensAreBounded: those that expired make room; one that was revoked stays on the list.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	b := serve(t, controller.Options{})
	now := time.Now()
	revoked := bus.Pass{User: b.token(t).User, Made: now, Expires: now.Add(time.Hour), Revoked: now}
	expired := bus.Pass{User: b.token(t).User, Made: now.Add(-time.Hour), Expires: now.Add(-time.Minute)}
	list, err := json.Marshal(append(slices.Repeat([]bus.Pass{expired}, 300), revoked))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "tokens.json"), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	last := b.token(t)
	if list, err := bus.ReadPasses(b.dir); err != nil || len(list) != 2 || list[0].Revoked.IsZero() || list[1] != last.Pass {
		t.Errorf("%+v, %v", list, err)
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
	if _, err := bus.CreateToken(b.dir, time.Hour); err != nil {
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

// TestControllersOwnToken: a controller that starts has a token that is valid.
func TestControllersOwnToken(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	first := b.Token()
	if _, err := bus.RevokeToken(b.dir, first.ID()); err != nil {
		t.Fatal(err)
	}
	b.Server.Close()
	b = serve(t, controller.Options{State: b.dir})
	if b.Token().ID() == first.ID() || b.Token().Expires.Sub(b.Token().Made).Round(time.Minute) != bus.TokenLife {
		t.Fatalf("the controller hands out %+v, a token that was revoked or of another life", b.Token().Pass)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, bus.TokenFile))
	if err != nil || strings.TrimSpace(string(text)) != b.Token().String() {
		t.Errorf("the file has another token: %v", err)
	}
	b.join(t, "web1").Close()
}

// TestControllerGoneForGood is said once the time is up, and again, until the
// controller is back; and by the first connection that is waited for in vain.
func TestControllerGoneForGood(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	said := make(chan string, 100)
	c, err := bus.Join(within(t), access(b.URL(), b.Token()), "web1", bus.Watch{
		LostAfter: time.Second, Say: func(line string) { said <- line },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.Server.Close()
	await := func(parts ...string) {
		t.Helper()
		select {
		case line := <-said:
			for _, p := range parts {
				if !strings.Contains(line, p) || strings.Contains(line, "nats") || strings.Contains(line, "dial tcp") {
					t.Errorf("it is said as %q", line)
				}
			}
		case <-time.After(patience):
			t.Fatal("nothing was said")
		}
	}
	at := strings.TrimPrefix(b.URL(), "nats://")
	await("no connection to the controller (it closed the connection)")
	for range 2 {
		await("no controller at "+at+" for ", "connection refused", "start it on its host", "Ctrl-C")
	}
	serve(t, controller.Options{State: b.dir})
	await("controller is back")
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = bus.Join(soon, access("nats://"+porttest.Refused(t), b.Token()), "web2", bus.Watch{})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "dial") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}
