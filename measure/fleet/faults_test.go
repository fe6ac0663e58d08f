//go:build linux

package fleet

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
	"ceiling/record"
)

// Of an agent that is a process of its own.
const (
	childURL   = "FLEET_TEST_URL"
	childToken = "FLEET_TEST_TOKEN"
	childName  = "FLEET_TEST_NAME"
	childSlow  = "FLEET_TEST_SLOW"  // the phase in which it stays for long
	childGrace = "FLEET_TEST_GRACE" // 2s
)

// runChild is the process: an agent with the pretended engine.
func runChild() error {
	token, err := bus.ParseToken(os.Getenv(childToken))
	if err != nil {
		return err
	}
	conn, err := bus.Join(context.Background(), bus.Access{URL: os.Getenv(childURL), Token: &token}, os.Getenv(childName), bus.Watch{})
	if err != nil {
		return err
	}
	grace, err := time.ParseDuration(cmp.Or(os.Getenv(childGrace), "2s"))
	if err != nil {
		return err
	}
	slow := Phase(os.Getenv(childSlow))
	return Serve(context.Background(), conn, AgentOptions{
		About: About{Version: "test", Loads: true, Observes: true, Caps: Caps{MaxTime: time.Minute}}, Allow: Loopback(), Grace: grace,
		Log:  func(line string) { fmt.Println(line) },
		here: func() { fmt.Println("here") },
		engine: func(ctx context.Context, s *spec.Spec, o run.ShareOptions, sink run.Sink) (*run.ShareResult, error) {
			if slow == Preparing {
				time.Sleep(20 * time.Second)
			}
			done, err := pretend(ctx, s, o, sink)
			if slow == Draining {
				time.Sleep(20 * time.Second)
			}
			return done, err
		},
	})
}

// process is an agent in one.
type process struct {
	log
	cmd *exec.Cmd
}

// child starts an agent as a process, behind a command such as "ip netns exec".
func (b *bed) child(name string, slow Phase, before ...string) *process {
	b.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	args := append(before, exe)
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), childURL+"="+b.URL(), childToken+"="+b.Token().String(), childName+"="+name, childSlow+"="+string(slow))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.add(s.Text())
		}
	}()
	b.t.Cleanup(func() {
		p.kill()
		<-read
		_ = p.cmd.Wait() // it was killed
		if b.t.Failed() {
			b.t.Logf("process %s said:\n%s", name, p)
		}
	})
	await(b.t, name+" is there", func() bool { return p.has("here") })
	return p
}

func (p *process) kill()              { p.signal(syscall.SIGKILL) }
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // gone already: as good

// await waits for what happens at once on an idle machine.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

// awaitIdle: nothing goes on anywhere.
func (b *bed) awaitIdle(w *Work, agents ...string) {
	b.t.Helper()
	for _, name := range agents {
		await(b.t, name+" is idle", func() bool {
			all, err := w.discover(b.t.Context())
			if err != nil {
				return false // the controller is about to come back
			}
			for _, p := range all {
				if p.Name == name && p.Phase == Idle {
					return true
				}
			}
			return false
		})
	}
}

// lossy is a driver that waits for nobody long.
func lossy(allow bool) WorkOptions {
	return WorkOptions{Agents: 2, AllowLoss: allow, lossAfter: 4 * time.Second}
}

// TestKilledBeforeTheStart: kill -9 while it prepares, and once it is ready.
func TestKilledBeforeTheStart(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, phase := range []Phase{Preparing, Ready} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.agent("a1", nil)
			victim := b.child("a2", phase)
			w, _ := b.work(lossy(true))
			s := request(nobody, nil)
			if phase == Preparing {
				go func() {
					await(t, "it has its order", func() bool { return victim.has("loads") })
					victim.kill()
				}()
			}
			job, err := w.Prepare(t.Context(), &s)
			if phase == Ready {
				if err != nil {
					t.Fatal(err)
				}
				victim.kill()
				_ = victim.cmd.Wait()
				_, err = job.Do(t.Context(), &notes{})
				if e := job.Close(); e != nil {
					t.Error(e)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "a2") {
				t.Errorf("%v", err)
			}
			b.awaitIdle(w, "a1")
		})
	}
}

