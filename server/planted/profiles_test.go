package planted

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// With profiles a server answers its index and records waits, which ends with
// it; without, the path is like any other.
func TestProfiles(t *testing.T) {
	before := runtime.SetMutexProfileFraction(-1)
	for _, on := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, "sleep", Params{Sleep: time.Microsecond, Pprof: on}, func(addr string) { ready <- addr })
		}()
		addr := <-ready
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		get := func(path string) string {
			res, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", path, res.Status, err)
			}
			return string(b)
		}
		if got := get("/"); got != answer {
			t.Errorf("pprof %v: / answers %q", on, got)
		}
		if index := get("/debug/pprof/"); strings.Contains(index, "goroutine") != on {
			t.Errorf("pprof %v: the index is %q", on, index)
		}
		if on {
			if got := runtime.SetMutexProfileFraction(-1); got != 1 {
				t.Errorf("one of %d waits for a lock is recorded", got)
			}
			if p := get("/debug/pprof/mutex?debug=1"); !strings.Contains(p, "sampling period=1") {
				t.Errorf("mutex profile %q", p)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := runtime.SetMutexProfileFraction(-1); got != before {
		t.Errorf("the mutex profile's fraction stays at %d", got)
	}
}

// Exactly every n-th request waits.
func TestTailIsOfEveryNth(t *testing.T) {
	needs.Time(t)
	const every, sleep, requests = 10, 150 * time.Millisecond, 40
	s := spawn(t, "tail", Params{Every: every, Sleep: sleep})
	for i := range requests {
		began := time.Now()
		res, err := http.Get("http://" + s.addr + "/")
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		// A lower bound alone holds on any machine; that the others do not wait
		// shows in their sum.
		if waits := (i+1)%every == 0; waits && took < sleep {
			t.Errorf("request %d took %s, want %s", i+1, took, sleep)
		}
	}
}

func TestOnlyTheTailWaits(t *testing.T) {
	needs.Quiet(t)
	const every, sleep, requests = 50, 20 * time.Millisecond, 2000
	s := spawn(t, "tail", Params{Every: every, Sleep: sleep})
	d := drive(t, s.addr, 1, requests, time.Minute)
	// All of them waiting would be 25 a second on one connection at most.
	between(t, "rate beside that of a server that always waits", d.perSecond()*sleep.Seconds(), 2, every)
}
