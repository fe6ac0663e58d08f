package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// TestHealth: a destination whose check fails gets no requests, and comes back.
func TestHealth(t *testing.T) {
	var ill atomic.Bool
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/health" && ill.Load() {
			w.WriteHeader(500)
		}
	})
	r := run(t, "auto", to("http://"+o.addr)+"health = { path = \"/health\", interval = \"10ms\", timeout = \"10s\" }\n")
	l := dial(t, r.addr)
	l.status("/", 200)
	ill.Store(true)
	until(t, "it is ill", func() bool { res, _ := l.get("/"); return res.StatusCode == 503 })
	s, err := r.Snapshot()
	if err != nil || s.Upstreams[0].State != "ill" {
		t.Errorf("%+v %v", s, err)
	}
	ill.Store(false)
	until(t, "it is well", func() bool { res, _ := l.get("/"); return res.StatusCode == 200 })
}

// TestAccessLog: both formats, and what a client sends cannot forge a line.
func TestAccessLog(t *testing.T) {
	needs.Time(t)
	together(t)
	s := okServer(t)
	for _, format := range []string{"combined", "json"} {
		file := filepath.Join(t.TempDir(), "log")
		r := run(t, "auto", to("http://"+s.Address())+"[log]\naccess = \""+file+"\"\nformat = \""+format+"\"\n")
		l := dial(t, r.addr)
		l.say("GET /x?y HTTP/1.1\r\nHost: a\r\nUser-Agent: bad\" \xff\\\r\nReferer: r\r\n\r\n")
		l.answer("GET")
		l.say("BROKEN\r\n\r\n")
		l.answer("GET")
		l.over()
		r.stop()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if len(lines) != 2 {
			t.Fatalf("%q", text)
		}
		if format == "combined" {
			want := regexp.MustCompile(`^127\.0\.0\.1 - - \[\d\d/\w+/\d{4}:[\d:]+ [+-]\d{4}\] "GET /x\?y HTTP/1\.1" 200 2 "r" "bad\\u0022 \\u00ff\\u005c"$`)
			if !want.MatchString(lines[0]) || !strings.Contains(lines[1], `"" 400 `) {
				t.Errorf("%q", lines)
			}
			continue
		}
		var one map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &one); err != nil || one["target"] != "/x?y" || one["status"] != 200.0 ||
			one["user_agent"] != "bad\" ÿ\\" {
			t.Errorf("%v %v", one, err)
		}
		if err := json.Unmarshal([]byte(lines[1]), &one); err != nil || one["status"] != 400.0 || one["error"] != "malformed request line" {
			t.Errorf("%v %v", one, err)
		}
	}
}

// TestCauses: every format of the log, the traces and the page have one cause of a
// failure, the one that it had, and the log names the destination, with an id or
// without.
func TestCauses(t *testing.T) {
	needs.Time(t)
	closed := faultyServer(t, faultserver.Every(faultserver.Close()))
	closed.Refuse()
	broken := faultyServer(t, faultserver.Every(faultserver.Head(), faultserver.Write("HTTP/1.1 2x0 OK\r\n\r\n"), faultserver.Close()))
	silent := faultyServer(t, faultserver.Every(faultserver.Head(), faultserver.Close()))
	stalled := faultyServer(t, faultserver.Every(faultserver.Head(), faultserver.Stall()))
	ill := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.Response("507 No", "", "no"))))
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(untrusted.Close)
	plain := faultyServer(t, faultserver.Every(faultserver.Write("HTTP/1.1 400 Bad Request\r\n\r\n"), faultserver.Close()))
	for _, k := range []struct {
		uri, id string
		status  int
		why     string
	}{
		{"http://" + closed.Address(), "", 502, "connect: connection refused"},
		{"http://" + closed.Address(), "api", 502, "connect: connection refused"},
		{"http://" + broken.Address(), "", 502, "the destination's response: malformed status line"},
		{"http://" + silent.Address(), "", 502, "the destination closed the connection before its response"},
		{"http://" + stalled.Address(), "", 504, "the destination took too long to answer"},
		{"http://" + ill.Address(), "", 507, "status from the destination"},
		{untrusted.URL, "", 502, "TLS: the destination's certificate is not accepted"},
		{"https://" + closed.Address(), "", 502, "connect: connection refused"},
		{"https://" + plain.Address(), "", 502, "TLS: the handshake failed"},
	} {
		name := cmp.Or(k.id, k.uri)
		for _, format := range []string{"combined", "json"} {
			file := filepath.Join(t.TempDir(), "log")
			patience := map[bool]string{true: "[locations.timeouts]\nresponse = \"50ms\""}[k.status == 504]
			r := run(t, "auto", strings.Replace(to(k.uri, patience), "uri =", "id = \""+k.id+"\"\nuri =",
				1)+"[log]\naccess = \""+file+"\"\nformat = \""+format+"\"\ntraces = 1\n")
			page := dial(t, r.addr).status("/", k.status)
			if k.status != 507 && !strings.Contains(page, ">"+escape(k.why)+".<") {
				t.Errorf("%s: the page says %s", k.why, page)
			}
			traces, err := r.Traces()
			if err != nil || len(traces) != 1 || !strings.Contains(string(traces[0].Line), `"destination":"`+name+`","error":"`+k.why+`"`) {
				t.Errorf("%s: the trace is %+v %v", k.why, traces, err)
			}
			r.stop()
			text, err := os.ReadFile(file)
			want := map[string]string{"combined": ` "` + k.why + `" "` + name + "\"\n",
				"json": `"destination":"` + name + `","error":"` + k.why + "\"}\n"}[format]
			if err != nil || !strings.HasSuffix(string(text), want) {
				t.Errorf("%s: %q %v, want %q at its end", format, text, err, want)
			}
		}
	}
}

