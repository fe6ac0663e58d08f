//go:build linux

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
	"ceiling/measure/run"
	"ceiling/record"
)

// Of an agent or a controller that is a process of its own.
const (
	childURL   = "FLEET_TEST_URL"
	childToken = "FLEET_TEST_TOKEN"
	childName  = "FLEET_TEST_NAME"
	childSlow  = "FLEET_TEST_SLOW"  // the phase in which it stays for long
	childGrace = "FLEET_TEST_GRACE" // 2s
	childState = "FLEET_TEST_STATE" // it is a controller, with this state
)

// runChild is the process: a controller, or an agent with the pretended engine.
func runChild() error {
	if state := os.Getenv(childState); state != "" {
		if _, err := controller.Serve(controller.Options{State: state, Listen: "127.0.0.1"}); err != nil {
			return err
		}
		fmt.Println("here")
		select {}
	}
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

// process is a child.
type process struct {
	natstest.Log
	cmd *exec.Cmd
}

// child starts an agent as a process, behind a command such as "ip netns exec".
func (b *bed) child(name string, slow Phase, before ...string) *process {
	b.t.Helper()
	return b.process(name, []string{childURL + "=" + b.URL(), childToken + "=" + b.Token().String(), childName + "=" + name,
		childSlow + "=" + string(slow)}, before...)
}

func (b *bed) process(name string, env []string, before ...string) *process {
	b.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	args := append(before, exe)
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, os.Stderr
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		p.kill()
		if b.t.Failed() {
			b.t.Logf("process %s said:\n%s", name, p)
		}
	})
	natstest.Await(b.t, name+" is there", func() bool { return p.Has("here") })
	return p
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // gone already: as good

// kill returns once the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // it was killed, or waited for already
}

// awaitIdle: nothing goes on anywhere.
func (b *bed) awaitIdle(w *Work, agents ...string) {
	b.t.Helper()
	for _, name := range agents {
		natstest.Await(b.t, name+" is idle", func() bool {
			all, _ := w.discover(b.t.Context()) // an error: the controller is about to come back
			return slices.ContainsFunc(all, func(p present) bool { return p.Name == name && p.Phase == Idle })
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
			b := newBed(t, controller.Options{})
			b.agent("a1", nil)
			victim := b.child("a2", phase)
			w, _ := b.work(lossy(true))
			s := request(nobody, nil)
			if phase == Preparing {
				go func() {
					natstest.Await(t, "it has its order", func() bool { return victim.Has("loads") })
					victim.signal(syscall.SIGKILL)
				}()
			}
			job, err := w.Prepare(t.Context(), &s)
			if phase == Ready {
				if err != nil {
					t.Fatal(err)
				}
				victim.kill()
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
				b := newBed(t, controller.Options{})
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
				worked := b.run(w, length, n)
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
			b := newBed(t, controller.Options{})
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
	conn := b.Drive()
	o := lossy(false)
	o.Log = func(string) {}
	w := NewWork(conn, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := third(conn.Close) // as if it had been killed: nothing is said
	worked, err := one(ctx, w, request(nobody, func(s *spec.Spec) { s.Duration = time.Minute / 2 }), n)
	// The driver, which is still there after all, says what it saw.
	if worked == nil || worked.Agents[0].Lost == "" {
		t.Errorf("%v: %v", worked, err)
	}
	for _, a := range all {
		natstest.Await(t, "it stopped", func() bool { return a.Has("stopped because no word of the driver") })
	}
	_ = w.Close() // over a connection that is gone
	other, _ := b.work(WorkOptions{Agents: 2})
	b.awaitIdle(other, "a1", "a2")
}

// TestKilledController: it is killed twice and started again; the run goes on, and nothing is lost.
func TestKilledController(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	b.Server.Close() // the same one, as a process
	serve := func() *process { return b.process("controller", []string{childState + "=" + b.State}) }
	first := serve()
	b.agents(2, nil)
	w, said := b.work(WorkOptions{Agents: 2})
	n := &notes{}
	restarted := make(chan struct{})
	n.each = func(record.LoadRow) {
		if len(n.rows) == 3 {
			go func() {
				defer close(restarted)
				first.kill()
				serve().kill()
				serve()
			}()
		}
	}
	worked := b.run(w, 5*time.Second, n)
	<-restarted
	if got := worked.Result.Total.Completed; got != 80_000 || len(n.rows) < 10 || worked.Agents[0].Lost+worked.Agents[1].Lost != "" {
		t.Errorf("%d completed of 80000, %d rows; said:\n%s", got, len(n.rows), said)
	}
	checkSums(t, worked, n, 80_000)
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
		natstest.Await(t, "it stopped", func() bool { return a.Has("stopped because no word of the driver") })
	}
	b.Start()
	other, _ := b.work(WorkOptions{Agents: 2})
	b.awaitIdle(other, "a1", "a2")
}

// TestTokenRevokedDuringARun: the agent stops its load and ends, the driver
// names it, and the others are left alone.
func TestTokenRevokedDuringARun(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agent("a1", nil)
	token := b.NewToken(time.Hour)
	a2 := b.agent("a2", nil, token)
	w, _ := b.work(lossy(true))
	n := third(func() {
		if _, err := bus.RevokeToken(b.State, token.ID()); err != nil {
			t.Error(err)
		}
	})
	if worked := b.run(w, 10*time.Second, n); worked.Agents[0].Lost != "" || worked.Agents[1].Lost == "" {
		t.Errorf("%+v", worked)
	}
	err := <-a2.ended
	a2.ended <- err // for who ends it
	if !errors.Is(err, bus.ErrTokenOver) || !a2.Has("stopped because token "+token.ID()+" was revoked") {
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
	worked := b.run(w, 3*time.Second, third(going.leave))
	if lost := worked.Agents[1].Lost; lost != "it stopped: the agent was asked to disconnect" {
		t.Errorf("lost: %q", lost)
	}
	if got := worked.Agents[0].Requests.Completed; got != 24_000 {
		t.Errorf("the other completed %d", got)
	}
}

// TestFullDisk: the controller's disk has no room, which a run does not need.
func TestFullDisk(t *testing.T) {
	disk := needs.Disk(t, 1<<20)
	t.Parallel()
	b := newBed(t, controller.Options{State: filepath.Join(disk, "state")})
	b.agents(2, nil)
	needs.Fill(t, disk)
	w, said := b.work(lossy(false))
	for range 2 {
		if worked := b.run(w, time.Second, &notes{}); worked.Agents[0].Lost+worked.Agents[1].Lost != "" || worked.Result.Total.Completed != 16_000 {
			t.Errorf("%+v; said:\n%s", worked, said)
		}
	}
}
