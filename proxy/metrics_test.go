package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// fullPort is an address of the loopback at which no connection is made, nor refused:
// the kernel drops what comes to a queue that is full (tcp_v4_conn_request).
func fullPort(t *testing.T) string {
	t.Helper()
	keepsNothing(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	c, err := net.Dial("tcp", addr) // a queue of 0 holds one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return addr
}

// TestMetrics provokes each trouble, and finds it in /metrics and in /status.
func TestMetrics(t *testing.T) {
	needs.Time(t)
	together(t)
	refused := func() string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		return ln.Addr().String()
	}
	ok := okServer(t)
	silent := faultyServer(t, faultserver.Every(faultserver.Request(1), faultserver.Stall()))
	stalls := faultyServer(t, faultserver.Every(faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"),
		faultserver.Stall()))
	much := faultyServer(t, faultserver.Every(faultserver.Request(1),
		faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"), faultserver.Endless(string(pattern(1<<16)))))
	bad := faultyServer(t, faultserver.Every(faultserver.Request(1), faultserver.Write("nonsense\r\n\r\n")))
	ejected, sick, spent, tried := refused(), refused(), refused(), refused()
	text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\nheader = \"1s\"\nconnect = \"200ms\"\n"
	place := func(path, location, uri, destination string) {
		text += fmt.Sprintf("[[locations]]\npaths = [%q]\n%s\n[[locations.destinations]]\nuri = \"http://%s\"\n%s\n", path, location, uri,
			destination)
	}
	const never = "eject = { failures = -1 }"
	none := "retry = { attempts = 0 }"
	place("/connect", none, fullPort(t), never)
	place("/response", none+"\ntimeouts = { response = \"100ms\" }", silent.Address(), never)
	place("/body", "timeouts = { idle = \"100ms\" }", ok.Address(), never)
	place("/stalls", "timeouts = { idle = \"100ms\" }", stalls.Address(), never)
	place("/much", "timeouts = { idle = \"200ms\" }", much.Address(), never)
	place("/total", none+"\ntimeouts = { total = \"100ms\" }", silent.Address(), never)
	place("/bad", none, bad.Address(), never)
	place("/ejected", none, ejected, `eject = { failures = 2, for = "1h" }`)
	place("/sick", none, sick, `health = { interval = "10ms" }`+"\n"+never)
	place("/tried", `retry = { attempts = 2 }`, tried, never+fmt.Sprintf("\n[[locations.destinations]]\nuri = \"http://%s\"", ok.Address()))
	place("/spent", `retry = { attempts = 1, budget = 0.0001 }`, spent,
		never+fmt.Sprintf("\n[[locations.destinations]]\nuri = \"http://%s\"\n%s", spent, never))
	place("/fallback", none+"\nfallback = { uri = \"http://"+ok.Address()+"\" }", refused(), "")
	r := run(t, "auto", text)

	dial(t, r.addr).say("GET / HT") // a head that takes too long
	for path, want := range map[string]int{"/connect": 504, "/response": 504, "/total": 504, "/bad": 502, "/ejected": 502, "/sick": 0,
		"/fallback": 200} {
		if res, _ := dial(t, r.addr).get(path); want != 0 && res.StatusCode != want {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	dial(t, r.addr).status("/ejected", 502)
	for range 4 {
		dial(t, r.addr).status("/tried", 200)
	}
	for range maxTokens + 2 {
		dial(t, r.addr).status("/spent", 502)
	}
	dial(t, r.addr).say("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhel")
	dial(t, r.addr).say("GET /stalls HTTP/1.1\r\nHost: a\r\n\r\n")
	dial(t, r.addr).say("GET /much HTTP/1.1\r\nHost: a\r\n\r\n")

	h := (&Operator{Snapshot: r.Snapshot}).Server().Handler
	page := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		return w.Body.String()
	}
	counters := map[string]uint64{
		"header_timeouts_total": 1, "upstream_connect_timeouts_total": 1, "upstream_response_timeouts_total": 2, "body_timeouts_total": 1,
		"client_timeouts_total": 1, "request_timeouts_total": 1, "bad_responses_total": 1, "fallbacks_total": 1, "retries_refused_total": 2,
		"upstream_cut_responses_total": 2,
	}
	var s Snapshot
	until(t, "all is counted", func() bool {
		if err := json.Unmarshal([]byte(page("/status")), &s); err != nil {
			t.Fatal(err)
		}
		for name, want := range counters {
			if s.Counters[name] < want {
				return false
			}
		}
		for _, u := range s.Upstreams {
			if u.Address == "http://"+sick && u.State != "ill" {
				return false
			}
		}
		return true
	})
	metrics := page("/metrics")
	for name, want := range counters {
		if s.Counters[name] != want || !strings.Contains(metrics, fmt.Sprintf("\nceiling_proxy_%s %d\n", name, want)) {
			t.Errorf("%s: %d, want %d, in both", name, s.Counters[name], want)
		}
	}
	if n := s.Counters["retries_total"]; n < maxTokens+2 {
		t.Errorf("%d retries", n)
	}
	for _, line := range []string{
		"upstream_ejections_total{upstream=\"http://" + ejected + "\"} 1", "upstream_state{upstream=\"http://" + ejected +
			"\",state=\"ejected\"} 1",
		"upstream_usable{upstream=\"http://" + ejected + "\"} 0", "upstream_state{upstream=\"http://" + sick + "\",state=\"ill\"} 1",
		"upstream_state{upstream=\"http://" + ok.Address() + "\",state=\"ok\"} 1",
	} {
		if !strings.Contains(metrics, "\nceiling_proxy_"+line+"\n") {
			t.Errorf("not %s", line)
		}
	}
	for _, u := range s.Upstreams {
		if u.Address == "http://"+sick && (u.FailedChecks < 2 || u.FailedChecks > u.Checks) {
			t.Errorf("%+v", u)
		}
	}
}

// TestUpstreamsBeforeRequests: what is checked is told before anybody asks for it.
func TestUpstreamsBeforeRequests(t *testing.T) {
	s := okServer(t)
	r := run(t, "auto", to("http://"+s.Address())+"health = { interval = \"10ms\" }\n")
	until(t, "it was checked", func() bool {
		s, err := r.Snapshot()
		return err == nil && len(s.Upstreams) == 1 && s.Upstreams[0].Checks > 1 && s.Upstreams[0].FailedChecks == 0 &&
			s.Upstreams[0].State == "ok"
	})
}