// TestReopenLog: a new file of the name where the old one was renamed; where none
// can be made the old one goes on.
func TestReopenLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "access")
	r := run(t, "auto", "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[log]\naccess = \""+file+"\"\n")
	if err := os.Rename(dir, dir+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.ReopenLog(); err == nil || !strings.Contains(err.Error(), "access log: open "+file) {
		t.Errorf("without the directory: %v", err)
	}
	dial(t, r.addr).status("/one", 404)
	until(t, "its line", func() bool {
		b, err := os.ReadFile(filepath.Join(dir+".1", "access"))
		return err == nil && bytes.Contains(b, []byte("/one"))
	})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.ReopenLog(); err != nil {
		t.Error(err)
	}
	dial(t, r.addr).status("/two", 404)
	r.stop()
	if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("/two")) || bytes.Contains(b, []byte("/one")) {
		t.Errorf("%q %v", b, err)
	}
	if err := r.ReopenLog(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestAccessLogSample: about the share that was asked for, and every error.
func TestAccessLogSample(t *testing.T) {
	needs.Time(t)
	s := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("ok"))))
	file := filepath.Join(t.TempDir(), "log")
	r := run(t, "auto", to("http://"+s.Address())+"[log]\naccess = \""+file+"\"\nsample = 0.25\n")
	l := dial(t, r.addr)
	const n = 2000
	l.say(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", n))
	for range n {
		l.answer("GET")
	}
	s.Refuse()
	s.Kill()
	until(t, "its connections are gone", func() bool { sn, err := r.Snapshot(); return err == nil && sn.Upstreams[0].Open == 0 })
	for range 3 {
		l.get("/")
	}
	r.stop()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(text, []byte("\" 200 ")); got < n/5 || got > n*3/10 {
		t.Errorf("%d of %d logged at 0.25", got, n)
	}
	if got := bytes.Count(text, []byte("\" 50")); got != 3 {
		t.Errorf("%d errors logged, of 3", got)
	}
}

// TestOperator: metrics, status and reload, and who may.
func TestOperator(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address()))
	dial(t, r.addr).status("/", 200)
	reloads := 0
	o := &Operator{Snapshot: r.Snapshot, Reload: func() error {
		if reloads++; reloads > 1 {
			return fmt.Errorf("site.toml:3: a mistake")
		}
		return nil
	}, Credential: func() string { return "secret" }}
	ask := func(method, path string, fields ...string) (int, string) {
		q := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, nil)
		for i := 0; i < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		w := httptest.NewRecorder()
		o.Server().Handler.ServeHTTP(w, q)
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(body)
	}
	if code, body := ask("GET", "/metrics"); code != 200 || !strings.Contains(body, "\nceiling_proxy_requests_total 1\n") ||
		!strings.Contains(body, `ceiling_proxy_request_seconds_bucket{le="+Inf"} 1`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask("GET", "/status"); code != 200 || !json.Valid([]byte(body)) {
		t.Errorf("%d %s", code, body)
	}
	for _, k := range []struct {
		fields []string
		want   int
	}{
		{nil, 401}, {[]string{"Authorization", "Bearer wrong"}, 401}, {[]string{"Authorization", "secret"}, 401},
		{[]string{"Authorization", "Bearer secret", "Origin", "http://evil", "Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Authorization", "Bearer secret"}, 200}, {[]string{"Authorization", "Bearer secret"}, 422},
	} {
		if code, body := ask("POST", "/reload", k.fields...); code != k.want || code == 422 && !strings.Contains(body, "site.toml:3") {
			t.Errorf("%v: %d %s", k.fields, code, body)
		}
	}
	if code, _ := ask("GET", "/reload"); code != 405 || reloads != 2 {
		t.Errorf("%d, %d reloads", code, reloads)
	}
}