// TestKilledInTheRun: kill -9 while it runs, and before it told its account; with
// and without leave to go on.
func TestKilledInTheRun(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, phase := range []Phase{Running, Draining} {
		for _, allow := range []bool{false, true} {
			t.Run(fmt.Sprint(phase, allow), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.agent("a1", nil)
				victim := b.child("a2", phase)
				w, _ := b.work(lossy(allow))
				length := 8 * time.Second
				if phase == Draining {
					length = time.Second
				}
				n := &notes{}
				n.each = func(r record.LoadRow) {
					if len(n.rows) == 3 && phase == Running || phase == Draining && r.TNs == int64(length) {
						victim.kill()
					}
				}
				worked, err := one(t.Context(), w, request(nobody, func(s *spec.Spec) { s.Duration = length }), n)
				if err != nil {
					t.Fatal(err)
				}
				a1, a2 := worked.Agents[0], worked.Agents[1]
				if a2.Lost == "" || worked.Fleet.LostShare != 0.5 || worked.Result.Interrupted {
					t.Errorf("lost %q, share %v, interrupted %v", a2.Lost, worked.Fleet.LostShare, worked.Result.Interrupted)
				}
				if a2.Requests.Completed < 3*800 || a2.LostAtNs < 300e6 || worked.Fleet.LostFromNs != a2.LostAtNs {
					t.Errorf("what came of it is gone: %d completed, lost at %d", a2.Requests.Completed, a2.LostAtNs)
				}
				if got := a1.Requests.Completed + a2.Requests.Completed; got != worked.Result.Total.Completed {
					t.Errorf("%d of both, %d in all", got, worked.Result.Total.Completed)
				}
				whole := uint64(length/time.Millisecond) * 8
				if done := a1.Requests.Completed == whole; allow && !done || !allow && phase == Running && done {
					t.Errorf("allowed %v: the other completed %d of %d", allow, a1.Requests.Completed, whole)
				}
				b.awaitIdle(w, "a1")
			})
		}
	}
}

// TestStandsStill: a process that is stopped for a while holds the rows up, and
// is lost where it stays so.
func TestStandsStill(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, forEver := range []bool{false, true} {
		t.Run(fmt.Sprint(forEver), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.agent("a1", nil)
			victim := b.child("a2", "")
			w, _ := b.work(lossy(true))
			n := third(func() {
				victim.signal(syscall.SIGSTOP)
				if !forEver {
					time.AfterFunc(1500*time.Millisecond, func() { victim.signal(syscall.SIGCONT) })
				}
			})
			worked := b.run(w, 3*time.Second, n)
			if lost := worked.Agents[1].Lost != ""; lost != forEver {
				t.Errorf("lost: %q", worked.Agents[1].Lost)
			}
			if got := worked.Result.Total.Completed; !forEver && got != 48_000 || got < 24_000 {
				t.Errorf("%d completed", got)
			}
			victim.signal(syscall.SIGCONT)
			b.awaitIdle(w, "a1", "a2") // that which was lost has heard of it, or stops by itself
		})
	}
}

