//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"ceiling/cmd/internal/command"
)

// watching runs ceiling show --live until stop, and answers where its page is.
func watching(t *testing.T, args ...string) (at string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	talk, to := io.Pipe()
	sh := &shell{Shell: command.Shell{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: to}}
	c := newShow(sh)
	c.SetArgs(append([]string{"--live"}, args...))
	c.SetErr(io.Discard)
	c.SetOut(io.Discard)
	ended := make(chan error, 1)
	go func() {
		err := c.ExecuteContext(ctx)
		to.CloseWithError(err) // nil is EOF
		ended <- err
	}()
	lines := bufio.NewReader(talk)
	line, err := lines.ReadString('\n')
	if err != nil {
		cancel()
		return "", func() error { return <-ended }
	}
	go io.Copy(io.Discard, lines)
	at, found := strings.CutPrefix(strings.TrimSpace(line), "live at ")
	if !found {
		t.Errorf("it says %q", line)
	}
	return at, func() error {
		cancel()
		return <-ended
	}
}

// A finished run is shown until the person has seen it.
func TestWatchFinishedRun(t *testing.T) {
	at, stop := watching(t, "../../show/live/testdata/run.ndjson")
	answer, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(page), "<title>ceiling, live</title>") {
		t.Errorf("%v: %.200s", err, page)
	}
	answer, err = http.Get(at + "events")
	if err != nil {
		t.Fatal(err)
	}
	events, err := io.ReadAll(answer.Body) // it ends by itself: the run has
	answer.Body.Close()
	if err != nil || !strings.Contains(string(events), "event: end") || !strings.Contains(string(events), ">verdict: pass,") {
		t.Errorf("%v: %.300s", err, events)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWatchRefuses(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for want, args := range map[string][]string{
		"no run named":    {"nosuch"},
		"invalid port":    {"../../show/live/testdata/run.ndjson", "--live=127.0.0.1:99999"},
		"can be painted":  {"../../show/live/testdata/run.ndjson", "--terminal"},
		"takes one ID":    {},
		"invalid address": {"../../show/live/testdata/run.ndjson", "--live=a:b:c"},
		"holds no record": {"./testdata"},
	} {
		_, stop := watching(t, args...)
		if err := stop(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func TestPageAddress(t *testing.T) {
	for in, want := range map[string]string{
		"9000": "127.0.0.1:9000", ":9000": "127.0.0.1:9000", "127.0.0.1:0": "127.0.0.1:0", "0.0.0.0:80": "0.0.0.0:80", "[::1]:80": "[::1]:80",
		"localhost:1": "localhost:1",
	} {
		if got, err := pageAddress(in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}
