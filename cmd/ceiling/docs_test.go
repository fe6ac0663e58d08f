//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/archive"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
)

// TestCommandsInTheDocs runs every command that README.md and docs/ show in a
// console block ("$ ceiling …"), so that none of them goes stale. An address of
// port 8080 stands for a server that the test starts, one of 8443 for one with TLS; long ones are
// shortened.
func TestCommandsInTheDocs(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	bin := programFile(t)
	server, err := run.StartChild(t.Context(), bin, "serve", "fasthttp", "--addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	secure, err := run.StartChild(t.Context(), bin, "serve", "nethttp", "--tls", "--ca", ca, "--addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secure.Stop)
	addresses := strings.NewReplacer("https://127.0.0.1:8443", secure.Addr, " --ca ca.pem", "", " ca.pem", " "+ca)
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, experiments := 0, map[string]string{}
	for _, file := range append(files, "../../README.md", "../../proxy/README.md", "../../proxy/CONFIG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := consoleCommands(string(text))
		if slices.Contains([]string{"fleet.md", "profile.md"}, filepath.Base(file)) { // what one block makes is used in another
			blocks = [][]string{slices.Concat(blocks...)}
		}
		for i, list := range blocks {
			commands += len(list)
			for n := range list {
				list[n] = addresses.Replace(list[n])
			}
			// An experiment leaves nothing behind, and two pages may show it.
			list = slices.DeleteFunc(list, func(command string) bool {
				name, is := strings.CutPrefix(command, "run docs/experiments/")
				if is {
					experiments[command] = name
				}
				return is
			})
			// Side by side: what they measure does not matter here, and most of their
			// time is waiting.
			t.Run(fmt.Sprint(strings.ReplaceAll(strings.TrimPrefix(file, "../../"), "/", " "), " ", i+1), func(t *testing.T) {
				t.Parallel()
				runCommands(t, bin, server.Addr, list)
			})
		}
	}
	for command, name := range experiments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runDocumented(t, bin, lighter(t, name), command, server.Addr)
		})
	}
	if commands < 8 {
		t.Errorf("only %d commands found: the docs or this test are broken", commands)
	}
}

