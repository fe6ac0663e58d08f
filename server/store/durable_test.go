package store

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/scratch"
)

// durableRounds are the kills of each kind of write; docs/regimes.md has the result of 100.
var durableRounds = flag.Int("durable-rounds", 2, "kills of each kind of write") // read-only

// writerEnv makes the test binary a server's process without the server: it opens the database that it names, writes
// as a second variable says until it is killed, and prints the answers.
const (
	writerEnv = "CEILING_TEST_WRITER"
	writeEnv  = "CEILING_TEST_WRITE"
)

func TestMain(m *testing.M) {
	if os.Getenv(absentEnv) != "" {
		_, err := Prepare(context.Background(), "postgres", testProducts(), Options{})
		fmt.Println(err)
		os.Exit(0)
	}
	if dir := os.Getenv(fullEnv); dir != "" {
		if err := fillDisk(dir, os.Getenv(writeEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(writerEnv); text != "" {
		if err := writeOn(text, os.Getenv(writeEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// absentEnv makes it a server that wants a PostgreSQL of its own.
const absentEnv = "CEILING_TEST_ABSENT"

const writers = 16

// writeOn writes until the process is killed, or a write fails.
func writeOn(text, how string) error {
	d, err := Prepared(text)
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), d, testBrands(), Options{Pool: 4})
	if err != nil {
		return err
	}
	failed := make(chan error, writers)
	for range writers {
		go func() {
			for {
				got, err := kindsOfWrites()[how](s)
				if err != nil {
					failed <- err
					return
				}
				// One write of a line to a pipe is whole or not at all; it is the acknowledgement.
				os.Stdout.Write(append(got, '\n'))
			}
		}()
	}
	return <-failed
}

func kindsOfWrites() map[string]func(*Store) ([]byte, error) {
	return map[string]func(*Store) ([]byte, error){
		"insert":  func(s *Store) ([]byte, error) { return s.Insert(1) },
		"group":   func(s *Store) ([]byte, error) { return s.InsertGroup(1) },
		"async":   func(s *Store) ([]byte, error) { return s.InsertAsync(1) },
		"counter": func(s *Store) ([]byte, error) { return s.Count() },
	}
}

// A writer is a process of writeOn.
type writer struct {
	cmd  *exec.Cmd
	acks chan []int64 // identifiers, or ones for a counter; sent when its output ends
	some chan struct{}
}

func startWriter(t *testing.T, d *Database, how string) *writer {
	t.Helper()
	w := &writer{cmd: exec.Command(os.Args[0]), acks: make(chan []int64, 1), some: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), writerEnv+"="+d.String(), writeEnv+"="+how)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go w.read(out)
	return w
}

func (w *writer) read(out io.Reader) {
	var acks []int64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a struct{ ID, Counter int64 }
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			break // the last one is not whole
		}
		if acks = append(acks, max(a.ID, a.Counter)); len(acks) == 1 {
			close(w.some)
		}
	}
	w.acks <- acks
}

// killed waits for the first answers and a moment more, kills, and returns what was acknowledged.
func (w *writer) killed(t *testing.T, kill func()) []int64 {
	t.Helper()
	select {
	case <-w.some:
	case acks := <-w.acks:
		t.Fatalf("it ended after %d answers", len(acks))
	case <-time.After(20 * time.Second):
		t.Error("no answer within 20 s")
	}
	time.Sleep(rand.N(150 * time.Millisecond))
	kill()
	acks := <-w.acks
	_ = w.cmd.Wait() // it was killed
	return acks
}

// missing are the identifiers that the database does not have.
func missing(t *testing.T, d *Database, acks []int64) (n int) {
	t.Helper()
	s := opened(t, d, Options{Pool: 1})
	defer s.Close()
	rows, err := s.read.QueryContext(t.Context(), "SELECT id FROM entry")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	have := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		have[id] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range acks {
		if !have[id] {
			n++
		}
	}
	return n
}

// What was acknowledged as durable is there after the server was killed in the middle of its work. Of what was
// acknowledged beforehand some is lost, which is counted: it is what that costs.
func TestKilledServerLosesNothingDurable(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		for _, how := range []string{"insert", "group", "async"} {
			total, lost := 0, 0
			for range *durableRounds {
				w := startWriter(t, d, how)
				acks := w.killed(t, func() { _ = w.cmd.Process.Kill() })
				n := missing(t, d, acks)
				total, lost = total+len(acks), lost+n
				if n > 0 && how != "async" {
					t.Errorf("%s: %d of %d acknowledged entries are lost", how, n, len(acks))
				}
				if how == "async" && n > asyncQueue+asyncSize {
					t.Errorf("%d entries were acknowledged and not yet written; the queue has room for %d", n, asyncQueue)
				}
			}
			t.Logf("%s: %d kills, %d acknowledged, %d lost", how, *durableRounds, total, lost)
		}
	})
}

func TestKilledServerKeepsItsCounts(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		before := int64(0)
		for range *durableRounds {
			w := startWriter(t, d, "counter")
			acks := int64(len(w.killed(t, func() { _ = w.cmd.Process.Kill() })))
			s := opened(t, d, Options{Pool: 1})
			after := number(t, s, "SELECT n FROM counter WHERE id = 1")
			s.Close()
			// What was under way may be committed and not acknowledged.
			if counted := after - before; counted < acks || counted > acks+writers {
				t.Errorf("%d counted, %d acknowledged by %d clients", counted, acks, writers)
			}
			before = after
		}
	})
}

// The database's own death loses nothing durable either: all of its processes are killed and it is started again.
func TestKilledDatabaseLosesNothingDurable(t *testing.T) {
	needs.Program(t, "pg_lsclusters")
	t.Parallel()
	bin, err := Installed()
	if err != nil {
		t.Fatal(err)
	}
	d := prepared(t, "postgres", Options{})
	u, err := url.Parse(d.Source())
	if err != nil {
		t.Fatal(err)
	}
	dir := u.Query().Get("host")
	for round := range *durableRounds {
		w := startWriter(t, d, "insert")
		// It has a process group of its own, and so have its children, whose death the first of them causes; a crash
		// of all at once is what loses most.
		acks := w.killed(t, func() { killTree(t, postmaster(t, dir)) })
		c := &cluster{room: &scratch.Dir{Path: dir}}
		if os.Getuid() == 0 {
			if c.as, err = postgresUser(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.start(bin); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		if err := c.ready(t.Context(), d.Source()); err != nil {
			t.Fatal(err)
		}
		if n := missing(t, d, acks); n > 0 {
			t.Errorf("round %d: %d of %d acknowledged entries are lost", round, n, len(acks))
		}
		t.Logf("round %d: %d acknowledged", round, len(acks))
	}
}

// killTree kills a process and its children, and waits until they are gone.
func killTree(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // no new ones
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{pid}
	for _, word := range strings.Fields(string(text)) {
		var child int
		if _, err := fmt.Sscan(word, &child); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, child)
	}
	for _, p := range pids {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		gone := true
		for _, p := range pids {
			state, err := os.ReadFile(filepath.Join("/proc", itoa(p), "stat"))
			gone = gone && (err != nil || strings.Contains(string(state), ") Z "))
		}
		if gone {
			return
		}
	}
	t.Error("PostgreSQL's processes are there 5 s after they were killed")
}
