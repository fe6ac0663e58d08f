package lua

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/measure/load"
)

// script writes a script and reads it, as for a server on a port where nothing listens.
func script(t *testing.T, text string, args ...string) (*Script, *bytes.Buffer, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.lua")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := Load(file, Options{URL: "http://127.0.0.1:1/start?x=1", Header: [][2]string{{"X-Given", "yes"}}, Args: args, Out: &out})
	return s, &out, err
}

// TestConstantRequests: what is always the same needs no Lua, and what may change does.
func TestConstantRequests(t *testing.T) {
	for text, want := range map[string][]string{
		``: {"GET /start?x=1 HTTP/1.1\r\nX-Given: yes\r\nHost: 127.0.0.1:1\r\n\r\n"},
		`wrk.method = "POST"; wrk.body = "a=1"; wrk.headers["Content-Type"] = "text/plain"`: {
			"POST /start?x=1 HTTP/1.1\r\nX-Given: yes\r\nContent-Type: text/plain\r\nHost: 127.0.0.1:1\r\nContent-Length: 3\r\n\r\na=1"},
		`init = function() req = wrk.format(nil, "/a") .. wrk.format("HEAD", "/b") end; request = function() return req end`: {
			"GET /a HTTP/1.1\r\nX-Given: yes\r\nHost: 127.0.0.1:1\r\n\r\n", "HEAD /b HTTP/1.1\r\nX-Given: yes\r\nHost: 127.0.0.1:1\r\n\r\n"},
		`local t = {a = wrk.format(nil, "/t")}; function request() return t.a end`: {
			"GET /t HTTP/1.1\r\nX-Given: yes\r\nHost: 127.0.0.1:1\r\n\r\n"},
		`function request() return wrk.format(nil, "/c") end`:                     nil,
		`n = 0; function request() n = n + 1; return wrk.format() end`:            nil,
		`function response() end`:                                                 nil,
		`function delay() return 1 end`:                                           nil,
		`r = wrk.format(); setmetatable(_G, {}); function request() return r end`: nil,
		`wrk.host = "example.com"; wrk.port = nil; r = wrk.format(nil, "/h"); function request() return r .. "" end`: {
			"GET /h HTTP/1.1\r\nX-Given: yes\r\nHost: example.com\r\n\r\n"},
	} {
		s, _, err := script(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, r := range s.Requests {
			got = append(got, string(r))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestThreads: setup, init and done as wrk calls them, and what goes from one Lua to another.
func TestThreads(t *testing.T) {
	s, out, err := script(t, `
local n, all = 0, {}
function setup(thread) n = n + 1; thread:set("id", n); table.insert(all, thread) end
function init(args) count = 0; given = args[0] .. " " .. args[1]; print("thread", id, tostring(wrk.thread.addr)) end
function request() count = count + 1; return wrk.format("GET", "/" .. id .. "/" .. count) end
function response(status, headers, body) last = status .. headers["X-A"] .. body; if count == 5 then wrk.thread:stop() end end
function done(summary, latency)
  for _, t in ipairs(all) do print(t:get("id"), t:get("count"), t:get("last"), t:get("given")) end
  print(summary.duration, summary.requests, summary.errors.timeout, latency.mean, latency:percentile(50))
end`, "arg")
	if err != nil || !s.Answers || !s.Done || s.Requests != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	c := s.Composing()
	a, err := c.New(0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.New(1)
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.Next(nil, 2)
	if err != nil || len(list) != 2 || !strings.HasPrefix(string(list[1].Bytes), "GET /1/2 HTTP/1.1\r\n") {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	chunked := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	if _, err = a.Next([]load.Answer{{Bytes: []byte(chunked)}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Next(nil, 5); err != nil {
		t.Fatal(err)
	}
	last := []load.Answer{{Bytes: []byte("HTTP/1.1 404 Not Found\r\nX-A: c\r\nContent-Length: 1\r\n\r\nx")}}
	if _, err := b.Next(last, 1); err != load.ErrStopped {
		t.Errorf("after stop: %v", err)
	}
	m := &Summary{DurationUs: 1e6, Requests: 7, ErrTime: 2, LatencyMean: 5, Latency: []Counted{{4, 3}, {6, 1}}}
	if err := s.Finish(m); err != nil {
		t.Fatal(err)
	}
	want := "thread\t1\t127.0.0.1:1\nthread\t2\t127.0.0.1:1\n" +
		"1\t2\t200babc\thttp://127.0.0.1:1/start?x=1 arg\n2\t5\t404cx\thttp://127.0.0.1:1/start?x=1 arg\n" +
		"1000000\t7\t2\t5\t4\n"
	if got := out.String(); got != want {
		t.Errorf("it printed\n%swant\n%s", got, want)
	}
}

// TestMistakesInScripts: each is one line with what is wrong, and where.
func TestMistakesInScripts(t *testing.T) {
	for text, want := range map[string]string{
		"request = function(":                                           "s.lua at EOF: syntax error",
		"request = function() return nothing.x end":                     "s.lua:1: attempt to index",
		"\nerror('no data')":                                            "s.lua:2: no data",
		"request = function() return 7 end":                             "request() returned a number",
		"request = function() return 'hello' end":                       "not an HTTP/1.1 request",
		"request = function() return '' end":                            "not an HTTP/1.1 request",
		"request = function() return wrk.format('GET', '/a b') end":     `a path with a blank: "/a b"; write %20`,
		"request = function() os.execute('true') end":                   "os.execute is off",
		"io.popen('true')":                                              "io.popen is off",
		"os.exit(3)":                                                    "os.exit is off",
		"require 'ffi'":                                                 "module ffi not found",
		"function setup(t) t:set('f', function() end) end":              "a function does not go",
		"function setup(t) t:set('f', {1}) end":                         "a table does not go",
		"function setup(t) t.addr = wrk.lookup('127.0.0.2', 80)[1] end": "a run loads one address",
		"request = function() return 'GET / HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\nx' end": "not an HTTP/1.1 request",
	} {
		if _, _, err := script(t, text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestALoopWithoutAnEnd is left when the run ends.
func TestALoopWithoutAnEnd(t *testing.T) {
	s, _, err := script(t, "n = 0; function request() n = n + 1; while n > 1 do end; return wrk.format() end")
	if err != nil {
		t.Fatal(err)
	}
	source, err := s.Composing().New(0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := source.Next(nil, 2)
		ended <- err
	}()
	time.AfterFunc(10*time.Millisecond, source.Interrupt)
	if err := <-ended; err == nil {
		t.Error("it ended by itself")
	}
}

// TestAThreadThatFails: a script may fail in a later thread, and then there is no source.
func TestAThreadThatFails(t *testing.T) {
	s, _, err := script(t, "local n = 0; function setup(t) n = n + 1; if n > 1 then error('one is enough') end end; function delay() end")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Composing()
	if _, err := c.New(0); err != nil {
		t.Fatal(err)
	}
	if source, err := c.New(1); source != nil || err == nil || !strings.Contains(err.Error(), "one is enough") {
		t.Errorf("%v, %v", source, err)
	}
}

// FuzzResponses: a response is whatever a server sent.
func FuzzResponses(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nA: b\r\n\r\nx")
	f.Add("HTTP/1.1 100 C\r\n\r\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _, _ = load.Answer{Bytes: []byte(text)}.Parts()
		_, _ = split(text)
	})
}
