package verdict

import (
	"strings"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestWaitingRequestsCountInAnSLO: a request without a response breaks a term that its age breaks,
// and is a caveat where it may still break one.
func TestWaitingRequestsCountInAnSLO(t *testing.T) {
	const ms = 1_000_000
	times := func(n uint64, ns int64) *hist.Hist {
		h := new(hist.Hist)
		h.RecordN(ns, n)
		return h
	}
	for _, c := range []struct {
		name, slo       string
		waiting         *hist.Hist // nil: not measured
		broken, caveats string
	}{
		{"old record", "p99.9<200ms,max<1s", nil, "", ""},
		{"ordinary", "p99.9<200ms,max<1s,mean<4ms,service.max<1s", times(64, 2*ms), "", ""},
		{"hung", "p99.9<200ms,max<1s", times(16, 1170*ms),
			"p99.9 of the response time is at least 1.17 s (16 requests unanswered at the end), SLO p99.9<200ms; " +
				"maximum of the response time is at least 1.17 s (16 requests unanswered at the end), SLO max<1s", ""},
		{"service", "service.max<1s,mean<4ms", times(16, 1170*ms), "maximum of the service time is at least 1.17 s (16 requests unanswered at the end), " +
			"SLO service.max<1s; mean of the response time is at least 4.86 ms (16 requests unanswered at the end), SLO mean<4ms", ""},
		{"another quantile", "p99.95<200ms,p99.8<200ms", times(16, 1170*ms),
			"p99.95 of the response time is at least 1.17 s (16 requests unanswered at the end), SLO p99.95<200ms", ""},
		{"may break", "p99.9<200ms,p99<100ms", times(16, 150*ms), "", "16 requests unanswered at the end, the oldest for 150 ms: they may still break p99.9<200ms"},
		{"one may break", "max<200ms", times(1, 150*ms), "", "1 request unanswered at the end, the oldest for 150 ms: it may still break max<200ms"},
	} {
		run, ended := closedRun(), times(10_000, 3*ms)
		run.Spec.SLO = mustSLO(t, c.slo)
		run.Latency.Response, run.Latency.Service = record.QuantilesOf(ended), record.QuantilesOf(ended)
		run.Latency.ResponseBins, run.Latency.ServiceBins = record.BinsOf(ended), record.BinsOf(ended)
		if c.waiting != nil {
			u := &record.Unanswered{Waiting: *c.waiting}
			run.Latency.Response, run.Latency.Service = record.Bounded(ended, u), record.Bounded(ended, u)
			run.Latency.Waiting = &record.Waiting{Response: record.WaitedOf(u), Service: record.WaitedOf(u)}
		}
		if text, err := ended.EncodeV2(); err == nil {
			run.Latency.Response.HDR = text
		}
		got := checkSLO(newFacts(run, nil).base)
		if text := prose.Sentence(got.broken); text != c.broken {
			t.Errorf("%s: broken: %q", c.name, text)
		}
		caveats := prose.Sentence(Judge(run, nil).Caveats)
		if text := prose.Sentence(got.risky); !strings.HasPrefix(text, c.caveats) || (text == "") != (c.caveats == "") ||
			!strings.Contains(caveats, c.caveats) {
			t.Errorf("%s: caveats: %q", c.name, text)
		}
	}
}

// TestTimeoutsBreakAnSLO: a request that was given up before the limit has not met it, though its
// time until then is below.
func TestTimeoutsBreakAnSLO(t *testing.T) {
	for _, c := range []struct {
		slo      string
		timedOut uint64
		broken   string
	}{
		{"p99.9<200ms", 5, ""},
		{"p99.9<200ms", 16, "p99.9 of the response time is at least 100 ms (16 requests timed out), SLO p99.9<200ms"},
		{"max<200ms", 1, "maximum of the response time is at least 100 ms (1 request timed out), SLO max<200ms"},
		{"service.max<200ms", 1, "maximum of the service time is at least 100 ms (1 request timed out), SLO service.max<200ms"},
		{"p99.95<200ms", 16, "p99.95 of the response time is at least 100 ms (16 requests timed out), SLO p99.95<200ms"},
		{"mean<200ms", 16, ""},
	} {
		run, ended := closedRun(), new(hist.Hist)
		ended.RecordN(3e6, 10_000)
		ended.RecordN(100e6, c.timedOut)
		run.Spec.SLO = mustSLO(t, c.slo)
		u := &record.Unanswered{TimedOut: c.timedOut}
		run.Latency.Response, run.Latency.Service = record.Bounded(ended, u), record.Bounded(ended, u)
		run.Latency.ResponseBins, run.Latency.ServiceBins = record.BinsOf(ended), record.BinsOf(ended)
		run.Latency.Waiting = &record.Waiting{Response: record.WaitedOf(u), Service: record.WaitedOf(u)}
		if text, err := ended.EncodeV2(); err == nil {
			run.Latency.Response.HDR = text
		}
		if text := prose.Sentence(checkSLO(newFacts(run, nil).base).broken); text != c.broken {
			t.Errorf("%s with %d timeouts: %q, want %q", c.slo, c.timedOut, text, c.broken)
		}
	}
}
