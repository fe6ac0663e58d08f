//go:build linux

package export

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"ceiling/record"
)

func row(at int64, completed uint64) record.LoadRow {
	return record.LoadRow{
		Kind: record.KindLoad, TNs: at * 1e8, WidthNs: 1e8, Sent: completed + 1, Completed: completed, Failed: 1, Bad: 2,
		Read: 100, Written: 50, InFlight: 3, Backlog: 4, Connected: 8,
		P50Ns: 1e6, P90Ns: 2e6, P99Ns: 3e6, MaxNs: 4e6 + at, MinNs: 5e5, MeanNs: 1e6, ServiceMeanNs: 9e5, Busy: .25,
	}
}

func scrapeOf(t *testing.T, l *Live) scrape {
	t.Helper()
	var out bytes.Buffer
	if err := writeOpenMetrics(&out, l.figures()); err != nil {
		t.Fatal(err)
	}
	return scraped(t, out.String())
}

// TestLiveAddsUp: the counters are those of the window, each row once.
func TestLiveAddsUp(t *testing.T) {
	l := NewLive(Identity{Run: "x", Target: "http://u:secret@h/", Mode: "closed"})
	if got := scrapeOf(t, l); got.one(t, "ceiling_warmup") != 1 || got.one(t, "ceiling_requests_sent_total") != 0 {
		t.Error("before the first row something is counted")
	}
	warm := row(0, 1000)
	warm.Warmup = true
	l.Feed(warm)
	if got := scrapeOf(t, l); got.one(t, "ceiling_warmup") != 1 || got.one(t, "ceiling_requests_completed_total") != 0 ||
		got.one(t, "ceiling_requests_in_flight") != 3 {
		t.Error("a row of the warm-up is in the counters, or not in the gauges")
	}
	l.Feed(row(1, 10))
	l.Feed(row(1, 10)) // told again
	l.Feed(record.LoadRow{})
	late := row(2, 20)
	late.Late = true
	l.Feed(late)
	got := scrapeOf(t, l)
	for name, want := range map[string]float64{
		"ceiling_intervals_total": 2, "ceiling_intervals_late_total": 1, "ceiling_requests_sent_total": 32,
		"ceiling_requests_completed_total": 30,
		"ceiling_requests_failed_total":    2, "ceiling_responses_bad_total": 4, "ceiling_read_bytes_total": 200,
		"ceiling_written_bytes_total":    100,
		"ceiling_response_seconds_count": 32, "ceiling_response_seconds_sum": .032, "ceiling_service_seconds_sum": .0288,
		"ceiling_response_max_seconds": .004000002, "ceiling_requests_behind": 4, "ceiling_connections": 8, "ceiling_interval_seconds": .1,
		"ceiling_interval_completed_per_second": 200, "ceiling_interval_busiest_worker_ratio": .25, "ceiling_warmup": 0, "ceiling_finished": 0,
	} {
		if v := got.one(t, name); v < want*(1-1e-9) || v > want*(1+1e-9) {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if v := got.one(t, "ceiling_interval_response_quantile_seconds", "quantile", "0.99"); v != .003 {
		t.Errorf("p99 of the interval is %v", v)
	}
	got.one(t, "ceiling_run_info", "target", "http://hidden@h/")
	l.Finish()
	if got := scrapeOf(t, l); got.one(t, "ceiling_finished") != 1 {
		t.Error("it does not say that it has finished")
	}
	l.Begin(Identity{Run: "y"})
	l.Feed(row(1, 7))
	next := scrapeOf(t, l)
	if next.one(t, "ceiling_requests_completed_total") != 7 || next.one(t, "ceiling_finished") != 0 {
		t.Error("the next run has the counters of the one before")
	}
	next.one(t, "ceiling_run_info", "run", "y")
}

// TestLiveLeavesOutWhatWasNotMeasured: an interval without a response has no
// quantile, and a busy of -1 is no share.
func TestLiveLeavesOutWhatWasNotMeasured(t *testing.T) {
	l := NewLive(Identity{})
	l.Feed(record.LoadRow{TNs: 1, WidthNs: 1, Busy: -1})
	got := scrapeOf(t, l)
	for key := range got.samples {
		if strings.Contains(key, "quantile") || strings.Contains(key, "busiest") {
			t.Errorf("%s is there", key)
		}
	}
}

func get(t *testing.T, url string) (int, string, http.Header) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body), r.Header
}

// TestServe: on loopback where no host is given; /metrics alone.
func TestServe(t *testing.T) {
	l := NewLive(Identity{})
	s, err := Serve(":0", l)
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(s.Addr); err != nil || host != "127.0.0.1" {
		t.Errorf("it listens on %s", s.Addr)
	}
	l.Feed(row(1, 5))
	code, body, header := get(t, "http://"+s.Addr+"/metrics")
	got := scraped(t, body)
	if code != 200 || !strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") ||
		got.one(t, "ceiling_requests_completed_total") != 5 {
		t.Errorf("%d %v\n%s", code, header, body)
	}
	if code, _, _ := get(t, "http://"+s.Addr+"/"); code != 404 {
		t.Errorf("/ answers %d", code)
	}
	w := httptest.NewRecorder()
	if l.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil)); w.Code != 405 {
		t.Errorf("POST answers %d", w.Code)
	}
	if _, err := Serve(s.Addr, l); err == nil || !strings.Contains(err.Error(), "another port") {
		t.Errorf("a port in use: %v", err)
	}
	for _, bad := range []string{"", "9464", "nohost:99999", "http://x:1"} {
		if _, err := Serve(bad, l); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("it listens still")
	}
}

// TestSilentScrapers: those that connect and never ask take the places that
// there are, hold up neither the run nor the end of it, and no more than that.
func TestSilentScrapers(t *testing.T) {
	l := NewLive(Identity{})
	s, err := Serve("127.0.0.1:0", l)
	if err != nil {
		t.Fatal(err)
	}
	for range scrapersMax + 4 {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for at := range int64(1000) {
		l.Feed(row(at+1, 1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // none of them is waited for
	if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := scrapeOf(t, l); got.one(t, "ceiling_requests_completed_total") != 1000 {
		t.Error("rows were lost")
	}
}

// TestManyScrapersOneFeeder runs both at once, for the race detector: what is
// read is of one moment.
func TestManyScrapersOneFeeder(t *testing.T) {
	l := NewLive(Identity{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				s := l.snapshot()
				if s.completed != 2*s.rows || s.sent != 3*s.rows {
					t.Errorf("%d rows, %d completed, %d sent", s.rows, s.completed, s.sent)
					return
				}
			}
		})
	}
	for at := range int64(5000) {
		l.Feed(row(at+1, 2))
	}
	close(done)
	wg.Wait()
}
