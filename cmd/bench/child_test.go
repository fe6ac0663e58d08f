package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/archive"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/show/importer"
)

// TestMain lets this program be the children of its tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "client":
			os.Exit(playClient(os.Args[2]))
		case "serve":
			os.Exit(playServer(os.Args[len(os.Args)-1]))
		}
	}
	os.Exit(m.Run())
}

// playClient sends a request for something else, then one for /simple in two
// pieces, and waits for ever.
func playClient(address string) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 1
	}
	fmt.Fprint(conn, "GET /debug HTTP/1.1\r\nHost: x\r\n\r\n")
	if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != http.StatusOK {
		return 1
	}
	fmt.Fprint(conn, "GET /simple HTTP/1.1\r\nHost: x\r")
	fmt.Fprint(conn, "\n\r\n")
	select {}
}

// playServer says what ceiling serve says, or something else.
func playServer(kind string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if kind == "mute" {
		fmt.Println("hello")
		return 0
	}
	fmt.Printf("%s serves on 127.0.0.1:12345\nmore\n", kind)
	<-stop
	return 0
}

// shell is a tool that is a shell script, and gets its directory.
func shell(t *testing.T, script string, parse func([]byte) (answer, error)) *tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tool{Name: "shell", Path: "/bin/sh", parse: parse, http1: path + " {dir}"}
}

// wrkOutput is a file with what wrk printed.
func wrkOutput(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive.Extract(t, peers, dir)
	return filepath.Join(dir, "wrk.txt")
}

func TestToolRun(t *testing.T) {
	o, err := shell(t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; test -s $1/pipeline.lua && cat "+wrkOutput(t),
		peer(importer.Wrk)).run(t.Context(), job{})
	if err != nil || o.Completed != 143341 || o.CPUNs < 1e6 || o.CPUNs > 5e9 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestToolRunFails(t *testing.T) {
	check := func(script, want string) {
		t.Helper()
		if o, err := shell(t, script, peer(importer.Wrk)).run(t.Context(), job{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", script, o, err, want)
		}
	}
	check("cat "+wrkOutput(t)+"; echo first >&2; echo no such host >&2; exit 3", "exit status 3: no such host")
	check("echo only this; exit 1", "exit status 1: only this")
	check("exit 4", "exit status 4: it printed nothing")
	check("echo hello", "its output")
	if _, err := (&tool{Name: "x"}).run(t.Context(), job{}); err == nil {
		t.Error("a tool did what it cannot do")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := shell(t, "exec sleep 100", peer(importer.Wrk)).run(ctx, job{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an interrupted run: %v", err)
	}
}

// TestVoidRunOfOurs: that a run proves nothing about the server is a result.
func TestVoidRunOfOurs(t *testing.T) {
	script := shell(t, "cat testdata/ceiling.json; exit 4", parseOurs)
	script.Name = ours
	if o, err := script.run(t.Context(), job{}); err != nil || o.Completed != 189353 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestServe(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := serveOn(t.Context(), nil, program, "fasthttp")
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:12345" || s.url("/read") != "http://127.0.0.1:12345/read" || s.PID == 0 {
		t.Errorf("%+v", s)
	}
	s.Stop()
	if err := s.Err(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := serveOn(t.Context(), nil, program, "mute"); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a server that does not say where: %v", err)
	}
}

func TestRequestLength(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := &tool{Name: "client", Path: program, parse: peer(importer.Wrk), http1: "client 127.0.0.1:{port}"}
	want := len("GET /simple HTTP/1.1\r\nHost: x\r\n\r\n")
	if got, err := requestLength(t.Context(), client); err != nil || got != want {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
	if _, err := requestLength(t.Context(), shell(t, "exit 1", peer(importer.Wrk))); err == nil ||
		!strings.Contains(err.Error(), "no request was seen") {
		t.Errorf("a tool that sends nothing: %v", err)
	}
}

// TestToolRunsOnItsCPUs: from its first instruction, a tool has the CPUs of its job.
func TestToolRunsOnItsCPUs(t *testing.T) {
	needs.CPUs(t, 2)
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ cpus, want []int }{{allowed[1:2], allowed[1:2]}, {nil, allowed}} {
		var said string
		grep := shell(t, "grep Cpus_allowed_list /proc/self/status", func(out []byte) (answer, error) { said = string(out); return answer{}, nil })
		if _, err := grep.run(t.Context(), job{CPUs: k.cpus}); err != nil {
			t.Fatal(err)
		}
		if want := "Cpus_allowed_list:\t" + cores.Format(k.want) + "\n"; said != want {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
