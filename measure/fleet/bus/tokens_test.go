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

	"ceiling/internal/natstest"
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
	case <-time.After(natstest.Patience):
		t.Fatalf("%s goes on", c.Name())
	}
	if err := c.Err(); !errors.Is(err, bus.ErrTokenOver) || !strings.Contains(err.Error(), text) || strings.ContainsAny(err.Error(), "\n") {
		t.Errorf("%s: %v, want %q", c.Name(), err, text)
	}
}

// with joins an agent that has to be let in.
func (b bed) with(t *testing.T, token bus.Token, name string) *bus.Conn {
	t.Helper()
	c, err := b.TryJoin(token, name, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refuses checks that a token lets nobody in.
func (b bed) refuses(t *testing.T, token bus.Token, why string) {
	t.Helper()
	if _, err := b.TryJoin(token, "late", bus.Watch{}); !errors.Is(err, bus.ErrTokenOver) || !strings.Contains(err.Error(), why) {
		t.Errorf("it is let in: %v", err)
	}
}

// TestTokens: the list has dates, and use while the controller runs. A revoked token's agents are
// disconnected and told why, others are not, and it stays revoked when the controller is started again,
// which then has a token of its own that is valid. Others' secrets are in no file.
func TestTokens(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	own, second := b.Token(), b.NewToken(time.Hour)
	uses := func(agents int, used bool, of bus.Token) (l bus.Listed) {
		t.Helper()
		natstest.Await(t, "the list is right", func() bool {
			list, err := bus.ListTokens(natstest.Within(t), b.State)
			if err != nil || len(list) != 2 || list[0].ID() != second.ID() || list[1].ID() != own.ID() {
				t.Fatalf("%+v, %v", list, err)
			}
			l = list[slices.IndexFunc(list, func(l bus.Listed) bool { return l.ID() == of.ID() })]
			return l.Agents == agents && !l.Last.IsZero() == used
		})
		if used && time.Since(l.Last) > natstest.Patience {
			t.Errorf("used at %s", l.Last)
		}
		return l
	}
	if l := uses(0, false, second); l.State(time.Now()) != bus.TokenValid {
		t.Errorf("never used: %+v", l)
	}
	if l := uses(0, false, own); l.Expires.Sub(l.Made).Round(time.Minute) != bus.TokenLife {
		t.Errorf("the controller's own: %+v", l)
	}
	one, two := b.with(t, second, "web1"), b.with(t, second, "web2")
	uses(2, true, second)
	one.Close()
	uses(1, true, second)
	stays := b.Join("stays")
	if _, err := bus.RevokeToken(b.State, "00000000"); err == nil || !strings.Contains(err.Error(), second.ID()) {
		t.Errorf("revoke a token that is none: %v", err)
	}
	if _, err := bus.RevokeToken(b.State, second.ID()); err != nil {
		t.Fatal(err)
	}
	overWith(t, two, "token "+second.ID()+" was revoked")
	two.Close()
	b.Logged("token " + second.ID() + " was revoked: NATS disconnects its agents")
	b.refuses(t, second, "was revoked, or has expired")
	uses(0, true, second)
	if !stays.Connected() {
		t.Error("an agent with another token is gone")
	}
	secretsIn(t, b.State, second, own)
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	uses(0, false, second) // nobody says how it is used
	b.Start()
	b.refuses(t, second, "was revoked, or has expired")
	if b.Token() != own {
		t.Error("the controller's own token is another after a restart")
	}
	if _, err := bus.RevokeToken(b.State, own.ID()); err != nil {
		t.Fatal(err)
	}
	b.Server.Close()
	b.Start()
	if b.Token().ID() == own.ID() || b.Token().Expires.Sub(b.Token().Made).Round(time.Minute) != bus.TokenLife {
		t.Errorf("the controller hands out %+v, a token that was revoked or of another life", b.Token().Pass)
	}
	text, err := os.ReadFile(filepath.Join(b.State, bus.TokenFile))
	if err != nil || strings.TrimSpace(string(text)) != b.Token().String() {
		t.Errorf("the file has another token: %v", err)
	}
	b.Join("web1").Close()
}

// secretsIn checks that only the owner can read a controller's files, and that only the token's has one.
func secretsIn(t *testing.T, dir string, tokens ...bus.Token) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		info, e := f.Info()
		if err := errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", f.Name(), info.Mode().Perm())
		}
		for _, token := range tokens {
			if f.Name() != bus.TokenFile && (strings.Contains(string(raw), token.Seed) || strings.Contains(string(raw), token.JWT)) {
				t.Errorf("%s has a token's secret", f.Name())
			}
		}
	}
}