// TestOperatorHost: on the loopback a name in the Host field is another site's, for
// whatever is asked and whoever has added it; beyond it, names are the rule.
func TestOperatorHost(t *testing.T) {
	o := &Operator{Snapshot: func() (*Snapshot, error) { return &Snapshot{}, fmt.Errorf("none") }, Reload: func() error { return nil }}
	status := func(method, host, path string) int {
		q := httptest.NewRequest(method, path, nil)
		q.Host = host
		w := httptest.NewRecorder()
		o.Server(func(mux *http.ServeMux) {
			mux.Handle("POST /stop", o.Guard(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
		}).Handler.ServeHTTP(w, q)
		return w.Code
	}
	for _, k := range []struct {
		method, path string
		want         int
	}{{"GET", "/healthz", 200}, {"GET", "/status", 503}, {"GET", "/metrics", 503}, {"POST", "/reload", 200}, {"POST", "/stop", 204}} {
		for _, host := range []string{"evil.example:8081", "127.0.0.1.evil.example", "192.0.2.1:8081", ""} {
			o.Beyond = false
			if got := status(k.method, host, k.path); got != 421 {
				t.Errorf("%s with Host %q: %d, want 421", k.path, host, got)
			}
			o.Beyond = true
			if got := status(k.method, host, k.path); got != k.want {
				t.Errorf("beyond the loopback, %s with Host %q: %d, want %d", k.path, host, got, k.want)
			}
		}
		o.Beyond = false
		for _, host := range []string{"127.0.0.1:8081", "[::1]:8081", "localhost:8081"} {
			if got := status(k.method, host, k.path); got != k.want {
				t.Errorf("%s with Host %q: %d, want %d", k.path, host, got, k.want)
			}
		}
	}
}

// TestTracesHideSecrets: what lets a client in is not in the traces, with texts that
// are cut and bytes that are escaped.
func TestTracesHideSecrets(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address())+"[log]\ntraces = 9\n")
	const planted = "pLaNtEd"
	l := dial(t, r.addr)
	long := strings.Repeat(planted, 100)
	for _, target := range []string{"/a?id=7&access_token=" + planted + "&page=2", "/b?sig=" + long, "/c/eyJhbGciOiJI." + planted + ".c2ln",
		"/d?x=|&token=" + planted + "|"} {
		l.say("GET " + target + " HTTP/1.1\r\nHost: a\r\nReferer: http://u:" + planted + "@b/?token=" + planted + "\r\nUser-Agent: x\" Bearer " +
			planted + planted + "\r\n\r\n")
		l.answer("GET")
	}
	list, err := r.Traces()
	if err != nil || len(list) != 4 {
		t.Fatalf("%d %v", len(list), err)
	}
	for _, one := range list {
		if !json.Valid(one.Line) || bytes.Contains(one.Line, []byte(planted)) || bytes.Count(one.Line, []byte("hidden")) != 4 {
			t.Errorf("%s", one.Line)
		}
	}
	if first := string(list[3].Line); !strings.Contains(first, `"target":"/a?id=7&access_token=hidden&page=2"`) {
		t.Error(first)
	}
}

// TestSnapshotAdds: the sum of two processes.
func TestSnapshotAdds(t *testing.T) {
	s := okServer(t)
	a, b := run(t, "auto", to("http://"+s.Address())), run(t, "auto", to("http://"+s.Address()))
	for range 3 {
		dial(t, a.addr).status("/", 200)
	}
	dial(t, b.addr).status("/", 200)
	x := a.snapshot()
	y := b.snapshot()
	x.Add(y)
	if x.Counters["requests_total"] != 4 || x.Statuses["2xx"] != 4 || x.Latency[len(x.Latency)-1] != 4 || x.Loops != 2 ||
		len(x.Upstreams) != 1 || x.Upstreams[0].Idle != 2 {
		t.Errorf("%+v", x)
	}
}

