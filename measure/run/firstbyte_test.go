//go:build linux

package run

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
)

// TestFirstByteSLO: an SLO on the first byte and the first event holds for streams that take longer, over
// both versions, and is broken by a server that hangs before them.
func TestFirstByteSLO(t *testing.T) {
	needs.Engine(t)
	var served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path == "/hangs" && served.Add(1) > 20 {
			<-in.Context().Done()
			return
		}
		out.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(out, "data: one\n\n")
		_ = http.NewResponseController(out).Flush()
		if in.URL.Path == "/streams" {
			time.Sleep(200 * time.Millisecond)
		}
		_, _ = io.WriteString(out, "data: [DONE]\n\n")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	at := strings.TrimPrefix(s.URL, "http://")
	for _, k := range []struct {
		path, http, slo string
		want            record.Outcome
	}{
		{"/streams", "", "first_byte.p99<150ms,first_event.p99<150ms,ttfb.p97<150ms", record.Pass},
		{"/streams", "2", "first_byte.p99<150ms,first_event.p99<150ms", record.Pass},
		{"/streams", "", "p50<150ms", record.Fail},
		{"/hangs", "", "first_byte.p99<300ms", record.Fail},
		{"/hangs", "2", "first_event.p99<300ms", record.Fail},
	} {
		served.Store(0)
		one := specOf(at, k.path)
		one.HTTP, one.Duration, one.Warmup, one.NoLone, one.Timeout = k.http, 1200*time.Millisecond, 0, true, time.Minute
		var err error
		if one.SLO, err = spec.ParseSLO(k.slo); err != nil {
			t.Fatal(err)
		}
		r := &do(t, one).Run
		if r.Verdict.Outcome != k.want {
			t.Errorf("%s %s, %s: %s, %+v; waiting %+v", k.path, k.http, k.slo, r.Verdict.Outcome, r.Verdict.SLO, r.Latency.Waiting)
		}
		w := r.Latency.Waiting
		if streams := k.path == "/streams"; streams == (w.FirstByte.Count > 0) || streams && w.Service.Count == 0 {
			t.Errorf("%s %s: %d wait for the first byte, %d for the first event, %d for the end", k.path, k.http, w.FirstByte.Count,
				w.FirstEvent.Count, w.Service.Count)
		}
	}
}