// TestDriverGone: nobody stops the agents; they do.
func TestDriverGone(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	all := b.agents(2, func(o *AgentOptions) { o.Grace = 2 * time.Second })
	conn, err := bus.Drive(t.Context(), bus.Access{State: b.state}, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	o := lossy(false)
	o.Log = func(string) {}
	w := NewWork(conn, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := third(func() {
		conn.Close() // as if it had been killed: nothing is said
	})
	worked, err := one(ctx, w, request(nobody, func(s *spec.Spec) { s.Duration = time.Minute / 2 }), n)
	// The driver, which is still there after all, says what it saw.
	if worked == nil || worked.Agents[0].Lost == "" {
		t.Errorf("%v: %v", worked, err)
	}
	for _, a := range all {
		await(t, "it stopped", func() bool { return a.has("stopped because no word of the driver") })
	}
	_ = w.Close() // over a connection that is gone
	other, _ := b.work(WorkOptions{Agents: 2})
	b.awaitIdle(other, "a1", "a2")
}

// TestRestartedController: the run goes on, and nothing is lost.
func TestRestartedController(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agents(2, nil)
	w, said := b.work(WorkOptions{Agents: 2})
	n := &notes{}
	restarted := make(chan struct{})
	n.each = func(record.LoadRow) {
		if len(n.rows) == 3 {
			go func() {
				defer close(restarted)
				if err := b.Server.Close(); err != nil {
					t.Error(err)
				}
				b.serve()
			}()
		}
	}
	worked := b.run(w, 5*time.Second, n)
	<-restarted
	if got := worked.Result.Total.Completed; got != 80_000 || len(n.rows) < 10 || worked.Agents[0].Lost+worked.Agents[1].Lost != "" {
		t.Errorf("%d completed of 80000, %d rows; said:\n%s", got, len(n.rows), said)
	}
	var sum uint64
	for _, r := range n.rows {
		sum += r.Completed
	}
	if sum != 80_000 {
		t.Errorf("the rows have %d", sum)
	}
}

// TestControllerGoneForGood: the run ends and says that the controller is gone,
// not the agents, in no library's words; the agents come back with it.
func TestControllerGoneForGood(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	all := b.agents(2, func(o *AgentOptions) { o.Grace = 2 * time.Second })
	w, said := b.work(lossy(true))
	n := third(func() {
		if err := b.Server.Close(); err != nil {
			t.Error(err)
		}
	})
	worked, err := one(t.Context(), w, request(nobody, func(s *spec.Spec) { s.Duration = time.Minute / 2 }), n)
	if worked == nil || worked.Agents[0].Lost != record.LostController+" 4s" || worked.Agents[1].Lost != worked.Agents[0].Lost {
		t.Fatalf("%+v: %v", worked, err)
	}
	if text := fmt.Sprint(err, "\n", said, "\n", w.Close()); strings.Contains(text, "nats") || strings.Contains(text, "EOF") ||
		strings.Contains(text, "deadline") {
		t.Errorf("a library's words:\n%s", text)
	}
	for _, a := range all {
		await(t, "it stopped", func() bool { return a.has("stopped because no word of the driver") })
	}
	b.serve()
	other, _ := b.work(WorkOptions{Agents: 2})
	b.awaitIdle(other, "a1", "a2")
}

// TestTokenRevokedDuringARun: the agent stops its load and ends, the driver
// names it, and the others are left alone.
func TestTokenRevokedDuringARun(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agent("a1", nil)
	token, err := bus.CreateToken(b.state, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a2 := b.agentWith(token, "a2", nil)
	w, _ := b.work(lossy(true))
	n := third(func() {
		if _, err := bus.RevokeToken(b.state, token.ID()); err != nil {
			t.Error(err)
		}
	})
	worked, err := one(t.Context(), w, request(nobody, func(s *spec.Spec) { s.Duration = 10 * time.Second }), n)
	if err != nil || worked.Agents[0].Lost != "" || worked.Agents[1].Lost == "" {
		t.Errorf("%+v: %v", worked, err)
	}
	err = <-a2.ended
	a2.ended <- err // for who ends it
	if !errors.Is(err, bus.ErrTokenOver) || !a2.has("stopped because token "+token.ID()+" was revoked") {
		t.Errorf("the agent ended with %v, and said\n%s", err, a2)
	}
}

// TestToldToGo: an agent that is ended as a service is (SIGTERM) tells its run
// first.
func TestToldToGo(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agent("a1", nil)
	going := b.agent("a2", nil)
	w, _ := b.work(lossy(true))
	n := third(func() {
		going.leave()
	})
	worked := b.run(w, 3*time.Second, n)
	if lost := worked.Agents[1].Lost; lost != "it stopped: the agent was asked to disconnect" {
		t.Errorf("lost: %q", lost)
	}
	if got := worked.Agents[0].Requests.Completed; got != 24_000 {
		t.Errorf("the other completed %d", got)
	}
}

// TestLease: a second driver is refused while the first has the test bed.
func TestLease(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agent("a1", nil)
	first, _ := b.work(WorkOptions{Agents: 1})
	short := request(nobody, func(s *spec.Spec) { s.Duration = 100 * time.Millisecond })
	if _, err := one(t.Context(), first, short, &notes{}); err != nil {
		t.Fatal(err)
	}
	second, _ := b.work(WorkOptions{Agents: 1})
	if _, err := one(t.Context(), second, short, &notes{}); err == nil || !strings.Contains(err.Error(), "in use by run ") {
		t.Errorf("%v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := one(t.Context(), second, short, &notes{}); err != nil {
		t.Error(err)
	}
}

// TestFullDisk: the controller's disk has no room, which a run does not need.
func TestFullDisk(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	b := newBedOn(t, "127.0.0.1", filepath.Join(dir, "state"))
	b.agents(2, nil)
	f, err := os.Create(filepath.Join(dir, "fill"))
	for b := make([]byte, 1<<12); err == nil; {
		_, err = f.Write(b)
	}
	f.Close()
	w, said := b.work(lossy(false))
	for range 2 {
		worked, err := one(t.Context(), w, request(nobody, nil), &notes{})
		if err != nil || worked.Agents[0].Lost+worked.Agents[1].Lost != "" || worked.Result.Total.Completed != 16_000 {
			t.Errorf("%+v: %v; said:\n%s", worked, err, said)
		}
	}
}
