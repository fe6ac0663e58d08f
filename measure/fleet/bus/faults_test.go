//go:build linux

package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// serveEnv makes the test's binary a controller on that directory, to be
// killed.
const serveEnv = "CEILING_TEST_SERVE"

// listenEnv is its address.
const listenEnv = "CEILING_TEST_LISTEN"

func serveFrom(dir string) int {
	s, err := controller.Serve(controller.Options{State: dir, Listen: os.Getenv(listenEnv), Log: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.URL(), s.Token())
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// start runs a controller as a process of its own and waits until it serves.
func start(t testing.TB, dir, listen string) (*exec.Cmd, string, string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), serveEnv+"="+dir, listenEnv+"="+listen)
	c.Stderr = os.Stderr
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	url, token, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok || !strings.HasPrefix(url, "nats://") {
		t.Fatalf("the controller says %q, %v", line, err)
	}
	return c, url, token
}

// exactly reads a run and checks that each agent's samples are there once, in
// order, until all of agents have n.
func exactly(ctx context.Context, t *testing.T, driver *bus.Conn, run string, agents, n int) {
	t.Helper()
	enough := errors.New("enough")
	last, ended := map[string]uint64{}, 0
	err := driver.Samples(ctx, run, func(s bus.Sample) error {
		if s.Sequence != last[s.Agent]+1 || s.Missed != 0 || string(s.Body) != fmt.Sprint(s.Agent, " ", s.Sequence) {
			t.Errorf("after %s %d comes %d (%d missed): %q", s.Agent, last[s.Agent], s.Sequence, s.Missed, s.Body)
		}
		if last[s.Agent] = s.Sequence; s.Sequence == uint64(n) {
			ended++
		}
		if ended == agents {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Errorf("read %v, then %v", last, err)
	}
}

// publish sends n samples, a millisecond or so apart.
func publish(ctx context.Context, t *testing.T, c *bus.Conn, run string, n int) {
	p, err := c.Publisher(run)
	if err != nil {
		t.Error(err)
		return
	}
	defer p.Close()
	for i := range n {
		if err := p.Send(fmt.Append(nil, c.Name(), " ", i+1)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := p.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// TestAControllerIsKilled kills it twice while three agents publish and a
// driver reads: nothing is lost, nothing doubled, and the agents say so.
func TestAControllerIsKilled(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	const agents, samples = 3, 400
	dir := filepath.Join(t.TempDir(), "state")
	process, url, token := start(t, dir, porttest.Free(t, "127.0.0.1"))
	ctx := within(t)
	var gone, back sync.WaitGroup
	gone.Add(agents)
	back.Add(agents)
	var group sync.WaitGroup
	for i := range agents {
		var once, twice sync.Once
		c, err := bus.Join(ctx, url, token, fmt.Sprint("web", i), bus.Watch{
			Gone: func(error) { once.Do(gone.Done) }, Back: func() { twice.Do(back.Done) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		group.Go(func() { publish(ctx, t, c, "r1", samples) })
	}
	driver, err := bus.Drive(ctx, dir, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	group.Go(func() { exactly(ctx, t, driver, "r1", agents, samples) })
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		process.Process.Kill()
		process.Wait()
		var again, same string
		process, again, same = start(t, dir, "127.0.0.1") // it remembers its port
		if again != url || same != token {
			t.Errorf("restarted as %s %s, was %s %s", again, same, url, token)
		}
	}
	group.Wait()
	gone.Wait()
	back.Wait()
	exactly(ctx, t, driver, "r1", agents, samples) // and so it is kept
}

// small mounts a file system of so many bytes.
func small(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Fatalf("mount a tmpfs: %v (the tests run as root)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir
}

func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<16)
	for len(chunk) > 0 {
		if _, err := f.Write(chunk); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			chunk = chunk[:len(chunk)/2]
		}
	}
}

// TestAFullDisk fills the controller's disk while an agent publishes: what it
// acknowledges it has, what it has not room for the agent keeps and sends when
// there is room again.
func TestAFullDisk(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	dir := small(t, 96<<20)
	b := serve(t, controller.Options{State: filepath.Join(dir, "state")})
	ctx := within(t)
	driver, web := b.drive(t), b.join(t, "web1")
	p, err := web.Publisher("r1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	send := func(from, to int) {
		for i := from; i <= to; i++ {
			if err := p.Send(append(fmt.Append(nil, i, " "), make([]byte, 100<<10)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(1, 20)
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "filler"))
	send(21, 60)
	for { // until NATS has said no
		if n, err := p.Unsent(); n > 0 && err != nil {
			t.Log("the agent is told:", err)
			break
		}
		if n, _ := p.Unsent(); n == 0 || ctx.Err() != nil {
			t.Fatalf("%d unsent on a full disk; the log has\n%s", n, b.log)
		}
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatalf("with room again: %v; the log has\n%s", err, b.log)
	}
	enough := errors.New("enough")
	next := uint64(1)
	err = driver.Samples(ctx, "r1", func(s bus.Sample) error {
		number, _, _ := strings.Cut(string(s.Body), " ")
		if s.Sequence != next || s.Missed != 0 || number != fmt.Sprint(next) {
			t.Errorf("want sample %d, got %d (%d missed)", next, s.Sequence, s.Missed)
		}
		if next++; next == 61 {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Errorf("%d read, %v", next-1, err)
	}
	t.Logf("log:\n%s", b.log)
}

func TestWhatAControllerCannotStartOn(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	b := serve(t, controller.Options{Bed: "lab"})
	port := b.URL()[strings.LastIndexByte(b.URL(), ':')+1:]
	write := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "controller.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(o controller.Options, want string) {
		t.Helper()
		s, err := controller.Serve(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	check(controller.Options{}, "no directory")
	check(controller.Options{State: b.dir}, fmt.Sprintf("in use by another controller (process %d)", os.Getpid()))
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:" + port}, "port "+port+" is taken")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:x"}, "want host:port")
	check(controller.Options{State: t.TempDir(), Listen: "192.0.2.1:0"}, "cannot assign requested address")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1", Advertise: "0.0.0.0"}, "cannot advertise")
	check(controller.Options{State: t.TempDir(), Bed: "a.b"}, "test bed \"a.b\"")
	check(controller.Options{State: filepath.Join(file, "x")}, "not a directory")
	check(controller.Options{State: "/proc/1/state"}, "/proc/1/state")
	check(controller.Options{State: write("not JSON")}, "is not a controller's state")
	check(controller.Options{State: write(`{"version":2}`)}, "is of version 2, this ceiling knows 1")
	check(controller.Options{State: write(`{"version":1}`)}, "lacks a key")
	check(controller.Options{State: filepath.Join(small(t, 1<<20), "state")}, "a controller wants 64")
	full := small(t, 1<<20)
	fill(t, filepath.Join(full, "filler"))
	check(controller.Options{State: filepath.Join(full, "state")}, "no space left on device")

	if _, err := bus.Drive(within(t), t.TempDir(), bus.Watch{}); err == nil || !strings.Contains(err.Error(), "ceiling fleet controller") {
		t.Errorf("drive without a controller: %v", err)
	}
	b.Close()
	check(controller.Options{State: b.dir, Bed: "field"}, "belongs to test bed lab, not field")
	info, err := os.Stat(filepath.Join(b.dir, "controller.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the keys are %v, %v", info.Mode(), err)
	}
}

func TestLease(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	const ttl = 2 * time.Second
	b := serve(t, controller.Options{LeaseTTL: ttl})
	ctx := within(t)
	one, two := b.drive(t), b.drive(t)
	lease, err := one.Acquire(ctx, "ann on lab1")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // for longer than it lives without being renewed
		var held *bus.Held
		if _, err := two.Acquire(ctx, "bob"); !errors.As(err, &held) || held.Holder != "ann on lab1" ||
			!strings.Contains(err.Error(), "in use by ann on lab1 since 2") {
			t.Fatalf("the second: %v", err)
		}
		time.Sleep(ttl / 2)
	}
	select {
	case <-lease.Lost():
		t.Fatalf("lost: %v", lease.Why())
	default:
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if lease, err = two.Acquire(ctx, "bob"); err != nil {
		t.Fatalf("released, but %v", err)
	}
	two.Close() // as if it crashed
	for {
		next, err := one.Acquire(ctx, "ann")
		if err == nil {
			defer next.Release(ctx)
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	select {
	case <-lease.Lost():
	case <-ctx.Done():
		t.Fatal("the one that crashed believes that it holds it")
	}
	if lease.Why() == nil {
		t.Error("lost for no reason")
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
}

func TestAPublisherIsBounded(t *testing.T) {
	t.Parallel()
	b := serve(t, controller.Options{})
	web := b.join(t, "web1")
	if _, err := web.Publisher("a.b"); err == nil {
		t.Error("a run called a.b")
	}
	p, err := web.Publisher("r1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Send(make([]byte, bus.MaxBody+1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	b.Close()
	n := 0
	for ; err == nil && n < 10000; n++ {
		err = p.Send(make([]byte, bus.MaxBody/2))
	}
	if !errors.Is(err, bus.ErrFull) || n < 30 || n > 40 {
		t.Errorf("after %d samples of 2 MB: %v", n, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Flush(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "samples were not sent") {
		t.Errorf("flush: %v", err)
	}
}

// TestWhatIsDiscardedIsCounted bounds the stream below what is published.
func TestWhatIsDiscardedIsCounted(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{Samples: 1 << 20})
	ctx := within(t)
	driver, web := b.drive(t), b.join(t, "web1")
	p, err := web.Publisher("r1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const all = 30
	for range all {
		if err := p.Send(make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var read, missed uint64
	err = driver.Samples(ctx, "r1", func(s bus.Sample) error {
		read++
		missed += s.Missed
		if s.Sequence == all {
			return enough
		}
		return nil
	})
	if err != enough || missed == 0 || read+missed != all {
		t.Errorf("%d read, %d missed of %d, %v", read, missed, all, err)
	}
}

// TestAnAgentIsStartedAgain kills no process, but its connection goes without
// a farewell the moment before the next one of its name comes.
func TestAnAgentIsStartedAgain(t *testing.T) {
	t.Parallel()
	b := serve(t, controller.Options{})
	for range 20 {
		c, err := bus.Join(within(t), b.URL(), b.Token().String(), "web1", bus.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
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
	dir := filepath.Join(t.TempDir(), "state")
	var first int
	for i := range 3 {
		b := serve(t, controller.Options{State: dir})
		b.drive(t).Close()
		c := b.join(t, "web1")
		publish(within(t), t, c, "r1", 3)
		c.Close()
		b.Close()
		if i == 0 {
			first = count()
		}
	}
	for end := time.Now().Add(patience); count() > first; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors after one controller, %d after three", first, count())
		}
	}
}