// TestExpiredToken: an agent ends when its token does, and cannot come back.
func TestExpiredToken(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	short := b.NewToken(5 * time.Second)
	overWith(t, b.with(t, short, "web1"), "token "+short.ID()+" has expired")
	if time.Now().Before(short.Expires) {
		t.Errorf("before it expired, at %s", short.Expires)
	}
	b.refuses(t, short, "has expired and")
	for _, life := range []time.Duration{0, -time.Second, bus.TokenLifeMost + time.Second} {
		if _, err := bus.CreateToken(b.State, life); err == nil {
			t.Errorf("a token for %s was made", life)
		}
	}
}

// TestDamagedTokenList: a controller that runs goes on with the tokens it knows
// and says so; one that starts does not guess.
func TestDamagedTokenList(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	stays := b.Join("stays")
	name := filepath.Join(b.State, "tokens.json")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "[{", `[{"user":"00"}]`} {
		if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		b.Join("web1").Close()
		if _, err := bus.ListTokens(natstest.Within(t), b.State); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is listed: %v", damaged, err)
		}
		if _, err := bus.CreateToken(b.State, time.Hour); err == nil {
			t.Errorf("%q was overwritten", damaged)
		}
	}
	b.Logged(name, "once it can be read")
	if err := b.Server.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := controller.Serve(controller.Options{State: b.State, Listen: "127.0.0.1"}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("started with a damaged list: %v, %v", s, err)
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Start()
	natstest.Await(t, "the agent comes back", stays.Connected)
}

// TestTokensAreBounded: those that expired make room; one that was revoked stays on the list. A
// controller under another user can read what root made.
func TestTokensAreBounded(t *testing.T) {
	needs.Root(t)
	b := parallel(t)
	now := time.Now()
	revoked := bus.Pass{User: b.NewToken(time.Hour).User, Made: now, Expires: now.Add(time.Hour), Revoked: now}
	expired := bus.Pass{User: b.NewToken(time.Hour).User, Made: now.Add(-time.Hour), Expires: now.Add(-time.Minute)}
	list, err := json.Marshal(append(slices.Repeat([]bus.Pass{expired}, 300), revoked))
	name := filepath.Join(b.State, "tokens.json")
	if err := errors.Join(err, os.WriteFile(name, list, 0o600), os.Chown(b.State, 12345, 12346)); err != nil {
		t.Fatal(err)
	}
	last := b.NewToken(time.Hour)
	if list, err := bus.ReadPasses(b.State); err != nil || len(list) != 2 || list[0].Revoked.IsZero() || list[1] != last.Pass {
		t.Errorf("%+v, %v", list, err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 {
		t.Errorf("it belongs to %d:%d", s.Uid, s.Gid)
	}
}

// TestControllerGoneForGood is said once the time is up, and again, until the
// controller is back; and by the first connection that is waited for in vain.
func TestControllerGoneForGood(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	said := make(chan string, 100)
	if _, err := b.TryJoin(b.Token(), "web1", bus.Watch{LostAfter: time.Second, Say: func(line string) { said <- line }}); err != nil {
		t.Fatal(err)
	}
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
		case <-time.After(natstest.Patience):
			t.Fatal("nothing was said")
		}
	}
	at := strings.TrimPrefix(b.URL(), "nats://")
	await("no connection to the controller (it closed the connection)")
	for range 2 {
		await("no controller at "+at+" for ", "connection refused", "start it on its host", "Ctrl-C")
	}
	b.Start()
	await("controller is back")
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	token := b.Token()
	_, err := bus.Join(soon, bus.Access{URL: "nats://" + porttest.Refused(t), Token: &token}, "web2", bus.Watch{})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "dial") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}
