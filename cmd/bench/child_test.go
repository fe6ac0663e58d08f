package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
			os.Exit(playServer(os.Args[2]))
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
	fmt.Fprint(conn, "GET /debug HTTP/1.1\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, len(counterAnswer))); err != nil {
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

// shell is a tool that is a shell script.
func shell(script string, parse func([]byte) (answer, error)) *tool {
	return &tool{Name: "shell", Path: "/bin/sh", parse: parse,
		arguments: func(_ job, dir string) ([]string, bool) { return []string{"-c", script, "sh", dir}, true }}
}

// wrkOutput is a file with what wrk printed.
func wrkOutput(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive.Extract(t, peers, dir)
	return filepath.Join(dir, "wrk.txt")
}

func TestToolRun(t *testing.T) {
	o, err := shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; test -s $1/pipeline.lua && cat "+wrkOutput(t),
		peer(importer.Wrk)).run(t.Context(), job{}, nil)
	if err != nil || o.Completed != 143341 || o.CPUNs < 1e6 || o.CPUNs > 5e9 {
		t.Errorf("%+v, %v", o, err)
	}
	watched := 0
	if _, err := shell("cat "+wrkOutput(t), peer(importer.Wrk)).run(t.Context(), job{}, func(pid int) { watched = pid }); err != nil ||
		watched == 0 {
		t.Errorf("watched %d, %v", watched, err)
	}
}

func TestToolRunFails(t *testing.T) {
	check := func(script, want string) {
		t.Helper()
		if o, err := shell(script, peer(importer.Wrk)).run(t.Context(), job{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", script, o, err, want)
		}
	}
	check("cat "+wrkOutput(t)+"; echo first >&2; echo no such host >&2; exit 3", "exit status 3: no such host")
	check("echo only this; exit 1", "exit status 1: only this")
	check("exit 4", "exit status 4: it printed nothing")
	check("echo hello", "its output")
	able := &tool{Name: "x", arguments: func(job, string) ([]string, bool) { return nil, false }}
	if _, err := able.run(t.Context(), job{}, nil); err == nil {
		t.Error("a tool did what it cannot do")
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := shell("exec sleep 100", peer(importer.Wrk)).run(ctx, job{}, func(int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run: %v", err)
	}
}

// TestVoidRunOfOurs: that a run proves nothing about the server is a result.
func TestVoidRunOfOurs(t *testing.T) {
	script := shell("cat testdata/ceiling.json; exit 4", parseOurs)
	script.Name = ours
	if o, err := script.run(t.Context(), job{}, nil); err != nil || o.Completed != 189353 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestServe(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve(t.Context(), program, "fasthttp")
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:12345" || s.url("/read") != "http://127.0.0.1:12345/read" || s.PID == 0 {
		t.Errorf("%+v", s)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := serve(t.Context(), program, "mute"); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a server that does not say where: %v", err)
	}
}

func TestRequestLength(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := &tool{Name: "client", Path: program, parse: peer(importer.Wrk), arguments: func(j job, _ string) ([]string, bool) {
		return []string{"client", strings.TrimSuffix(strings.TrimPrefix(j.URL, "http://"), "/simple")}, true
	}}
	want := len("GET /simple HTTP/1.1\r\nHost: x\r\n\r\n")
	if got, err := requestLength(t.Context(), client); err != nil || got != want {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
	if _, err := requestLength(t.Context(), shell("exit 1", peer(importer.Wrk))); err == nil ||
		!strings.Contains(err.Error(), "no request was seen") {
		t.Errorf("a tool that sends nothing: %v", err)
	}
}

func TestCounter(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", c.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "GET /simple HTTP/1.1\r\n\r\n"
	answers := make([]byte, 3*len(counterAnswer))
	for _, piece := range []string{head + head[:5], head[5:] + head[:17], head[17:]} {
		if _, err := conn.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < len(answers); {
		n, err := conn.Read(answers[got:])
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if want := bytes.Repeat([]byte(counterAnswer), 3); !bytes.Equal(answers, want) {
		t.Errorf("%q", answers)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	var sum int64
	for i := range c.bins {
		sum += c.bins[i].Load()
	}
	if first := <-c.head; sum != 3 || first != len(head) {
		t.Errorf("%d requests, the first of %d bytes", sum, first)
	}
}

func TestArrivalsAreTrimmed(t *testing.T) {
	var c counter
	for i := 100; i <= 110; i++ {
		c.bins[i].Store(int64(i))
	}
	if got := c.arrivals(30 * time.Millisecond); len(got) != 4 || got[0] != 103 || got[3] != 106 {
		t.Errorf("%v", got)
	}
	if got := c.arrivals(time.Second); got != nil {
		t.Errorf("%v of a run that is all beginning and end", got)
	}
	if got := new(counter).arrivals(0); got != nil {
		t.Errorf("%v of nothing", got)
	}
}

func FuzzCountHeads(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET"))
	f.Add([]byte("\r\n\r\n\r\n\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		heads, rest, first := countHeads(data)
		if heads != bytes.Count(data, []byte("\r\n\r\n")) || rest > len(data) || first > rest || bytes.Contains(data[rest:], []byte("\r\n\r\n")) {
			t.Errorf("%d heads, rest %d, first %d of %q", heads, rest, first, data)
		}
	})
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
		shell := tool{
			Name: "sh", Path: "/bin/sh",
			arguments: func(job, string) ([]string, bool) {
				return []string{"-c", "grep Cpus_allowed_list /proc/self/status"}, true
			},
			parse: func(out []byte) (answer, error) { said = string(out); return answer{}, nil },
		}
		if _, err := shell.run(t.Context(), job{CPUs: k.cpus}, nil); err != nil {
			t.Fatal(err)
		}
		if want := "Cpus_allowed_list:\t" + cores.Format(k.want) + "\n"; said != want {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
