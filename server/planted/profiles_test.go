package planted

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
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
