package profile

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/record"
)

// holdTheLock makes others wait: its name is what the profile has to name.
//
//go:noinline
func holdTheLock(mu *sync.Mutex) {
	mu.Lock()
	time.Sleep(time.Millisecond)
	mu.Unlock()
}

func TestMutexIsNamed(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	s := httptest.NewServer(http.DefaultServeMux)
	defer s.Close()
	e, err := FindWithin(t.Context(), s.URL+"/debug/pprof", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	before, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				holdTheLock(&mu)
			}
		})
	}
	all.Wait()
	after, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := Between(before, after)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Kind != record.ProfileMutex {
			continue
		}
		if len(p.Frames) == 0 || !strings.HasSuffix(p.Frames[0].Function, "profile.holdTheLock") || p.Frames[0].Share < 0.5 {
			t.Errorf("mutex profile %+v does not name holdTheLock first", p)
		}
		return
	}
	t.Error("no mutex profile")
}

func TestFindRefuses(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"another page": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) },
		"not found":    http.NotFound,
	} {
		s := httptest.NewServer(h)
		if e, err := FindWithin(t.Context(), s.URL, nil); err == nil {
			t.Errorf("%s was taken for an endpoint", name)
			e.Close()
		}
		s.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := FindWithin(ctx, "http://127.0.0.1:1/", nil); err == nil {
		t.Error("an endpoint where nobody listens")
	}
}

// TestLinksPprof: this test has net/http/pprof in it, a shell has not.
func TestLinksPprof(t *testing.T) {
	if ok, err := LinksPprof(os.Getpid()); err != nil || !ok {
		t.Errorf("this program: %v, %v", ok, err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	all, err := self.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if part, err := io.Copy(io.Discard, functionNames(self)); err != nil || part == 0 || part > all.Size()/2 {
		t.Errorf("%d of %d bytes are looked through, %v", part, all.Size(), err)
	}
	sleep := exec.Command("sleep", "10")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleep.Process.Kill(); sleep.Wait() }()
	if ok, err := LinksPprof(sleep.Process.Pid); err != nil || ok {
		t.Errorf("sleep: %v, %v", ok, err)
	}
	if _, err := LinksPprof(1 << 30); err == nil {
		t.Error("a process that is not there")
	}
}

func TestContains(t *testing.T) {
	for _, at := range []int{0, 1, 1<<20 - 3, 1 << 20, 3 << 20} {
		text := strings.Repeat("x", at) + "needle" + strings.Repeat("y", 100)
		if ok, err := contains(strings.NewReader(text), []byte("needle")); err != nil || !ok {
			t.Errorf("a word at %d: %v, %v", at, ok, err)
		}
	}
	if ok, err := contains(strings.NewReader(strings.Repeat("needl", 1<<19)), []byte("needle")); err != nil || ok {
		t.Errorf("a word that is not there: %v, %v", ok, err)
	}
}

// TestFindWithin: who may not go everywhere goes nowhere else by a redirect.
func TestFindWithin(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	asked := 0
	_, err := FindWithin(t.Context(), s.URL, func(to netip.AddrPort) error {
		if asked++; "http://"+to.String() != s.URL {
			return errors.New("not on the list")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "not on the list") || reached || asked != 2 {
		t.Errorf("%v, reached %v, asked %d times", err, reached, asked)
	}
}
