//go:build linux

package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/leak"
	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

func TestMain(m *testing.M) { leak.Main(m) }

// bed is a controller for a test of its own.
type bed struct{ *natstest.Controller }

func parallel(t *testing.T) bed {
	t.Helper()
	t.Parallel()
	return bed{natstest.Serve(t, controller.Options{})}
}

// id is of an agent that joined with the controller's own token.
func (b bed) id(name string) string { return b.Token().User + "." + name }

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
	ctx := natstest.Within(t)
	driver := b.Drive()
	present := func(want string) {
		t.Helper()
		if found, err := driver.Agents(ctx); err != nil || fmt.Sprintf("%s", found) != want {
			t.Fatalf("found %s, %v, want %s", found, err, want)
		}
	}
	present("[]")
	agent(t, b.Join("web2"))
	gone := agent(t, b.Join("web10"))
	present(fmt.Sprintf("[{%s web2 offer of web2} {%s web10 offer of web10}]", b.id("web2"), b.id("web10")))
	if err := gone(); err != nil {
		t.Error(err)
	}
	present(fmt.Sprintf("[{%s web2 offer of web2}]", b.id("web2")))
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
	if log := b.Log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}

// TestReports: each arrives in order, also where the driver refuses one at first.
func TestReports(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	ctx := natstest.Within(t)
	driver, web := b.Drive(), b.Join("web1")
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
	for i := range 50 {
		if err := web.Report(ctx, "r1", uint64(i), fmt.Append(nil, i)); err != nil {
			t.Error(err)
		}
	}
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
	if log := b.Log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}

// TestNothingIsLeftOpen is not parallel: it counts this process's descriptors.
func TestNothingIsLeftOpen(t *testing.T) {
	needs.Processes(t)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	b := bed{natstest.Serve(t, controller.Options{})}
	var first int
	for i := range 3 {
		driver, c := b.Drive(), b.Join("web1")
		agent(t, c)
		if _, err := driver.Ask(natstest.Within(t), b.id("web1"), nil); err != nil {
			t.Error(err)
		}
		c.Close()
		driver.Close()
		b.Close()
		if i == 0 {
			first = count()
		}
		b.Start()
	}
	b.Close()
	natstest.Await(t, fmt.Sprintf("%d descriptors as after the first controller", first), func() bool { return count() <= first })
}
