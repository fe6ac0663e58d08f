//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ceiling/internal/exit"
	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/record"
)

// TestOwnNATS: the verbs over an organisation's own NATS, each a process.
func TestOwnNATS(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	var served atomic.Uint64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer target.Close()
	// The accounts are those that the manual shows.
	accounts, err := os.ReadFile("../../measure/fleet/bus/testdata/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	at, ca := natstest.Start(t, string(accounts))
	env := append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	verb := func(args ...string) *exec.Cmd {
		c := exec.Command(programFile(t), args...)
		c.Env = env
		return c
	}
	// A run of some milliseconds may be invalid: whoever else has the CPU then has all of it.
	done := func(args ...string) string {
		t.Helper()
		c := verb(args...)
		var out, talk bytes.Buffer
		c.Stdout, c.Stderr = &out, &talk
		if err := c.Run(); err != nil && c.ProcessState.ExitCode() > exit.Invalid || c.ProcessState == nil {
			t.Fatalf("%s: %v\n%s", args[0], err, talk.String())
		}
		if out.Len() == 0 {
			t.Fatalf("%s said nothing but\n%s", args[0], talk.String())
		}
		return out.String()
	}
	line := done("fleet", "controller", "--nats", at("driver:d-secret"), "--ca", ca)
	if strings.Contains(line, "d-secret") || !strings.HasSuffix(line, " --creds FILE\n") {
		t.Errorf("the join line: %s", line)
	}
	agent := &started{cmd: verb("fleet", "agent", "--nats", at("me:a-secret"), "--ca", ca, "--name", "me"), out: filepath.Join(t.TempDir(), "out")}
	f, err := os.Create(agent.out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	agent.cmd.Stdout, agent.cmd.Stderr = f, f
	if err := agent.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
		_ = agent.cmd.Wait()
		if t.Failed() {
			t.Logf("the agent said:\n%s", agent.text())
		}
	})
	agent.await(t, "joined")
	var r record.Run
	text := done("run", target.URL+"/", "--agents", "1", "-n", "500", "-c", "4", "--json")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(r.Agents) != 1 || r.Agents[0].Name != "me" || r.Agents[0].Lost != "" || r.Requests.Completed != 500 ||
		r.Agents[0].Requests.Completed != 500 {
		t.Errorf("%d agents, %d completed: %s", len(r.Agents), r.Requests.Completed, r.Verdict.Because)
	}
	// The disk of the driver's store is full: the run ends in its time, one line
	// says what is missing, and the agent is free for the next.
	disk := needs.Disk(t, 24<<10)
	full := verb("run", target.URL+"/", "--agents", "1", "-d", "1s", "-c", "4", "-o", filepath.Join(disk, "run"))
	var said bytes.Buffer
	full.Stdout, full.Stderr = &said, &said
	if err := full.Run(); err != nil && full.ProcessState.ExitCode() > exit.Invalid {
		t.Error(err)
	}
	lines := 0
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "is incomplete") && strings.Contains(line, "no space left on device") {
			lines++
		}
	}
	if lines != 1 || strings.Contains(said.String(), "saved to") {
		t.Errorf("%d lines of a full disk:\n%s", lines, said.String())
	}
	before := served.Load()
	done("run", target.URL+"/", "--agents", "1", "-n", "500", "-c", "4", "--json")
	if got := served.Load() - before; got != 500 {
		t.Errorf("%d requests came after the full disk's run, of 500 that were asked for", got)
	}
}
