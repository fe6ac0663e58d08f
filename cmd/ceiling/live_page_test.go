//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ceiling/internal/browser"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/record"
)

// A page follows a real run to its end: it has every interval that the record
// has, also after the connection was cut, asks nobody else for anything, and
// can be read by everybody.
func TestPageFollowsARun(t *testing.T) {
	needs.Program(t, "chromium")
	t.Parallel()
	program, server := programAndServer(t)
	page := browser.Start(t)()

	dir := filepath.Join(t.TempDir(), "record")
	cmd := exec.Command(program, "run", "-c", "8", "-n", "1000000000", "--warmup", "100ms", "--live", "-o", dir, "http://"+server.Addr+"/simple")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended where the test went well
	talk := bufio.NewReader(stderr)
	line, at, found := "", "", false
	for err == nil && !found { // what is run and measured first is said before
		line, err = talk.ReadString('\n')
		at, found = strings.CutPrefix(strings.TrimSpace(line), "live at ")
	}
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}

	way := newRelay(t, at)
	page.Open(way.url)
	points := func(atLeast int) {
		t.Helper()
		page.Wait(`+document.querySelector("#rate").dataset.points >= ` + strconv.Itoa(atLeast))
	}
	points(12)
	page.Wait(`document.querySelector(".bottleneck") !== null && document.querySelectorAll(".path-of .bar > span").length == 6`)
	if name := page.Text("#verdict .outcome span"); !strings.HasPrefix(name, "preliminary verdict, ") {
		t.Errorf("the verdict of a run that goes on is called %q", name)
	}
	page.Wait(`document.querySelector("#announce").textContent.startsWith("preliminary verdict: ")`)
	page.Wait(`document.querySelector("#part-cost summary").textContent.endsWith("% of one core")`)
	t.Logf("the view takes %s", page.Text("#part-cost summary"))
	for _, dark := range []bool{false, true} {
		page.SetMedia("", dark)
		for _, v := range page.Violations() {
			t.Errorf("dark %v: %s", dark, v)
		}
	}
	page.SetMedia("", false)
	page.Eval("1", nil)
	for len(page.Errors) > 0 {
		t.Errorf("the console has %s", <-page.Errors)
	}

	way.cut()
	page.Wait(`document.querySelector("#connection").dataset.state == "lost" && !document.querySelector("#trouble").hidden`)
	for _, v := range page.Violations() {
		t.Errorf("without connection: %s", v)
	}
	way.mend()
	page.Wait(`document.querySelector("#connection").dataset.state == "live" && document.querySelector("#trouble").hidden`)
	var before int
	page.Eval(`+document.querySelector("#rate").dataset.points`, &before)
	points(before + 5)

	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := talk.ReadString('\n'); err != nil {
			break
		}
	}
	_ = cmd.Wait() // an exit code, which the record has too
	page.Wait(`document.querySelector("#connection").dataset.state == "ended"`)
	page.Wait(`!document.querySelector("#verdict .outcome span").textContent.startsWith("preliminary")`)
	r, series, err := record.Open(record.File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != exit.Interrupted {
		t.Errorf("exit %d", r.Exit)
	}
	page.Wait(`+document.querySelector("#rate").dataset.points == ` + strconv.Itoa(len(series.Load)))
	page.Wait(`document.querySelector("#response").dataset.points == document.querySelector("#rate").dataset.points`)
	for selector, want := range map[string]string{".outcome strong": strings.ToUpper(string(r.Verdict.Outcome)), ".bottleneck strong": string(r.Verdict.Bottleneck),
		"#doing": "interrupted", "#title": r.Target} {
		if got := page.Text(selector); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	for _, v := range page.Violations() {
		t.Errorf("at the end: %s", v)
	}
	onlyFrom(t, page, way.url)
}

// onlyFrom checks that a page asked nobody but the given address.
func onlyFrom(t *testing.T, page *browser.Page, at string) {
	t.Helper()
	own, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	page.Eval("1", nil)
	for len(page.Requests) > 0 {
		_, to, _ := strings.Cut(<-page.Requests, " ")
		if u, err := url.Parse(to); err != nil || u.Host != own.Host && u.Scheme != "data" {
			t.Errorf("the page asked for %s", to)
		}
	}
}

// relay is a way to the page that can be cut.
type relay struct {
	url string
	ln  net.Listener

	mu     sync.Mutex
	broken bool
	open   map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{url: "http://" + ln.Addr().String() + "/", ln: ln, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.carry(in, target.Host) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		r.cut()
		all.Wait()
	})
	return r
}

// carry joins two connections until one of them ends.
func (r *relay) carry(in net.Conn, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		in.Close()
		return
	}
	if !r.keep(in, out) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			io.Copy(way[0], way[1]) // ends when either is closed
			in.Close()
			out.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, in)
	delete(r.open, out)
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.broken {
			c.Close()
		} else {
			r.open[c] = true
		}
	}
	return !r.broken
}

// cut ends all connections, and those that come until mend.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	for c := range r.open {
		c.Close()
	}
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = false
}
