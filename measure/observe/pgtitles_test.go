//go:build linux

package observe

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/record"
)

func TestTitles(t *testing.T) {
	for text, want := range map[string]title{
		"postgres: app shop 127.0.0.1(53412) UPDATE waiting\x00\x00\x00": {command: []byte("UPDATE"), lockWaiting: true},
		"postgres: 15/main: app shop [local] SELECT                    ": {command: []byte("SELECT")},
		"postgres: app shop ::1(5) idle":                                 {},
		"postgres: app shop 10.0.0.2(5) idle in transaction":             {inTransaction: true},
		"postgres: app shop 10.0.0.2(5) CREATE INDEX waiting":            {command: []byte("CREATE"), lockWaiting: true},
	} {
		got, ok := parseTitle([]byte(text))
		if !ok || string(got.command) != string(want.command) || got.inTransaction != want.inTransaction || got.lockWaiting != want.lockWaiting {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "/usr/lib/postgresql/15/bin/postgres\x00-D\x00/data\x00", "postgres: checkpointer ", "postgres: app shop [local]",
		"postgres: app shop [local] startup", "postgres: walsender rep 10.0.0.2(5) streaming 0/1", "postgres: parallel worker for PID 7", "waiting"} {
		if got, ok := parseTitle([]byte(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestTitlesOfProcesses: every process counts once, also one that is the server's child and
// asked by it, and those that serve no client do not.
func TestTitlesOfProcesses(t *testing.T) {
	proc := t.TempDir()
	tools, err := newTools(proc, "")
	if err != nil {
		t.Fatal(err)
	}
	defer tools.close()
	s := newSubject(tools, "")
	add := func(pid int, role, text string) {
		t.Helper()
		put(t, proc, strconv.Itoa(pid)+"/cmdline", text)
		dir, err := openFile(proc + "/" + strconv.Itoa(pid))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeFile(&dir) })
		s.processes = append(s.processes, &process{identity: identity{role: role, pid: pid, comm: "postgres"}, dir: dir})
	}
	waits := "postgres: app shop [local] UPDATE waiting\x00\x00"
	add(1, record.RolePeer, "/usr/bin/postgres\x00-D\x00/data\x00")
	add(2, record.RolePeer, waits)
	add(3, record.RoleSubject, waits)
	add(3, record.RolePeer, waits)
	add(4, record.RolePeer, "postgres: app shop [local] DELETE waiting\x00")
	add(5, record.RolePeer, "postgres: app shop [local] idle in transaction\x00")
	add(6, record.RolePeer, "postgres: app shop [local] COMMIT\x00")
	add(7, record.RoleGenerator, waits)
	out := collect{t: t}
	sampler := titleSampler{t: tools, subject: s}
	if err := sampler.sample(tick{}, out.emit); err != nil {
		t.Fatal(err)
	}
	want := record.TitlesRow{ObservedHead: record.ObservedHead{Kind: record.KindTitles},
		Sessions: 5, Active: 4, IdleInTransaction: 1, Waiting: 3,
		Commands: []record.TitleCommand{{Command: "UPDATE", Sessions: 2}, {Command: "DELETE", Sessions: 1}}}
	if d := cmp.Diff([]*record.TitlesRow{&want}, rowsOf[record.TitlesRow](&out)); d != "" {
		t.Error(d)
	}
}
