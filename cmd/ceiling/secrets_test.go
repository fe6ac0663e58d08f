//go:build linux

package main

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestLiveShowsNoSecrets reads the live page, its events and the metrics of a run
// while it goes on. Its record has the secrets; whoever looks sees none.
func TestLiveShowsNoSecrets(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	program, server := programAndServer(t)
	cmd := exec.Command(program, "run", "-c", "2", "-R", "200", "-n", "1000000000", "--warmup", "0s", "--live", "--prometheus", "127.0.0.1:0",
		"--keep-secrets",
		"-o", filepath.Join(t.TempDir(), "record"), "-H", "Authorization: Bearer s3cret", "-b", "s3cret",
		"http://"+server.Addr+"/simple?id=7&access_token=s3cret")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // interrupted
	}()
	lines := bufio.NewReader(stderr)
	address := func(before string) string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("no %q: %q, %v", before, line, err)
			}
			if at, found := strings.CutPrefix(strings.TrimSpace(line), before); found {
				return at
			}
		}
	}
	metrics, page := address("metrics at "), address("live at ")
	go io.Copy(io.Discard, lines)

	// The events go on as long as the run; some seconds have a verdict in them.
	client := &http.Client{Timeout: 4 * time.Second}
	read := func(url, want string) {
		t.Helper()
		answer, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil && !strings.HasSuffix(url, "/events") {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "czNjcmV0") {
			t.Errorf("%s has the secret", url)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s: %.2000s", url, want, text)
		}
	}
	read(page+"events", "access_token=hidden")
	read(page, "<html")
	read(metrics, "access_token=hidden")
}