// TestWeights: destinations are asked by their weights.
func TestWeights(t *testing.T) {
	a := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("a"))))
	b := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("b"))))
	r := run(t, "auto", to("http://"+a.Address())+"weight = 3\n[[locations.destinations]]\nuri = \"http://"+b.Address()+"\"\n")
	l := dial(t, r.addr)
	for range 40 {
		l.status("/", 200)
	}
	if a.Requests() != 30 || b.Requests() != 10 {
		t.Errorf("%d and %d", a.Requests(), b.Requests())
	}
}

// TestRedirect: the request's parts stand in the answer, and cannot name another
// host.
func TestRedirect(t *testing.T) {
	r := run(t, "auto", "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\npaths = [\"/s\"]\nredirect = { to = \"https://{host}{path}?{query}\" }\n[[locations]]\nredirect = { to = \"{path}/\", status = 301 }\n")
	l := dial(t, r.addr)
	for path, want := range map[string]string{"/s/x?y=1": "308 https://a/s/x?y=1", "/t": "301 /t/", "//evil.com": "301 /evil.com/"} {
		res, _ := l.get(path)
		if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestRedirectParts: the query with its mark or nothing, and no port of another
// scheme; the first is the example of proxy/CONFIG.md.
func TestRedirectParts(t *testing.T) {
	text, err := os.ReadFile("CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^redirect = (\{.*\})$`).FindSubmatch(text)
	if example == nil {
		t.Fatal("there is no example")
	}
	documented := string(example[1])
	to := func(to string) string { return "{ to = \"" + to + "\" }" }
	for _, k := range []struct{ redirect, target, host, proto, want string }{
		{documented, "/x?y=1&z=?", "a:8080", "", "308 https://a/x?y=1&z=?"},
		{documented, "/x", "a:8080", "", "308 https://a/x"},
		{documented, "/x?", "a", "", "308 https://a/x"},
		{documented, "/", "[::1]:8080", "", "308 https://[::1]/"},
		{documented, "/", "[::1]", "", "308 https://[::1]/"},
		{documented, "/x", "a:8443", "https", "308 https://a:8443/x"},
		{documented, "http://a:8080/x?{host}", "a:8080", "", "308 https://a/x?{host}"},
		{documented, "/", "", "", "400 "},
		{to("https://{host}:8443{path}"), "/x?y", "a:8080", "", "308 https://a:8443/x"},
		{to("HTTPS://{host}/"), "/", "a:8080", "", "308 HTTPS://a/"},
		{to("http://{host}{path}?a=b&{query}"), "/x?y=1", "a:8080", "", "308 http://a:8080/x?a=b&y=1"},
		{to("http://{host}{path}?a=b&{query}"), "/x", "a:8443", "https", "308 http://a/x?a=b"},
		{to("//{host}/q/{query}"), "/x?y", "a:8080", "", "308 //a:8080/q/y"},
	} {
		r := run(t, "auto", "workers = 1\nlisten = [\"127.0.0.1:0\"]\ntrust = [\"localhost\"]\n[[locations]]\nredirect = "+k.redirect+"\n")
		l := dial(t, r.addr)
		if k.host == "" {
			l.say("GET " + k.target + " HTTP/1.0\r\n\r\n")
		} else {
			l.say("GET " + k.target + " HTTP/1.1\r\nHost: " + k.host + "\r\nX-Forwarded-Proto: " + k.proto + "\r\n\r\n")
		}
		res, _ := l.answer("GET")
		if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")); got != k.want {
			t.Errorf("%s for %s at %q, %s: %s, want %s", k.redirect, k.target, k.host, k.proto, got, k.want)
		}
	}
}

// TestTraces: the last requests of all loops, the newest first, and no more than
// were asked for; long texts are cut, and there is one credential for them.
func TestTraces(t *testing.T) {
	s := okServer(t)
	text := strings.Replace(to("http://"+s.Address(), `id = "all"`), "workers = 1", "workers = 2", 1) + "[log]\ntraces = 3\n"
	r := run(t, "auto", text)
	o := &Operator{Snapshot: r.Snapshot, Traces: r.Traces, Credential: func() string { return "secret" }}
	look := func(fields ...string) (int, []map[string]any) {
		q := httptest.NewRequest("GET", "http://localhost/traces", nil)
		for i := 0; i < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		w := httptest.NewRecorder()
		o.Server().Handler.ServeHTTP(w, q)
		var list []map[string]any
		for d := json.NewDecoder(w.Body); w.Code == 200 && d.More(); {
			var one map[string]any
			if err := d.Decode(&one); err != nil {
				t.Fatal(err)
			}
			list = append(list, one)
		}
		return w.Code, list
	}
	if code, _ := look(); code != 401 {
		t.Error(code)
	}
	links := []*link{dial(t, r.addr), dial(t, r.addr), dial(t, r.addr), dial(t, r.addr)}
	for i := range 20 {
		links[i%4].status(fmt.Sprint("/", i, "?", strings.Repeat("x", 1000)), 200)
	}
	code, list := look("Authorization", "Bearer secret")
	if code != 200 || len(list) < 3 || len(list) > 6 {
		t.Fatalf("%d %v", code, list)
	}
	for i, one := range list {
		target, _ := one["target"].(string)
		if len(target) != traceText || one["location"] != "all" || one["status"] != 200.0 || one["client"] != "127.0.0.1" {
			t.Errorf("%v", one)
		}
		if i == 0 && !strings.HasPrefix(target, "/19?") {
			t.Errorf("the newest is %v", one)
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(one["time"])); err != nil {
			t.Error(err)
		}
	}
	if err := r.Reload(parse(t, strings.Replace(text, "traces = 3", "traces = 1", 1))); err == nil || !strings.Contains(err.Error(), "log") {
		t.Error(err)
	}
}

// TestRequestsPerClient: an address has so many a second, over all locations and
// loops.
func TestRequestsPerClient(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", strings.Replace(to("http://"+s.Address()), "workers = 1", "workers = 2",
		1)+"[[locations]]\npaths = [\"/b\"]\nredirect = { to = \"/\" }\n[limits]\nrequests_per_client = 2\n")
	passed, limited := 0, 0
	began := time.Now()
	for i := range 12 {
		res, _ := dial(t, r.addr).get([]string{"/", "/b", "/c"}[i%3])
		if res.StatusCode == 429 && res.Header.Get("Retry-After") == "1" {
			limited++
		} else {
			passed++
		}
	}
	most := 3 + int(2*time.Since(began).Seconds())
	if passed < 2 || passed > most || r.count("rate_limited_requests_total") != uint64(limited) {
		t.Errorf("%d passed, %d can; %d limited", passed, most, limited)
	}
}

