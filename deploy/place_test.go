package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	joinLine = "ceiling fleet agent --join nats://127.0.0.1:4222 --token-file token"
	// shownLine is that of controller --show-token.
	shownLine = "CEILING_TOKEN=SECRET.0123 ceiling fleet agent --join nats://127.0.0.1:4222"
)

// fileLine is joinLine with a file that has the token.
func fileLine(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "SECRET.0123\n", 0o600)
	return strings.TrimSuffix(joinLine, "token") + file
}

// actor is a stand-in for the binary that writes down how it was called, and
// lives until it is ended. dies makes it one that does not live.
func actor(t *testing.T, notes string, dies bool) string {
	t.Helper()
	end := "sleep 60 & trap 'kill $! 2>/dev/null; exit 0' TERM; wait"
	if dies {
		end = "echo 'ceiling: no route to the controller' >&2; exit 1"
	}
	file := filepath.Join(t.TempDir(), "ceiling")
	write(t, file, fmt.Sprintf(`#!/bin/bash
[ "$1" = --version ] && exit 0
note=%s/$$
for ((i = 1; i <= $#; i++)); do [ "${!i}" = --token-file ] && { j=$((i + 1)); file=${!j}; }; done
{
	echo "args $*"
	echo "token $(cat "$file") $(stat -c %%a "$file")"
	echo "net $(readlink /proc/self/ns/net) $(ip -o -4 address show | grep -o ' 10\.83\.1\.[0-9]*')"
} > "$note.new" && mv "$note.new" "$note"
%s
`, notes, end), 0o755)
	return file
}

// notes waits for what n actors wrote, and answers it by process.
func notes(t *testing.T, dir string, n int) map[int]string {
	t.Helper()
	found := map[int]string{}
	eventually(t, fmt.Sprintf("%d agents say how they were called", n), func() bool {
		names, err := filepath.Glob(filepath.Join(dir, "*[0-9]"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			pid, err := strconv.Atoi(filepath.Base(name))
			if err != nil {
				t.Fatal(err)
			}
			found[pid] = read(t, name)
		}
		return len(found) >= n
	})
	return found
}

func alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil
}

func checkCall(t *testing.T, note string, want ...string) {
	t.Helper()
	args, _, _ := strings.Cut(note, "\n")
	if strings.Contains(args, "SECRET") {
		t.Errorf("the token is an argument, for all to read: %s", args)
	}
	if !strings.Contains(note, "\ntoken SECRET.0123 600\n") {
		t.Errorf("the token's file: %s", note)
	}
	for _, w := range append(want, " --join nats://127.0.0.1:4222 ") {
		if !strings.Contains(args+" ", w) {
			t.Errorf("%q is missing in %s", w, args)
		}
	}
}

