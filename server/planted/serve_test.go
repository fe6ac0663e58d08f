package planted

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

func TestNumbersAreChecked(t *testing.T) {
	for _, c := range []struct {
		kind string
		p    Params
		want string // in the error
	}{
		{"nonsense", Params{}, "there are cpu, thread"},
		{"pool", Params{N: 3}, "needs sleep"},
		{"pool", Params{N: 3, Sleep: time.Millisecond, Every: 2}, "does not take every"},
		{"faulty", Params{Every: 2, Fault: FaultUnavailable, Pprof: true}, "does not take pprof"},
		{"pool", Params{N: -3, Sleep: time.Millisecond}, "n is out of bounds"},
		{"cpu", Params{CPU: time.Hour}, "cpu is out of bounds"},
		{"mutex", Params{}, "give sleep or cpu"},
		{"mutex", Params{Sleep: 1, CPU: 1}, "give sleep or cpu"},
		{"faulty", Params{Every: 2, Fault: "flood"}, "503, reset, silence"},
		{"database", Params{N: 2, Fault: "flood"}, "query, row, commit, work"},
		{"database", Params{N: 2, Fault: FaultQuery}, "a sleep"},
		{"database", Params{N: 2, Fault: FaultCommit, Every: 3}, "an every"},
		{"pause", Params{Sleep: 2, Period: 1}, "longer"},
		{"tail", Params{Sleep: time.Millisecond}, "needs every"},
		{"cpu", Params{Addr: "127.0.0.1:http-but-not"}, "planted cpu"},
	} {
		err := Serve(t.Context(), c.kind, c.p, func(string) { t.Errorf("%s %+v serves", c.kind, c.p) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.kind, c.p, err, c.want)
		}
	}
}

// TestNothingStaysBehind runs the kinds that live in one process in this one.
func TestNothingStaysBehind(t *testing.T) {
	for _, o := range []order{
		{"cpu", Params{CPU: time.Microsecond}},
		{"thread", Params{CPU: time.Microsecond}},
		{"loop", Params{Bytes: 10}},
		{"mutex", Params{Sleep: time.Millisecond}},
		{"pool", Params{N: 2, Sleep: time.Millisecond}},
		{"sleep", Params{Sleep: time.Millisecond, Pprof: true}},
		{"backlog", Params{N: 1, Sleep: time.Millisecond}},
		{"faulty", Params{Every: 1000, Fault: FaultReset}},
		{"tail", Params{Sleep: time.Millisecond, Every: 2}},
		{"pause", Params{Sleep: time.Millisecond, Period: 2 * time.Millisecond}},
		{"neighbour", Params{N: 1}},
		{"halves", Params{}},
		{"far", Params{Sleep: time.Millisecond, Bytes: 64 << 10}},
		{"database", Params{N: 2, Fault: FaultRow, Sleep: time.Millisecond}},
	} {
		t.Run(o.Kind, func(t *testing.T) { servesTwice(t, o) })
	}
}

// servesTwice compares what is left after two services.
func servesTwice(t *testing.T, o order) {
	if o.Kind == "database" {
		needs.Program(t, "pg_lsclusters")
	}
	serveOnce(t, o) // the first makes what Go keeps: the poller, threads
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	serveOnce(t, o)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		g, f := runtime.NumGoroutine(), openFiles(t)
		if g <= goroutines && f <= files {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d goroutines and %d files, before %d and %d", o.Kind, g, f, goroutines, files)
		}
	}
}

func serveOnce(t *testing.T, o order) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, o.Kind, o.Params, func(addr string) { ready <- addr }) }()
	select {
	case addr := <-ready:
		if o.Kind != "neighbour" {
			transport := &http.Transport{}
			client := &http.Client{Transport: transport}
			res, err := client.Get("http://" + addr + "/")
			if err != nil {
				t.Fatalf("%s: %v", o.Kind, err)
			}
			_ = res.Body.Close()
			transport.CloseIdleConnections()
		}
	case err := <-ended:
		t.Fatalf("%s: %v", o.Kind, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("%s ended with %v", o.Kind, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
