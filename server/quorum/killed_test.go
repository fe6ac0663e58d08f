package quorum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/distance"
	"ceiling/internal/needs"
	"ceiling/measure/netns"
)

// quorumRounds are the kills of each kind; docs/regimes.md has the result of many.
var quorumRounds = flag.Int("quorum-rounds", 1, "kills of each kind") // read-only

// acks are keys that were acknowledged, with their revisions.
type acks struct {
	sync.Map
	n atomic.Int64
}

const killWriters = 8

// writeUntil has clients write keys of their own until the function that it returns is called.
func (a *acks) writeUntil(t *testing.T, b *Bucket, round int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for c := range killWriters {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("w%d-%d-%d", round, c, i)
				time.Sleep(2 * time.Millisecond)
				if revision, err := b.Put(ctx, key, []byte(key)); err == nil {
					a.Store(key, revision)
					a.n.Add(1)
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// missing counts what the bucket does not have, or has otherwise.
func (a *acks) missing(t *testing.T, b *Bucket) (lost int) {
	t.Helper()
	type one struct {
		key      string
		revision uint64
	}
	work := make(chan one)
	var bad atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for o := range work {
				e, err := b.last(t.Context(), b.leader(), o.key)
				for range 20 { // the leader that is known may not be the one any more
					if err == nil || errors.Is(err, ErrNoKey) {
						break
					}
					time.Sleep(100 * time.Millisecond)
					e, err = b.last(t.Context(), b.leader(), o.key)
				}
				if err != nil && !errors.Is(err, ErrNoKey) {
					t.Errorf("%s cannot be read: %v", o.key, err)
				} else if e.Revision != o.revision || string(e.Value) != o.key {
					bad.Add(1)
				}
			}
		})
	}
	a.Range(func(key, revision any) bool {
		work <- one{key.(string), revision.(uint64)}
		return true
	})
	close(work)
	all.Wait()
	return int(bad.Load())
}

// again starts a node that was killed, on what it has left.
func (n *node) again(t *testing.T) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.current().Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// Whatever is killed, the leader or all replicas at once or the only one: what was acknowledged is there afterwards. A process
// that is killed leaves what it gave to the kernel; only the machine's death would tell the difference of sync=always.
func TestKilledReplicasLoseNothing(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, test := range []struct {
		name, options string
		kill          func(*Bucket) []*node
	}{
		{"the leader of three", "replicas=3,net=loopback,timeout=1s", func(b *Bucket) []*node { return []*node{b.leader()} }},
		{"all three at once", "replicas=3,net=loopback,timeout=1s", func(b *Bucket) []*node { return b.nodes }},
		{"the only one", "replicas=1,net=loopback,timeout=1s", func(b *Bucket) []*node { return b.nodes }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := started(t, test.options)
			total := int64(0)
			for round := range *quorumRounds {
				var a acks
				stop := a.writeUntil(t, b, round)
				atLeast := func(n int64) {
					most := a.n.Load() + n
					until(t, fmt.Sprintf("%d acknowledged writes", most), func() bool { return a.n.Load() >= most })
				}
				atLeast(50)
				time.Sleep(rand.N(100 * time.Millisecond))
				killed := test.kill(b)
				for _, n := range killed {
					n.current().Stop()
				}
				if len(killed) == len(b.nodes) {
					for _, n := range killed {
						n.again(t)
					}
				}
				atLeast(50) // there is a leader again
				stop()
				total += a.n.Load()
				if lost := a.missing(t, b); lost > 0 {
					t.Errorf("round %d: %d of %d acknowledged writes are lost", round, lost, a.n.Load())
				}
				if len(killed) < len(b.nodes) {
					for _, n := range killed {
						n.again(t)
					}
				}
			}
			t.Logf("%d kills, %d acknowledged writes, %d leaders", *quorumRounds, total, b.lead.changes.Load()+1)
		})
	}
}

// left says what a bucket of this process has left.
func left(t *testing.T, before map[string]bool) (names []string) {
	t.Helper()
	for name := range rooms(t) {
		if !before[name] {
			names = append(names, name)
		}
	}
	for i := range 3 {
		if _, err := os.Stat("/run/netns/" + netns.Name(i)); err == nil {
			names = append(names, netns.Name(i))
		}
	}
	return names
}

func rooms(t *testing.T) map[string]bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, name := range found {
		all[name] = true
	}
	return all
}

