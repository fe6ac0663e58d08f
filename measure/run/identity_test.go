//go:build linux

package run

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
)

func TestServersProgramIsNamed(t *testing.T) {
	needs.Engine(t)
	t.Setenv("GOMAXPROCS", "3") // the child inherits it
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration = time.Second
	r := do(t, s).Run
	if r.Subject == nil || len(r.Subject.Processes) != 1 {
		t.Fatalf("subject %+v", r.Subject)
	}
	p := r.Subject.Processes[0]
	self, err := programOf("/proc/self/exe", map[executable]string{})
	if err != nil {
		t.Fatal(err)
	}
	// The child is this test's program (main_test.go).
	if p.BinaryID != self || self == "" || p.GOMAXPROCS != 3 || p.CPUsAllowed == "" || p.Threads < 1 {
		t.Errorf("process %+v, want the program %s", p, self)
	}
}

func TestProgramWithoutBuildIDIsHashed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
		if err := os.Symlink(file, path); err != nil {
			t.Fatal(err)
		}
		id, err := programOf(path, map[executable]string{})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, again, b := write("#!/bin/sh\n"), write("#!/bin/sh\n"), write("#!/bin/bash\n")
	if !strings.HasPrefix(a, "sha256:") || a != again || a == b {
		t.Errorf("%s, again %s, another %s", a, again, b)
	}
	if _, err := programOf(path+"-gone", map[executable]string{}); err == nil {
		t.Error("a program that is not there has an ID")
	}
}

func TestGOMAXPROCSOfAnEnvironment(t *testing.T) {
	for text, want := range map[string]int{
		"A=1\x00GOMAXPROCS=4\x00B=2\x00": 4, "": 0, "XGOMAXPROCS=4": 0, "GOMAXPROCS=": 0, "GOMAXPROCS=-1": 0, "GOMAXPROCS=many": 0,
	} {
		if got := gomaxprocs([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00ab"))
	f.Add([]byte{})
	f.Add([]byte("\x04\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id := noteOf(data, binary.LittleEndian.Uint32, "GNU\x00", noteGNU)
		if id != nil && !bytes.Contains(data, id) {
			t.Error("an ID that is not in the note")
		}
		_ = buildID(bytes.NewReader(data))
	})
}

// TestSubjectIsOnOneHost: two agents of one machine tell of the same process; it
// is counted once, on the host that identified it.
func TestSubjectIsOnOneHost(t *testing.T) {
	var series record.Series
	for _, host := range []string{"a1", "web1"} {
		found := &record.SubjectRow{PID: 7, Comm: "nginx", Role: record.RoleSubject, Event: record.SubjectFound}
		used := &record.ProcessRow{PID: 7, Role: record.RoleSubject, CPUNs: 1000}
		found.Host, used.Host = host, host
		used.TNs, used.WidthNs = 1e9, 1e9
		listens := &record.ListenerRow{Connections: []record.ProcessConnections{{PID: 7, Connections: 64}},
			Listeners: []record.Listener{{Inode: 1, Addr: "10.0.0.1:80"}, {Inode: 2, Addr: "10.0.0.1:80"}, {Inode: 3, Addr: "10.0.0.1:80"}}}
		listens.Host = host
		series.Observed.Add(found, used, listens)
	}
	r := &record.Run{ElapsedS: 1, Requests: record.Requests{Completed: 10}}
	for _, c := range []struct {
		identities []Identity
		host       string
	}{
		{nil, "a1"}, {[]Identity{{Host: "web1", PID: 7, BinaryID: "go:x"}}, "web1"},
	} {
		w := &RunResult{Target: "10.0.0.1:80", ServerInfo: ServerInfo{Identities: c.identities}}
		s := subjectOf(r, &series, w)
		identified(s, &w.ServerInfo)
		if s == nil || s.Host != c.host || len(s.Processes) != 1 || s.Processes[0].CPUNs != 1000 || s.CPUNsPerRequest != 100 ||
			(s.Processes[0].BinaryID != "") != (c.identities != nil) {
			t.Errorf("%+v, want it on %s", s, c.host)
		}
		if held := s.Processes[0].Connections; s.Sharing != 3 || held == nil || *held != 64 {
			t.Errorf("%d sockets share the address, %v connections", s.Sharing, held)
		}
	}
}