// far makes an ssh that reaches this machine: the real client and the real
// daemon, over a pipe instead of a port.
func far(t *testing.T) (ssh string) {
	t.Helper()
	dir := t.TempDir()
	key, hostKey := filepath.Join(dir, "key"), filepath.Join(dir, "host")
	for _, k := range []string{key, hostKey} {
		must(t, ".", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", k)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "sshd_config")
	write(t, config, fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s.pub\nStrictModes no\nPermitRootLogin yes\nUsePAM no\n", hostKey, key),
		0o600)
	ssh = filepath.Join(dir, "ssh")
	write(t, ssh, fmt.Sprintf(`#!/bin/bash
exec ssh -F none -i %s -o UserKnownHostsFile=%s/known -o LogLevel=ERROR -o ProxyCommand='bash -c "[ %%h = nowhere ] || exec /usr/sbin/sshd -i -f %s"' "$@"
`, key, dir, config), 0o755)
	return ssh
}

func TestPlace(t *testing.T) {
	t.Parallel() // it waits more than it works
	ssh, dir := far(t), t.TempDir()
	// The far side is this machine, and its temporary directory this one's.
	left := func() []string {
		names, err := filepath.Glob("/tmp/ceiling-agent.*")
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := left()
	place := func(binary string, args ...string) output {
		return run(t, ".", []string{"SSH=" + ssh}, "ssh/place.sh", append([]string{"--binary", binary, "--for", "5m"}, args...)...)
	}
	lives := actor(t, dir, false)
	o := place(lives, shownLine, "here", "there", "--", "--allow", "10.0.0.0/24", "--name", "a b")
	if o.code != 0 {
		t.Fatalf("exit code %d: %s", o.code, o)
	}
	for pid, note := range notes(t, dir, 2) {
		checkCall(t, note, " --allow 10.0.0.0/24 ", " --name a b ")
		if !alive(pid) {
			t.Error("the agent is gone")
		}
	}
	stops := regexp.MustCompile(`(?m)^(\w+) runs an agent for 5m; stop it: ssh (\w+) '(.*)'$`).FindAllStringSubmatch(o.stdout, -1)
	if len(stops) != 2 {
		t.Fatalf("no word on how to stop them: %s", o)
	}
	for _, stop := range stops {
		must(t, ".", nil, ssh, stop[2], stop[3])
	}
	for pid := range notes(t, dir, 2) {
		eventually(t, "the agents end as was said", func() bool { return !alive(pid) })
	}
	o = place(actor(t, dir, true), shownLine, "here")
	if o.code != 1 || !strings.Contains(o.stderr, "no route to the controller") ||
		!strings.Contains(o.stderr, "here: the agent did not start") {
		t.Errorf("an agent that dies: exit code %d: %s", o.code, o)
	}
	eventually(t, "nothing is left behind", func() bool { return len(left()) <= len(before) })
	for says, args := range map[string][]string{
		"nowhere: no ssh":                          {shownLine, "nowhere"},
		"the join line is the one that ceiling":    {"ceiling run http://h", "here"},
		"no file token here, and CEILING_TOKEN is": {joinLine, "here"},
		"there is no file /nowhere here":           {"ceiling fleet agent --join nats://h:1 --token-file /nowhere", "here"},
		"the token as an argument, which ps shows": {"ceiling fleet agent --join nats://h:1 --token SECRET", "here"},
		"which no argument of an agent looks like": {shownLine + " --name $(reboot)", "here"},
		"usage: place.sh":                          {joinLine},
	} {
		if o := place(lives, args...); o.code == 0 || !strings.Contains(o.stderr, says) {
			t.Errorf("exit code %d, and not %q: %s", o.code, says, o)
		}
	}
	if o := place(lives+"-{arch}", shownLine, "here"); o.code != 1 ||
		!regexp.MustCompile(`there is no \S+-(amd|arm)64 here`).MatchString(o.stderr) {
		t.Errorf("no binary: exit code %d: %s", o.code, o)
	}
}

func TestLocalAgents(t *testing.T) {
	before := must(t, ".", nil, "ip", "-o", "link", "show").stdout
	for _, test := range []struct {
		name string
		args []string
		nets int
	}{
		{"processes", nil, 1},
		{"namespaces", []string{"--netns"}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := exec.CommandContext(ctx, "local/agents.sh",
				append(test.args, "--agents", "3", "--for", "5m", "--binary", actor(t, dir, false), "-", "--", "--allow", "10.83.1.1/32")...)
			c.Stdin, c.Stderr = strings.NewReader(fileLine(t)+"\n"), os.Stderr
			c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
			c.WaitDelay = 30 * time.Second
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			found := notes(t, dir, 3)
			nets := map[string]bool{}
			for _, note := range found {
				checkCall(t, note, " --allow 10.83.1.1/32 ", "--name local-")
				_, net, _ := strings.Cut(note, "\nnet ")
				nets[net] = true
			}
			if len(nets) != test.nets {
				t.Errorf("%d networks, not %d: %v", len(nets), test.nets, nets)
			}
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); c.ProcessState.ExitCode() != 143 {
				t.Errorf("ended by SIGTERM: %v", err)
			}
			for pid := range found {
				eventually(t, "the agents end with the script", func() bool { return !alive(pid) })
			}
		})
	}
	if after := must(t, ".", nil, "ip", "-o", "link", "show").stdout; strings.Contains(after, ": ceil") &&
		!strings.Contains(before, ": ceil") {
		t.Errorf("links left behind: %s", after)
	}
	if o := run(t, ".", nil, "local/agents.sh", "--agents", "2", "--binary", actor(t, t.TempDir(), true), shownLine); o.code != 1 ||
		!strings.Contains(o.stderr, "an agent ended with code 1") {
		t.Errorf("agents that die: exit code %d: %s", o.code, o)
	}
	if o := run(t, ".", nil, "local/agents.sh", "--agents", "2", "--for", "1s", "--binary", actor(t, t.TempDir(), false),
		shownLine); o.code != 0 {
		t.Errorf("agents whose time is up: exit code %d: %s", o.code, o)
	}
	for _, args := range [][]string{{"--agents", "65", shownLine}, {"--for", "0s", shownLine}, {"--for", "1d", shownLine},
		{"--binary", "/nowhere", shownLine}} {
		if o := run(t, ".", nil, "local/agents.sh", args...); o.code == 0 || !strings.HasPrefix(o.stderr, "agents.sh: ") {
			t.Errorf("%v: exit code %d: %s", args, o.code, o)
		}
	}
}

// TestRealAgents: the real binary, as agents in namespaces of their own that
// join a controller beside them.
func TestRealAgents(t *testing.T) {
	binary, state := built(t, "ceiling"), t.TempDir()
	env := []string{"XDG_DATA_HOME=" + state}
	start := func(name string, args ...string) (*exec.Cmd, *os.File) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, name, args...)
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), out, os.Stderr
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 30 * time.Second
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cancel(); c.Wait(); out.Close() })
		return c, out
	}
	_, out := start(built(t, "ceiling-controller"), "--listen", "0.0.0.0:0", "--advertise", "10.83.1.1")
	line := ""
	eventually(t, "the controller prints its join line", func() bool {
		line = read(t, out.Name())
		return strings.HasSuffix(line, "\n")
	})
	env = append(env, "CEILING_TOKEN="+read(t, filepath.Join(state, "ceiling", "controller", "token")))
	start("local/agents.sh", "--netns", "--agents", "3", "--for", "2m", "--binary", binary, line, "--", "--allow", "10.83.1.1/32")
	var o output
	eventually(t, "three agents are in the fleet", func() bool {
		o = run(t, ".", env, binary, "fleet")
		return o.code == 0 && strings.Contains(o.stdout, "local-1") && strings.Contains(o.stdout, "local-2") &&
			strings.Contains(o.stdout, "local-3")
	})
	t.Logf("\n%s", o)
}