// lighter makes a directory with an experiment of docs/experiments, of a hundredth of its connections where it has
// hundreds: 5,000 with 100 requests each take a minute to be answered.
func lighter(t *testing.T, name string) (dir string) {
	t.Helper()
	name, _, _ = strings.Cut(name, " ")
	text, err := os.ReadFile(filepath.Join("../../docs/experiments", name))
	if err != nil {
		t.Fatal(err)
	}
	connections, hundreds := regexp.MustCompile(`(?m)^  connections: .*`), regexp.MustCompile(`00\b`)
	text = connections.ReplaceAllFunc(text, func(line []byte) []byte { return hundreds.ReplaceAll(line, nil) })
	dir = t.TempDir()
	below := filepath.Join(dir, "docs/experiments")
	if err := errors.Join(os.MkdirAll(below, 0o700), os.WriteFile(filepath.Join(below, name), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runCommands runs those of one block, in their order: what one leaves behind the next
// ones may name, as they may the repository's docs and the output of another tool.
func runCommands(t *testing.T, bin, addr string, list []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(absolute(t, "../../docs"), filepath.Join(dir, "docs")); err != nil {
		t.Fatal(err)
	}
	archive.Extract(t, "../../show/importer/testdata/hey.txtar", dir)
	fleet := &documentedFleet{bin: bin, addr: addr, dir: dir}
	for _, command := range list {
		if !fleet.takes(t, command) {
			runDocumented(t, bin, dir, command, addr)
		}
	}
	fleet.end()
}

// consoleCommands are the lines "$ ceiling …" of each ```console block that has some.
func consoleCommands(text string) [][]string {
	var blocks [][]string
	inside, fresh := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inside, fresh = line == "```console", true
		case inside && strings.HasPrefix(line, "$ ceiling "):
			if fresh {
				blocks, fresh = append(blocks, nil), false
			}
			last := &blocks[len(blocks)-1]
			*last = append(*last, strings.TrimPrefix(line, "$ ceiling "))
		}
	}
	return blocks
}

// shortened says what makes a documented command quick. A verb that serves for ever is ended once
// it serves.
func shortened(command string) []string {
	verb, rest, _ := strings.Cut(command, " ")
	switch {
	case verb == "run" && (strings.Contains(rest, ".yaml") || listOfLoads().MatchString(rest)):
		return []string{"-d", "300ms", "--repeats", "1", "--pause", "0s"}
	case command == "doctor --calibrate":
		return []string{"-d", "30ms"}
	case verb == "compare" && !strings.Contains(rest, "--serve"): // of saved runs
		return nil
	}
	return map[string][]string{
		"run": {"-d", "300ms"}, "demo": {"-d", "60ms"},
		"selftest": {"--only", "one-connection", "--patience", "1s"}, "find": {"-d", "100ms", "--pause", "0s", "--max-rate", "200", "--start", "100"},
		"race":    {"--rounds", "1", "-d", "60ms", "--only", "ceiling,httputil", "--case", "16"},
		"profile": {"-d", "1s"},
		"prove":   {"-d", "200ms", "--warmup", "50ms", "--pause", "0s", "--blocks", "2"},
		"compare": {"-d", "100ms", "--warmup", "50ms", "--pause", "0s", "--blocks", "2", "--noise-blocks", "2"},
	}[verb]
}

// listOfLoads matches the flags whose list makes a sweep.
func listOfLoads() *regexp.Regexp { return regexp.MustCompile(`-[cpR] [^ ]*,`) }

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func runDocumented(t *testing.T, bin, dir, command, addr string) {
	t.Helper()
	command = strings.ReplaceAll(command, "127.0.0.1:8080", addr)
	verb, _, _ := strings.Cut(command, " ")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if verb == "serve" {
		fields := strings.Fields(strings.ReplaceAll(command, "--addr "+addr, ""))
		c, err := run.StartChild(ctx, bin, append(fields, "--addr", "127.0.0.1:0")...)
		if err != nil {
			t.Errorf("%s: %v", command, err)
			return
		}
		c.Stop()
		return
	}
	// A shell takes the quotes apart, as the reader's does.
	shell := exec.CommandContext(ctx, "sh", "-c", `ceiling() { "$BIN" "$@" `+strings.Join(shortened(command), " ")+`; }; ceiling `+command)
	shell.Env = append(os.Environ(), "BIN="+bin)
	shell.Dir = dir
	begin := time.Now()
	out, err := shell.CombinedOutput()
	t.Logf("%.1f s %s", time.Since(begin).Seconds(), command)
	code := shell.ProcessState.ExitCode()
	// What was measured may be void or broken here: the command has to work.
	// So may a scenario be disturbed, which is no success of a selftest.
	works := []int{exit.Pass, exit.Fail, exit.Invalid}
	if verb == "selftest" && bytes.Contains(out, []byte(" 0 failed")) {
		works = append(works, 1)
	}
	// A profile may name runtime.gopanic; a panic begins a line.
	if !slices.Contains(works, code) || bytes.Contains(out, []byte("\npanic: ")) {
		t.Errorf("ceiling %s: exit %d (%v)\n%s", command, code, err, out)
	}
}

// documentedFleet is a controller and agents that a file starts: they serve on
// until its end, for the commands that follow.
type documentedFleet struct {
	bin, addr, dir string
	url            string
	all            []*exec.Cmd
}

// takes starts a controller or an agent, whose line of the page stands for the
// one that this controller printed.
func (f *documentedFleet) takes(t *testing.T, command string) bool {
	t.Helper()
	command, is := strings.CutPrefix(command, "fleet ")
	if id, revokes := strings.CutPrefix(command, "tokens revoke "); is && revokes {
		f.revoke(t, id)
		return true
	}
	verb, _, _ := strings.Cut(command, " ")
	if verb != "controller" && verb != "agent" {
		return false
	}
	command = strings.NewReplacer("127.0.0.1:8080", f.addr, "--listen 127.0.0.1:7422", "--listen 127.0.0.1:0",
		"nats://127.0.0.1:7422", f.url).Replace(command)
	out := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := exec.Command(f.bin, append([]string{"fleet"}, strings.Fields(command)...)...)
	c.Dir, c.Stdout, c.Stderr = f.dir, file, file
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	f.all = append(f.all, c)
	s := &started{cmd: c, out: out}
	if verb == "agent" {
		s.await(t, "joined test bed")
		return true
	}
	line := strings.Fields(s.await(t, "ceiling fleet agent --join"))
	f.url = line[4]
	// The page says: copy the token to every other machine. It is this one.
	token, err := os.ReadFile(filepath.Join(os.Getenv("XDG_DATA_HOME"), "ceiling", "controller", bus.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "token"), token, 0o600); err != nil {
		t.Fatal(err)
	}
	return true
}

// revoke ends the token that was made last, whose ID the page does not know.
func (f *documentedFleet) revoke(t *testing.T, id string) {
	t.Helper()
	list, err := bus.ListTokens(t.Context(), filepath.Join(os.Getenv("XDG_DATA_HOME"), "ceiling", "controller"))
	if err != nil || len(list) < 2 || len(id) != len(list[0].ID()) {
		t.Fatalf("%d tokens, %v; and the page's ID is %q", len(list), err, id)
	}
	c := exec.Command(f.bin, "fleet", "tokens", "revoke", list[0].ID())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("fleet tokens revoke: %v\n%s", err, out)
	}
}