// TestReopenLogFlushes: the lines of requests that were answered before the signal are in the old file.
func TestReopenLogFlushes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	r := run(t, "auto", "workers = 2\nlisten = [\"127.0.0.1:0\"]\n[log]\naccess = \""+file+"\"\n")
	for range 20 {
		dial(t, r.addr).status("/", 404)
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.ReopenLog(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(file + ".1")
	if n := bytes.Count(old, []byte("\n")); err != nil || n != 20 {
		t.Errorf("%d lines in the old file, want 20; %v", n, err)
	}
	if b, err := os.ReadFile(file); err != nil || len(b) > 0 {
		t.Errorf("in the new one: %q %v", b, err)
	}
}

// TestNoWeight: a destination of weight 0 gets nothing, but from the clients that a cookie ties to it.
func TestNoWeight(t *testing.T) {
	a := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("a"))))
	b := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("b"))))
	for _, balance := range []string{"round_robin", "least_connections", "two_choices", "hash", "sticky"} {
		r := run(t, "auto", to("http://"+a.Address(), `balance = "`+balance+`"`)+"weight = 0\n[[locations.destinations]]\nuri = \"http://"+b.Address()+"\"\n")
		l := dial(t, r.addr)
		for range 10 {
			l.status("/", 200)
		}
		if a.Requests() != 0 {
			t.Errorf("%s: %d requests", balance, a.Requests())
		}
	}
}

// TestKeyIsAbsent: requests without what they are distinguished by are spread.
func TestKeyIsAbsent(t *testing.T) {
	for _, key := range []string{"header:X-Tenant", "cookie:tenant"} {
		a := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("a"))))
		b := faultyServer(t, faultserver.Every(faultserver.Answer(faultserver.OK("b"))))
		r := run(t, "auto", to("http://"+a.Address(), `balance = "hash"`, `key = "`+key+`"`)+"[[locations.destinations]]\nuri = \"http://"+b.Address()+"\"\n")
		l := dial(t, r.addr)
		for _, with := range []string{"", "X-Tenant:\r\n", "Cookie: other=1\r\n", "Cookie: tenant=\r\n"} {
			before := a.Requests()
			for range 10 {
				l.ask("GET", "/", with)
			}
			if n := a.Requests() - before; n != 5 {
				t.Errorf("%s with %q: %d of 10", key, with, n)
			}
		}
	}
}
