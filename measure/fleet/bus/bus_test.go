//go:build linux

package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// patience is for what is done at once on an idle machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		os.Exit(serveFrom(dir))
	}
	leak.Main(m)
}

// journal is a log that a test may read while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

type bed struct {
	*controller.Server
	dir string
	log *journal
}

func serve(t *testing.T, o controller.Options) *bed {
	t.Helper()
	b := &bed{log: &journal{}}
	if o.State == "" {
		o.State = filepath.Join(t.TempDir(), "state")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1" // one that is started again remembers its port
		if _, err := os.Stat(o.State); err != nil {
			o.Listen = porttest.Free(t, "127.0.0.1")
		}
	}
	o.Log = b.log
	s, err := controller.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Server, b.dir = s, o.State
	t.Cleanup(func() { b.Server.Close() })
	return b
}

// parallel is a bed for a test of its own.
func parallel(t *testing.T) *bed {
	t.Helper()
	t.Parallel()
	return serve(t, controller.Options{})
}

// access is an agent's, to a controller.
func access(url string, token bus.Token) bus.Access { return bus.Access{URL: url, Token: &token} }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (b *bed) join(t *testing.T, name string) *bus.Conn {
	t.Helper()
	c, err := bus.Join(within(t), access(b.URL(), b.Token()), name, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// id is of an agent that joined with the controller's own token.
func (b *bed) id(name string) string { return b.Token().User + "." + name }

func (b *bed) drive(t *testing.T) *bus.Conn {
	t.Helper()
	c, err := bus.Drive(within(t), bus.Access{State: b.dir}, bus.Watch{Say: func(line string) { t.Log("driver:", line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// agent presents an agent that answers a command with it, until it is told to leave.
func agent(t *testing.T, c *bus.Conn) (leave func() error) {
	t.Helper()
	stop, err := c.Present([]byte("offer of "+c.Name()), func(b []byte, answer func([]byte)) { answer(append([]byte("did "), b...)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop() })
	return stop
}

func TestConversation(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	ctx := within(t)
	driver := b.drive(t)
	if found, err := driver.Agents(ctx); err != nil || len(found) != 0 {
		t.Fatalf("nobody is here, found %v, %v", found, err)
	}
	agent(t, b.join(t, "web2"))
	gone := agent(t, b.join(t, "web10"))
	found, err := driver.Agents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%s", found), fmt.Sprintf("[{%s web2 offer of web2} {%s web10 offer of web10}]", b.id("web2"), b.id("web10")); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if err := gone(); err != nil {
		t.Error(err)
	}
	if found, err := driver.Agents(ctx); err != nil || len(found) != 1 || found[0].Name != "web2" {
		t.Errorf("web10 has left, found %s, %v", found, err)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			answer, err := driver.Ask(ctx, b.id("web2"), fmt.Append(nil, i))
			if err != nil || string(answer) != fmt.Sprintf("did %d", i) {
				t.Errorf("command %d: %q, %v", i, answer, err)
			}
		})
	}
	group.Wait()
	if _, err := driver.Ask(ctx, b.id("web3"), nil); !errors.Is(err, bus.ErrGone) || !strings.Contains(err.Error(), "no agent of that name") {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := driver.Ask(ctx, b.id("web2"), make([]byte, 8<<20+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("too large: %v", err)
	}
	if log := b.log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}

// TestReports: each arrives in order, also where the driver refuses one at first.
func TestReports(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	ctx := within(t)
	driver, web := b.drive(t), b.join(t, "web1")
	next, refused := 0, false
	stop, err := driver.Reports("r1", func(r bus.Report) bool {
		if r.Number == 20 && !refused {
			refused = true
			return false
		}
		if r.Agent != b.id("web1") || r.Number != uint64(next) || string(r.Body) != fmt.Sprint(next) {
			t.Errorf("report %d is %+v", next, r)
		}
		next++
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(ctx, t, web, "r1", 50)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if next != 50 || !refused {
		t.Errorf("%d reports were taken", next)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := web.Report(short, "r1", 51, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no driver takes it: %v", err)
	}
	if err := web.Report(ctx, "r1", 52, make([]byte, 8<<20+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("too large: %v", err)
	}
	if log := b.log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}
