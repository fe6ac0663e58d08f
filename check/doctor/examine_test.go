package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/record"
)

func TestMain(m *testing.M) { leak.Main(m) }

const quick = 200 * time.Millisecond

func examine(t *testing.T, url string) *Facts {
	t.Helper()
	f, err := Examine(t.Context(), Config{URL: url, Watch: quick, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestExamineHere(t *testing.T) {
	needs.Time(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/"
	f := examine(t, url)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if f.Env.Host != name || f.Engine.Name == "" || f.Files.MemTotal <= 0 || f.Activity.Cores < 1 || f.Activity.WidthS <= 0 ||
		f.Activity.Busy < 0 {
		t.Errorf("%+v", f)
	}
	if f.Target.Iface != "lo" || !f.Target.Local || f.Target.MTU <= 0 || f.Target.Err != "" {
		t.Errorf("%+v", f.Target)
	}
	if f.Target.Listeners != 1 || len(f.Target.Server) != 1 || f.Target.Server[0].PID != os.Getpid() {
		t.Errorf("server %+v", f.Target)
	}
	if !strings.Contains(f.Calibration, "not calibrated") {
		t.Errorf("calibration %q", f.Calibration)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// localhost may be ::1 first, where nobody listens.
	if f := examine(t, "http://localhost:"+port+"/"); checkServer(f).Level != OK {
		t.Errorf("by name: %+v", f.Target)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	both := []netip.Addr{netip.MustParseAddr("::1"), at.Addr()}
	if got := firstThatAccepts(t.Context(), both, netip.AddrPortFrom(both[0], at.Port())); got != at {
		t.Errorf("of %v: %v", both, got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f = examine(t, url)
	if found := checkServer(f); found.Level != Bad || f.Target.Listeners != 0 {
		t.Errorf("closed: %+v, %+v", found, f.Target)
	}
	f = examine(t, "")
	if found := checkInterface(f); found.Level != NotMeasured || f.Target.Iface != "" {
		t.Errorf("without a URL: %+v", found)
	}
}

func TestExamineUnix(t *testing.T) {
	path := t.TempDir() + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := examine(t, "http+unix://"+strings.ReplaceAll(path, "/", "%2F")+"/")
	if f.Target.Listeners != 1 || !f.Target.Unix || checkServer(f).Level != OK {
		t.Errorf("%+v", f.Target)
	}
}

func TestExamineOfNoTarget(t *testing.T) {
	for _, url := range []string{"ftp://x/", "http://", "http://127.0.0.1:99999/"} {
		if _, err := Examine(t.Context(), Config{URL: url, Watch: quick}); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
	f := examine(t, "http://nosuch.invalid/")
	if found := checkServer(f); found.Level != NotMeasured || !strings.Contains(found.What, "nosuch.invalid") {
		t.Errorf("%+v", found)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, Config{Watch: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestActivityOfBadRows: rows that were refused by the observer, or none.
func TestActivityOfBadRows(t *testing.T) {
	a := activityOf(snapshot{}, snapshot{}, []*record.CPURow{{}}, 1, nil)
	if a.Err == "" || a.Throttles != -1 || a.SwapPages != -1 {
		t.Errorf("%+v", a)
	}
}