// What cannot be started is one line that says why, and leaves nothing.
func TestStartFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, test := range []struct {
		options string
		spoil   func(t *testing.T) (end func())
		want    string
	}{
		{"replicas=3,net=loopback,within=1ms", nil, "within 1ms|in time"},
		{"own", func(t *testing.T) func() {
			t.Setenv("TMPDIR", "/proc")
			return func() {}
		}, "make a directory"},
		{"net=namespaces", func(t *testing.T) func() {
			t.Setenv("PATH", t.TempDir())
			return func() {}
		}, "takes the command ip"},
	} {
		t.Run(test.options, func(t *testing.T) {
			if test.spoil != nil {
				defer test.spoil(t)()
			}
			before := rooms(t)
			o, err := Parse(test.options)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Start(t.Context(), o)
			if err == nil {
				t.Fatalf("%s starts: %v", test.options, b.Close())
			}
			good := false
			for want := range strings.SplitSeq(test.want, "|") {
				good = good || strings.Contains(err.Error(), want)
			}
			if !good || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want %s", err, test.want)
			}
			if names := left(t, before); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// A leader that does not come, since most replicas are gone, is an error for the write that waits for it, and the others are
// not taken for one.
func TestNoQuorum(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	b := started(t, "replicas=3,net=loopback,timeout=500ms")
	leader := b.leader()
	for _, n := range b.nodes {
		if n != leader {
			n.current().Stop()
		}
	}
	for name, do := range map[string]func() error{
		"write": func() error { _, err := b.Put(t.Context(), "a", nil); return err },
		"read":  func() error { _, err := b.Get(t.Context(), Any(1)); return err },
		"stale": func() error {
			var err error
			for limit := time.Now().Add(time.Minute); err == nil && time.Now().Before(limit); { // until the bound is over
				_, err = b.Stale(t.Context(), Any(1))
			}
			return err
		},
	} {
		if err := do(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s without a quorum: %v", name, err)
		}
	}
}

// A port that another program has taken meanwhile is the reason that is given.
func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	b := &Bucket{options: Standard(), nodes: []*node{{plan: plan{Name: "r1", Dir: t.TempDir()}}}}
	if err := b.onLoopback(); err != nil {
		t.Fatal(err)
	}
	n := b.nodes[0]
	f, err := distance.Forward(fmt.Sprintf("127.0.0.1:%d", n.plan.Port), "127.0.0.1:1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	_, err = n.current().Await(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
}

// fullEnv makes the test binary fill the disk that is mounted where it says, under a bucket.
const fullEnv = "CEILING_TEST_KV_FULL"

// A disk that is full at a write is an error for that write, and what was acknowledged before is there.
func TestDiskIsFull(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	// The disk is there for this process alone, and gone with it.
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=6m ceiling "$1" && exec "$2"`, "sh", "/var/tmp", os.Args[0])
	cmd.Env = append(os.Environ(), fullEnv+"=/var/tmp", "TMPDIR=/var/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

func fillDisk() (err error) {
	ctx := context.Background()
	o, err := Parse("net=loopback,timeout=5s")
	if err != nil {
		return err
	}
	b, err := Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var acked int
	var why error
	for ; why == nil && acked < 1000; acked++ {
		_, why = b.Put(ctx, fmt.Sprintf("f%d", acked), make([]byte, MaxValue))
	}
	if why == nil || strings.Contains(why.Error(), "\n") {
		return fmt.Errorf("the disk is full, and after %d writes another says %v", acked, why)
	}
	if !strings.Contains(why.Error(), "no space left") && !strings.Contains(why.Error(), "resource") {
		return fmt.Errorf("the disk is full, and a write says %w", why)
	}
	fmt.Printf("%d writes of %d bytes, then: %v\n", acked-1, MaxValue, why)
	for i := range acked - 1 {
		if e, err := b.Get(ctx, fmt.Sprintf("f%d", i)); err != nil || len(e.Value) != MaxValue {
			return fmt.Errorf("write %d was acknowledged, and is read as %d bytes: %w", i, len(e.Value), err)
		}
	}
	return nil
}

// parentEnv makes the test binary start a bucket with these options and wait to be killed.
const parentEnv = "CEILING_TEST_KV_PARENT"

func parent(options string) error {
	o, err := Parse(options)
	if err != nil {
		return err
	}
	b, err := Start(context.Background(), o)
	if err != nil {
		return err
	}
	for _, n := range b.Status().Nodes {
		fmt.Println(n.PID)
	}
	fmt.Println("started")
	select {}
}

// A server that is killed takes its replicas with it; its namespaces and its directory go with the next start.
func TestKilledParentLeavesNothing(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"=replicas=3,net=namespaces", "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for {
		var word string
		if _, err := fmt.Fscan(out, &word); err != nil {
			t.Fatalf("it did not start: %v", err)
		}
		if word == "started" {
			break
		}
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 3 {
		t.Fatalf("replicas: %v", pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	until(t, "the replicas have ended", func() bool {
		for _, pid := range pids {
			if !netns.Gone(pid) {
				return false
			}
		}
		return true
	})
	if found, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*")); err != nil || len(found) != 1 {
		t.Fatalf("directories: %v, %v", found, err)
	}
	// The next that starts there, whatever its net.
	next := exec.Command(os.Args[0])
	next.Env = append(os.Environ(), parentEnv+"=net=namespaces", "TMPDIR="+tmp)
	next.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err = next.StdoutPipe(); err == nil {
		err = next.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for word := ""; word != "started"; {
		if _, err := fmt.Fscan(out, &word); err != nil {
			t.Fatalf("the next did not start: %v", err)
		}
	}
	found, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*"))
	if err != nil || len(found) != 1 {
		t.Errorf("directories: %v, %v", found, err)
	}
	for i := range 3 {
		name := fmt.Sprintf("%s%d-%d", netns.Prefix, cmd.Process.Pid, i)
		if _, err := os.Stat("/run/netns/" + name); err == nil {
			t.Errorf("namespace %s is left", name)
		}
	}
	if err := next.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = next.Wait()      // it does not handle the signal
	_, _ = netns.Sweep() // another process may be at the same
	for i := range 3 {
		name := fmt.Sprintf("%s%d-%d", netns.Prefix, next.Process.Pid, i)
		until(t, name+" is gone", func() bool {
			_, err := os.Stat("/run/netns/" + name)
			return err != nil
		})
	}
}