// end ends them, the controller last.
func (f *documentedFleet) end() {
	for _, c := range slices.Backward(f.all) {
		_ = c.Process.Signal(syscall.SIGTERM) // one that has ended is reported by what needed it
		_ = c.Wait()
	}
}

// TestLogrotateInTheDocs does what proxy/README.md tells logrotate to do, in the mode
// with one process and in the one with several, under load: every request is in the
// old file or in the new one.
func TestLogrotateInTheDocs(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	text, err := os.ReadFile("../../proxy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```logrotate\n")
	block, _, _ := strings.Cut(rest, "```")
	logFile, _, ok := strings.Cut(block, " {")
	_, rest, _ = strings.Cut(block, "postrotate\n")
	script, _, found := strings.Cut(rest, "endscript")
	if !ok || !found || !strings.Contains(block, "delaycompress") {
		t.Fatalf("no example in proxy/README.md: %q", block)
	}
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, filepath.Base(logFile))
			p := startProxy(t, mode, "--workers=2", "--listen=127.0.0.1:0", "--access-log="+log, "files://"+dir)
			const each = 50
			ask := func() (err error) {
				for range each {
					res, e := http.Get("http://" + p.addr + "/nothing")
					if e == nil {
						_, e = io.Copy(io.Discard, res.Body)
						e = errors.Join(e, res.Body.Close())
					}
					err = errors.Join(err, e)
				}
				return err
			}
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			loaded := make(chan error, 1)
			go func() { loaded <- ask() }()
			rotate := func() {
				t.Helper()
				// systemctl's part of the example is this script's.
				systemctl := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = 'kill --signal=USR1 --kill-who=main ceiling-proxy' ] && kill -USR1 %d\n", p.cmd.Process.Pid)
				if err := errors.Join(os.WriteFile(filepath.Join(dir, "systemctl"), []byte(systemctl), 0o700), os.Rename(log, log+".1")); err != nil {
					t.Fatal(err)
				}
				sh := exec.CommandContext(t.Context(), "sh", "-ec", script)
				sh.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
				if out, err := sh.CombinedOutput(); err != nil {
					t.Fatalf("%v %s", err, out)
				}
				p.said(t, "log reopened")
			}
			rotate()
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, pid := range strings.Fields(string(children)) { // as when the whole group gets the signal
				if n, err := strconv.Atoi(pid); err != nil || syscall.Kill(n, syscall.SIGUSR1) != nil {
					t.Fatalf("child %q: %v", pid, err)
				}
			}
			if err := errors.Join(<-loaded, ask()); err != nil {
				t.Error(err)
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
			count := func(name string) int {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				return bytes.Count(text, []byte("\n"))
			}
			if before, after := count(log+".1"), count(log); before+after != 3*each || after < each {
				t.Errorf("%d lines in the old file and %d in the new one, of %d requests", before, after, 3*each)
			}
			if said, err := os.ReadFile(p.stderr.Name()); err != nil || strings.Contains(string(said), "has ended") {
				t.Errorf("%s %v", said, err)
			}
		})
	}
}
