//go:build linux

package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (b *bed) join(t *testing.T, name string) *bus.Conn {
	t.Helper()
	c, err := bus.Join(within(t), b.URL(), b.Token().String(), name, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *bed) drive(t *testing.T) *bus.Conn {
	t.Helper()
	c, err := bus.Drive(within(t), b.dir, bus.Watch{Trouble: func(err error) { t.Log("driver:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// agent presents an agent that answers a command with its verb, run and body.
func agent(t *testing.T, c *bus.Conn) *bus.Opener {
	t.Helper()
	began := time.Now()
	o := &bus.Opener{Key: c.Key(), Session: bus.Nonce{1, 2, 3}, Clock: func() time.Duration { return time.Since(began) }}
	stop, err := c.Present(bus.Service{
		Version: "1.2.3",
		Ping:    func(b []byte) []byte { return append([]byte("pong "), b...) },
		About:   func() []byte { return []byte("about " + c.Name()) },
		Command: func(b []byte, answer func([]byte)) {
			e, err := o.Open(b)
			if err != nil {
				answer([]byte(err.Error()))
				return
			}
			answer(fmt.Appendf(nil, "%s %s %s", e.Verb, e.Run, e.Body))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop() })
	return o
}

func session(o *bus.Opener) bus.Session {
	return bus.Session{Nonce: o.Session, Last: o.Last(), Clock: o.Clock}
}

func TestConversation(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	ctx := within(t)
	driver := b.drive(t)
	if found, err := driver.Discover(ctx, 200*time.Millisecond); err != nil || len(found) != 0 {
		t.Fatalf("nobody is here, found %v, %v", found, err)
	}
	one := agent(t, b.join(t, "web2"))
	agent(t, b.join(t, "web10"))
	found, err := driver.Discover(ctx, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s", found); got != "[{web2 1.2.3 about web2} {web10 1.2.3 about web10}]" {
		t.Errorf("found %s", got)
	}
	if pong, err := driver.Ping(ctx, "web2", []byte("x")); err != nil || string(pong) != "pong x" {
		t.Errorf("ping: %q, %v", pong, err)
	}
	line, err := driver.Line("web2", session(one))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			answer, err := line.Do(ctx, "prepare", "r1", fmt.Append(nil, i))
			if err != nil || string(answer) != fmt.Sprintf("prepare r1 %d", i) {
				t.Errorf("command %d: %q, %v", i, answer, err)
			}
		})
	}
	group.Wait()
	second, err := driver.Line("web2", bus.Session{Nonce: one.Session, Clock: one.Clock})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if answer, err := second.Do(ctx, "start", "r1", nil); err != nil || string(answer) != bus.ErrReplay.Error() {
		t.Errorf("a sequence begun anew: %q, %v", answer, err)
	}
	nobody, err := driver.Line("web3", session(one))
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if _, err := nobody.Do(ctx, "start", "r1", nil); err == nil || !strings.Contains(err.Error(), "web3: not connected") {
		t.Errorf("nobody there: %v", err)
	}
	if log := b.log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}

func TestSamplesSpecsProfiles(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	ctx := within(t)
	driver, web := b.drive(t), b.join(t, "web1")
	p, err := web.Publisher("r1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 50 {
		if err := p.Send(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	enough := fmt.Errorf("enough")
	for range 2 { // a driver that starts again reads the same
		n := 0
		err = driver.Samples(ctx, "r1", func(s bus.Sample) error {
			if s.Agent != "web1" || s.Sequence != uint64(n+1) || s.Missed != 0 || string(s.Body) != fmt.Sprint(n) {
				t.Errorf("sample %d is %+v", n, s)
			}
			if n++; n == 50 {
				return enough
			}
			return nil
		})
		if err != enough {
			t.Fatal(err)
		}
	}
	if err := driver.PutSpec(ctx, "r1", []byte("a spec")); err != nil {
		t.Fatal(err)
	}
	if spec, err := web.GetSpec(ctx, "r1"); err != nil || string(spec) != "a spec" {
		t.Errorf("spec %q, %v", spec, err)
	}
	if err := driver.OpenProfiles(ctx, "web1", 8<<20); err != nil {
		t.Fatal(err)
	}
	profile := bytes.Repeat([]byte("profile "), 1<<17)
	if err := web.PutProfile(ctx, "r1", "cpu.pprof", profile); err != nil {
		t.Fatal(err)
	}
	if got, err := driver.GetProfile(ctx, "web1", "r1", "cpu.pprof"); err != nil || !bytes.Equal(got, profile) {
		t.Errorf("profile of %d bytes, %v", len(got), err)
	}
	if err := driver.CloseProfiles(ctx, "web1"); err != nil {
		t.Error(err)
	}
	if err := driver.Forget(ctx, "r1"); err != nil {
		t.Error(err)
	}
	if _, err := web.GetSpec(ctx, "r1"); err == nil {
		t.Error("a forgotten spec is there")
	}
	if log := b.log.String(); log != "" {
		t.Errorf("the controller's log has\n%s", log)
	}
}
